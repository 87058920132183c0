//! What keeps a stream from beginning, and what ends it: a key revoked, too many of them, a reader that sleeps.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use waypost::config::{Config, Holds};

use super::replay::fill;
use super::{Listener, STREAM, stage};
use crate::house::{House, last_poll, send, settings, until};
use crate::mailbox::owned;

#[tokio::test]
async fn a_bad_last_event_id_is_refused_before_the_stream_begins() {
    let (house, _, bob) = stage(1).await;
    let before = last_poll(&house, &bob).await;
    for (id, more) in
        [("x", None), ("", None), ("-1", None), ("1.5", None), ("9007199254740993", None), ("1", Some("2"))]
    {
        let request = house.http().get(format!("{}{STREAM}?since=1", house.url(0)));
        let request = more
            .into_iter()
            .fold(request.header("Last-Event-ID", id), |request, id| request.header("Last-Event-ID", id));
        let refused = house.send(request, Some(&bob.key)).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation_error")), "{id:?}");
        assert_eq!(refused.body["details"]["field"], "Last-Event-ID", "{}", refused.body);
    }
    let bad = house.get(0, &format!("{STREAM}?since=-1"), Some(&bob.key)).await;
    assert_eq!((bad.status, &bad.body["details"]["field"]), (422, &json!("since")));
    assert_eq!(last_poll(&house, &bob).await, before, "what is refused leaves no trace");
}

#[tokio::test]
async fn a_stream_takes_get_and_no_other_method_not_even_head() {
    let (house, _, bob) = stage(1).await;
    let before = last_poll(&house, &bob).await;
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let request = house.http().request(method.clone(), format!("{}{STREAM}", house.url(0)));
        let refused = house.send(request, Some(&bob.key)).await;
        assert_eq!((refused.status, &refused.headers["allow"]), (405, &"GET".parse().unwrap()), "{method}");
    }
    assert_eq!(last_poll(&house, &bob).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_its_streams_on_every_pod_within_a_second() {
    let (house, _, bob) = stage(2).await;
    let keys = format!("/agents/{}/keys", bob.id);
    let added = owned(&house, 0, &bob.owner_key, Method::POST, &keys, json!({})).await.body;
    let mut spare = bob.clone();
    spare.key = added["api_key"].as_str().unwrap().to_owned();
    let mut streams = Vec::new();
    for pod in [0, 1] {
        streams.push(Listener::open(&house, pod, &spare, "").await);
    }
    let mut other = Listener::open(&house, 1, &bob, "?heartbeat_seconds=1").await;
    let path = format!("{keys}/{}", added["key_id"].as_str().unwrap());
    owned(&house, 0, &bob.owner_key, Method::DELETE, &path, json!(null)).await;
    let revoked = Instant::now();
    for stream in &mut streams {
        assert_eq!(stream.cursor("revoked").await, 1);
        stream.ends().await;
        assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    }
    other.cursor("ping").await;
}

#[tokio::test]
async fn streams_share_the_caps_of_held_reads_and_give_their_places_back() {
    for holds in [
        Holds { agent: 2, org: 0, pod: 0 },
        Holds { agent: 0, org: 2, pod: 0 },
        Holds { agent: 0, org: 0, pod: 2 },
    ] {
        let house = House::with_pods(1, Config { holds, ..settings() }).await;
        let bob = house.register().await;
        let first = Listener::open(&house, 0, &bob, "").await;
        let _second = Listener::open(&house, 0, &bob, "").await;
        let before = last_poll(&house, &bob).await;
        let refused = house.get(0, STREAM, Some(&bob.key)).await;
        assert_eq!((refused.status, &refused.body["code"]), (429, &json!("too_many_holds")));
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(last_poll(&house, &bob).await, before, "what is refused leaves no trace");
        let held = house.call(0, &bob, "mailbox_check", json!({ "since": 1, "wait": 25 })).await;
        assert_eq!(held.status, 429, "a held read takes a place, too");
        let by_name = house.call(0, &bob, "mailbox_stream", json!({})).await;
        assert_eq!(by_name.status, 429);
        drop(first);
        until("a place is free", async || house.pods[0].dispatch.holds.open() == 1).await;
        Listener::open(&house, 0, &bob, "?wait=0").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_dropped_and_its_place_given_back() {
    let (house, _, bob) = stage(1).await;
    // More than all buffers on the way take.
    fill(&house, &bob.id, 30_000).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut sleeping = socket.connect(house.pods[0].address).await.unwrap();
    let host = house.pods[0].address;
    let request =
        format!("GET {STREAM} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n\r\n", bob.key);
    sleeping.write_all(request.as_bytes()).await.unwrap();
    let holds = &house.pods[0].dispatch.holds;
    until("the stream is open", async || holds.open() == 1).await;
    let began = Instant::now();
    until("it is dropped", async || holds.open() == 0).await;
    assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
    // What was on its way still comes, and then the end.
    let mut rest = Vec::new();
    let _ = sleeping.read_to_end(&mut rest).await;
    assert!(!rest.ends_with(b"0\r\n\r\n"), "cut, not finished");
    // One that reads, however slowly, is served.
    let ada = house.register().await;
    let mut stream = Listener::open(&house, 0, &bob, "?since=30001").await;
    send(&house, &ada, &bob, "news").await;
    assert_eq!(stream.seqs(1).await, [30_002]);
}
