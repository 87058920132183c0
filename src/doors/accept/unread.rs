//! Knows whether a request's body was read to its end.
//!
//! hyper closes a connection on which a body was left unread, without saying so in the answer: a client that
//! keeps connections would send its next request into the void.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

/// Set once a body has ended.
pub(super) struct Ended(Option<Arc<AtomicBool>>);

/// The body for the doors, and what will know whether they read it all.
pub(super) fn watch(body: Incoming) -> (Body, Ended) {
    if body.is_end_stream() {
        return (Body::new(body), Ended(None));
    }
    let ended = Arc::new(AtomicBool::new(false));
    (Body::new(Watched { body, ended: ended.clone() }), Ended(Some(ended)))
}

impl Ended {
    /// Announces the end of the connection if something was left unread.
    pub(super) fn announce(&self, answer: &mut Response<Body>) {
        if self.0.as_ref().is_some_and(|ended| !ended.load(Ordering::Relaxed)) {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

struct Watched {
    body: Incoming,
    ended: Arc<AtomicBool>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
