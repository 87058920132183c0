//! A mailbox as server-sent events (WHATWG HTML, "Server-sent events"): one stream, from its opening to its end.

use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::problem::Refused;
use super::{Visit, body, query};
use crate::call::Error;
use crate::call::follow::{End, Follower, Frame, Told, jittered};
use crate::doors::accept::Live;
use crate::doors::reception::Entrance;
use crate::doors::refusal::Refusal;

/// The header in which a client that reconnects sends the id of the last event it got.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The argument that this header stands for.
const SINCE: &str = "since";
/// In the query: a ticket for clients that cannot send headers.
const TICKET: &str = "ticket";
/// Said first, so that the client knows at once that it is connected.
const GREETING: &[u8] = b"retry: 2000\n: connected\n\n";
/// Who is sent away by a drain comes back within this, not all at once.
const COME_BACK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(2_500));

impl Visit {
    /// Answers with a stream; whatever refuses it does so before it begins.
    pub(super) async fn follow(&self, parts: &Parts, body: Body) -> Response {
        if parts.method != http::Method::GET {
            return only_get();
        }
        match self.open(parts, body).await {
            Ok(follower) => events(follower),
            Err(refused) => refused.answer(self.entry.dialect),
        }
    }

    async fn open(&self, parts: &Parts, body: Body) -> Result<Follower, Refused> {
        let entrance = Entrance { org: self.path.org.as_deref(), tally: &self.tally };
        let mut arguments = query::arguments(parts.uri.query().unwrap_or_default())?;
        // Text, as all in a query is.
        let ticket =
            arguments.shift_remove(TICKET).map(|ticket| ticket.as_str().unwrap_or_default().to_owned());
        let visitor = self.reception.greet_with(ticket, &parts.headers, entrance).await?;
        body::refuse(body).await?;
        let resumes = resume(&parts.headers, &mut arguments);
        let opened = self.reception.follow(visitor, entrance, &self.entry, arguments).await;
        opened.map_err(|error| match error {
            Error::Invalid { field, .. } if resumes && field == SINCE => {
                Error::invalid("Last-Event-ID", "must be the id of an event of this stream").into()
            }
            error => error.into(),
        })
    }
}

/// The header of a client that reconnects wins over what its URL says; tells whether there was one.
fn resume(headers: &HeaderMap, arguments: &mut Map<String, Value>) -> bool {
    let ids = headers.get_all(LAST_EVENT_ID).iter();
    let ids: Vec<_> = ids.map(|id| String::from_utf8_lossy(id.as_bytes())).collect();
    if !ids.is_empty() {
        // Several of them are no number any more.
        arguments.insert(SINCE.into(), ids.join(",").into());
    }
    !ids.is_empty()
}

/// Streams cannot be looked at without being opened, so HEAD is refused too.
fn only_get() -> Response {
    let message = "This path takes only GET; the answer is a stream.";
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    let mut answer = refusal.answer(false, None);
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    answer
}

fn events(follower: Follower) -> Response {
    let greeting = stream::once(async { Ok::<_, Infallible>(Bytes::from_static(GREETING)) });
    let frames = stream::unfold(follower, |mut follower| async move {
        let frame = follower.next().await?;
        Some((Ok(Bytes::from(written(&frame, follower.cursor()))), follower))
    });
    let mut answer = Response::new(Body::from_stream(futures::StreamExt::chain(greeting, frames)));
    answer.extensions_mut().insert(Live);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    answer
}

/// JSON text holds no line break, so it is one `data` line.
fn written(frame: &Frame, cursor: i64) -> String {
    let mut text = String::new();
    // Writing into memory does not fail.
    let _ = match frame {
        Frame::Mail(letters) => letters.iter().try_for_each(|Told { seq, envelope }| {
            write!(text, "event: message\nid: {seq}\ndata: {envelope}\n\n")
        }),
        Frame::Ping => write!(text, "event: ping\ndata: {{\"cursor\":{cursor}}}\n\n"),
        Frame::Ended(End::Revoked) => write!(text, "event: revoked\ndata: {{\"cursor\":{cursor}}}\n\n"),
        Frame::Ended(End::Drain) => {
            let retry = jittered(COME_BACK.0, COME_BACK.1).as_millis();
            write!(text, "retry: {retry}\nevent: reconnect\ndata: {{\"cursor\":{cursor}}}\n\n")
        }
        Frame::Ended(End::Timeout | End::NoProgressToken) => {
            write!(text, "event: reconnect\ndata: {{\"cursor\":{cursor}}}\n\n")
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_one_event_as_clients_read_it() {
        let told = |seq| Told { seq, envelope: format!("{{\"seq\":{seq}}}") };
        assert_eq!(
            written(&Frame::Mail(vec![told(3), told(5)]), 5),
            "event: message\nid: 3\ndata: {\"seq\":3}\n\nevent: message\nid: 5\ndata: {\"seq\":5}\n\n"
        );
        assert_eq!(written(&Frame::Ping, 5), "event: ping\ndata: {\"cursor\":5}\n\n");
        assert_eq!(written(&Frame::Ended(End::Revoked), 5), "event: revoked\ndata: {\"cursor\":5}\n\n");
        assert_eq!(written(&Frame::Ended(End::Timeout), 5), "event: reconnect\ndata: {\"cursor\":5}\n\n");
        let drained = written(&Frame::Ended(End::Drain), 5);
        let (retry, rest) = drained.split_once('\n').unwrap();
        let retry: u64 = retry.strip_prefix("retry: ").unwrap().parse().unwrap();
        assert!((100..=2_500).contains(&retry));
        assert_eq!(rest, "event: reconnect\ndata: {\"cursor\":5}\n\n");
    }
}
