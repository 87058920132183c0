//! The proxy: Caddy on loopback, one request to each pod in turn, ended with the test.

use std::net::SocketAddr;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{fetched, serves};

/// A running proxy.
pub struct Caddy {
    pub address: SocketAddr,
    _child: Child,
    _folder: TempDir,
}

impl Caddy {
    /// Starts it before pods at these URLs, and waits until it serves.
    pub async fn before(address: SocketAddr, pods: &[String]) -> Caddy {
        let folder = TempDir::new().unwrap();
        let child = Command::new(fetched("CADDY"))
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
        serves(&caddy.url()).await;
        caddy
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
