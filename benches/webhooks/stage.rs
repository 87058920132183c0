//! The private cluster, the pod in a process of its own, and the agents with their webhooks.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::task::JoinSet;
use uuid::Uuid;
use waypost::call::seal::Seal;
use waypost::postgres::private::{PrivateCluster, Settings};

use crate::receiver;

/// How many agents register at once.
const AT_ONCE: usize = 16;
const SECRET_KEY: [u8; 32] = [7; 32];

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
    _folder: TempDir,
}

impl Stage {
    /// Starts the cluster and a pod without caps, and registers so many agents.
    pub async fn set(agents: usize) -> Stage {
        let folder = tempfile::Builder::new().prefix("waypost-bench-").tempdir().unwrap();
        let cluster = start_cluster(folder.path().join("cluster")).await;
        let (pod, host) = start_pod(&cluster.url(), folder.path().join("pod"));
        let agents = register(&host, agents).await;
        Stage { host, agents, cluster, pod, _folder: folder }
    }

    /// Gives each agent, by its number, an active webhook that has told of the welcome.
    pub async fn hook(&self, url: impl Fn(usize) -> String) {
        let mut db = PgConnection::connect_with(&self.cluster.connect_options()).await.unwrap();
        let org_id: Uuid =
            sqlx::query_scalar("select org_id from organization").fetch_one(&mut db).await.unwrap();
        let seal = Seal::new(&SECRET_KEY);
        let ids: Vec<Uuid> = self.agents.iter().map(|agent| agent.id.parse().unwrap()).collect();
        let urls: Vec<String> = (0..ids.len()).map(url).collect();
        let hosts: Vec<&str> = urls.iter().map(|url| url.split('/').nth(2).unwrap()).collect();
        let sealed = ids.iter().map(|id| {
            let context = [*org_id.as_bytes(), *id.as_bytes()].concat();
            seal.close(&context, &[b'0'; 64]).unwrap()
        });
        sqlx::query(
            "insert into webhook (org_id, agent_id, url, authority, sealed_secret, challenge, activation, state,
                announced_seq)
             select $1, w.agent_id, w.url, w.host, w.sealed, 'a', gen_random_uuid(), 'active', 1
             from unnest($2::uuid[], $3::text[], $4::text[], $5::bytea[]) as w(agent_id, url, host, sealed)",
        )
        .bind(org_id)
        .bind(&ids)
        .bind(&urls)
        .bind(hosts)
        .bind(sealed.collect::<Vec<_>>())
        .execute(&mut db)
        .await
        .unwrap();
        sqlx::raw_sql("vacuum analyze").execute(&mut db).await.unwrap();
    }

    /// How many webhooks there are in each state.
    pub async fn states(&self) -> Vec<(String, i64)> {
        let mut db = PgConnection::connect_with(&self.cluster.connect_options()).await.unwrap();
        let count = "select state, count(*) from webhook group by state order by state";
        sqlx::query_as(count).fetch_all(&mut db).await.unwrap()
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
        .env("WAYPOST_SECRET_KEY", STANDARD.encode(SECRET_KEY))
        .env("WAYPOST_DATA_DIR", data_dir)
        .env("WAYPOST_LISTEN", "127.0.0.1:0")
        .env("WAYPOST_OPS_LISTEN", "127.0.0.1:0")
        .env("WAYPOST_EGRESS_CA", receiver::authority())
        .env("WAYPOST_UNSAFE_EGRESS", "loopback")
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

async fn register(host: &str, agents: usize) -> Vec<Agent> {
    let mut clients = JoinSet::new();
    for client in 0..AT_ONCE {
        let url = format!("http://{host}/api/v1/onboard");
        clients.spawn(async move {
            let http = reqwest::Client::new();
            let mut made = Vec::new();
            for _ in (client..agents).step_by(AT_ONCE) {
                let arguments = json!({ "auto_provision_testnet_wallet": false });
                let answer: Value =
                    http.post(&url).json(&arguments).send().await.unwrap().json().await.unwrap();
                let text = |name: &str| answer[name].as_str().unwrap().to_owned();
                made.push(Agent { id: text("agent_id"), key: text("api_key") });
            }
            made
        });
    }
    clients.join_all().await.concat()
}
