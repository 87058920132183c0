//! The trace that a message was sent in goes with its notice.

use serde_json::{Value, json};

use super::delivery::{failures, hurry};
use super::receiver::{Manners, Notice, Receiver};
use super::{shown, told, with_endpoint};
use crate::house::{Agent, House, until};

const FIRST: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SECOND: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Sends over REST with these `traceparent` headers.
async fn send_in(house: &House, from: &Agent, to: &Agent, traces: &[&str]) {
    let letter = json!({ "recipient_agent_id": to.id, "body": "hello" });
    let mut request = house.http().post(format!("{}/api/v1/mailbox/messages", house.url(0))).json(&letter);
    for trace in traces {
        request = request.header("traceparent", *trace);
    }
    let sent = house.send(request, Some(&from.key)).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
}

/// Calls a tool over MCP with a trace in the header, and another in `_meta`.
async fn call_in(house: &House, from: &Agent, tool: &str, arguments: Value, header: &str, meta: Value) {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": { "traceparent": meta } });
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = house.http().post(format!("{}/mcp", house.url(0))).json(&call);
    let accept = "application/json, text/event-stream";
    let request = request.header("Accept", accept).header("traceparent", header);
    let said = house.send(request, Some(&from.key)).await;
    assert_eq!(said.body["result"]["isError"], false, "{}", said.body);
}

/// The trace of the notice in this place, once it came.
async fn trace_of(receiver: &Receiver, place: usize) -> Option<String> {
    until("told", async || receiver.notices("/a").len() > place).await;
    receiver.notices("/a")[place].headers.get("traceparent").cloned()
}

#[tokio::test]
async fn a_notice_carries_the_trace_its_message_was_sent_in_and_nothing_that_is_none() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    assert_eq!(trace_of(&receiver, 0).await, None, "nobody sent the welcome");
    let shouted = FIRST.to_uppercase();
    let later = FIRST.replacen("00", "01", 1);
    let cases: [(&[&str], Option<&str>); 8] = [
        (&[FIRST], Some(FIRST)),
        (&[], None),
        (&[SECOND], Some(SECOND)),
        (&[&shouted], None),
        (&[&later], None),
        (&[FIRST, SECOND], None),
        (&["00-0-0-zz"], None),
        (&[FIRST], Some(FIRST)),
    ];
    for (number, (sent, expected)) in cases.into_iter().enumerate() {
        send_in(&house, &peer, &agent, sent).await;
        assert_eq!(trace_of(&receiver, number + 1).await.as_deref(), expected, "{sent:?}");
    }
}

#[tokio::test]
async fn over_mcp_the_trace_may_stand_in_meta_and_whatever_posts_hands_it_on() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    let letter = json!({ "recipient_agent_id": agent.id, "body": "hello" });
    call_in(&house, &peer, "mailbox_send", letter.clone(), SECOND, json!(FIRST)).await;
    assert_eq!(trace_of(&receiver, 1).await.as_deref(), Some(FIRST));
    for none in [json!("00-0-0-zz"), json!(7), Value::Null] {
        let before = receiver.notices("/a").len();
        call_in(&house, &peer, "mailbox_send", letter.clone(), SECOND, none).await;
        assert_eq!(trace_of(&receiver, before).await.as_deref(), Some(SECOND));
    }
    let question = json!({ "recipient_agent_id": peer.id, "body": "?" });
    let question = house.ok(&agent, "mailbox_send", question).await["message_id"].clone();
    let before = receiver.notices("/a").len();
    let reply = json!({ "message_ids": [question], "reply_text": "!" });
    call_in(&house, &peer, "mailbox_ack", reply, SECOND, json!(FIRST)).await;
    assert_eq!(trace_of(&receiver, before).await.as_deref(), Some(FIRST), "the reply");
    let probe = house.http().post(format!("{}/api/v1/agents/{}/probe", house.url(0), agent.id));
    let probe = probe.json(&json!({})).header("X-Owner-Key", &agent.owner_key).header("traceparent", SECOND);
    assert_eq!(house.send(probe, None).await.status, 201);
    assert_eq!(trace_of(&receiver, before + 1).await.as_deref(), Some(SECOND), "the probe");
}

#[tokio::test]
async fn of_messages_told_together_the_newest_gives_the_trace_and_a_retry_keeps_it() {
    let (house, receiver) = with_endpoint().await;
    let (agent, peer) = (told(&house, &receiver, "/a").await, house.register().await);
    receiver.behave("/a", Manners::Status(500));
    send_in(&house, &peer, &agent, &[FIRST]).await;
    assert_eq!(trace_of(&receiver, 1).await.as_deref(), Some(FIRST));
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    hurry(&house, &agent).await;
    assert_eq!(trace_of(&receiver, 2).await.as_deref(), Some(FIRST), "the retry");
    until("failed again", async || failures(&house, &agent).await == 2).await;
    send_in(&house, &peer, &agent, &[]).await;
    send_in(&house, &peer, &agent, &[SECOND]).await;
    receiver.behave("/a", Manners::Fine);
    hurry(&house, &agent).await;
    assert_eq!(trace_of(&receiver, 3).await.as_deref(), Some(SECOND), "the newest");
    assert_eq!(receiver.notices("/a").last().map(Notice::ids).unwrap().len(), 3);
}
