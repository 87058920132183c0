//! Reading a request's body: bounded in bytes and in time.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body as _;
use http_body_util::BodyExt;

use super::room::NoRoom;
use crate::doors::refusal::Refusal;

/// How long a body may take to arrive whole.
pub const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyRefused {
    /// More bytes than the limit, announced or sent.
    #[error("the body is too large")]
    TooLarge,
    /// Not whole by the deadline.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// Too many large bodies are under way in this pod.
    #[error("there is no room for the body now")]
    NoRoom,
    /// The connection broke, or the body's framing is wrong.
    #[error("the body broke off")]
    Broken,
}

impl BodyRefused {
    /// 413, 408, 503 or 400.
    #[must_use]
    pub fn refusal(self) -> Refusal {
        let (status, code, message) = match self {
            Self::NoRoom => {
                let message = "Too many large bodies are under way. Try again, or send less at once.";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return Refusal::retry_after(status, "temporarily_unavailable", message, 1);
            }
            Self::TooLarge => (
                StatusCode::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                "The body is too large. Send less at once.",
            ),
            Self::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                "The body did not arrive in time. Send it again.",
            ),
            Self::Broken => (StatusCode::BAD_REQUEST, "bad_request", "The body broke off. Send it again."),
        };
        Refusal { retryable: self != Self::TooLarge, ..Refusal::new(status, code, message) }
    }
}

/// The whole body, at most `limit` bytes, arrived within `deadline`.
///
/// A body announced as longer is refused unread. One that came in one piece is not copied.
///
/// # Errors
/// See [`BodyRefused`].
pub async fn read_body(body: Body, limit: usize, deadline: Duration) -> Result<Bytes, BodyRefused> {
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyRefused::TooLarge);
    }
    tokio::time::timeout(deadline, gather(body, limit)).await.unwrap_or(Err(BodyRefused::TooSlow))
}

async fn gather(mut body: Body, limit: usize) -> Result<Bytes, BodyRefused> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(why)?.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > limit {
            return Err(BodyRefused::TooLarge);
        }
        if first.is_empty() {
            first = piece;
        } else {
            rest.extend_from_slice(&piece);
        }
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

/// The cause of a body's error, however often it was wrapped on its way here.
fn why(error: axum::Error) -> BodyRefused {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.is::<NoRoom>() {
            return BodyRefused::NoRoom;
        }
        cause = error.source();
    }
    BodyRefused::Broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pieces: &'static [&'static str]) -> Body {
        let pieces = pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())));
        Body::from_stream(futures::stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_is_whole_up_to_the_limit_and_refused_above() {
        let read = read_body(pieces(&["ab", "cd", "ef"]), 6, BODY_DEADLINE).await;
        assert_eq!(read.unwrap(), "abcdef");
        assert_eq!(
            read_body(pieces(&["ab", "cd", "ef"]), 5, BODY_DEADLINE).await,
            Err(BodyRefused::TooLarge)
        );
        assert_eq!(read_body(Body::from("abcdef"), 5, BODY_DEADLINE).await, Err(BodyRefused::TooLarge));
        assert_eq!(read_body(Body::empty(), 0, BODY_DEADLINE).await.unwrap(), "");
    }

    #[tokio::test]
    async fn a_body_that_stands_still_is_refused_at_the_deadline() {
        let still = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        let refused = read_body(still, 5, Duration::from_millis(5)).await.unwrap_err();
        assert_eq!(refused.refusal().status, StatusCode::REQUEST_TIMEOUT);
    }
}
