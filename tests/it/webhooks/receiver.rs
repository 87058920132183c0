//! An endpoint of a test's own: HTTPS on this machine with a certificate of the tests' own authority, and any manners.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How an endpoint behaves, path by path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// Echoes challenges and takes notices.
    Fine,
    /// Answers everything with this status.
    Status(u16),
    /// Takes notices after so many milliseconds.
    Slow(u64),
    /// Answers everything with this status, after so many milliseconds.
    SlowStatus(u64, u16),
    /// Reads and says nothing.
    Hangs,
    /// Closes the connection without an answer.
    HangsUp,
    /// Sends the client elsewhere on this machine.
    Redirects,
    /// Answers the challenge with more than may be read.
    Huge,
    /// Promises a body and sends a byte of it a second.
    Drips,
    /// Answers something that is no HTTP.
    Babbles,
    /// Quotes the whole request, as a page for what is not found may do.
    Quotes,
}

/// A notice as it came.
#[derive(Debug, Clone)]
pub struct Notice {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
    pub at: Instant,
}

impl Notice {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The ids of the messages it tells of.
    pub fn ids(&self) -> Vec<String> {
        let envelopes = self.json()["envelopes"].as_array().unwrap().clone();
        envelopes.iter().map(|envelope| envelope["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// A running endpoint; it ends when this is dropped.
pub struct Receiver {
    pub address: SocketAddr,
    heard: Arc<Heard>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Heard {
    manners: Mutex<HashMap<String, Manners>>,
    notices: Mutex<Vec<Notice>>,
    /// Requests of any kind, answered or not.
    requests: Mutex<Vec<String>>,
}

/// The tests' authority: the file of its certificate, and what endpoints show.
static CERTIFICATES: LazyLock<(tempfile::TempDir, TlsAcceptor)> = LazyLock::new(|| {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let names = ["localhost", "127.0.0.1", "127.0.0.77", "*.example.com", "example.com"].map(str::to_owned);
    let own_key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(names).unwrap().signed_by(&own_key, &issuer).unwrap();
    let private = PrivateKeyDer::Pkcs8(own_key.serialize_der().into());
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![own.der().clone()], private).unwrap();
    (folder, TlsAcceptor::from(Arc::new(config)))
});

/// The file with the certificate of the tests' authority, for `WAYPOST_EGRESS_CA`.
pub fn authority() -> PathBuf {
    CERTIFICATES.0.path().join("ca.pem")
}

impl Receiver {
    /// At a free port of this machine.
    pub async fn open() -> Receiver {
        Receiver::at("127.0.0.1:0".parse().unwrap()).await
    }

    /// At this address.
    pub async fn at(address: SocketAddr) -> Receiver {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Heard::default());
        let mut tasks = JoinSet::new();
        let hearing = heard.clone();
        tasks.spawn(async move {
            let mut calls = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                calls.spawn(answer(stream, hearing.clone()));
                while calls.try_join_next().is_some() {}
            }
        });
        Receiver { address, heard, _tasks: tasks }
    }

    /// The URL of one of its paths.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    pub fn behave(&self, path: &str, manners: Manners) {
        self.heard.manners.lock().unwrap().insert(path.to_owned(), manners);
    }

    /// The notices that came to a path, answered well or not.
    pub fn notices(&self, path: &str) -> Vec<Notice> {
        self.all().into_iter().filter(|notice| notice.path == path).collect()
    }

    /// All notices, whatever their path.
    pub fn all(&self) -> Vec<Notice> {
        self.heard.notices.lock().unwrap().clone()
    }

    /// Every request, with its query.
    pub fn requests(&self) -> Vec<String> {
        self.heard.requests.lock().unwrap().clone()
    }
}

async fn answer(stream: TcpStream, heard: Arc<Heard>) {
    let Ok(Ok(mut stream)) = timeout(Duration::from_secs(5), CERTIFICATES.1.accept(stream)).await else {
        return;
    };
    let Some((head, body)) = read(&mut stream).await else { return };
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let (method, target) =
        (first.split(' ').next().unwrap_or_default(), first.split(' ').nth(1).unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    heard.requests.lock().unwrap().push(format!("{method} {target}"));
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers = pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    if method == "POST" {
        let notice = Notice { path: path.to_owned(), headers, body, at: Instant::now() };
        heard.notices.lock().unwrap().push(notice);
    }
    let manners = heard.manners.lock().unwrap().get(path).copied().unwrap_or(Manners::Fine);
    let challenge = query.split('&').find_map(|pair| pair.strip_prefix("challenge=")).unwrap_or_default();
    behave(&mut stream, manners, challenge, &head).await;
    let _ = stream.shutdown().await;
}

async fn behave(stream: &mut TlsStream<TcpStream>, manners: Manners, challenge: &str, head: &str) {
    let page = |status: u16, text: &str| {
        format!("HTTP/1.1 {status} Such\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len())
    };
    let said = match manners {
        Manners::Fine => page(200, challenge),
        Manners::Slow(pause) => {
            sleep(Duration::from_millis(pause)).await;
            page(200, challenge)
        }
        Manners::SlowStatus(pause, status) => {
            sleep(Duration::from_millis(pause)).await;
            page(status, challenge)
        }
        Manners::Status(status) => page(status, challenge),
        Manners::Redirects => {
            "HTTP/1.1 307 Away\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
        Manners::Huge => page(200, &format!("{challenge}{}", " ".repeat(1 << 20))),
        Manners::Babbles => "SSH-2.0-OpenSSH_9.2\r\n".to_owned(),
        Manners::Quotes => page(200, head),
        Manners::HangsUp => return,
        Manners::Hangs => return sleep(Duration::from_secs(60)).await,
        Manners::Drips => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n").await;
            for _ in 0..90 {
                let _ = stream.write_all(b" ").await;
                let _ = stream.flush().await;
                sleep(Duration::from_secs(1)).await;
            }
            return;
        }
    };
    let _ = stream.write_all(said.as_bytes()).await;
}

/// A request's head and body.
async fn read(stream: &mut TlsStream<TcpStream>) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            return Some((head.to_owned(), body.to_owned()));
        }
    }
}
