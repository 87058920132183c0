//! One private cluster for all tests of this process, and a fresh database for each of them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;
use waypost::postgres::private::{PrivateCluster, Refusal, Settings};
use waypost::postgres::schema;

/// A new database at this version's schema, copied from a template.
pub async fn new_database() -> PgConnectOptions {
    let (options, template) = shared();
    let name = format!("t_{}", Uuid::new_v4().simple());
    let mut db = PgConnection::connect_with(options).await.unwrap();
    let create = format!("create database {name} template {template}");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut db).await.unwrap();
    options.clone().database(&name)
}

/// The cluster and its template, started with the first test that needs it.
fn shared() -> &'static (PgConnectOptions, String) {
    static SHARED: OnceLock<(PgConnectOptions, String)> = OnceLock::new();
    SHARED.get_or_init(|| {
        let (ready, started) = mpsc::channel();
        // A thread and a runtime of its own: tests' runtimes come and go, the cluster stays until the process ends.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut cluster = start().await;
                ready.send(cluster.connect_options()).unwrap();
                panic!("{}", cluster.died().await);
            });
        });
        let options = started.recv().unwrap();
        let template = std::thread::spawn({
            let options = options.clone();
            move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(make_template(&options))
            }
        });
        (options, template.join().unwrap())
    })
}

/// The server of a run that has just ended may still be on its way down.
async fn start() -> PrivateCluster {
    let settings = programs_in(&folder());
    for _ in 0..100 {
        match PrivateCluster::start(&settings).await {
            Err(Refusal::Leftover { .. }) => tokio::time::sleep(Duration::from_millis(100)).await,
            started => return started.unwrap(),
        }
    }
    panic!("the server of an earlier run does not end");
}

/// A private cluster's settings: with the server programs that a pod started here would use.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests' own clusters are no pods': no Config says where their programs are"
)]
pub fn programs_in(data_dir: &Path) -> Settings {
    let programs = std::env::var_os("WAYPOST_PG_BIN").map(PathBuf::from);
    Settings { data_dir: data_dir.to_owned(), programs, search_path: std::env::var_os("PATH") }
}

/// One folder per checkout, used again by the next run: made once, never two at once.
fn folder() -> PathBuf {
    let checkout = Sha256::digest(env!("CARGO_MANIFEST_DIR"));
    let short: String = checkout.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    std::env::temp_dir().join(format!("waypost-tests-{}-{short}", nix::unistd::getuid()))
}

/// Where the cluster logs.
pub fn log() -> PathBuf {
    folder().join("postgres.log")
}

async fn make_template(options: &PgConnectOptions) -> String {
    let mut db = PgConnection::connect_with(options).await.unwrap();
    let stale: Vec<String> = sqlx::query_scalar(
        "select datname from pg_database where datname like 't\\_%' or datname = 'template_now'",
    )
    .fetch_all(&mut db)
    .await
    .unwrap();
    for name in stale {
        let drop = format!("drop database if exists {name} with (force)");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut db).await.unwrap();
    }
    sqlx::raw_sql("create database template_now").execute(&mut db).await.unwrap();
    schema::migrate(&options.clone().database("template_now")).await.unwrap();
    "template_now".into()
}
