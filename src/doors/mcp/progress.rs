//! A call whose client wants to see progress: one JSON answer when there is none to see, else a stream.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, Interval, interval_at};

use crate::call::progress::Note;
use crate::doors::media;

/// Proxies close what is silent for a minute or less.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How many notes a call may be ahead of its client.
pub const AHEAD: usize = 64;

/// A running call and what it says of itself. Dropping it ends the wait, never a statement half way.
pub struct Running {
    /// Ends with the JSON-RPC response.
    pub call: BoxFuture<'static, Bytes>,
    /// What the tool reports.
    pub notes: Receiver<Note>,
    /// The client's name for it, a string or an integer.
    pub token: Value,
}

/// Answers with whichever comes first: the response, as JSON, or a note, which begins a stream of
/// `notifications/progress` that ends with the response.
pub async fn answer(mut running: Running) -> Response<Body> {
    let mut response = None;
    let first = match running.next(&mut response).await {
        Said::Note(note) => note,
        Said::Response(response) => return media::json(StatusCode::OK, response),
    };
    let mut streaming = Streaming {
        running,
        response,
        reached: f64::NEG_INFINITY,
        keep_alive: interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE),
    };
    let first = streaming.event(&first);
    let events = stream::unfold((first, Some(streaming)), |(first, streaming)| async move {
        let mut streaming = streaming?;
        if let Some(event) = first {
            return Some((event, (None, Some(streaming))));
        }
        let (event, is_last) = streaming.next().await;
        Some((event, (None, (!is_last).then_some(streaming))))
    });
    as_stream(events)
}

/// Whether the client can read a stream. One that names no types can.
pub fn is_stream_accepted(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(http::header::ACCEPT).iter().peekable();
    let takes = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or_default().to_ascii_lowercase();
        ["text/event-stream", "text/*", "*/*"].iter().any(|kind| value.contains(kind))
    };
    accepted.peek().is_none() || accepted.any(takes)
}

/// What a running call says next.
enum Said {
    Note(Note),
    Response(Bytes),
}

impl Running {
    /// What was reported comes before the response, also where a call reports and ends at once: `response`
    /// keeps it meanwhile. Dropping the future loses nothing.
    async fn next(&mut self, response: &mut Option<Bytes>) -> Said {
        if response.is_none() {
            tokio::select! {
                biased;
                Some(note) = self.notes.recv() => return Said::Note(note),
                done = &mut self.call => *response = Some(done),
            }
        }
        match (self.notes.try_recv(), response.take()) {
            (Ok(note), kept) => {
                *response = kept;
                Said::Note(note)
            }
            (Err(_), response) => Said::Response(response.unwrap_or_default()),
        }
    }
}

struct Streaming {
    running: Running,
    /// Of a call that has ended, while its last notes go out.
    response: Option<Bytes>,
    /// The progress told last.
    reached: f64,
    keep_alive: Interval,
}

impl Streaming {
    /// The next event, and whether it is the last.
    async fn next(&mut self) -> (Bytes, bool) {
        loop {
            let said = tokio::select! {
                biased;
                said = self.running.next(&mut self.response) => said,
                _ = self.keep_alive.tick() => return (Bytes::from_static(b": keep-alive\n\n"), false),
            };
            match said {
                Said::Note(note) => {
                    if let Some(event) = self.event(&note) {
                        return (event, false);
                    }
                }
                Said::Response(response) => return (framed(&response), true),
            }
        }
    }

    /// `None` for a note that is not ahead of the last one: progress must strictly increase.
    fn event(&mut self, note: &Note) -> Option<Bytes> {
        if !(note.progress.is_finite() && note.progress > self.reached) {
            return None;
        }
        self.reached = note.progress;
        let mut params = json!({ "progressToken": self.running.token, "progress": number(note.progress) });
        if let Some(total) = note.total {
            params["total"] = number(total);
        }
        if let Some(message) = &note.message {
            params["message"] = message.as_str().into();
        }
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        Some(framed(message.to_string().as_bytes()))
    }
}

/// Whole numbers without a fraction, as people and counters write them.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        true => Value::from(value as i64),
        false => Value::from(value),
    }
}

/// JSON text holds no line break, so it is one `data` line.
fn framed(json: &[u8]) -> Bytes {
    [b"event: message\ndata: ", json, b"\n\n"].concat().into()
}

fn as_stream(events: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures::StreamExt as _;
    let mut answer = Response::new(Body::from_stream(events.map(Ok::<_, Infallible>)));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    answer
}
