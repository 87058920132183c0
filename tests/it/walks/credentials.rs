//! Who may call: the same rules for every tool at every door.

use serde_json::Value;
use waypost::call::credential::{Kind, Secret};
use waypost::call::{Access, Entry};

use super::doors::{self, Sent, Way, ways};
use super::grounds::{Grounds, OURS, THEIRS};
use super::reply::{self, Reply};
use super::sample;

#[tokio::test]
async fn without_a_key_every_door_says_how_to_get_one() {
    let grounds = Grounds::open().await;
    let caller = grounds.caller().await;
    for entry in grounds.registry.entries().filter(|entry| entry.spec.access != Access::Anyone) {
        let arguments = sample::arguments(entry, &caller, &sample::accepted(&grounds, entry).await);
        for way in ways(entry) {
            let root = grounds.root(OURS);
            let reply = grounds.call_with(&root, &Sent::Nothing, entry, way, arguments.clone()).await;
            let members = expect(&reply, way, entry, "unauthorized", tool_error(way, 401));
            let advice = if entry.spec.access == Access::Agent { "register" } else { "owner_key" };
            assert!(members.contains(advice), "{}: {members}", entry.spec.name);
        }
    }
}

#[tokio::test]
async fn a_key_of_the_wrong_kind_is_forbidden() {
    let grounds = Grounds::open().await;
    let caller = grounds.caller().await;
    for entry in grounds.registry.entries() {
        let arguments = sample::arguments(entry, &caller, &sample::accepted(&grounds, entry).await);
        let access = entry.spec.access;
        let wrong = if access == Access::Agent { &caller.owner_key } else { &caller.api_key };
        for way in ways(entry) {
            for key in sendings(access, wrong, way) {
                let root = grounds.root(OURS);
                let reply = grounds.call_with(&root, &key, entry, way, arguments.clone()).await;
                expect(&reply, way, entry, "forbidden", status(&key, way, 403));
            }
        }
    }
}

#[tokio::test]
async fn a_key_that_does_not_stand_is_refused_everywhere() {
    let grounds = Grounds::open().await;
    let caller = grounds.caller().await;
    let revoked = revoked_key(&grounds).await;
    let never_issued = Secret::mint(Kind::Owner).expose().to_owned();
    for entry in grounds.registry.entries() {
        let arguments = sample::arguments(entry, &caller, &sample::accepted(&grounds, entry).await);
        let access = entry.spec.access;
        let key = if access == Access::Agent { &revoked } else { &never_issued };
        for way in ways(entry) {
            for key in sendings(access, key, way) {
                let root = grounds.root(OURS);
                let reply = grounds.call_with(&root, &key, entry, way, arguments.clone()).await;
                expect(&reply, way, entry, "unauthorized", status(&key, way, 401));
            }
        }
    }
}

/// A key that worked and was revoked.
async fn revoked_key(grounds: &Grounds) -> String {
    let caller = grounds.caller().await;
    let keys = format!("{}/api/v1/agents/{}/keys", grounds.root(OURS), caller.agent_id);
    let http = grounds.house.http();
    let made = grounds.house.send(http.post(&keys).header("x-owner-key", &caller.owner_key), None).await.body;
    let key_id = made["key_id"].as_str().unwrap();
    let gone = http.delete(format!("{keys}/{key_id}")).header("x-owner-key", &caller.owner_key);
    assert_eq!(grounds.house.send(gone, None).await.status, 200);
    made["api_key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn at_another_organization_a_key_learns_nothing_not_even_whether_it_exists() {
    let grounds = Grounds::open().await;
    let caller = grounds.caller().await;
    for entry in grounds.registry.entries() {
        let arguments = sample::arguments(entry, &caller, &sample::accepted(&grounds, entry).await);
        let access = entry.spec.access;
        for way in ways(entry) {
            for key in sendings(access, &caller.key(access), way) {
                let ask = async |org: &str| {
                    grounds.call_with(&grounds.root(org), &key, entry, way, arguments.clone()).await
                };
                let there = ask(THEIRS).await;
                expect(&there, way, entry, "wrong_organization", status(&key, way, 403));
                for nowhere in ["nowhere", "No%20Such%20Slug"] {
                    assert_eq!(ask(nowhere).await, there, "{} by {way}: {nowhere}", entry.spec.name);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_key_in_a_url_is_never_taken() {
    let grounds = Grounds::open().await;
    let caller = grounds.caller().await;
    for entry in grounds.registry.entries() {
        let arguments = sample::arguments(entry, &caller, &sample::accepted(&grounds, entry).await);
        let access = entry.spec.access;
        for way in ways(entry) {
            // Where no key is needed, MCP may leave a stray parameter alone; it never reads a key from it.
            if access == Access::Anyone && way.is_mcp() {
                continue;
            }
            for name in [access.argument(), "api_key", "access_token", "authorization", "key"] {
                let root = grounds.root(OURS);
                let http = grounds.house.http();
                let request = doors::request(http, &root, entry, way, &Sent::Nothing, arguments.clone());
                let mut request = request.build().unwrap();
                let url =
                    doors::with_query(request.url().as_str(), &format!("{name}={}", caller.key(access)));
                *request.url_mut() = url.parse().unwrap();
                let reply = reply::read(http.execute(request).await.unwrap()).await;
                assert!(reply.answer(way).is_none(), "{} by {way}: ?{name}: {reply:?}", entry.spec.name);
                reply.refusal(way, entry);
                assert!(
                    !reply.text.contains(&caller.key(access)),
                    "{} by {way}: echoes a key",
                    entry.spec.name
                );
            }
        }
    }
}

/// The key by header, and as an argument where arguments may carry one.
fn sendings(access: Access, key: &str, way: Way) -> Vec<Sent> {
    let header = Sent::Header(access, key.to_owned());
    let argument = way.takes_json().then(|| Sent::Argument(access, key.to_owned()));
    [header].into_iter().chain(argument).collect()
}

/// Keys in headers are judged by the HTTP layer; what an argument says is the tool's to refuse.
fn status(key: &Sent, way: Way, status: u16) -> u16 {
    if matches!(key, Sent::Header(..)) { status } else { tool_error(way, status) }
}

fn tool_error(way: Way, status: u16) -> u16 {
    if way.is_mcp() { 200 } else { status }
}

/// Checks code, status and challenge; gives the message.
fn expect(reply: &Reply, way: Way, entry: &Entry, code: &str, status: u16) -> String {
    let context = format!("{} by {way}", entry.spec.name);
    assert!(reply.answer(way).is_none(), "{context}: {reply:?}");
    let members = reply.refusal(way, entry);
    assert_eq!(members["code"], code, "{context}: {reply:?}");
    assert_eq!(reply.status, status, "{context}: {reply:?}");
    assert_eq!(reply.header("www-authenticate").is_some(), status == 401, "{context}: {reply:?}");
    members.get("message").and_then(Value::as_str).unwrap_or_default().to_owned()
}
