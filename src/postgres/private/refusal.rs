//! Why the private cluster cannot be had, in sentences that say what to do.

use std::io;
use std::path::PathBuf;

use crate::postgres::programs::{Missing, NEWEST, OLDEST};

/// Why the private cluster did not start. Each displays as one plain sentence that says what to do next;
/// every one of them means exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There are no server programs to run it with.
    #[error(transparent)]
    Programs(#[from] Missing),
    /// Another pod holds the data directory; its cluster can be shared.
    #[error(
        "the data directory {} is in use by another pod{}: to share its database, start this one with \
         DATABASE_URL='{url}' and ports of its own (WAYPOST_LISTEN, WAYPOST_OPS_LISTEN), or choose another WAYPOST_DATA_DIR",
        data_dir.display(), pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    InUse {
        /// The folder both wanted.
        data_dir: PathBuf,
        /// The process that holds it, when it left its number.
        pid: Option<i32>,
        /// The `DATABASE_URL` with which the running cluster can be shared.
        url: String,
    },
    /// The cluster's version is older or newer than Waypost supports.
    #[error(
        "the private cluster in {} was made by PostgreSQL {version}, and Waypost runs {OLDEST} to {NEWEST}: bring it \
         over with pg_upgrade or pg_dump, or choose another WAYPOST_DATA_DIR",
        pgdata.display()
    )]
    UnsupportedCluster {
        /// The cluster's folder.
        pgdata: PathBuf,
        /// What its `PG_VERSION` says.
        version: String,
    },
    /// The cluster's folder holds something, but not a cluster.
    #[error(
        "{} is not empty and holds no PostgreSQL cluster (no readable PG_VERSION): move it away, or choose another \
         WAYPOST_DATA_DIR",
        .0.display()
    )]
    NotACluster(PathBuf),
    /// The cluster belongs to another user, and this process may not become that user.
    #[error(
        "{} belongs to user id {uid}: start Waypost as that user, or choose another WAYPOST_DATA_DIR",
        path.display()
    )]
    OtherOwner {
        /// The folder in question.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Started as root on a machine with no user to run Postgres as.
    #[error(
        "PostgreSQL does not run as root and this machine has neither a user `postgres` nor `nobody`: create one, \
         start Waypost as an ordinary user, or set DATABASE_URL"
    )]
    NoUser,
    /// The unprivileged user cannot pass a folder on the way to what it needs.
    #[error(
        "as root, PostgreSQL runs as user `{user}`, who may not enter {} on the way to {}: {remedy}",
        closed.display(), wanted.display()
    )]
    Closed {
        /// Who Postgres would run as.
        user: String,
        /// The folder that lacks permission.
        closed: PathBuf,
        /// What lies beneath it.
        wanted: PathBuf,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file operation failed.
    #[error("cannot {what} {}: {source}; mend that, or choose another WAYPOST_DATA_DIR", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        source: io::Error,
    },
    /// `initdb` failed.
    #[error("initdb could not make the private cluster in {}: {complaint}", data_dir.display())]
    InitFailed {
        /// Where.
        data_dir: PathBuf,
        /// Its own words.
        complaint: String,
    },
    /// The server did not come up.
    #[error("the private PostgreSQL did not start: {complaint} (its log is {})", log.display())]
    StartFailed {
        /// Its own words.
        complaint: String,
        /// Where to read more.
        log: PathBuf,
    },
    /// A server of an earlier run is still there and does not end.
    #[error(
        "a PostgreSQL server of an earlier run (process {pid}) still works on {} and does not stop: end it, then start \
         again",
        pgdata.display()
    )]
    Leftover {
        /// Its process number.
        pid: i32,
        /// The cluster it holds.
        pgdata: PathBuf,
    },
}

impl Refusal {
    /// Turns a file error into a refusal that names what was tried: `.map_err(Refusal::io("create", path))`.
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// The line of a program's output that says best what went wrong: the last one that calls itself an error, else the
/// last one at all.
pub(super) fn complaint(output: &str) -> String {
    let lines = || output.lines().rev().filter(|line| !line.trim().is_empty());
    let is_error = |line: &&str| ["FATAL:", "PANIC:", "error:"].iter().any(|word| line.contains(word));
    let line = lines().find(is_error).or_else(|| lines().next()).unwrap_or("it gave no reason");
    line.trim().to_owned()
}
