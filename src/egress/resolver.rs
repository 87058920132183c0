//! How names become addresses: the system's way, or a stub's.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

/// A look-up under way.
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks names up.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn(String) -> Resolving + Send + Sync>);

impl fmt::Debug for Resolver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Resolver")
    }
}

impl Resolver {
    /// One of your own, for pods inside another process.
    pub fn new(look_up: impl Fn(String) -> Resolving + Send + Sync + 'static) -> Resolver {
        Resolver(Arc::new(look_up))
    }

    /// The system's.
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for addresses")]
    pub fn system() -> Resolver {
        Resolver::new(|host| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((host, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }

    pub(super) async fn look_up(&self, host: String) -> io::Result<Vec<IpAddr>> {
        (self.0)(host).await
    }
}
