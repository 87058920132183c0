//! The proxy: Caddy on loopback, one request to each pod in turn, ended with the test.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

/// A running proxy.
pub struct Caddy {
    pub address: SocketAddr,
    _child: Child,
    _folder: TempDir,
}

/// An address that nobody listens at. Pods must know the proxy's before it starts.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Caddy {
    /// Starts it before pods at these URLs, and waits until it serves.
    pub async fn before(address: SocketAddr, pods: &[String]) -> Caddy {
        let folder = TempDir::new().unwrap();
        let child = Command::new(program())
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/Caddyfile"))
            .env_clear()
            .env("PORT", address.port().to_string())
            .env("PODS", pods.join(" "))
            .env("HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(std::fs::File::create(folder.path().join("log")).unwrap()))
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let caddy = Caddy { address, _child: child, _folder: folder };
        let serving = async {
            while !matches!(reqwest::get(format!("{}/readyz", caddy.url())).await, Ok(answer) if answer.status() == 200)
            {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), serving).await.expect("Caddy does not serve");
        caddy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[expect(clippy::disallowed_methods, reason = "where the proxy is, is told by whoever runs these tests")]
fn program() -> PathBuf {
    std::env::var_os("CADDY").expect("CADDY must name the proxy's program: run ./dev test proxy").into()
}
