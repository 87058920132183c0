//! The private cluster: a PostgreSQL of the pod's own, when no `DATABASE_URL` is given.
//!
//! Made once in the data directory, started and stopped with the pod, reachable only through a socket that only its
//! user can enter, durable (`fsync` is never off). A pod killed at any moment leaves nothing that the next start does
//! not mend. One pod holds a data directory; others share its cluster by [`PrivateCluster::url`].

mod folder;
mod initdb;
mod owner;
mod postmaster;
mod prepare;
mod refusal;
mod secret;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{Connection as _, Executor as _};

use self::folder::Folder;
use self::postmaster::Postmaster;
use self::prepare::Prepared;
pub use self::refusal::Refusal;
pub use self::secret::{existing_secret_key, secret_key};

/// Recovery after a power cut may take a while; beyond this something else is wrong.
const START_LIMIT: Duration = Duration::from_secs(300);
/// How long a fast shutdown may take before it is made an immediate one, which the next start recovers from.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// Backends of a server that was killed need a moment to notice.
const ORPHANED_BACKENDS_LIMIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where the private cluster lives and what runs it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The pod's data directory; made when it is not there.
    pub data_dir: PathBuf,
    /// The folder of the server programs (`WAYPOST_PG_BIN`), when one was given.
    pub programs: Option<PathBuf>,
    /// The value of `PATH`, searched for the programs.
    pub search_path: Option<OsString>,
}

/// A running private cluster. Dropping it asks the server to stop without waiting; [`PrivateCluster::stop`] waits.
#[derive(Debug)]
pub struct PrivateCluster {
    postmaster: Postmaster,
    folder: Folder,
    /// Where this run's part of the log begins.
    log_from: u64,
    /// Held for as long as the cluster is ours.
    _lock: Arc<File>,
}

impl PrivateCluster {
    /// Makes the cluster when there is none, starts it, and waits until its database `waypost` answers.
    /// A server that an earlier pod left running is stopped first.
    ///
    /// # Errors
    /// [`Refusal`], as one sentence: another pod holds the data directory, the programs are missing or of another
    /// version, a folder cannot be entered, the server does not come up.
    pub async fn start(settings: &Settings) -> Result<Self, Refusal> {
        let settings = settings.clone();
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(&settings)).await;
        // The closure does not panic; were the runtime going down, nobody would read this.
        let prepared =
            prepared.map_err(|error| Refusal::io("prepare", "the private cluster")(error.into()))??;
        let mut cluster = Self::launch(prepared).await?;
        cluster.ensure_database().await?;
        Ok(cluster)
    }

    /// How to connect: through the socket, as `postgres`, to the database `waypost`.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(self.folder.run())
            .port(5432)
            .username("postgres")
            .database("waypost")
            .ssl_mode(PgSslMode::Disable)
    }

    /// The `DATABASE_URL` with which other processes of this machine, as this user or as root, share the cluster.
    #[must_use]
    pub fn url(&self) -> String {
        self.folder.url()
    }

    /// Resolves when the server ends by itself, with a sentence that tells why. Cancel safe.
    pub async fn died(&mut self) -> String {
        let status = self.postmaster.ended().await;
        let (reason, log) = (self.last_words(), self.folder.log());
        format!("the private PostgreSQL ended by itself ({status}): {reason} (its log is {})", log.display())
    }

    /// Stops the server (open transactions are rolled back, what was committed stays) and waits for its end.
    pub async fn stop(mut self) {
        self.postmaster.signal(Signal::SIGINT);
        if tokio::time::timeout(STOP_LIMIT, self.postmaster.ended()).await.is_err() {
            tracing::warn!(
                "the private PostgreSQL is slow to stop; stopping it at once, the next start recovers"
            );
            self.postmaster.signal(Signal::SIGQUIT);
            self.postmaster.ended().await;
        }
    }

    /// Starts the server, again when backends of a killed one still hold its memory.
    async fn launch(prepared: Prepared) -> Result<Self, Refusal> {
        let Prepared { folder, programs, owner, lock } = prepared;
        let (major, bin) = (programs.major, programs.bin.display());
        tracing::info!(major, %bin, data_dir = %folder.path().display(), "starting the private PostgreSQL");
        let lock = Arc::new(lock);
        let mut patience = ORPHANED_BACKENDS_LIMIT;
        loop {
            let log = folder.open_log()?;
            let log_from = log.metadata().map_or(0, |meta| meta.len());
            let postmaster = Postmaster::start(&folder, &programs, &owner, log)
                .map_err(Refusal::io("run the server programs in", &programs.bin))?;
            let mut cluster = Self { postmaster, folder: folder.clone(), log_from, _lock: Arc::clone(&lock) };
            match cluster.ready().await {
                Ok(()) => return Ok(cluster),
                Err(Refusal::StartFailed { complaint, .. })
                    if complaint.contains("pre-existing shared memory block") && !patience.is_zero() =>
                {
                    patience = patience.saturating_sub(LOOK_AGAIN * 20);
                    tokio::time::sleep(LOOK_AGAIN * 20).await;
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// Waits until the server takes connections.
    async fn ready(&mut self) -> Result<(), Refusal> {
        let pgdata = self.folder.pgdata();
        let wait = async {
            while !postmaster::says_ready(&pgdata, Some(self.postmaster.pid)) {
                if self.postmaster.end().is_some() {
                    return Err(self.start_failed(self.last_words()));
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Ok(())
        };
        match tokio::time::timeout(START_LIMIT, wait).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.start_failed(format!("it is not ready after {} s", START_LIMIT.as_secs()))),
        }
    }

    /// Creates the database `waypost` unless a start before has done so.
    async fn ensure_database(&mut self) -> Result<(), Refusal> {
        let failed = |error: sqlx::Error| self.start_failed(error.to_string());
        let options = self.connect_options().database("postgres");
        let mut connection = PgConnection::connect_with(&options).await.map_err(failed)?;
        let exists = "-- private.database_exists\nselect 1 from pg_database where datname = 'waypost'";
        if connection.fetch_optional(exists).await.map_err(failed)?.is_none() {
            let create = "-- private.create_database\ncreate database waypost";
            connection.execute(sqlx::raw_sql(create)).await.map_err(failed)?;
        }
        connection.close().await.map_err(failed)
    }

    /// What this run's part of the log says went wrong.
    fn last_words(&self) -> String {
        refusal::complaint(&log_since(&self.folder.log(), self.log_from))
    }

    fn start_failed(&self, complaint: String) -> Refusal {
        Refusal::StartFailed { complaint, log: self.folder.log() }
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        self.postmaster.signal(Signal::SIGINT);
    }
}

/// The URL of the cluster now running on this data directory, if one takes connections there (operator chores join
/// it). Blocks for no longer than a local connect.
#[must_use]
pub fn running(data_dir: &Path) -> Option<String> {
    let folder = Folder::existing(data_dir)?;
    let ready = postmaster::says_ready(&folder.pgdata(), None);
    (ready && UnixStream::connect(folder.socket()).is_ok()).then(|| folder.url())
}

/// The end of what the log says since this run began; empty when it cannot be read.
fn log_since(log: &Path, from: u64) -> String {
    let mut bytes = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(end.saturating_sub(64 * 1024))))?;
        file.read_to_end(&mut bytes)
    });
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
