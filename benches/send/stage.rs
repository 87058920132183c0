//! The private cluster, the pod in a process of its own, and the agents that write to each other.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sqlx::{Connection, PgConnection, Row};
use tempfile::TempDir;
use tokio::task::JoinSet;
use waypost::postgres::private::{PrivateCluster, Settings};

use crate::cpu::{self, Cpu};
use crate::wire::Wire;

/// How many agents take part.
const AGENTS: usize = 1_000;
/// How many of them register at once.
const AT_ONCE: usize = 16;

/// An agent that takes part.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its id.
    pub id: String,
    /// Its key.
    pub key: String,
}

/// Everything that is measured on.
pub struct Stage {
    /// Where the pod listens: address and port.
    pub host: String,
    /// The agents.
    pub agents: Vec<Agent>,
    cluster: PrivateCluster,
    pod: Child,
    postmaster: u32,
    _folder: TempDir,
}

impl Stage {
    /// Starts the cluster and a pod without caps, and registers the agents.
    pub async fn set() -> Stage {
        let folder = tempfile::Builder::new().prefix("waypost-bench-").tempdir().unwrap();
        let cluster = start_cluster(folder.path().join("cluster")).await;
        let (pod, host) = start_pod(&cluster.url(), folder.path().join("pod"));
        let agents = register(&host).await;
        let mut db = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
        sqlx::raw_sql("create table floor (number bigint, body text)").execute(&mut db).await.unwrap();
        let backend = sqlx::query("select pg_backend_pid()").fetch_one(&mut db).await.unwrap();
        let postmaster = cpu::parent(backend.get::<i32, _>(0).unsigned_abs());
        db.close().await.unwrap();
        Stage { host, agents, cluster, pod, postmaster, _folder: folder }
    }

    /// CPU used up to now.
    pub fn cpu(&self) -> Cpu {
        Cpu::now(self.pod.id(), self.postmaster)
    }

    /// A connection straight to the database.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect_with(&self.cluster.connect_options()).await.unwrap()
    }

    /// What the figures were taken on, in a line.
    pub async fn machine(&self) -> String {
        let mut db = self.connect().await;
        let version: String =
            sqlx::query_scalar("select current_setting('server_version')").fetch_one(&mut db).await.unwrap();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        format!("{cores} cores, PostgreSQL {version}, {AGENTS} agents, one pod, bodies of 200 bytes")
    }

    /// Ends the pod and the cluster.
    pub async fn strike(mut self) {
        let _ = self.pod.kill();
        let _ = self.pod.wait();
        self.cluster.stop().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the cluster's programs are searched as a pod would")]
async fn start_cluster(data_dir: PathBuf) -> PrivateCluster {
    let settings = Settings {
        data_dir,
        programs: std::env::var_os("WAYPOST_PG_BIN").map(PathBuf::from),
        search_path: std::env::var_os("PATH"),
    };
    PrivateCluster::start(&settings).await.unwrap()
}

fn start_pod(database_url: &str, data_dir: PathBuf) -> (Child, String) {
    let mut pod = Command::new(env!("CARGO_BIN_EXE_waypost"))
        .env("DATABASE_URL", database_url)
        .env("WAYPOST_SECRET_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        .env("WAYPOST_DATA_DIR", data_dir)
        .env("WAYPOST_LISTEN", "127.0.0.1:0")
        .env("WAYPOST_OPS_LISTEN", "127.0.0.1:0")
        .env("WAYPOST_LOG", "error")
        .envs(
            ["REGISTER_LIMIT", "RATE_LIMIT", "CAP_MAILBOX", "CAP_SENDER"]
                .map(|it| (format!("WAYPOST_{it}"), "0")),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Read to the end, since a pod that cannot say where its listeners are does not start.
    let mut lines = BufReader::new(pod.stdout.take().unwrap()).lines();
    let line = lines.next().unwrap().unwrap();
    lines.next().unwrap().unwrap();
    let host = line.strip_prefix("listening on http://").expect("a pod says where it listens");
    (pod, host.to_owned())
}

async fn register(host: &str) -> Vec<Agent> {
    let mut clients = JoinSet::new();
    for client in 0..AT_ONCE {
        let host = host.to_owned();
        clients.spawn(async move {
            let mut wire = Wire::open(&host).await;
            let mut agents = Vec::new();
            for _ in (client..AGENTS).step_by(AT_ONCE) {
                let (status, body) =
                    wire.post("/api/v1/onboard", "", r#"{"auto_provision_testnet_wallet":false}"#).await;
                assert_eq!(status, 201, "{body}");
                let made: Value = serde_json::from_str(body).unwrap();
                let text = |name: &str| made[name].as_str().unwrap().to_owned();
                agents.push(Agent { id: text("agent_id"), key: text("api_key") });
            }
            agents
        });
    }
    clients.join_all().await.concat()
}
