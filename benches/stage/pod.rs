//! A pod in a process of its own, without caps and limits.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The secret key of every pod.
pub const SECRET_KEY: [u8; 32] = [0; 32];

/// What would refuse a crowd.
const NO_LIMITS: [&str; 7] = [
    "REGISTER_LIMIT",
    "RATE_LIMIT",
    "CAP_MAILBOX",
    "CAP_SENDER",
    "HOLDS_PER_AGENT",
    "HOLDS_PER_ORG",
    "HOLDS_PER_POD",
];

/// A setting of pods that only one bench needs.
pub type Setting = (&'static str, OsString);

/// A running pod; it is killed when this is dropped.
pub struct Pod {
    /// Where it listens: address and port.
    pub host: String,
    process: Child,
}

impl Pod {
    pub(super) fn start(database_url: &str, data_dir: &Path, settings: &[Setting]) -> Pod {
        let mut process = Command::new(env!("CARGO_BIN_EXE_waypost"))
            .env("DATABASE_URL", database_url)
            .env("WAYPOST_SECRET_KEY", STANDARD.encode(SECRET_KEY))
            .env("WAYPOST_DATA_DIR", data_dir)
            .env("WAYPOST_LISTEN", "127.0.0.1:0")
            .env("WAYPOST_OPS_LISTEN", "127.0.0.1:0")
            .env("WAYPOST_LOG", "error")
            .envs(NO_LIMITS.map(|limit| (format!("WAYPOST_{limit}"), "0")))
            .envs(settings.iter().cloned())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Read to the end, since a pod that cannot say where its listeners are does not start.
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        lines.next().unwrap().unwrap();
        let host = line.strip_prefix("listening on http://").expect("a pod says where it listens").to_owned();
        Pod { host, process }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Memory it holds, in KiB.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("the pod lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
