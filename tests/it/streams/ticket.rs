//! Tickets: leave for a minute to open streams where no header can be sent.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{Listener, STREAM, stage};
use crate::house::{Agent, Answer, House, last_poll, send};
use crate::mailbox::owned;

const TICKET: &str = "/api/v1/inbox/stream-ticket";

async fn ticket(house: &House, agent: &Agent) -> String {
    let issued = house.post(0, TICKET, Some(&agent.key), &json!({})).await;
    assert_eq!(issued.status, 200, "{}", issued.body);
    issued.body["ticket"].as_str().unwrap().to_owned()
}

async fn open(house: &House, pod: usize, query: &str) -> Listener {
    Listener::opened(house.http().get(format!("{}{STREAM}?{query}", house.url(pod)))).await
}

async fn refused(house: &House, query: &str, key: Option<&str>) -> Answer {
    let answer = house.get(0, &format!("{STREAM}?{query}"), key).await;
    assert!(!answer.body.to_string().contains("eyJ"), "{}", answer.body);
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_opens_streams_on_every_pod_for_a_minute() {
    let (house, ada, bob) = stage(2).await;
    let issued = house.post(0, TICKET, Some(&bob.key), &json!({})).await.body;
    let expires_at = OffsetDateTime::parse(issued["expires_at"].as_str().unwrap(), &Rfc3339).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test has no other clock")]
    let left = expires_at - OffsetDateTime::now_utc();
    assert!((50..=60).contains(&left.whole_seconds()), "{left}");
    let ticket = issued["ticket"].as_str().unwrap();
    for pod in [0, 1] {
        let mut stream = open(&house, pod, &format!("ticket={ticket}&since=1")).await;
        let sent = send(&house, &ada, &bob, "news").await;
        let (_, envelope) = stream.message().await;
        if pod == 0 {
            assert_eq!(envelope["id"], sent.as_str());
        }
    }
    let below = format!("{}/o/public{STREAM}?ticket={ticket}", house.url(1));
    Listener::opened(house.http().get(below)).await;
}

#[tokio::test]
async fn a_ticket_comes_alone_and_is_good_for_streams_only() {
    let (house, _, bob) = stage(1).await;
    let ticket = ticket(&house, &bob).await;
    let before = last_poll(&house, &bob).await;
    // A key beside it, even the one it is of, is like two keys that differ.
    let both = refused(&house, &format!("ticket={ticket}"), Some(&bob.key)).await;
    assert_eq!((both.status, &both.body["code"]), (401, &json!("unauthorized")));
    assert!(both.body["message"].as_str().unwrap().contains("Two different keys"), "{}", both.body);
    let with_owner = house.http().get(format!("{}{STREAM}?ticket={ticket}", house.url(0)));
    let with_owner = house.send(with_owner.header("X-Owner-Key", &bob.owner_key), None).await;
    assert_eq!(with_owner.status, 401);

    let altered = format!("{}x", &ticket[..ticket.len() - 1]);
    for bad in ["", "x", &altered, &bob.key] {
        let answer = refused(&house, &format!("ticket={bad}"), None).await;
        assert_eq!(answer.status, 401, "{bad}");
        assert!(answer.headers.contains_key("www-authenticate"));
        assert!(answer.body["message"].as_str().unwrap().contains("stream-ticket"), "{}", answer.body);
    }
    let twice = refused(&house, &format!("ticket={ticket}&ticket={ticket}"), None).await;
    assert_eq!((twice.status, &twice.body["code"]), (422, &json!("validation_error")));

    for path in ["/api/v1/whoami", "/api/v1/mailbox/messages"] {
        let elsewhere = house.get(0, &format!("{path}?ticket={ticket}"), None).await;
        assert_eq!(elsewhere.status, 401, "{path}: {}", elsewhere.body);
        let elsewhere = house.get(0, &format!("{path}?ticket={ticket}"), Some(&bob.key)).await;
        assert_eq!((elsewhere.status, &elsewhere.body["code"]), (422, &json!("unknown_field")), "{path}");
    }
    assert_eq!(house.get(0, STREAM, Some(&ticket)).await.status, 401, "it is no key");
    let none = house.post(0, TICKET, None, &json!({})).await;
    assert_eq!(none.status, 401);
    assert_eq!(last_poll(&house, &bob).await, before);
}

#[tokio::test]
async fn a_ticket_leads_to_its_own_organization_only() {
    let (house, _, bob) = stage(1).await;
    let ticket = ticket(&house, &bob).await;
    let at = async |org: &str| house.get(0, &format!("/o/{org}{STREAM}?ticket={ticket}"), None).await;
    let chore = waypost::config::OrgChore::Create {
        slug: "acme".into(),
        registration: waypost::config::Registration::Open,
    };
    waypost::operator::run(house.options.clone(), waypost::config::Chore::Org(chore)).await.unwrap();
    let (there, nowhere) = (at("acme").await, at("nowhere").await);
    assert_eq!((there.status, &there.body["code"]), (403, &json!("wrong_organization")));
    assert_eq!(there.body, nowhere.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_of_a_revoked_key_opens_nothing_and_its_streams_end() {
    let (house, _, bob) = stage(2).await;
    let keys = format!("/agents/{}/keys", bob.id);
    let added = owned(&house, 0, &bob.owner_key, Method::POST, &keys, json!({})).await.body;
    let spare = Agent { key: added["api_key"].as_str().unwrap().into(), ..bob.clone() };
    let (of_spare, of_bob) = (ticket(&house, &spare).await, ticket(&house, &bob).await);
    let mut stream = open(&house, 1, &format!("ticket={of_spare}")).await;
    let path = format!("{keys}/{}", added["key_id"].as_str().unwrap());
    owned(&house, 0, &bob.owner_key, Method::DELETE, &path, Value::Null).await;
    let revoked = Instant::now();
    stream.cursor("revoked").await;
    stream.ends().await;
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    assert_eq!(refused(&house, &format!("ticket={of_spare}"), None).await.status, 401);
    open(&house, 1, &format!("ticket={of_bob}")).await;
}
