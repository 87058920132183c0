//! The HTTP front over real sockets: what it bounds, refuses and answers before any door.

mod checks;
mod connections;
mod ops;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Extension;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use tokio::net::{TcpListener, TcpStream};
use waypost::config::Config;
use waypost::doors::accept::{Drain, Limits, Live, Peer, serve};
use waypost::doors::front::{Sites, front, read_body};
use waypost::doors::probes::{Check, probes};

use wire::{Answer, Client};

const PUBLIC_URL: &str = "http://inbox.example:8080";

/// A served router; everything ends when it is dropped.
struct Pod {
    address: SocketAddr,
    drain: Drain,
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.drain.closing.cancel();
        self.drain.cut.cancel();
    }
}

impl Pod {
    async fn start(limits: Limits) -> Self {
        Self::start_with(limits, &Config::default(), None).await
    }

    async fn start_with(limits: Limits, config: &Config, fault: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let drain = Drain::default();
        let router = front(routes(fault), Sites::new(config, PUBLIC_URL));
        drain.tracker.spawn(serve(listener, router, limits, drain.clone()));
        Self { address, drain }
    }

    async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap() }
    }

    /// One request on a connection of its own.
    async fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect().await;
        client.send(request).await;
        client.answer().await
    }
}

fn routes(fault: Option<&'static str>) -> Router {
    let checks = Arc::new(move || -> futures::future::BoxFuture<'static, Vec<Check>> {
        let schema = Check { name: "schema", fault: None };
        Box::pin(async move { vec![schema, Check { name: "pool", fault }] })
    });
    Router::new()
        .route("/hello/{name}", get(|| async { "hello" }))
        .route("/peer", get(|Extension(Peer(peer)): Extension<Peer>| async move { peer.to_string() }))
        .route("/panic", get(panics))
        .route("/flood", get(flood))
        .route("/live-flood", get(async || live(flood().await)))
        .route("/live", get(async || live(Body::from("alive"))))
        .route("/large", get(async || vec![b'x'; LARGE]))
        .route("/body", post(take_body))
        .route("/o/acme/mcp", post(take_body))
        .merge(probes(checks))
}

async fn panics() -> &'static str {
    panic!("a secret in a panic")
}

/// An answer that hyper buffers whole.
const LARGE: usize = 48 * 1024;

/// An answer that is written to the socket itself.
fn live(body: Body) -> Response {
    let mut answer = Response::new(body);
    answer.extensions_mut().insert(Live);
    answer
}

async fn flood() -> Body {
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    Body::from_stream(futures::stream::repeat_with(move || Ok::<_, std::io::Error>(piece.clone())))
}

async fn take_body(request: axum::extract::Request) -> Response {
    match read_body(request.into_body(), 1024, Duration::from_millis(100)).await {
        Ok(body) => body.len().to_string().into_response(),
        Err(refused) => refused.refusal().answer(false, None),
    }
}
