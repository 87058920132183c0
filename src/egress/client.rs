//! One request out, at most: look up, judge, connect to what was judged, send, read little.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::Host;

use super::address::is_public;
use super::resolver::Resolver;
use super::target::{Refusal, Target};

/// Until a connection stands, whatever number of addresses the host has.
const CONNECT: Duration = Duration::from_secs(3);
/// From the look-up to the last byte that is read.
const TOTAL: Duration = Duration::from_secs(15);
/// Most bytes of an answer's head, and of its body.
const MOST: usize = 64 * 1024;
/// Most addresses of a host that are tried.
const ADDRESSES: usize = 8;

/// Sends requests out. One per pod; cheap to clone.
#[derive(Clone)]
pub struct Egress(Arc<Inner>);

struct Inner {
    tls: TlsConnector,
    resolver: Resolver,
    loopback: bool,
}

/// Whose certificates are believed.
#[derive(Clone)]
pub struct Roots(RootCertStore);

/// A request. It carries no credential but what `headers` says.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// Beside those that every request has.
    pub headers: HeaderMap,
    /// JSON, if it is not empty.
    pub body: Bytes,
    /// Whether the answer's body is read; else its status is all that is waited for.
    pub reads_body: bool,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, whatever it is. Redirects are not followed.
    pub status: u16,
    /// The body, at most 64 KiB; empty when it was not asked for.
    pub body: Bytes,
}

/// Why nothing came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The host is not to be called.
    Refused(Refusal),
    /// No connection: nobody there, or no certificate for this host that is believed.
    Unreachable,
    /// It took too long.
    TimedOut,
    /// The answer was none of HTTP, or broke off.
    Broken,
    /// The body is over 64 KiB.
    TooLarge,
}

impl Roots {
    /// The system's roots, and those of a PEM file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no certificate.
    pub fn load(extra: Option<&Path>) -> io::Result<Roots> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        if let Some(file) = extra {
            let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "it holds no PEM certificate");
            let text = std::fs::read(file)?;
            let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
            let certificates = certificates.map_err(wrong)?;
            if roots.add_parsable_certificates(certificates).0 == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it holds no certificate"));
            }
        }
        Ok(Roots(roots))
    }

    /// Whether nobody is believed at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Egress {
    /// With `loopback` requests may go to this machine, too.
    #[expect(clippy::expect_used, reason = "ring speaks the versions of TLS that rustls thinks safe")]
    pub fn new(roots: Roots, resolver: Resolver, loopback: bool) -> Egress {
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let config = versions.expect("safe versions").with_root_certificates(roots.0).with_no_client_auth();
        Egress(Arc::new(Inner { tls: TlsConnector::from(Arc::new(config)), resolver, loopback }))
    }

    /// Judges a URL by its text.
    ///
    /// # Errors
    /// The reason not to call it.
    pub fn parse(&self, url: &str) -> Result<Target, Refusal> {
        Target::parse(url, self.0.loopback)
    }

    /// Judges what the target's name stands for now.
    ///
    /// # Errors
    /// [`Refusal::NotPublic`], also when it stands for nothing: whether a name is known inside is nobody's business.
    pub async fn look_up(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        let found = match &target.host {
            Host::Domain(name) => {
                let looking = self.0.resolver.look_up(name.clone());
                let found = timeout(CONNECT, looking).await.map_err(|_| Refusal::NotPublic)?;
                found.map_err(|_| Refusal::NotPublic)?
            }
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
        };
        // One that is inside spoils the others: a name that stands for both is made to be called inside.
        let may_be_called = |ip: &IpAddr| is_public(*ip) || (self.0.loopback && ip.is_loopback());
        if found.is_empty() || !found.iter().all(may_be_called) {
            return Err(Refusal::NotPublic);
        }
        Ok(found.into_iter().take(ADDRESSES).map(|ip| SocketAddr::new(ip, target.port)).collect())
    }

    /// Sends one request, on a connection of its own.
    ///
    /// # Errors
    /// Whatever keeps an answer away.
    pub async fn send(&self, target: &Target, outgoing: Outgoing) -> Result<Answer, Failure> {
        timeout(TOTAL, self.exchange(target, outgoing)).await.unwrap_or(Err(Failure::TimedOut))
    }

    async fn exchange(&self, target: &Target, outgoing: Outgoing) -> Result<Answer, Failure> {
        let addresses = self.look_up(target).await.map_err(Failure::Refused)?;
        let stream = self.connect(&addresses).await?;
        let name = match &target.host {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                ServerName::try_from(name.to_owned()).map_err(|_| Failure::Unreachable)?
            }
            Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        let stream = self.0.tls.connect(name, stream).await.map_err(|_| Failure::Unreachable)?;
        let reads_body = outgoing.reads_body;
        talk(stream, request(target, outgoing)?, reads_body).await
    }

    /// To the first address that answers, of those that were judged and of no others.
    async fn connect(&self, addresses: &[SocketAddr]) -> Result<TcpStream, Failure> {
        let trying = async {
            for address in addresses {
                // A look-up and a connection are two times: what is connected to is judged, not what was asked for.
                let is_judged = is_public(address.ip()) || (self.0.loopback && address.ip().is_loopback());
                if !is_judged {
                    return Err(Failure::Refused(Refusal::NotPublic));
                }
                if let Ok(stream) = TcpStream::connect(address).await {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
            }
            Err(Failure::Unreachable)
        };
        timeout(CONNECT, trying).await.unwrap_or(Err(Failure::Unreachable))
    }
}

/// The request in the form that goes to the host itself, never to a proxy.
fn request(target: &Target, outgoing: Outgoing) -> Result<Request<Full<Bytes>>, Failure> {
    let url = &target.url;
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let host = HeaderValue::from_str(host).map_err(|_| Failure::Refused(Refusal::NotAUrl))?;
    let has_body = !outgoing.body.is_empty();
    let request = Request::builder().method(outgoing.method).uri(path);
    let mut request =
        request.body(Full::new(outgoing.body)).map_err(|_| Failure::Refused(Refusal::NotAUrl))?;
    let headers = request.headers_mut();
    headers.extend(outgoing.headers);
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("waypost/", env!("CARGO_PKG_VERSION"))));
    if has_body {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Ok(request)
}

#[expect(clippy::disallowed_methods, reason = "the one HTTP client of this service")]
async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
    reads_body: bool,
) -> Result<Answer, Failure> {
    let http = http1::Builder::new().max_buf_size(MOST).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = http.map_err(|_| Failure::Broken)?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|_| Failure::Broken)?;
        read(response, reads_body).await
    };
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // What it has read before it ended is still to be had.
        _ = connection => exchange.await,
    }
}

async fn read(response: Response<Incoming>, reads_body: bool) -> Result<Answer, Failure> {
    let status = response.status().as_u16();
    if !reads_body {
        return Ok(Answer { status, body: Bytes::new() });
    }
    match Limited::new(response.into_body(), MOST).collect().await {
        Ok(body) => Ok(Answer { status, body: body.to_bytes() }),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::TooLarge),
        Err(_) => Err(Failure::Broken),
    }
}
