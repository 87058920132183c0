//! Stands between a pod and its database and breaks their conversation where it is told to.
//!
//! Only conversations about a call's transaction are counted and broken: the pod's own listening and
//! ringing pass.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The name Postgres gives its socket for port 5432.
const SOCKET: &str = ".s.PGSQL.5432";
/// What only the first statement of a call's transaction says.
const BEGIN: &[u8] = b"begin";

/// A sign of life that the pool asks for between calls.
const PING: &[u8] = b"S\0\0\0\x04";
const PONG: &[u8] = b"Z\0\0\0\x05I";

/// Where to break.
#[derive(Debug, Clone, Copy)]
pub enum At {
    /// At so many chunks, of either direction, from the transaction's begin on; 1 = the begin itself.
    Chunk(usize),
    /// Where the pod says this.
    Saying(&'static str),
    /// At the second chunk behind where the pod says this: after the answer to it.
    AfterAnswerTo(&'static str),
}

/// How to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The chunk is lost, and both sides are closed.
    CutBefore,
    /// Half of the chunk arrives, and both sides are closed.
    CutWithin,
    /// The chunk arrives, and both sides are closed: its answer is lost.
    CutAfter,
    /// The chunk and everything behind it is lost, and nobody is told.
    HoleBefore,
    /// The chunk arrives, everything behind it is lost, and nobody is told.
    HoleAfter,
}

/// A socket to connect to in place of the database's.
pub struct Proxy {
    folder: TempDir,
    plan: Arc<Plan>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Plan {
    orders: Mutex<Orders>,
    hang_up: Notify,
}

#[derive(Default)]
struct Orders {
    breaks: Option<(At, How)>,
    /// Chunks seen since the plan was made.
    seen: usize,
    /// Chunks seen since the words were said, those included.
    seen_since: usize,
    /// Break, and then let nobody connect any more.
    is_last: bool,
    is_closed: bool,
}

impl Proxy {
    /// Listens in a folder of its own for whoever wants the socket in `database`.
    pub async fn start(database: &Path) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (database, plan) = (database.join(SOCKET), Arc::new(Plan::default()));
        let mut serving = JoinSet::new();
        let orders = plan.clone();
        serving.spawn(async move {
            let mut conversations = JoinSet::new();
            loop {
                let (pod, _) = listener.accept().await.unwrap();
                if orders.with(|orders| orders.is_closed) {
                    continue;
                }
                let server = UnixStream::connect(&database).await.unwrap();
                conversations.spawn(converse(pod, server, orders.clone()));
            }
        });
        Proxy { folder, plan, _serving: serving }
    }

    /// The folder to give as the socket's.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Breaks once.
    pub fn break_at(&self, at: At, how: How) {
        self.plan.with(|orders| *orders = Orders { breaks: Some((at, how)), ..Orders::default() });
    }

    /// Breaks once, and lets nobody connect until [`Proxy::heal`].
    pub fn break_for_long(&self, at: At, how: How) {
        let breaks = Some((at, how));
        self.plan.with(|orders| *orders = Orders { breaks, is_last: true, ..Orders::default() });
    }

    /// Ends every conversation about calls: the pod's next ones begin with connecting.
    pub fn hang_up(&self) {
        self.plan.hang_up.notify_waiters();
    }

    /// Breaks no more and lets everybody connect; true when it had broken.
    pub fn heal(&self) -> bool {
        self.plan.with(|orders| std::mem::take(orders).breaks.is_none())
    }
}

impl Plan {
    fn with<T>(&self, act: impl FnOnce(&mut Orders) -> T) -> T {
        act(&mut self.orders.lock().unwrap())
    }

    /// Whether to break at this chunk, and how.
    fn judge(&self, chunk: &[u8]) -> Option<How> {
        self.with(|orders| {
            let (at, how) = orders.breaks?;
            // What a pod asks before it begins, and the pool between calls, comes and goes.
            let counts = chunk != PING && chunk != PONG && (orders.seen > 0 || contains(chunk, BEGIN));
            orders.seen += usize::from(counts);
            let is_here = match at {
                At::Chunk(number) => counts && orders.seen == number,
                At::Saying(words) => contains(chunk, words.as_bytes()),
                At::AfterAnswerTo(words) => {
                    let is_said = orders.seen_since > 0 || contains(chunk, words.as_bytes());
                    orders.seen_since += usize::from(is_said);
                    orders.seen_since == 3
                }
            };
            if !is_here {
                return None;
            }
            orders.breaks = None;
            orders.is_closed = orders.is_last;
            Some(how)
        })
    }
}

/// What both directions of a conversation know of it.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    cut: Notify,
}

#[derive(Default)]
struct State {
    /// It carries a call's transaction.
    is_watched: bool,
    is_hole: bool,
}

/// Passes chunks both ways until one side closes or the plan breaks it.
async fn converse(pod: UnixStream, server: UnixStream, plan: Arc<Plan>) {
    let (from_pod, to_pod) = pod.into_split();
    let (from_server, to_server) = server.into_split();
    let shared = Shared::default();
    tokio::select! {
        () = pass(from_pod, to_server, &plan, &shared, true) => {}
        () = pass(from_server, to_pod, &plan, &shared, false) => {}
        () = shared.cut.notified() => {}
        () = hung_up(&plan, &shared) => {}
    }
}

async fn hung_up(plan: &Plan, shared: &Shared) {
    loop {
        plan.hang_up.notified().await;
        if shared.state.lock().unwrap().is_watched {
            return;
        }
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    plan: &Plan,
    shared: &Shared,
    is_from_pod: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            return end(shared).await;
        }
        let chunk = &buffer[..length];
        let how = judge(chunk, plan, shared, is_from_pod);
        let arrives = match how {
            None | Some(How::CutAfter | How::HoleAfter) => chunk,
            Some(How::CutWithin) => &chunk[..length / 2],
            Some(How::CutBefore | How::HoleBefore) => &[],
        };
        if shared.state.lock().unwrap().is_hole && how != Some(How::HoleAfter) {
            continue;
        }
        if to.write_all(arrives).await.is_err() {
            return end(shared).await;
        }
        if matches!(how, Some(How::CutBefore | How::CutWithin | How::CutAfter)) {
            return shared.cut.notify_one();
        }
    }
}

/// In a black hole not even the end of one side is heard on the other.
async fn end(shared: &Shared) {
    if shared.state.lock().unwrap().is_hole {
        std::future::pending::<()>().await;
    }
}

fn judge(chunk: &[u8], plan: &Plan, shared: &Shared, is_from_pod: bool) -> Option<How> {
    let mut state = shared.state.lock().unwrap();
    state.is_watched |= is_from_pod && contains(chunk, BEGIN);
    let how = if state.is_watched { plan.judge(chunk) } else { None };
    // Who stays away breaks with everybody.
    let how = if plan.with(|orders| orders.is_closed) { how.or(Some(How::CutBefore)) } else { how };
    state.is_hole |= matches!(how, Some(How::HoleBefore | How::HoleAfter));
    how
}

fn contains(chunk: &[u8], words: &[u8]) -> bool {
    chunk.windows(words.len()).any(|window| window == words)
}
