//! Progress: a stream for clients that ask for it and have something to see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use waypost::call::dialect::Dialect;
use waypost::call::progress::Note;
use waypost::call::{Access, Call, Effect, Hints, Reach, Registry, Result, Spec, Tool, Toolset};

use super::client::{Client, Said};
use crate::house::{House, settings};

/// Counts to three and tells so.
#[derive(Debug, Deserialize, JsonSchema)]
struct CountToThree {
    /// Says nothing on the way.
    #[serde(default)]
    silently: bool,
}

/// How far it got.
#[derive(Debug, Serialize, JsonSchema)]
struct Counted {
    /// Three.
    count: u8,
}

impl Tool for CountToThree {
    type Answer = Counted;
    const SPEC: Spec = Spec {
        name: "count_to_three",
        title: "Count to three",
        access: Access::Anyone,
        effect: Effect::Statements,
        hints: Hints::READS,
        reach: Reach::Everywhere,
        routes: &[],
    };

    async fn run(&self, call: &mut Call<'_>) -> Result<Counted> {
        // One stands still and one goes back: neither may reach the client.
        for (progress, message) in
            [(1.0, "one"), (1.0, "still"), (2.5, "two\nand"), (2.0, "back"), (3.0, "three")]
        {
            if !self.silently {
                call.report(Note { progress, total: Some(3.0), message: Some(message.into()) });
            }
        }
        Ok(Counted { count: 3 })
    }
}

/// A toolset of the tests' own.
pub fn toolset() -> Toolset {
    Toolset::new("testing", "For tests.", Dialect::Mailbox, 64 * 1024).with::<CountToThree>()
}

async fn house() -> House {
    let mut house = House::empty().await;
    let registry = Registry::new(vec![waypost::mailbox::toolset(), toolset()]);
    house.add_pod(settings(), registry).await;
    house
}

/// The messages of a stream.
fn messages(said: &Said) -> Vec<Value> {
    assert_eq!(said.status, 200);
    for (name, value) in
        [("content-type", "text/event-stream"), ("cache-control", "no-cache"), ("x-accel-buffering", "no")]
    {
        assert_eq!(said.headers[name], value);
    }
    let events = said.text.split_terminator("\n\n");
    events
        .map(|event| {
            let data = event.strip_prefix("event: message\ndata: ").unwrap_or_else(|| panic!("{event}"));
            serde_json::from_str(data).unwrap()
        })
        .collect()
}

#[tokio::test]
async fn progress_comes_as_a_stream_that_strictly_increases_and_ends_with_the_response() {
    let house = house().await;
    for client in [Client::modern(&house), Client::legacy(&house)] {
        for token in [json!("a token"), json!(7)] {
            let client = client.at("/mcp?toolsets=testing").following(token.clone());
            let messages = messages(&client.call("count_to_three", json!({})).await);
            let (last, notes) = messages.split_last().unwrap();
            let params = |progress: Value, message: &str| json!({ "progressToken": token, "progress": progress, "total": 3, "message": message });
            let expected =
                [params(json!(1), "one"), params(json!(2.5), "two\nand"), params(json!(3), "three")];
            assert_eq!(notes.len(), expected.len());
            for (note, params) in notes.iter().zip(expected) {
                assert_eq!(
                    *note,
                    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
                );
            }
            assert_eq!(
                (&last["id"], &last["result"]["structuredContent"]),
                (&json!("an id"), &json!({ "count": 3 }))
            );
        }
    }
}

#[tokio::test]
async fn a_client_that_sees_no_progress_gets_json() {
    let house = house().await;
    let client = Client::modern(&house).at("/mcp?toolsets=testing");
    let counted = json!({ "count": 3 });
    assert_eq!(client.call("count_to_three", json!({})).await.structured(), counted);
    let asking = client.following(json!(1));
    assert_eq!(asking.call("count_to_three", json!({ "silently": true })).await.structured(), counted);
    asking.call("count_to_three", json!({ "loudly": true })).await.failure("unknown_field");
}
