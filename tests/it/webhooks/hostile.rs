//! URLs and DNS answers of somebody who wants in: refused at every step, and told apart by nothing that shows the inside.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use serde_json::json;
use waypost::call::seal::Seal;
use waypost::config::{Chore, Config, OrgChore};
use waypost::egress::Resolver;
use waypost::operator;

use super::receiver::Receiver;
use super::{active, at, believing, set, shown, system_notices};
use crate::house::{Agent, House, SECRET_KEY, send, settings, until};

/// What a refusal may say of them.
const WORDS: [&str; 6] =
    ["not_a_url", "not_https", "has_credentials", "port_not_allowed", "literal_address", "host_not_public"];

#[rustfmt::skip]
const URLS: [&str; 84] = [
    "http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
    "data:text/plain,x", "javascript:alert(1)", "ws://example.com/", "wss://example.com/", "//example.com/",
    "example.com", "https:", "https://", "https:///", "https://?", "https://#", "https://:443/", "https://.",
    "https://./", "https://../", " https://example.com/", "https://example.com/ x", "https://exa\tmple.com/",
    "https://example.com\\@127.0.0.1/", "https:\\\\example.com/", "https://example.com/\n", "https://exam ple.com/",
    "https://user@example.com/", "https://user:pass@example.com/", "https://:pass@example.com/",
    "https://@example.com/", "https://example.com@127.0.0.1/", "https://127.0.0.1#@example.com/",
    "https://example.com:80/", "https://example.com:22/", "https://example.com:0/", "https://example.com:6379/",
    "https://example.com:65535/", "https://example.com:99999/", "https://example.com:-1/", "https://example.com:x/",
    "https://127.0.0.1/", "https://127.1/", "https://127.0.0.1:8443/", "https://2130706433/", "https://0x7f000001/",
    "https://0177.0.0.1/", "https://0x7f.1/", "https://017700000001/", "https://127.0.0.1./", "https://%31%32%37.0.0.1/",
    "https://①②⑦.⓪.⓪.①/", "https://１２７.０.０.１/", "https://127。0。0。1/", "https://0/", "https://0.0.0.0/",
    "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.1.1/", "https://169.254.169.254/latest/meta-data/",
    "https://100.100.100.200/", "https://8.8.8.8/", "https://255.255.255.255/", "https://224.0.0.1/", "https://[::1]/",
    "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1]/",
    "https://[fd00:ec2::254]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://[2606:4700::1111]/",
    "https://localhost/", "https://LOCALHOST/", "https://localhost./", "https://foo.localhost/",
    "https://metadata.google.internal/", "https://kubernetes.default.svc.cluster.local/", "https://router.lan/",
    "https://db/", "https://intranet/", "https://printer.home.arpa/", "https://x.onion/",
];

/// Answers of a resolver that somebody else owns. Empty: it knows no such name.
#[rustfmt::skip]
const ANSWERS: [&[&str]; 27] = [
    &[], &["127.0.0.1"], &["127.8.8.8"], &["0.0.0.0"], &["10.1.2.3"], &["172.20.0.1"], &["192.168.0.10"],
    &["169.254.169.254"], &["100.64.1.1"], &["192.0.0.8"], &["192.0.2.7"], &["198.18.0.1"], &["203.0.113.1"],
    &["224.0.0.251"], &["240.0.0.1"], &["255.255.255.255"], &["::1"], &["::"], &["::ffff:10.0.0.1"], &["fe80::1"],
    &["fc00::5"], &["64:ff9b::a00:1"], &["2002:a00:1::1"], &["2001:db8::1"], &["ff02::1"],
    &["93.184.215.14", "10.0.0.1"], &["2606:4700::1111", "::1"],
];

/// A resolver that answers what stands here, to everybody.
#[derive(Clone, Default)]
struct Stub(Arc<Mutex<Vec<IpAddr>>>);

impl Stub {
    fn answer(&self, addresses: &[&str]) {
        *self.0.lock().unwrap() = addresses.iter().map(|address| address.parse().unwrap()).collect();
    }

    fn resolver(&self) -> Resolver {
        let stub = self.clone();
        Resolver::new(move |_| {
            let found = stub.0.lock().unwrap().clone();
            Box::pin(async move { Ok(found) })
        })
    }
}

/// A pod as operators run it, but for the resolver.
async fn guarded(stub: &Stub) -> House {
    let config = Config { unsafe_egress: false, resolver: stub.resolver(), ..settings() };
    House::with_pods(1, config).await
}

#[tokio::test]
async fn no_hostile_url_is_registered_or_called_however_it_came_into_the_table() {
    let stub = Stub::default();
    // Nothing of these depends on the answer: all are refused by their text.
    stub.answer(&["93.184.215.14"]);
    let house = guarded(&stub).await;
    let (agent, peer) = (house.register().await, house.register().await);
    furnish(&house, &agent, "https://hooks.example.com/").await;
    for url in URLS {
        for _ in ["registered", "registered again"] {
            let arguments = json!({ "url": url, "secret": "s" });
            let problem = house.refused(&agent, "webhook_register", arguments, "validation_error").await;
            let reason = problem["details"]["reason"].as_str().unwrap_or_default();
            assert!(WORDS.contains(&reason), "{url:?}: {problem}");
        }
        assert_eq!(shown(&house, &agent).await["url"], "https://hooks.example.com/", "{url:?}");
    }
    for url in URLS {
        furnish(&house, &agent, url).await;
        is_refused(&house, &agent, &peer, url).await;
    }
}

#[tokio::test]
async fn no_hostile_answer_of_a_resolver_is_believed_at_any_step() {
    let stub = Stub::default();
    let house = guarded(&stub).await;
    let (agent, peer) = (house.register().await, house.register().await);
    for answer in ANSWERS {
        stub.answer(answer);
        furnish(&house, &agent, "https://old.example.com/").await;
        for _ in ["registered", "registered again"] {
            let arguments = json!({ "url": "https://hooks.example.com/", "secret": "s" });
            let problem = house.refused(&agent, "webhook_register", arguments, "validation_error").await;
            // The same word for a name that is known inside and one that is not known at all.
            assert_eq!(problem["details"]["reason"], "host_not_public", "{answer:?}");
        }
        assert_eq!(shown(&house, &agent).await["url"], "https://old.example.com/", "{answer:?}");
        is_refused(&house, &agent, &peer, &format!("{answer:?}")).await;
    }
}

/// Neither verification nor delivery goes through, and both say why in one of few words.
async fn is_refused(house: &House, agent: &Agent, peer: &Agent, context: &str) {
    let tried = house.ok(agent, "webhook_verify", json!({})).await;
    assert_eq!((&tried["verified"], &tried["state"]), (&json!(false), &json!("pending")), "{context}");
    is_word(house, agent, context).await;
    set(house, agent, "state = 'active', last_failure_at = null, last_failure_reason = null").await;
    let sent = house.ok(peer, "mailbox_send", json!({ "recipient_agent_id": agent.id, "body": "x" })).await;
    until(context, async || shown(house, agent).await["state"] == "failing").await;
    is_word(house, agent, context).await;
    house.ok(agent, "mailbox_ack", json!({ "message_ids": [sent["message_id"]] })).await;
}

async fn is_word(house: &House, agent: &Agent, context: &str) {
    let shown = shown(house, agent).await;
    let reason = shown["last_failure_reason"].as_str().unwrap_or_default();
    assert!(WORDS.contains(&reason), "{context}: {shown}");
}

/// A webhook that stands in the table as if it had been registered.
async fn furnish(house: &House, agent: &Agent, url: &str) {
    let key = [b'0'; 64];
    let (org_id, agent_id): (uuid::Uuid, uuid::Uuid) =
        sqlx::query_as("select org_id, agent_id from agent where agent_id = $1::text::uuid")
            .bind(&agent.id)
            .fetch_one(&house.db)
            .await
            .unwrap();
    let context = [*org_id.as_bytes(), *agent_id.as_bytes()].concat();
    let sealed = Seal::new(&SECRET_KEY).close(&context, &key).unwrap();
    sqlx::query("delete from webhook where agent_id = $1").bind(agent_id).execute(&house.db).await.unwrap();
    sqlx::query(
        "with hooked as (
            update mailbox set hooked = true where org_id = $1 and agent_id = $2 returning org_id, agent_id)
         insert into webhook (org_id, agent_id, url, authority, sealed_secret, challenge, activation)
         select org_id, agent_id, $3, $3, $4, 'abc', gen_random_uuid() from hooked",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(url)
    .bind(sealed)
    .execute(&house.db)
    .await
    .unwrap();
}

#[tokio::test]
async fn a_name_that_turns_inside_after_it_was_verified_is_not_called_there() {
    let stub = Stub::default();
    stub.answer(&["127.0.0.77"]);
    let house = House::with_pods(1, Config { resolver: stub.resolver(), ..believing() }).await;
    let receiver = Receiver::at("127.0.0.77:8443".parse().unwrap()).await;
    let (agent, peer) = (house.register().await, house.register().await);
    active(&house, &agent, "https://hooks.example.com:8443/a").await;
    until("told", async || receiver.notices("/a").len() == 1).await;
    until("written down", async || super::due(&house, &agent).await.is_none()).await;
    stub.answer(&["10.0.0.1"]);
    send(&house, &peer, &agent, "hello").await;
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    assert_eq!(shown(&house, &agent).await["last_failure_reason"], "host_not_public");
    let tried = house.ok(&agent, "webhook_verify", json!({})).await;
    assert_eq!(tried["verified"], false);
    stub.answer(&["127.0.0.77"]);
    let tried = house.ok(&agent, "webhook_verify", json!({})).await;
    assert_eq!(tried["verified"], true);
    until("told again", async || receiver.notices("/a").len() == 2).await;
}

#[tokio::test]
async fn an_organizations_allowlist_is_asked_at_every_use() {
    let stub = Stub::default();
    stub.answer(&["127.0.0.1"]);
    let house = House::with_pods(1, Config { resolver: stub.resolver(), ..believing() }).await;
    let receiver = Receiver::open().await;
    let (agent, peer) = (house.register().await, house.register().await);
    let allow = async |hosts: &[&str]| {
        let allow = hosts.iter().map(|host| (*host).to_owned()).collect();
        let chore = OrgChore::Egress { slug: "public".into(), allow, none: hosts.is_empty(), any: false };
        operator::run(house.options.clone(), Chore::Org(chore)).await.unwrap();
    };
    let arguments = json!({ "url": receiver.url("/a"), "secret": "s" });
    allow(&[]).await;
    let problem = house.refused(&agent, "webhook_register", arguments.clone(), "validation_error").await;
    assert_eq!(problem["details"]["reason"], "host_not_allowed");
    allow(&["127.0.0.1"]).await;
    active(&house, &agent, &receiver.url("/a")).await;
    until("told", async || receiver.notices("/a").len() == 1).await;
    until("written down", async || super::due(&house, &agent).await.is_none()).await;
    allow(&["hooks.example.com"]).await;
    send(&house, &peer, &agent, "hello").await;
    until("failing", async || shown(&house, &agent).await["state"] == "failing").await;
    assert_eq!(shown(&house, &agent).await["last_failure_reason"], "host_not_allowed");
    assert_eq!(house.ok(&agent, "webhook_verify", json!({})).await["verified"], false);
    assert_eq!(receiver.notices("/a").len(), 1);
    assert_eq!(at(&house, &agent, reqwest::Method::GET, "").await.status, 200);
    assert_eq!(system_notices(&house, &agent).await.len(), 1, "only the welcome");
}
