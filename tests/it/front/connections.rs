//! What bounds a connection: its head, its idleness, its reading, its body, the cap and the drain.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use waypost::doors::accept::Limits;

use super::wire::get_request;
use super::{LARGE, Pod};

#[tokio::test]
async fn a_head_that_stands_still_is_cut_long_before_an_idle_connection() {
    let limits =
        Limits { head: Duration::from_millis(60), idle: Duration::from_secs(60), ..Limits::default() };
    let pod = Pod::start(limits).await;
    let began = Instant::now();
    let mut fresh = pod.connect().await;
    fresh.send("GET / HTTP/1.1\r\nHo").await;
    assert_eq!(fresh.rest().await, 0);

    let mut used = pod.connect().await;
    used.send(&get_request("/livez", "")).await;
    assert_eq!(used.answer().await.status, 200);
    used.send("G").await;
    assert_eq!(used.rest().await, 0);
    assert!(began.elapsed() < limits.idle / 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn trickling_a_head_does_not_stretch_its_time() {
    let limits = Limits { head: Duration::from_millis(150), ..Limits::default() };
    let pod = Pod::start(limits).await;
    let mut client = pod.connect().await;
    let began = Instant::now();
    client.send("GET / HTTP/1.1\r\nX: ").await;
    let mut trickle = tokio::time::interval(Duration::from_millis(20));
    let cut = loop {
        trickle.tick().await;
        let mut byte = [0];
        let gone = client.stream.write_all(b"x").await.is_err()
            || matches!(client.stream.try_read(&mut byte), Ok(0))
            || matches!(client.stream.try_read(&mut byte), Err(error) if error.kind() != std::io::ErrorKind::WouldBlock);
        if gone {
            break began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "never cut");
    };
    assert!(cut >= Duration::from_millis(150), "{cut:?}");
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_limit_and_ends_at_its_own() {
    let limits =
        Limits { head: Duration::from_millis(20), idle: Duration::from_millis(400), ..Limits::default() };
    let pod = Pod::start(limits).await;
    let mut client = pod.connect().await;
    client.send(&get_request("/livez", "")).await;
    assert_eq!(client.answer().await.status, 200);
    let began = Instant::now();
    assert_eq!(client.rest().await, 0);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());

    let mut silent = pod.connect().await;
    let began = Instant::now();
    assert_eq!(silent.rest().await, 0);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_connection_above_the_cap_is_told_so_and_the_next_free_place_serves() {
    let pod = Pod::start(Limits { connections: 1, ..Limits::default() }).await;
    let mut inside = pod.connect().await;
    inside.send(&get_request("/livez", "")).await;
    assert_eq!(inside.answer().await.status, 200);

    let refused = pod.ask(&get_request("/livez", "")).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.code(), "temporarily_unavailable");
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"), "a page must be able to read it");

    drop(inside);
    let deadline = Instant::now() + Duration::from_secs(5);
    while pod.ask(&get_request("/livez", "")).await.status != 200 {
        assert!(Instant::now() < deadline, "the place was never given back");
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_dropped() {
    for path in ["/flood", "/live-flood"] {
        let pod = Pod::start(Limits { write: Duration::from_millis(100), ..Limits::default() }).await;
        let mut client = pod.connect().await;
        client.send(&get_request(path, "")).await;
        assert_eq!(client.answer().await.status, 200);
        // Nothing is read until the server has let go of the connection.
        pod.drain.closing.cancel();
        pod.drain.tracker.close();
        tokio::time::timeout(Duration::from_secs(10), pod.drain.tracker.wait()).await.expect("still held");
        assert!(client.rest().await > 0);
    }
}

#[tokio::test]
async fn an_answer_that_was_not_taken_yet_is_not_lost_to_a_live_one_behind_it() {
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    // More than all buffers on the way take.
    client
        .send(&(get_request("/large", "").repeat(1_000) + &get_request("/live", "Connection: close\r\n")))
        .await;
    for _ in 0..1_000 {
        assert_eq!(client.answer().await.body.len(), LARGE);
    }
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.rest().await, "5\r\nalive\r\n0\r\n\r\n".len());
}

#[tokio::test]
async fn draining_ends_idle_connections_and_lets_an_answer_finish() {
    let pod = Pod::start(Limits::default()).await;
    let mut idle = pod.connect().await;
    idle.send(&get_request("/livez", "")).await;
    assert_eq!(idle.answer().await.status, 200);
    let mut busy = pod.connect().await;
    busy.send("POST /body HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await;
    assert_eq!(busy.answer().await.status, 100);

    pod.drain.closing.cancel();
    assert_eq!(idle.rest().await, 0);
    busy.send("ab").await;
    let answer = busy.answer().await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "2"));
    assert_eq!(busy.rest().await, 0);
    drop((idle, busy));
    pod.drain.tracker.close();
    tokio::time::timeout(Duration::from_secs(5), pod.drain.tracker.wait()).await.expect("tasks were left");
    assert!(TcpStream::connect(pod.address).await.is_err());
}

#[tokio::test]
async fn cutting_ends_what_never_ends_by_itself() {
    for path in ["/flood", "/live-flood"] {
        let pod = Pod::start(Limits::default()).await;
        let mut client = pod.connect().await;
        client.send(&get_request(path, "")).await;
        assert_eq!(client.answer().await.status, 200);
        pod.drain.closing.cancel();
        pod.drain.cut.cancel();
        client.rest().await;
    }
}

#[tokio::test]
async fn a_long_body_is_told_413_even_by_a_client_that_sends_all_of_it_before_it_reads() {
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n").await;
    client.stream.readable().await.unwrap();
    let piece = "x".repeat(1000);
    for _ in 0..600 {
        client.send(&piece).await;
    }
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "payload_too_large"));
}

#[tokio::test]
async fn a_connection_that_ends_after_an_unread_body_says_so_and_one_that_was_read_goes_on() {
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    let body = "x".repeat(1024);
    client
        .send(&format!("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1024\r\n\r\n{body}"))
        .await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, None));
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600000\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    assert_eq!(client.rest().await, 0);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_told_408_and_the_connection_closed() {
    let pod = Pod::start(Limits::default()).await;
    let mut client = pod.connect().await;
    client.send("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
    assert_eq!(client.rest().await, 0);
}

#[test]
fn the_limits_are_those_that_are_documented() {
    let limits = Limits::default();
    assert_eq!((limits.head, limits.idle), (Duration::from_secs(10), Duration::from_secs(75)));
    assert_eq!((limits.connections, limits.write), (20_000, Duration::from_secs(10)));
    assert_eq!(waypost::doors::front::BODY_DEADLINE, Duration::from_secs(30));
}
