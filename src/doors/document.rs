//! A text that is written once at start and served until the pod ends: with a tag, so that a client that has it
//! already is told so.

use axum::body::Body;
use axum::routing::{MethodRouter, get};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use sha2::{Digest, Sha256};

/// What is served, the same for everybody.
#[derive(Debug, Clone)]
pub(super) struct Document {
    body: Bytes,
    headers: HeaderMap,
}

impl Document {
    /// `text` of that media type. Caches may keep it for five minutes: pods of two versions run side by side
    /// during an update, and no longer.
    pub(super) fn new(kind: &'static str, text: String) -> Document {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(&text)[..12]));
        headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
        Document { body: text.into(), headers }
    }

    /// The same with a further header.
    #[must_use]
    pub(super) fn with(mut self, name: HeaderName, value: HeaderValue) -> Document {
        self.headers.insert(name, value);
        self
    }

    /// Answers GET and HEAD with it.
    pub(super) fn route<S: Clone + Send + Sync + 'static>(self) -> MethodRouter<S> {
        get(async move |asked: HeaderMap| self.answer(&asked))
    }

    /// 304 for who has it, 200 with the text for all others.
    fn answer(&self, asked: &HeaderMap) -> Response<Body> {
        let is_known = is_known(asked, self.headers.get(ETAG));
        let mut answer = Response::new(Body::from(if is_known { Bytes::new() } else { self.body.clone() }));
        *answer.headers_mut() = self.headers.clone();
        if is_known {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            answer.headers_mut().remove(CONTENT_TYPE);
        }
        answer
    }
}

/// Whether one of the tags that the client has is this one (RFC 9110, 13.1.2).
fn is_known(asked: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else { return false };
    let sent = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    sent.flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}
