//! The server process: started in a thread that lives as long as it does, ended with us, even by `kill -9`.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

use super::folder::Folder;
use super::owner::Owner;
use super::refusal::Refusal;
use crate::postgres::programs::Programs;

/// How long a server of an earlier run may take to write its last checkpoint.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(60);

/// Given on the command line, these win over anything written into the cluster's own files: what was answered OK is
/// on disk, and nobody comes in but through the socket. 200 connections leave room for several pods.
const SETTINGS: [&str; 8] = [
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "listen_addresses=",
    "port=5432",
    "max_connections=200",
    "logging_collector=off",
    "log_destination=stderr",
];

/// A running server that is our child.
#[derive(Debug)]
pub(super) struct Postmaster {
    pub(super) pid: Pid,
    ended: watch::Receiver<Option<ExitStatus>>,
}

impl Postmaster {
    /// Starts the server; its log goes to `log`. It is not ready yet when this returns.
    pub(super) fn start(folder: &Folder, programs: &Programs, owner: &Owner, log: File) -> io::Result<Self> {
        let mut command = Command::new(programs.bin.join("postgres"));
        command.arg("-D").arg(folder.pgdata());
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        // A list in Postgres' eyes: quoted, commas and blanks in the path stay what they are.
        let run = folder.run().to_string_lossy().replace('"', "\"\"");
        command.arg("-c").arg(format!("unix_socket_directories=\"{run}\""));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        confine(&mut command, folder, owner);
        Self::spawn(command)
    }

    /// The kernel tells a child of its parent's death when the parent's *thread* ends, so the server is started from a
    /// thread that does nothing but wait for it.
    fn spawn(mut command: Command) -> io::Result<Self> {
        let (started, start) = mpsc::sync_channel(1);
        let (tell_end, ended) = watch::channel(None);
        thread::Builder::new().name("postmaster".to_owned()).spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(error))),
            };
            let _ = started.send(Ok(child.id()));
            // An error here means the child is gone without a status: the same to whoever waits.
            let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
            let _ = tell_end.send(Some(status));
        })?;
        let pid = start.recv().map_err(io::Error::other)??;
        Ok(Self { pid: Pid::from_raw(pid.cast_signed()), ended })
    }

    /// How it ended, when it has.
    pub(super) fn end(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Waits for its end.
    pub(super) async fn ended(&mut self) -> ExitStatus {
        match self.ended.wait_for(Option::is_some).await {
            Ok(status) => status.unwrap_or_default(),
            // The waiting thread is gone, and it only goes after the server.
            Err(_) => ExitStatus::default(),
        }
    }

    /// SIGINT is a fast shutdown, SIGQUIT an immediate one (the next start recovers). Nothing once it has ended.
    pub(super) fn signal(&self, signal: Signal) {
        if self.end().is_none() {
            let _ = kill(self.pid, signal);
        }
    }
}

/// What every program of the cluster is started with: its user, a bare environment (ours holds credentials, and
/// `PG…` variables would steer it), its own process group (^C reaches only us; we stop it in order), and an end when
/// we end.
pub(super) fn confine(command: &mut Command, folder: &Folder, owner: &Owner) {
    command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/bin:/bin");
    command.current_dir(folder.path()).process_group(0);
    owner.applied_to(command);
    tie_to_this_process(command);
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "only code between fork and exec can ask for a signal at the parent's death")]
fn tie_to_this_process(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let ask = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGINT)?;
        // The parent may have died before the request was in place.
        if nix::unistd::getppid() == parent { Ok(()) } else { Err(io::Error::from(Errno::ESRCH)) }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; prctl and getppid are plain system
    // calls, and nothing here allocates or locks.
    unsafe {
        command.pre_exec(ask);
    }
}

/// Elsewhere there is no such signal: the next start ends what was left ([`end_leftover`]).
#[cfg(not(target_os = "linux"))]
fn tie_to_this_process(_command: &mut Command) {}

/// Ends a server that an earlier run left on this cluster, or waits until it has ended; then removes a stale
/// `postmaster.pid`, whose number may belong to any process by now. Only called under the data directory's lock.
pub(super) fn end_leftover(pgdata: &Path) -> Result<(), Refusal> {
    let pid_file = pgdata.join("postmaster.pid");
    let Some(pid) = fs::read_to_string(&pid_file).ok().as_deref().and_then(pid_line) else { return Ok(()) };
    let deadline = Instant::now() + LEFTOVER_LIMIT;
    if works_on(pid, pgdata) {
        let _ = kill(pid, Signal::SIGINT);
    }
    while works_on(pid, pgdata) {
        if Instant::now() > deadline {
            return Err(Refusal::Leftover { pid: pid.as_raw(), pgdata: pgdata.to_owned() });
        }
        thread::sleep(Duration::from_millis(10));
    }
    match fs::remove_file(&pid_file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Refusal::io("remove", pid_file)(error)),
        _ => Ok(()),
    }
}

/// True once the server with this number has written that it takes connections.
pub(super) fn says_ready(pgdata: &Path, pid: Option<Pid>) -> bool {
    let Ok(text) = fs::read_to_string(pgdata.join("postmaster.pid")) else { return false };
    // Line 1 is the process, line 8 its state.
    (pid.is_none() || pid_line(&text) == pid)
        && text.lines().nth(7).is_some_and(|state| state.trim() == "ready")
}

fn pid_line(text: &str) -> Option<Pid> {
    text.lines().next()?.trim().parse().ok().filter(|&pid| pid > 1).map(Pid::from_raw)
}

/// Whether that process is a Postgres on this cluster, by its command line, which anyone may read.
fn works_on(pid: Pid, pgdata: &Path) -> bool {
    let command = if cfg!(target_os = "linux") {
        fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
    } else {
        let ps = Command::new("ps").args(["-ww", "-o", "command=", "-p", &pid.to_string()]).output();
        ps.map(|output| output.stdout).unwrap_or_default()
    };
    let command = String::from_utf8_lossy(&command);
    command.contains("postgres") && command.contains(&*pgdata.to_string_lossy())
}
