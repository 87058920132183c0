//! `in_reply_to`: only between the two parties, and an ack when the recipient answers what asked for one.

use serde_json::json;
use waypost::config::Registration;

use super::{ids, mail, nobody, organization, register_at, send_to as to, settled, summary, with};
use crate::house::{Agent, House, send};
use serde_json::Value;

#[tokio::test]
async fn what_is_not_between_the_two_cannot_be_replied_to_and_all_of_it_looks_alike() {
    let house = House::open().await;
    organization(&house, "acme", Registration::Open).await;
    let (ada, bob, carol) = (house.register().await, house.register().await, house.register().await);
    let far = Agent::of(&register_at(&house, "acme", json!({})).await.body);
    let foreign = send(&house, &far, &far, "far").await;
    let third = send(&house, &carol, &bob, "third party").await;
    let with_carol = send(&house, &ada, &carol, "other pair").await;
    let notice = ids(&house.ok(&bob, "mailbox_check", json!({ "limit": 1 })).await["messages"]).remove(0);
    let mut answers = Vec::new();
    for id in [nobody(), foreign, third, with_carol, notice] {
        let arguments = with(to(&bob), json!({ "in_reply_to": id }));
        answers.push(house.refused(&ada, "mailbox_send", arguments, "not_found").await);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    assert_eq!(answers[0]["status"], 404);
}

#[tokio::test]
async fn a_reply_acks_only_when_it_is_the_recipients_and_an_ack_was_asked() {
    let house = House::open().await;
    let (ada, bob) = (settled(&house).await, settled(&house).await);
    let ask = |asked: bool| with(to(&bob), json!({ "ack_requested": asked }));
    let asked = house.ok(&ada, "mailbox_send", ask(true)).await["message_id"].clone();
    let plain = house.ok(&ada, "mailbox_send", ask(false)).await["message_id"].clone();
    assert_eq!(summary(&house, &bob).await["unacked"], 1);
    // The sender's own follow-up acks nothing.
    house.ok(&ada, "mailbox_send", with(to(&bob), json!({ "in_reply_to": asked }))).await;
    assert_eq!(summary(&house, &bob).await["acked_total"], 1);
    for (answered, unacked, acked_total) in [(&plain, 1, 1), (&asked, 0, 2), (&asked, 0, 2)] {
        house.ok(&bob, "mailbox_send", with(to(&ada), json!({ "in_reply_to": answered }))).await;
        let counts = summary(&house, &bob).await;
        assert_eq!((&counts["unacked"], &counts["acked_total"]), (&json!(unacked), &json!(acked_total)));
    }
    let replies = mail(&house, &ada).await;
    assert!(replies.iter().all(|reply| reply["message_type"] == "direct" && reply["state"] == "pending"));
    assert_eq!(replies[1]["in_reply_to"], asked);
    let state = |message: &Value| message["state"].clone();
    assert_eq!(
        mail(&house, &bob).await.iter().map(state).collect::<Vec<_>>(),
        ["acked", "pending", "pending"]
    );
}
