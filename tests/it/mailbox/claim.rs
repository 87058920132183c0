//! `mailbox_claim`: leases by the database's clock, one batch a run, and nothing to two runs at once.

use std::collections::HashSet;

use serde_json::{Value, json};
use sqlx::Row as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{ids, mail, members, nobody, number, settled, summary, with_caps};
use crate::house::{Agent, House, send, until};

/// Bob with so many messages of Ada's.
async fn with_mail(count: usize) -> (House, Agent, Agent, Vec<String>) {
    let house = with_caps(1, 0, 0).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let mut sent = Vec::new();
    for n in 0..count {
        sent.push(send(&house, &ada, &bob, &format!("m{n}")).await);
    }
    (house, ada, bob, sent)
}

fn time_of(value: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(value.as_str().unwrap(), &Rfc3339).unwrap()
}

async fn database_clock(house: &House) -> OffsetDateTime {
    sqlx::query("select clock_timestamp()").fetch_one(&house.db).await.unwrap().get(0)
}

#[tokio::test]
async fn a_claim_leases_the_oldest_first_by_the_databases_clock() {
    let (house, _, bob, sent) = with_mail(5).await;
    let before = database_clock(&house).await;
    let claimed = house.ok(&bob, "mailbox_claim", json!({ "limit": 3, "lease_seconds": 60 })).await;
    let after = database_clock(&house).await;
    assert_eq!(members(&claimed).join(" "), "lease_expires_at messages remaining run_id skipped");
    assert_eq!((ids(&claimed["messages"]).as_slice(), &claimed["remaining"]), (&sent[..3], &json!(2)));
    assert!(claimed["run_id"].as_str().unwrap().parse::<uuid::Uuid>().is_ok());
    let until = time_of(&claimed["lease_expires_at"]) - time::Duration::seconds(60);
    assert!(until >= before - time::Duration::milliseconds(1) && until <= after, "{before} {until} {after}");
    for message in claimed["messages"].as_array().unwrap() {
        assert_eq!(
            (&message["state"], &message["lease_expires_at"]),
            (&json!("claimed"), &claimed["lease_expires_at"])
        );
    }
    // What claim shows is what check shows.
    assert_eq!(mail(&house, &bob).await[..3], *claimed["messages"].as_array().unwrap().as_slice());

    let rest = house.ok(&bob, "mailbox_claim", json!({})).await;
    assert_ne!(rest["run_id"], claimed["run_id"]);
    assert_eq!((ids(&rest["messages"]).as_slice(), &rest["remaining"]), (&sent[3..], &json!(0)));
    let none = house.ok(&bob, "mailbox_claim", json!({})).await;
    assert_eq!(
        (&none["messages"], &none["lease_expires_at"], &none["skipped"]),
        (&json!([]), &Value::Null, &json!([]))
    );
}

#[tokio::test]
async fn the_same_run_gets_the_same_batch_whatever_else_it_asks() {
    let (house, ada, bob, sent) = with_mail(4).await;
    let run = nobody();
    let first = house.ok(&bob, "mailbox_claim", json!({ "run_id": run, "limit": 2 })).await;
    assert_eq!(first["run_id"], run);
    send(&house, &ada, &bob, "later").await;
    for arguments in [
        json!({ "run_id": run }),
        json!({ "run_id": run, "limit": 1, "lease_seconds": 1 }),
        json!({ "run_id": run.to_uppercase(), "lease_seconds": 600 }),
        json!({ "run_id": run, "message_ids": [sent[3]] }),
    ] {
        let again = house.ok(&bob, "mailbox_claim", arguments.clone()).await;
        assert_eq!(
            (&again["messages"], &again["lease_expires_at"]),
            (&first["messages"], &first["lease_expires_at"])
        );
        assert_eq!(again["skipped"], arguments.get("message_ids").cloned().unwrap_or(json!([])));
    }
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [sent[0]] })).await;
    let rest = house.ok(&bob, "mailbox_claim", json!({ "run_id": run })).await;
    assert_eq!(ids(&rest["messages"]), sent[1..2], "what it still holds, and nothing new");
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [sent[1]] })).await;
    let next = house.ok(&bob, "mailbox_claim", json!({ "run_id": run, "limit": 2 })).await;
    assert_eq!(ids(&next["messages"]), sent[2..4], "all acked: the next batch");
}

#[tokio::test]
async fn a_lease_is_safe_until_the_databases_clock_says_otherwise() {
    let (house, _, bob, sent) = with_mail(2).await;
    let first = house.ok(&bob, "mailbox_claim", json!({ "run_id": nobody(), "lease_seconds": 1 })).await;
    let ends = time_of(&first["lease_expires_at"]);
    until("the lease is over", async || {
        let before = database_clock(&house).await;
        let stolen = house.ok(&bob, "mailbox_claim", json!({ "run_id": nobody() })).await;
        let after = database_clock(&house).await;
        match ids(&stolen["messages"]) {
            nothing if nothing.is_empty() => {
                assert!(before < ends, "a lease that is over is still held");
                false
            }
            stolen => {
                assert!(after >= ends, "a live lease was stolen");
                stolen == sent
            }
        }
    })
    .await;
    // The first run lost them, and is served nothing of them again.
    let again = house.ok(&bob, "mailbox_claim", json!({ "run_id": first["run_id"] })).await;
    assert_eq!(again["messages"], json!([]));
    assert_eq!(summary(&house, &bob).await["claimed"], 2);
}

#[tokio::test]
async fn an_expired_message_is_pending_again_in_every_count() {
    let (house, _, bob, _) = with_mail(3).await;
    house.ok(&bob, "mailbox_claim", json!({ "limit": 2, "lease_seconds": 1 })).await;
    assert_eq!(summary(&house, &bob).await["claimed"], 2);
    until("they are pending again", async || summary(&house, &bob).await["claimed"] == 0).await;
    assert_eq!(summary(&house, &bob).await["pending"], 3);
    let states: HashSet<String> = mail(&house, &bob).await.iter().map(|m| m["state"].to_string()).collect();
    assert_eq!(states, HashSet::from(["\"pending\"".to_owned()]));
}

#[tokio::test]
async fn named_messages_that_cannot_be_leased_are_skipped() {
    let (house, ada, bob, sent) = with_mail(5).await;
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [sent[0]] })).await;
    house.ok(&bob, "mailbox_claim", json!({ "message_ids": [sent[1]] })).await;
    let elsewhere = send(&house, &bob, &ada, "not in this box").await;
    let asked = json!([sent[3], sent[0], sent[1], elsewhere, nobody(), sent[4]]);
    let claimed = house.ok(&bob, "mailbox_claim", json!({ "message_ids": asked })).await;
    assert_eq!(ids(&claimed["messages"]), sent[3..]);
    assert_eq!(claimed["skipped"], json!([sent[0], sent[1], elsewhere, asked[4]]));
    assert_eq!(claimed["remaining"], 1);
    let repeated =
        house.ok(&bob, "mailbox_claim", json!({ "message_ids": [sent[0], sent[0], sent[2], sent[2]] })).await;
    assert_eq!(
        (ids(&repeated["messages"]), &repeated["skipped"]),
        (vec![sent[2].clone()], &json!([sent[0]]))
    );
}

#[tokio::test]
async fn a_claim_leases_only_what_fits_on_its_page() {
    let (house, ada, bob, _) = with_mail(0).await;
    for _ in 0..9 {
        send(&house, &ada, &bob, &"\u{1}".repeat(2000)).await;
    }
    for left in [5, 1, 0] {
        let claimed = house.ok(&bob, "mailbox_claim", json!({})).await;
        assert!(claimed.to_string().len() <= 61_440, "{}", claimed.to_string().len());
        assert_eq!(claimed["remaining"], left);
    }
    // A hundred small ones, just over a page.
    let (ada, dan) = (house.register().await, settled(&house).await);
    for _ in 0..100 {
        send(&house, &ada, &dan, &"x".repeat(300)).await;
    }
    let claimed = house.ok(&dan, "mailbox_claim", json!({})).await;
    assert!(claimed.to_string().len() <= 61_440, "{}", claimed.to_string().len());
    let leased = "select count(*) from inbox_entry where agent_id = $1 and acked_at is null and lease_until > clock_timestamp()";
    let held: i64 = ids(&claimed["messages"]).len() as i64;
    assert!(number(&house, &dan, leased).await == held);
    assert_eq!(claimed["remaining"], 100 - held);
}

#[tokio::test]
async fn claims_out_of_range_are_refused() {
    let (house, _, bob, _) = with_mail(0).await;
    let many: Vec<String> = (0..101).map(|_| nobody()).collect();
    for (name, value, field) in [
        ("limit", json!(0), "limit"),
        ("limit", json!(101), "limit"),
        ("lease_seconds", json!(0), "lease_seconds"),
        ("lease_seconds", json!(601), "lease_seconds"),
        ("run_id", json!(""), "run_id"),
        ("run_id", json!("x"), "run_id"),
        ("message_ids", json!([]), "message_ids"),
        ("message_ids", json!(many), "message_ids"),
        ("message_ids", json!([nobody(), "x"]), "message_ids[1]"),
    ] {
        let refused = house.refused(&bob, "mailbox_claim", json!({ name: value }), "validation_error").await;
        assert_eq!((&refused["status"], &refused["details"]["field"]), (&json!(422), &json!(field)));
    }
    house
        .ok(&bob, "mailbox_claim", json!({ "run_id": null, "message_ids": null, "lease_seconds": "600" }))
        .await;
}
