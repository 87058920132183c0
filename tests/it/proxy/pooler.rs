//! A pooler before the database: pods start where it gives each connection a session of its own, and only there.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::fetched;
use crate::house::{House, until};
use crate::program::{self, Program};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PgBouncer: ./dev test proxy"]
async fn a_pod_starts_behind_a_pooler_in_session_mode_and_is_refused_in_transaction_mode() {
    let house = House::empty().await;
    let folder = program::folder();
    for mode in ["transaction", "statement"] {
        let pooler = Pooler::before(&house.options, mode).await;
        let refused = program::run(program::command_on(&pooler.options, folder.path())).await;
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{mode}: {said}");
        assert!(
            said.contains("DATABASE_URL leads to a connection pooler that shares sessions"),
            "{mode}: {said}"
        );
        assert!(said.contains("a pooler in session mode"), "{mode}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{mode}: {said}");
    }
    let pooler = Pooler::before(&house.options, "session").await;
    let pod = Program::start(program::command_on(&pooler.options, folder.path())).await;
    assert_eq!(pod.status(&pod.url, "/readyz").await, Some(200));
    pod.register().await;
    pod.signal(Signal::SIGTERM);
    let ended = pod.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // This one leaves out what a pod asks of its sessions.
    assert!(ended.stderr.contains("idle_in_transaction_session_timeout = '3s'"), "{}", ended.stderr);

    let told = format!(
        "alter database {} set idle_in_transaction_session_timeout = '3s'",
        house.options.get_database().unwrap()
    );
    sqlx::raw_sql(AssertSqlSafe(told)).execute(&house.db).await.unwrap();
    drop(pooler);
    let pooler = Pooler::before(&house.options, "session").await;
    let pod = Program::start(program::command_on(&pooler.options, folder.path())).await;
    pod.signal(Signal::SIGTERM);
    let ended = pod.ended().await;
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
}

/// A running PgBouncer.
struct Pooler {
    /// The way to the database through it.
    options: PgConnectOptions,
    _child: Child,
    _folder: TempDir,
}

impl Pooler {
    async fn before(database: &PgConnectOptions, mode: &str) -> Pooler {
        let folder = program::folder();
        let child = start(folder.path(), database, mode);
        let options = database.clone().socket(folder.path());
        until("the pooler serves", async || PgConnection::connect_with(&options).await.is_ok()).await;
        Pooler { options, _child: child, _folder: folder }
    }
}

/// Starts it as the user of the server: it does not run as root, and the server's socket is nobody else's.
fn start(folder: &Path, database: &PgConnectOptions, mode: &str) -> Child {
    let (server, user) = (database.get_socket().unwrap(), database.get_username());
    let settings = format!(
        "[databases]
         * = host={} port=5432 user={user}
         [pgbouncer]
         unix_socket_dir = {}
         listen_port = 5432
         auth_type = any
         pool_mode = {mode}
         ignore_startup_parameters = extra_float_digits,options",
        server.display(),
        folder.display()
    );
    let settings = settings.lines().map(|line| line.trim_start().to_owned() + "\n").collect::<String>();
    let file = folder.join("pgbouncer.ini");
    std::fs::write(&file, settings).unwrap();
    let owner = std::fs::metadata(server).unwrap();
    chown(folder, Some(owner.uid()), Some(owner.gid())).unwrap();
    Command::new(fetched("PGBOUNCER"))
        .arg(file)
        .env_clear()
        .uid(owner.uid())
        .gid(owner.gid())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}
