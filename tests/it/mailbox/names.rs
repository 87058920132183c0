//! Sending by name: what is the same name, who wins, and who is offered when several could be meant.

use serde_json::{Value, json};

use super::tamper;
use crate::house::{Agent, House};

async fn named(house: &House, name: &str) -> Agent {
    house.register_with(json!({ "agent_name": name })).await
}

fn to_name(name: &str) -> Value {
    json!({ "recipient_agent_name": name, "body": "hi" })
}

#[tokio::test]
async fn names_are_compared_after_nfc_and_case_folding() {
    let house = House::open().await;
    let ada = named(&house, "Ada").await;
    for (name, asked) in
        [("Zo\u{EB}", "ZOE\u{308}"), ("Straße", "STRASSE"), ("ΣΊΣΥΦΟΣ", "σίσυφος"), ("Bob", "bOB")]
    {
        let agent = named(&house, name).await;
        let sent = house.ok(&ada, "mailbox_send", to_name(asked)).await;
        assert_eq!(sent["recipient_agent_id"], agent.id, "{asked}");
    }
    for unknown in ["Bo", "Bob ", "Вob"] {
        let refused = house.refused(&ada, "mailbox_send", to_name(unknown), "not_found").await;
        assert_eq!(refused["status"], 404);
    }
    house.refused(&ada, "mailbox_send", to_name(""), "validation_error").await;
    house.refused(&ada, "mailbox_send", to_name(&"x".repeat(256)), "validation_error").await;
}

#[tokio::test]
async fn one_byte_exact_match_wins_over_names_that_fold_alike() {
    let house = House::open().await;
    let (upper, lower) = (named(&house, "Kim").await, named(&house, "kim").await);
    let sent = house.ok(&upper, "mailbox_send", to_name("kim")).await;
    assert_eq!(sent["recipient_agent_id"], lower.id);
    let refused = house.refused(&upper, "mailbox_send", to_name("KIM"), "recipient_ambiguous").await;
    assert_eq!(
        (&refused["status"], refused["details"]["candidates"].as_array().unwrap().len()),
        (&json!(409), 2)
    );
    named(&house, "Kim").await;
    let refused = house.refused(&lower, "mailbox_send", to_name("Kim"), "recipient_ambiguous").await;
    assert_eq!(refused["details"]["candidates"].as_array().unwrap().len(), 3, "all that fold alike");
}

#[tokio::test]
async fn candidates_are_ranked_live_first_and_cut_to_five() {
    let house = House::open().await;
    let mut twins = Vec::new();
    for _ in 0..7 {
        twins.push(named(&house, "Twin").await);
    }
    let asking = house.register().await;
    for polled in &twins[2..6] {
        house.ok(polled, "mailbox_check", json!({})).await;
    }
    tamper(
        &house,
        &twins[4],
        "update poll set hours = b'1110' || repeat('0', 20)::bit(20) where agent_id = $1",
    )
    .await;
    tamper(&house, &twins[0], "update agent set verified_at = now() where agent_id = $1").await;
    let refused = house.refused(&asking, "mailbox_send", to_name("twin"), "recipient_ambiguous").await;
    let candidates = refused["details"]["candidates"].as_array().unwrap();
    let order: Vec<&str> = candidates.iter().map(|one| one["agent_id"].as_str().unwrap()).collect();
    // Verified, then monitored, then by the latest poll; who never polled comes last.
    let expected: Vec<&str> =
        [0, 4, 5, 3, 2].iter().map(|place| twins[*place as usize].id.as_str()).collect();
    assert_eq!(order, expected);
    assert!(refused["hint"].is_string(), "{refused}");
    assert_eq!(
        super::members(&candidates[1]).join(" "),
        "agent_id agent_name last_polled_at monitored verified"
    );
    let picked = json!({ "recipient_agent_id": order[4], "body": "hi" });
    house.ok(&asking, "mailbox_send", picked).await;
}

#[tokio::test]
async fn a_crowd_of_lookalikes_does_not_hide_the_exact_name() {
    let house = House::open().await;
    let (asking, real) = (house.register().await, named(&house, "Bank").await);
    let crowd = "insert into agent (org_id, agent_id, owner_id, name, name_folded, verified_at)
        select org_id, gen_random_uuid(), owner_id, 'BANK', name_folded, now()
        from agent, generate_series(1, 1100) where agent_id = $1";
    tamper(&house, &real, crowd).await;
    let sent = house.ok(&asking, "mailbox_send", to_name("Bank")).await;
    assert_eq!(sent["recipient_agent_id"], real.id);
}

#[tokio::test]
async fn an_agent_is_addressable_by_id_and_name_at_once() {
    let house = House::open().await;
    let (ada, bob) = (named(&house, "Ada").await, named(&house, "Bob").await);
    assert_eq!(house.ok(&ada, "mailbox_send", to_name("Bob")).await["recipient_agent_id"], bob.id);
    let by_id = json!({ "recipient_agent_id": ada.id, "body": "hi" });
    assert_eq!(house.ok(&bob, "mailbox_send", by_id).await["recipient_agent_id"], ada.id);
}
