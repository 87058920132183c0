//! The real program as a child process, on loopback, ended by its id.

use std::ffi::OsString;
use std::path::Path;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sqlx::postgres::PgConnectOptions;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::house::{Agent, Answer, SECRET_KEY};

/// Nothing here may take longer: making a private cluster is the slowest.
const PATIENCE: Duration = Duration::from_secs(90);

/// A pod in a process of its own.
pub struct Program {
    /// Where it listens, from its first line.
    pub url: String,
    /// Where its metrics are, from its second line.
    pub ops: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    http: reqwest::Client,
}

/// How a pod ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// What it said on standard output after its two lines.
    pub more: String,
    pub stderr: String,
}

/// A folder that every user may enter: started by root, the cluster's programs run as another one.
pub fn folder() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let everyone = std::fs::Permissions::from_mode(0o755);
    tempfile::Builder::new().permissions(everyone).tempdir().unwrap()
}

/// The program with this data dir and no other setting of ours: free ports, no limit on registrations and requests.
pub fn command(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
    command.env_clear();
    let kept = ["PATH", "HOME", "LANG", "WAYPOST_PG_BIN", "LD_LIBRARY_PATH"];
    let kept = kept.into_iter().filter_map(|name| Some((name, environment(name)?)));
    command.envs(kept);
    command.env("WAYPOST_DATA_DIR", data_dir);
    command.env("WAYPOST_LISTEN", "127.0.0.1:0").env("WAYPOST_OPS_LISTEN", "127.0.0.1:0");
    command.env("WAYPOST_REGISTER_LIMIT", "0").env("WAYPOST_RATE_LIMIT", "0").env("WAYPOST_LOG", "warn");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// The same on the database of a test.
pub fn command_on(database: &PgConnectOptions, data_dir: &Path) -> Command {
    let mut command = command(data_dir);
    command.env("DATABASE_URL", url_of(database)).env("WAYPOST_SECRET_KEY", STANDARD.encode(SECRET_KEY));
    command
}

/// Runs a command that ends by itself.
pub async fn run(mut command: Command) -> Output {
    timeout(PATIENCE, command.output()).await.expect("it must end by itself").unwrap()
}

/// A URL for a database that is reached through a socket.
fn url_of(database: &PgConnectOptions) -> String {
    let folder = database.get_socket().unwrap().to_str().unwrap().replace('/', "%2F");
    let (user, name) = (database.get_username(), database.get_database().unwrap());
    format!("postgres://{user}@localhost:5432/{name}?host={folder}")
}

impl Program {
    /// Starts it and waits until it says where it listens.
    pub async fn start(mut command: Command) -> Program {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said =
            timeout(PATIENCE, async { [next(&mut lines).await, next(&mut lines).await] }).await.unwrap();
        let [Some(first), Some(second)] = said else {
            let mut complaint = String::new();
            child.stderr.take().unwrap().read_to_string(&mut complaint).await.unwrap();
            panic!("it did not come up: {complaint}");
        };
        let url = first.strip_prefix("listening on ").unwrap().to_owned();
        let ops = second.strip_prefix("ops on ").unwrap().to_owned();
        Program { url, ops, child, lines, http: reqwest::Client::new() }
    }

    /// Sends it a signal, and nobody else.
    pub fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("it runs");
        kill(Pid::from_raw(id.cast_signed()), signal).unwrap();
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> Ended {
        let mut stderr = String::new();
        let complaints = self.child.stderr.take();
        let listening = async {
            // None where its command sends them elsewhere.
            if let Some(mut complaints) = complaints {
                complaints.read_to_string(&mut stderr).await.unwrap();
            }
        };
        let ending = async {
            let (status, ()) = tokio::join!(self.child.wait(), listening);
            let mut more = String::new();
            while let Some(line) = next(&mut self.lines).await {
                more.push_str(&line);
            }
            (status.unwrap(), more)
        };
        let (status, more) = timeout(PATIENCE, ending).await.expect("it must end");
        Ended { status, more, stderr }
    }

    /// `kill -9`, and waits until it is gone.
    pub async fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Calls a tool.
    pub async fn call(&self, agent: &Agent, tool: &str, arguments: Value) -> Answer {
        self.post(&format!("/api/v1/tools/{tool}"), Some(&agent.key), &arguments).await
    }

    /// Registers an agent with a made name.
    pub async fn register(&self) -> Agent {
        let answer = self.post("/api/v1/onboard", None, &json!({})).await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        Agent::of(&answer.body)
    }

    /// The status of a path without a credential; `None` when nobody listens any more.
    pub async fn status(&self, url: &str, path: &str) -> Option<u16> {
        Some(self.http.get(format!("{url}{path}")).send().await.ok()?.status().as_u16())
    }

    /// The sum of its metrics that begin so.
    pub async fn metric(&self, name: &str) -> u64 {
        let text = self.http.get(format!("{}/metrics", self.ops)).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Answer {
        let mut request = self.http.post(format!("{}{path}", self.url)).json(body);
        if let Some(key) = key {
            request = request.bearer_auth(key);
        }
        let answer = request.send().await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        Answer { status, headers, body: answer.json().await.unwrap() }
    }
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    lines.next_line().await.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the program under test is given what this process was given")]
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
