//! CPU time by process, from `/proc`.

use std::fs;
use std::time::Duration;

/// Linux shows CPU time to programs in hundredths of a second, whatever its own clock does.
const TICK: Duration = Duration::from_millis(10);

/// CPU used up to now, or between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu {
    /// The pods.
    pub pod: Duration,
    /// The postmaster, its live children and those that have ended.
    pub postgres: Duration,
    /// This process.
    pub client: Duration,
}

impl Cpu {
    /// CPU used up to now.
    pub fn now(pods: impl Iterator<Item = u32>, postmaster: u32) -> Cpu {
        let server = Process::read(postmaster).map_or(Duration::ZERO, |process| process.own + process.ended);
        let backends: Duration =
            processes().filter(|process| process.parent == postmaster).map(|it| it.own).sum();
        let own = |pid| Process::read(pid).map_or(Duration::ZERO, |process| process.own);
        Cpu { pod: pods.map(own).sum(), postgres: server + backends, client: own(std::process::id()) }
    }

    /// What was used since.
    pub fn since(self, before: Cpu) -> Cpu {
        Cpu {
            pod: self.pod.saturating_sub(before.pod),
            postgres: self.postgres.saturating_sub(before.postgres),
            client: self.client.saturating_sub(before.client),
        }
    }
}

/// The parent of a process.
pub fn parent(pid: u32) -> u32 {
    Process::read(pid).expect("the process is there").parent
}

struct Process {
    parent: u32,
    /// User and system time of all its threads.
    own: Duration,
    /// The same of its children that have ended.
    ended: Duration,
}

impl Process {
    /// `proc(5)`: after the name in parentheses come state, parent, … and at 14 to 17 the four times.
    fn read(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |place: usize| fields.get(place - 3)?.parse::<u32>().ok();
        Some(Process {
            parent: field(4)?,
            own: TICK * (field(14)? + field(15)?),
            ended: TICK * (field(16)? + field(17)?),
        })
    }
}

fn processes() -> impl Iterator<Item = Process> {
    let pids = fs::read_dir("/proc")
        .expect("Linux has /proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read)
}
