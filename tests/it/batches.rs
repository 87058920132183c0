//! Postings that are carried out together are judged as if they had come one by one.

mod batch;
mod claims;

use uuid::Uuid;
use waypost::inbox::Verdict;

use crate::house::send;
use batch::Batch;

#[tokio::test]
async fn a_key_that_was_used_does_not_let_the_ack_behind_it_go_under() {
    let house = Batch::open().await;
    let (peer, worker) = (house.agent().await, house.agent().await);
    let first: Uuid = send(&house.house, &peer, &worker, "first").await.parse().unwrap();
    let second: Uuid = send(&house.house, &peer, &worker, "second").await.parse().unwrap();
    house.alone(house.ack(&worker, &[first], Some("used"), 1)).await;

    let verdicts = house
        .together([
            house.ack(&worker, &[second], Some("used"), 2),
            house.ack(&worker, &[second], Some("new"), 3),
        ])
        .await;
    assert_eq!(verdicts[0], Verdict::KeyReused);
    assert!(matches!(&verdicts[1], Verdict::Posted(posted) if posted.acked == [second]), "{:?}", verdicts[1]);
    assert_eq!(house.unacked_from_peers(&worker).await, 0);
}

#[tokio::test]
async fn a_replay_takes_no_place_from_the_letter_behind_it() {
    let house = Batch::open().await;
    let (peer, other, worker) = (house.agent().await, house.agent().await, house.agent().await);
    house.alone(house.letter(&peer, &worker, Some("used"), 1)).await;
    house.alone(house.letter(&other, &worker, None, 0)).await;

    let verdicts = house
        .together([house.letter(&peer, &worker, Some("used"), 1), house.letter(&other, &worker, None, 0)])
        .await;
    assert!(matches!(verdicts[0], Verdict::Replayed(_)), "{:?}", verdicts[0]);
    assert!(matches!(verdicts[1], Verdict::Posted(_)), "{:?}", verdicts[1]);
    assert_eq!(house.unacked_from_peers(&worker).await, 3);
}

#[tokio::test]
async fn an_ack_that_did_not_happen_frees_no_place() {
    let house = Batch::open().await;
    let (peer, other, worker) = (house.agent().await, house.agent().await, house.agent().await);
    let mut sent = Vec::new();
    for sender in [&peer, &peer, &other] {
        sent.push(send(&house.house, sender, &worker, "full").await.parse::<Uuid>().unwrap());
    }
    let earlier: Uuid = send(&house.house, &worker, &worker, "earlier").await.parse().unwrap();
    house.alone(house.ack(&worker, &[earlier], Some("used"), 1)).await;

    let verdicts = house
        .together([house.ack(&worker, &sent[..1], Some("used"), 2), house.letter(&other, &worker, None, 0)])
        .await;
    assert_eq!(verdicts[0], Verdict::KeyReused);
    assert!(matches!(verdicts[1], Verdict::MailboxFull(_)), "{:?}", verdicts[1]);
    assert_eq!(house.unacked_from_peers(&worker).await, 3);
}

#[tokio::test]
async fn an_ack_makes_room_for_the_letter_behind_it() {
    let house = Batch::open().await;
    let (peer, worker) = (house.agent().await, house.agent().await);
    let sent: Uuid = send(&house.house, &peer, &worker, "one").await.parse().unwrap();
    send(&house.house, &peer, &worker, "two").await;

    let verdicts = house
        .together([
            house.letter(&peer, &worker, None, 0),
            house.ack(&worker, &[sent], None, 0),
            house.letter(&peer, &worker, None, 0),
        ])
        .await;
    assert!(matches!(verdicts[0], Verdict::SenderFull(_)), "{:?}", verdicts[0]);
    assert!(matches!(verdicts[2], Verdict::Posted(_)), "{:?}", verdicts[2]);
    assert_eq!(house.unacked_from_peers(&worker).await, 2);
}

#[tokio::test]
async fn one_key_twice_in_a_batch_is_one_message() {
    let house = Batch::open().await;
    let (peer, worker) = (house.agent().await, house.agent().await);
    let verdicts = house
        .together([
            house.letter(&peer, &worker, Some("twice"), 1),
            house.letter(&peer, &worker, Some("twice"), 1),
            house.letter(&peer, &worker, Some("twice"), 2),
        ])
        .await;
    assert!(matches!(verdicts[0], Verdict::Posted(_)), "{:?}", verdicts[0]);
    assert!(matches!(verdicts[1], Verdict::Replayed(_)), "{:?}", verdicts[1]);
    assert_eq!(verdicts[2], Verdict::KeyReused);
    assert_eq!(house.unacked_from_peers(&worker).await, 1);
}

#[tokio::test]
async fn an_ack_of_an_unproven_probe_is_refused_alone_and_leaves_nothing() {
    let house = Batch::open().await;
    let (peer, worker) = (house.agent().await, house.agent().await);
    let mail: Uuid = send(&house.house, &peer, &worker, "mail").await.parse().unwrap();
    let probe = house.probe(&worker).await;

    let proven = |key| house.proven(house.ack(&worker, &[probe], key, 1), probe);
    let verdicts = house
        .together([
            house.ack(&worker, &[mail, probe], Some("unproven"), 1),
            house.ack(&worker, &[mail], None, 0),
            proven(Some("proven")),
            // Settled for good: without the proof too.
            house.ack(&worker, &[probe], None, 0),
        ])
        .await;
    assert_eq!(verdicts[0], Verdict::Unproven(probe));
    assert!(matches!(&verdicts[1], Verdict::Posted(posted) if posted.acked == [mail]), "{:?}", verdicts[1]);
    assert!(matches!(&verdicts[2], Verdict::Posted(posted) if posted.acked == [probe]), "{:?}", verdicts[2]);
    assert!(
        matches!(&verdicts[3], Verdict::Posted(posted) if posted.already_acked == [probe]),
        "{:?}",
        verdicts[3]
    );
    assert_eq!(house.unacked_from_peers(&worker).await, 0);
    assert_eq!(house.keys().await, ["proven"]);
}

#[tokio::test]
async fn an_ack_of_nothing_is_refused_alone_but_not_its_retry() {
    let house = Batch::open().await;
    let (peer, worker) = (house.agent().await, house.agent().await);
    let mail: Uuid = send(&house.house, &peer, &worker, "mail").await.parse().unwrap();
    let foreign: Uuid = send(&house.house, &worker, &peer, "not the worker's").await.parse().unwrap();
    house.alone(house.ack(&peer, &[foreign], Some("used"), 1)).await;
    let unknown = Uuid::now_v7();

    let verdicts = house
        .together([
            house.ack(&worker, &[foreign, unknown], Some("unused"), 1),
            house.ack(&worker, &[unknown, mail, foreign], None, 0),
            house.ack(&peer, &[unknown], Some("used"), 1),
            house.ack(&peer, &[unknown], Some("used"), 2),
        ])
        .await;
    assert_eq!(verdicts[0], Verdict::NoneKnown);
    assert!(matches!(&verdicts[1], Verdict::Posted(posted) if posted.acked == [mail]), "{:?}", verdicts[1]);
    assert!(matches!(verdicts[2], Verdict::Replayed(_)), "{:?}", verdicts[2]);
    assert_eq!(verdicts[3], Verdict::KeyReused);
    assert_eq!(house.keys().await, ["used"]);
}
