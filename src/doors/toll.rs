//! What every request at a door is counted on, opened before the door sees it, settled after, and told to the
//! client in the `RateLimit` fields (draft-ietf-httpapi-ratelimit-headers).

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::Request;
use axum::response::Response;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

use super::accept::Peer;
use super::reception::Reception;
use super::refusal::{Refusal, at_mcp};
use crate::gate::{Standing, Tally, network};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Has a request answered by its door, with room for its body and a [`Tally`]. What no credential was counted
/// for by the time it is answered counts on the client's network, refused or not, and is refused when that has
/// had its share.
pub async fn toll<F: Future<Output = Response>>(
    reception: &Reception,
    request: Request,
    door: impl FnOnce(Request, Tally) -> F,
) -> Response {
    let tally = Tally::new(reception.limits.clone(), network(reception, &request));
    let at_mcp = at_mcp(request.uri().path());
    let (request, _taken) = reception.room.weigh(request);
    let mut answer = door(request, tally.clone()).await;
    if let Err(error) = tally.settle() {
        answer = Refusal::from(&error).answer(at_mcp, None);
    }
    if let Some(standing) = tally.standing() {
        tell(answer.headers_mut(), &standing);
    }
    answer
}

fn network(reception: &Reception, request: &Request) -> ipnet::IpNet {
    let peer = request.extensions().get::<Peer>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer.ip());
    // Lossy, not left out: a value that is skipped would let the walk reach what the client wrote.
    let values = request.headers().get_all("x-forwarded-for").iter();
    let forwarded: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let forwarded = forwarded.iter().map(|value| &**value);
    network::network_of(network::client_ip(peer, forwarded, &reception.trusted_proxies))
}

fn tell(headers: &mut HeaderMap, standing: &Standing) {
    let Standing { policy, quota, window, remaining, reset } = standing;
    let fields = [
        (POLICY, format!("\"{policy}\";q={quota};w={window}")),
        (LEFT, format!("\"{policy}\";r={remaining};t={reset}")),
    ];
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}
