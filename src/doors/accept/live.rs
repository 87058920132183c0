//! Answers that go on for long: written to the socket itself, without hyper and its buffers.
//!
//! A stream that is told nothing costs what its connection holds. hyper keeps two buffers of 8 KiB for each; here
//! such an answer is taken out of it once its head is known, with all that the layers put there, and hyper is
//! dropped. What comes after on that connection is not served any more, and the answer says so.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version, header, response};
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;

/// Bytes that a client may still send on such a connection; they are thrown away.
const THROWN: usize = 64 * 1024;

/// An extension of an answer: it goes on for long.
#[derive(Debug, Clone, Copy)]
pub struct Live;

/// Where a connection's service leaves such an answer, for who serves the connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handover(Arc<Mutex<Option<oneshot::Sender<Response<Body>>>>>);

impl Handover {
    /// With the end where the answer comes out.
    pub(super) fn new() -> (Handover, oneshot::Receiver<Response<Body>>) {
        let (sender, receiver) = oneshot::channel();
        (Handover(Arc::new(Mutex::new(Some(sender)))), receiver)
    }

    /// Leaves the answer there if it is live, and does not return then; gives any other back.
    pub(super) async fn unless_live(self, answer: Response<Body>) -> Response<Body> {
        if answer.extensions().get::<Live>().is_none() {
            return answer;
        }
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(sender) = sender else { return answer };
        match sender.send(answer) {
            Ok(()) => std::future::pending().await,
            Err(answer) => answer,
        }
    }
}

/// Whether a client understands an answer that ends in chunks, as a live one does.
pub(super) fn can_follow(request: &Request<Body>) -> bool {
    request.version() == Version::HTTP_11
}

/// Writes the answer until it ends or its client is gone.
pub(super) async fn write(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    answer: Response<Body>,
) -> io::Result<()> {
    let (parts, mut body) = answer.into_parts();
    let (mut reading, mut writing) = tokio::io::split(socket);
    let telling = async {
        writing.write_all(&head(parts)).await?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(io::Error::other)?;
            if let Some(bytes) = frame.data_ref().filter(|bytes| !bytes.is_empty()) {
                writing.write_all(&chunk(bytes)).await?;
            }
        }
        writing.write_all(b"0\r\n\r\n").await?;
        writing.shutdown().await
    };
    tokio::select! {
        told = telling => told,
        () = gone(&mut reading) => Ok(()),
    }
}

/// Returns once the client has closed, or sends without end what nobody reads.
async fn gone(reading: &mut (impl AsyncRead + Unpin)) {
    let (mut bytes, mut left) = ([0; 128], THROWN);
    while let Ok(count @ 1..) = reading.read(&mut bytes).await
        && count <= left
    {
        left -= count;
    }
}

/// The status line and the fields, as RFC 9112 writes them.
#[expect(clippy::disallowed_methods, reason = "the date that hyper would write")]
fn head(parts: response::Parts) -> Vec<u8> {
    let mut headers = parts.headers;
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(SystemTime::now())) {
        headers.insert(header::DATE, date);
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    let mut head = Vec::with_capacity(512);
    let reason = parts.status.canonical_reason().unwrap_or_default();
    // Writing into memory does not fail.
    let _ = write!(head, "HTTP/1.1 {} {reason}\r\n", parts.status.as_str());
    for (name, value) in &headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// One chunk, in one piece, so that it leaves in one packet.
fn chunk(bytes: &Bytes) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(bytes.len() + 12);
    let _ = write!(chunk, "{:x}\r\n", bytes.len());
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn live(pieces: &[&'static str]) -> Response<Body> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, io::Error>(*piece)).collect();
        let mut answer = Response::new(Body::from_stream(futures::stream::iter(pieces)));
        answer.headers_mut().append("x-one", HeaderValue::from_static("1"));
        answer.headers_mut().append("x-one", HeaderValue::from_static("2"));
        answer
    }

    #[tokio::test]
    async fn an_answer_is_written_in_chunks_with_all_its_fields_and_an_end() {
        let (mut client, server) = duplex(4096);
        write(server, live(&["first", "", "the second one"])).await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "5\r\nfirst\r\ne\r\nthe second one\r\n0\r\n\r\n");
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
        let fields: Vec<&str> = lines.filter(|line| !line.starts_with("date: ")).collect();
        assert_eq!(fields, ["x-one: 1", "x-one: 2", "connection: close", "transfer-encoding: chunked"]);
    }

    fn endless() -> Response<Body> {
        Response::new(Body::from_stream(futures::stream::pending::<io::Result<Bytes>>()))
    }

    #[tokio::test]
    async fn a_client_that_goes_on_sending_is_left() {
        let (mut client, server) = duplex(4096);
        let sending = async { while client.write_all(&[b'x'; 1_000]).await.is_ok() {} };
        let (written, ()) = tokio::join!(write(server, endless()), sending);
        written.unwrap();
    }

    #[tokio::test]
    async fn it_ends_with_its_client_whatever_that_sent_before() {
        let (mut client, server) = duplex(4096);
        let leaving = async move {
            client.write_all(&[b'x'; 1_000]).await.unwrap();
            drop(client);
        };
        // It may have gone before the head was out.
        let (_, ()) = tokio::join!(write(server, endless()), leaving);
    }
}
