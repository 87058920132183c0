//! The accept loop: bounds how many connections there are and how long each may do nothing.
//!
//! A peer has [`Limits::head`] from the first byte of a request to the end of its head, may be idle for
//! [`Limits::idle`] before and between requests, and is dropped when it takes none of an answer for
//! [`Limits::write`]. Above [`Limits::connections`] it is answered 503, never left hanging.

mod head;
mod live;
mod socket;
mod unread;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::refusal::Refusal;
use crate::telemetry::HTTP_CONNECTIONS;
use head::{HEAD_LIMIT, Head, HeadTimer, count_fields};
use live::Handover;
pub use live::Live;
use socket::Socket;

/// hyper's buffers of a connection grow to this and no further; a head must fit in as well.
const BUFFER_LIMIT: usize = 64 * 1024;
/// Connections above the cap that may wait for their 503 at once; more are closed unanswered.
const REFUSALS_AT_ONCE: usize = 256;

/// How many connections, and how long each may do nothing.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections served at once.
    pub connections: usize,
    /// From the first byte of a request to the end of its head.
    pub head: Duration,
    /// Before the first byte of a request.
    pub idle: Duration,
    /// With bytes to write and a peer that takes none.
    pub write: Duration,
    /// After the last answer, for what the peer was still sending.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            write: Duration::from_secs(10),
            linger: Duration::from_secs(1),
        }
    }
}

/// How serving ends.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    /// Cancelled: accept no more, and close each connection after the answer under way.
    pub closing: CancellationToken,
    /// Cancelled: drop what is left.
    pub cut: CancellationToken,
    /// Owns every connection's task: close it and wait for it to know that all are gone.
    pub tracker: TaskTracker,
}

/// The peer's address, an extension of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// An extension of a request in chunks that had a Content-Length too, or may have had: hyper drops the length
/// before anyone else sees it, and of a request sent before the last answer was out, the head was not seen here.
#[derive(Debug, Clone, Copy)]
pub struct AmbiguousLength;

/// Serves `router` on `listener` until [`Drain::closing`]; connections live on in [`Drain::tracker`].
pub async fn serve(listener: TcpListener, router: Router, limits: Limits, drain: Drain) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let refusals = Arc::new(Semaphore::new(REFUSALS_AT_ONCE));
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = drain.closing.cancelled() => return,
        };
        match accepted {
            Ok((socket, peer)) => {
                failing = false;
                let _ = socket.set_nodelay(true);
                if let Ok(permit) = room.clone().try_acquire_owned() {
                    drain.tracker.spawn(connection(
                        socket,
                        peer,
                        router.clone(),
                        limits,
                        drain.clone(),
                        permit,
                    ));
                } else if let Ok(permit) = refusals.clone().try_acquire_owned() {
                    let refusing = refuse(socket, limits, permit);
                    drain.tracker.spawn(drain.cut.clone().run_until_cancelled_owned(refusing));
                }
            }
            Err(error) if of_one_connection(&error) => {}
            Err(error) => {
                if !failing {
                    tracing::error!(%error, "no connection can be accepted; is the limit of open files reached?");
                }
                failing = true;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn connection(
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    drain: Drain,
    _permit: OwnedSemaphorePermit,
) {
    let _counted = Counted::new();
    // Boxed: a live answer outlives what served it by far.
    let served = Box::pin(serve_requests(socket, peer, router, limits, &drain)).await;
    if let Some((socket, answer)) = served {
        // A broken connection is the peer's affair: nothing to act on.
        let _ = drain.cut.run_until_cancelled(live::write(socket, answer)).await;
    }
}

/// Serves a connection until it ends, or until there is an answer to it that goes on for long.
async fn serve_requests(
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    drain: &Drain,
) -> Option<(Socket, Response<Body>)> {
    let head = Arc::new(Head::default());
    let io = TokioIo::new(Socket::new(socket, head.clone(), limits.write, limits.linger));
    let timer = HeadTimer { head: head.clone(), idle: limits.idle, whole: limits.head };
    let (handover, mut handed_over) = Handover::new();
    let service = hyper::service::service_fn(move |request| {
        answer(request, peer, head.clone(), router.clone(), handover.clone())
    });
    let mut builder = http1::Builder::new();
    // The timeout given here only arms the timer, which has its own two lengths.
    builder
        .timer(timer)
        .header_read_timeout(limits.idle)
        .max_buf_size(BUFFER_LIMIT)
        .max_header_size(HEAD_LIMIT);
    let mut serving = builder.serve_connection(io, service);
    let mut closing = false;
    loop {
        tokio::select! {
            // A broken connection is the peer's affair: nothing to act on.
            _ = &mut serving => return None,
            Ok(answer) = &mut handed_over => return Some((serving.into_parts().io.into_inner(), answer)),
            () = drain.closing.cancelled(), if !closing => {
                closing = true;
                std::pin::Pin::new(&mut serving).graceful_shutdown();
            }
            () = drain.cut.cancelled() => return None,
        }
    }
}

fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    head: Arc<Head>,
    router: Router,
    handover: Handover,
) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
    let bytes = head.complete();
    let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let ambiguous = chunked && count_fields(&bytes) != Some(request.headers().len());
    let (parts, body) = request.into_parts();
    let (body, ended) = unread::watch(body);
    let mut request = Request::from_parts(parts, body);
    request.extensions_mut().insert(Peer(peer));
    if ambiguous {
        request.extensions_mut().insert(AmbiguousLength);
    }
    let can_follow = live::can_follow(&request);
    async move {
        let mut answer = router.oneshot(request).await?;
        ended.announce(&mut answer);
        // Of an answer before it, what the peer has not taken yet lies in hyper and would go with it.
        match can_follow && !head.is_stalled() {
            true => Ok(handover.unless_live(answer).await),
            false => Ok(answer),
        }
    }
}

/// Nothing of the request is read, so the answer is the same at every path, and to pages of every origin.
async fn refuse(socket: TcpStream, limits: Limits, _permit: OwnedSemaphorePermit) {
    let message = "Too many connections are open. Try again.";
    let refusal =
        Refusal::retry_after(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", message, 1);
    let body = refusal.problem().to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         access-control-allow-origin: *\r\naccess-control-expose-headers: retry-after\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    );
    let mut socket = Socket::new(socket, Arc::default(), limits.write, limits.linger);
    // Whoever is gone already needs no answer.
    let _ = socket.write_all(answer.as_bytes()).await;
    let _ = socket.shutdown().await;
}

/// One open connection in the gauge, for as long as this lives.
struct Counted;

impl Counted {
    fn new() -> Self {
        metrics::gauge!(HTTP_CONNECTIONS).increment(1);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        metrics::gauge!(HTTP_CONNECTIONS).decrement(1);
    }
}
