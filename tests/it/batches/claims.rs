//! Claims that are carried out together, and beside others: nothing is leased twice, and nothing that is acked.

use uuid::Uuid;
use waypost::inbox::{Leased, Verdict};

use super::batch::Batch;
use crate::house::{Agent, House, send};

#[tokio::test]
async fn claims_of_one_mailbox_share_what_is_free_oldest_first() {
    let (house, worker, sent) = with_mail(5).await;
    let runs = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    let verdicts = house
        .together([
            house.claim(&worker, runs[0], 2),
            house.claim_of(&worker, &[sent[4], sent[0], sent[2]]),
            house.claim(&worker, runs[1], 2),
            house.claim(&worker, runs[2], 2),
        ])
        .await;
    assert_eq!(
        verdicts.iter().map(ids).collect::<Vec<_>>(),
        [&sent[..2], &[sent[2], sent[4]], &sent[3..4], &[]]
    );
    assert_eq!(verdicts.iter().map(|verdict| leased(verdict).remaining).collect::<Vec<_>>(), [3, 1, 0, 0]);
    assert_eq!(rows(&house.house).await, (5, 5, 3));
}

#[tokio::test]
async fn one_run_twice_in_a_batch_gets_one_batch() {
    let (house, worker, sent) = with_mail(4).await;
    let run = Uuid::new_v4();
    let verdicts = house.together([house.claim(&worker, run, 2), house.claim(&worker, run, 3)]).await;
    assert_eq!(ids(&verdicts[0]), sent[..2]);
    assert_eq!(leased(&verdicts[0]).messages, leased(&verdicts[1]).messages);
    let again = house.alone(house.claim(&worker, run, 1)).await;
    assert_eq!(leased(&again).messages, leased(&verdicts[0]).messages);
    assert_eq!(rows(&house.house).await, (2, 2, 1));
}

#[tokio::test]
async fn a_claim_sees_the_letters_and_acks_of_its_batch() {
    let (house, worker, sent) = with_mail(2).await;
    let (peer, run) = (house.agent().await, Uuid::new_v4());
    house.alone(house.claim(&worker, run, 1)).await;
    let verdicts = house
        .together([
            house.claim(&worker, run, 5),
            house.ack(&worker, &sent, None, 0),
            house.letter(&peer, &worker, None, 0),
        ])
        .await;
    let Verdict::Posted(posted) = &verdicts[2] else { panic!("{:?}", verdicts[2]) };
    assert_eq!(ids(&verdicts[0]), [posted.delivered[0].message_id], "what was acked is served to nobody");
    assert_eq!(rows(&house.house).await, (1, 1, 1));
    assert_eq!(house.unacked_from_peers(&worker).await, 1);
}

#[tokio::test]
async fn an_empty_mailbox_that_its_batch_delivers_to_is_not_empty() {
    let (house, worker, _) = with_mail(0).await;
    let peer = house.agent().await;
    let verdicts = house
        .together([house.letter(&peer, &worker, None, 0), house.claim(&worker, Uuid::new_v4(), 5)])
        .await;
    assert_eq!(ids(&verdicts[1]).len(), 1);
}

#[tokio::test]
async fn a_claim_that_cannot_be_served_fails_no_other() {
    let (house, worker, sent) = with_mail(1).await;
    let gone = Agent { id: Uuid::new_v4().to_string(), ..worker.clone() };
    let verdicts = house
        .together([
            house.claim(&gone, Uuid::new_v4(), 1),
            house.ack(&worker, &[Uuid::now_v7()], None, 0),
            house.claim(&worker, Uuid::new_v4(), 1),
        ])
        .await;
    assert_eq!(verdicts[0], Verdict::NoMailbox(gone.id.parse().unwrap()));
    assert_eq!(verdicts[1], Verdict::NoneKnown);
    assert_eq!(ids(&verdicts[2]), sent);
}

#[tokio::test]
async fn a_claim_clears_away_what_ended_and_nothing_that_lives() {
    let (house, worker, sent) = with_mail(3).await;
    let runs = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()];
    house.together([house.claim(&worker, runs[0], 1), house.claim(&worker, runs[1], 1)]).await;
    let expire = "with runs as (update claim_run set lease_until = now() - interval '1 s' where run_id = $1)
        update inbox_entry set lease_until = now() - interval '1 s' where lease_run = $1";
    sqlx::query(expire).bind(runs[0]).execute(&house.house.db).await.unwrap();
    let next = house.alone(house.claim(&worker, runs[2], 1)).await;
    assert_eq!((ids(&next), leased(&next).remaining), (vec![sent[0]], 1), "what is free again is the oldest");
    let left: Vec<Uuid> =
        sqlx::query_scalar("select run_id from claim_run").fetch_all(&house.house.db).await.unwrap();
    assert!(left.len() == 2 && !left.contains(&runs[0]), "{left:?}");
}

#[tokio::test]
async fn what_one_claim_names_has_no_other_skip_what_is_older() {
    let (house, worker, _) = with_mail(0).await;
    let sent = with_bodies(&house, &worker, &[50_000, 50_000, 50_000, 5]).await;
    let mut named = house.claim_of(&worker, &[sent[0], sent[3]]);
    named.claim.as_mut().unwrap().limit = 1;
    let verdicts = house.together([named, house.claim(&worker, Uuid::new_v4(), 3)]).await;
    assert_eq!(verdicts.iter().map(ids).collect::<Vec<_>>(), [&sent[..1], &sent[1..2]]);
}

#[tokio::test]
async fn what_fits_on_no_page_is_claimed_alone() {
    let (house, worker, _) = with_mail(0).await;
    let sent = with_bodies(&house, &worker, &[70_000, 5]).await;
    for expected in &sent {
        let verdict = house.alone(house.claim(&worker, Uuid::new_v4(), 5)).await;
        assert_eq!(ids(&verdict), [*expected]);
    }
}

/// Messages of so many bytes each; their ids.
async fn with_bodies(house: &Batch, worker: &Agent, sizes: &[usize]) -> Vec<Uuid> {
    let peer = house.agent().await;
    let mut sent = Vec::new();
    for size in sizes {
        let mut posting = house.letter(&peer, worker, None, 0);
        posting.letters[0].body = "a".repeat(*size);
        sent.push(posting.letters[0].message_id);
        house.alone(posting).await;
    }
    sent
}

/// A worker with so many messages and nothing else, each of another peer; their ids.
async fn with_mail(count: usize) -> (Batch, Agent, Vec<Uuid>) {
    let house = Batch::open().await;
    let worker = house.agent().await;
    let welcome = house.alone(house.claim(&worker, Uuid::new_v4(), 1)).await;
    house.alone(house.ack(&worker, &ids(&welcome), None, 0)).await;
    let mut sent = Vec::new();
    for _ in 0..count {
        let peer = house.agent().await;
        sent.push(send(&house.house, &peer, &worker, "mail").await.parse().unwrap());
    }
    (house, worker, sent)
}

fn leased(verdict: &Verdict) -> &Leased {
    let Verdict::Posted(posted) = verdict else { panic!("{verdict:?}") };
    posted.leased.as_ref().unwrap()
}

fn ids(verdict: &Verdict) -> Vec<Uuid> {
    let Verdict::Posted(posted) = verdict else { panic!("{verdict:?}") };
    posted.leased.iter().flat_map(|leased| &leased.messages).map(|message| message.id).collect()
}

/// Entries that are leased and not acked, those that the runs count, and the runs.
async fn rows(house: &House) -> (i64, i64, i64) {
    sqlx::query_as(
        "select (select count(*) from inbox_entry where lease_until > clock_timestamp() and acked_at is null),
            coalesce(sum(held), 0)::bigint, count(*) from claim_run where lease_until > clock_timestamp()",
    )
    .fetch_one(&house.db)
    .await
    .unwrap()
}
