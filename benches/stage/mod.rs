//! What the benches have in common: a private cluster, pods in processes of their own, agents, clients, and the
//! reports. It runs everything that is compared in one run, and keeps what came of it for `plot`.

pub mod agents;
pub mod cpu;
pub mod crowd;
pub mod load;
pub mod plan;
pub mod pod;
pub mod report;
pub mod results;
pub mod spread;
pub mod wire;

use std::io::Write;
use std::path::PathBuf;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use waypost::postgres::private::{PrivateCluster, Settings};

use cpu::Cpu;
use pod::{Pod, Setting};

/// Everything that is measured on.
pub struct Stage {
    /// The pods.
    pub pods: Vec<Pod>,
    cluster: PrivateCluster,
    postmaster: u32,
    folder: TempDir,
    settings: Vec<Setting>,
}

impl Stage {
    /// Starts a cluster and one pod without caps and limits.
    pub async fn set() -> Stage {
        Stage::set_with(Vec::new()).await
    }

    /// The same, with more settings of pods.
    pub async fn set_with(settings: Vec<Setting>) -> Stage {
        let (folder, cluster) = start_cluster().await;
        Stage::upon(folder, cluster, settings).await
    }

    /// The same with `pg_stat_statements`, when the server has it.
    pub async fn set_counting_queries() -> Stage {
        let (folder, cluster) = start_cluster().await;
        let mut db = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
        let name = "select exists (select from pg_available_extensions where name = 'pg_stat_statements')";
        if !sqlx::query_scalar::<_, bool>(name).fetch_one(&mut db).await.unwrap() {
            return Stage::upon(folder, cluster, Vec::new()).await;
        }
        let preload = "alter system set shared_preload_libraries = 'pg_stat_statements'";
        sqlx::raw_sql(preload).execute(&mut db).await.unwrap();
        sqlx::raw_sql("create extension pg_stat_statements").execute(&mut db).await.unwrap();
        db.close().await.unwrap();
        // It is loaded at the server's start.
        cluster.stop().await;
        let cluster = PrivateCluster::start(&settings(folder.path().join("cluster"))).await.unwrap();
        Stage::upon(folder, cluster, Vec::new()).await
    }

    async fn upon(folder: TempDir, cluster: PrivateCluster, settings: Vec<Setting>) -> Stage {
        allow_many_files();
        let mut db = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
        sqlx::raw_sql("create table floor (number bigint, body text)").execute(&mut db).await.unwrap();
        let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut db).await.unwrap();
        let postmaster = cpu::parent(backend.unsigned_abs());
        db.close().await.unwrap();
        let mut stage = Stage { pods: Vec::new(), cluster, postmaster, folder, settings };
        stage.have_pods(1);
        stage
    }

    /// Starts or ends pods until there are so many.
    pub fn have_pods(&mut self, count: usize) {
        self.pods.truncate(count);
        while self.pods.len() < count {
            let data_dir = self.folder.path().join("pod");
            self.pods.push(Pod::start(&self.cluster.url(), &data_dir, &self.settings));
        }
    }

    /// Where the pods listen, in turns: address and port.
    pub fn host(&self, place: usize) -> &str {
        &self.pods[place % self.pods.len()].host
    }

    /// CPU used up to now.
    pub fn cpu(&self) -> Cpu {
        Cpu::now(self.pods.iter().map(Pod::pid), self.postmaster)
    }

    /// A connection straight to the database.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.cluster.connect_options()).await.unwrap()
    }

    /// How to connect straight to the database.
    pub fn database(&self) -> sqlx::postgres::PgConnectOptions {
        self.cluster.connect_options()
    }

    /// What the figures were taken on, in a line.
    pub async fn machine(&self) -> String {
        let mut db = self.connect().await;
        let version: String =
            sqlx::query_scalar("select current_setting('server_version')").fetch_one(&mut db).await.unwrap();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let profile = if cfg!(debug_assertions) { ", NOT a release build" } else { "" };
        format!("{cores} cores, PostgreSQL {version}{profile}")
    }

    /// Ends the pods and the cluster.
    pub async fn strike(self) {
        drop(self.pods);
        self.cluster.stop().await;
    }
}

async fn start_cluster() -> (TempDir, PrivateCluster) {
    let folder = tempfile::Builder::new().prefix("waypost-bench-").tempdir().unwrap();
    let cluster = PrivateCluster::start(&settings(folder.path().join("cluster"))).await.unwrap();
    (folder, cluster)
}

#[expect(clippy::disallowed_methods, reason = "the cluster's programs are searched as a pod would")]
fn settings(data_dir: PathBuf) -> Settings {
    Settings {
        data_dir,
        programs: std::env::var_os("WAYPOST_PG_BIN").map(PathBuf::from),
        search_path: std::env::var_os("PATH"),
    }
}

/// As many open files as may be, for this process and the pods it starts.
fn allow_many_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

/// A runtime as small as the machine that is left beside pod and Postgres.
pub fn run(bench: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(bench);
}

/// Standard output is the bench's product.
pub fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}
