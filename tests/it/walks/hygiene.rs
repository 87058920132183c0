//! Nothing that is sent brings a door down, is echoed, or leaves a trace when it is refused.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use waypost::call::Entry;

use super::doors::{self, Way, ways};
use super::grounds::{Caller, Grounds};
use super::malformed::{self, CANARY, Fate, Probe};
use super::reply::{self, Reply};
use super::sample;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_sent_as_json_is_taken_or_refused_and_never_echoed() {
    let grounds = Grounds::open().await;
    let mut sent = 0;
    for entry in grounds.registry.entries() {
        let others = sample::accepted(&grounds, entry).await;
        for way in ways(entry).into_iter().filter(|way| way.takes_json()) {
            let mut bench =
                Bench { grounds: &grounds, entry, way, others: &others, caller: grounds.caller().await };
            let good = sample::arguments(entry, &bench.caller, &others);
            // Probes speak of this caller's things, so those that may be taken come last, each on a fresh caller.
            let probes = malformed::probes(entry, &good, &way.address_names());
            let (either, refused): (Vec<Probe>, Vec<Probe>) =
                probes.into_iter().partition(|probe| probe.fate == Fate::Either);
            let before = grounds.digest().await;
            for probe in &refused {
                bench.must_refuse(probe).await;
            }
            bench.must_refuse_by_headers(&good).await;
            assert_eq!(
                grounds.digest().await,
                before,
                "{} by {way} stored something it refused",
                entry.spec.name
            );
            for probe in &either {
                bench.may_take(probe).await;
            }
            sent += refused.len() + either.len();
        }
    }
    assert!(sent > 500, "only {sent} probes were sent");
}

/// One tool, by one way.
struct Bench<'a> {
    grounds: &'a Grounds,
    entry: &'a Arc<Entry>,
    way: Way,
    others: &'a [String],
    caller: Caller,
}

impl Bench<'_> {
    async fn must_refuse(&self, probe: &Probe) {
        let reply = self.post(&probe.body).await;
        let context = format!("{} by {}: {}", self.entry.spec.name, self.way, probe.what);
        assert!(reply.status < 500, "{context}: {reply:?}");
        assert!(reply.answer(self.way).is_none(), "{context}: was taken: {reply:?}");
        let members = reply.refusal(self.way, self.entry);
        self.check(&reply, &context);
        let code = members["code"].as_str().unwrap();
        match probe.fate {
            Fate::Refused(codes) => assert!(codes.contains(&code), "{context}: {reply:?}"),
            Fate::Unread if self.way.is_mcp() => {
                assert_eq!(reply.json()["error"]["code"], -32700, "{context}: {reply:?}");
            }
            Fate::Unread => {
                assert_eq!((reply.status, code), (400, "malformed_request"), "{context}: {reply:?}")
            }
            Fate::Suggested => {
                assert_eq!(code, "unknown_field", "{context}: {reply:?}");
                let suggestion = members["suggestion"].as_str().unwrap();
                let exists = self.entry.input["properties"].get(suggestion).is_some();
                assert!(exists, "{context}: suggests {suggestion}");
            }
            Fate::Either => {}
        }
    }

    /// Refused or taken. What is refused is neither echoed nor stored; what is taken uses this caller up.
    async fn may_take(&mut self, probe: &Probe) {
        let before = self.grounds.digest().await;
        let reply = self.post(&probe.body).await;
        let context = format!("{} by {}: {}", self.entry.spec.name, self.way, probe.what);
        assert!(reply.status < 500, "{context}: {reply:?}");
        if reply.answer(self.way).is_none() {
            reply.refusal(self.way, self.entry);
            self.check(&reply, &context);
            assert_eq!(self.grounds.digest().await, before, "{context}: stored something it refused");
        } else {
            self.caller = self.grounds.caller().await;
        }
    }

    /// The right bytes, declared as something else.
    async fn must_refuse_by_headers(&self, good: &Map<String, Value>) {
        let mut good = good.clone();
        good.retain(|name, _| !self.way.address_names().contains(&name.as_str()));
        let body = Value::Object(good).to_string();
        for (name, value) in [
            ("content-type", "text/plain"),
            ("content-type", "application/x-www-form-urlencoded"),
            ("content-encoding", "gzip"),
        ] {
            let mut request = self.request(body.as_bytes()).build().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
            let answer = self.grounds.house.http().execute(request).await.unwrap();
            let context = format!("{} by {}: {name}: {value}", self.entry.spec.name, self.way);
            assert_eq!(answer.status(), 415, "{context}");
            let body: Value = answer.json().await.unwrap();
            let code = if self.way.is_mcp() { &body["error"]["data"]["code"] } else { &body["code"] };
            assert_eq!(*code, "unsupported_media", "{context}: {body}");
        }
    }

    async fn post(&self, body: &[u8]) -> Reply {
        reply::send(self.request(body)).await
    }

    fn request(&self, body: &[u8]) -> reqwest::RequestBuilder {
        let path_arguments = sample::arguments(self.entry, &self.caller, self.others);
        let root = self.grounds.root(&self.caller.org);
        let (http, key) = (self.grounds.house.http(), self.caller.sent(self.entry));
        doors::raw_request(http, &root, self.entry, self.way, &key, &path_arguments, body)
    }

    fn check(&self, reply: &Reply, context: &str) {
        let in_headers = reply.headers.iter().any(|(_, value)| value.contains(CANARY));
        assert!(!reply.text.contains(CANARY) && !in_headers, "{context}: echoed: {reply:?}");
        assert!(!reply.text.contains("wpa_kkkk"), "{context}: echoed: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_an_address_is_taken_or_refused_and_never_echoed() {
    let grounds = Grounds::open().await;
    let mut sent = 0;
    for entry in grounds.registry.entries() {
        let others = sample::accepted(&grounds, entry).await;
        for way in ways(entry) {
            let caller = grounds.caller().await;
            let good = sample::arguments(entry, &caller, &others);
            let bench = Bench { grounds: &grounds, entry, way, others: &others, caller };
            let names = if way.takes_json() {
                way.path_names()
            } else {
                sample::properties(entry).into_iter().map(|(name, _)| name).collect()
            };
            for name in names {
                for value in ["null", "\0", CANARY, "9007199254740993", "1e400", "-1", &CANARY.repeat(1_100)]
                {
                    let mut arguments = good.clone();
                    arguments.insert(name.into(), json!(value));
                    bench
                        .address(arguments, &format!("{name} = {:.20}", value.escape_debug().to_string()))
                        .await;
                    sent += 1;
                }
            }
        }
    }
    assert!(sent > 50, "only {sent} addresses were tried");
}

impl Bench<'_> {
    async fn address(&self, arguments: Map<String, Value>, what: &str) {
        let before = self.grounds.digest().await;
        let reply = self.grounds.call(&self.caller, self.entry, self.way, arguments).await;
        let context = format!("{} by {}: {what}", self.entry.spec.name, self.way);
        assert!(reply.status < 500, "{context}: {reply:?}");
        if reply.answer(self.way).is_none() {
            reply.refusal(self.way, self.entry);
            self.check(&reply, &context);
            assert_eq!(self.grounds.digest().await, before, "{context}: stored something it refused");
        }
    }
}

#[tokio::test]
async fn a_query_is_readable_and_says_nothing_twice_or_it_is_refused() {
    let grounds = Grounds::open().await;
    for entry in grounds.registry.entries() {
        let others = sample::accepted(&grounds, entry).await;
        for way in ways(entry).into_iter().filter(|way| !way.is_mcp()) {
            let caller = grounds.caller().await;
            let good = sample::arguments(entry, &caller, &others);
            let root = grounds.root(&caller.org);
            let before = grounds.digest().await;
            for query in ["x=1", "since=0&since=0", "x=%FF", "%00=1", &format!("a={CANARY}")] {
                let http = grounds.house.http();
                let request = doors::request(http, &root, entry, way, &caller.sent(entry), good.clone());
                let mut request = request.build().unwrap();
                *request.url_mut() = doors::with_query(request.url().as_str(), query).parse().unwrap();
                let reply = reply::read(http.execute(request).await.unwrap()).await;
                let context = format!("{} by {way}: ?{query}", entry.spec.name);
                assert!(reply.answer(way).is_none(), "{context}: {reply:?}");
                reply.refusal(way, entry);
                assert!(!reply.text.contains(CANARY), "{context}: {reply:?}");
            }
            assert_eq!(grounds.digest().await, before, "{} by {way}", entry.spec.name);
        }
    }
}
