//! Work that is done over and over, the measuring of it, and the floor it is held against.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::task::JoinSet;

use super::Stage;
use super::cpu::Cpu;

/// Before each measured turn: connections open, plans and caches get warm.
const WARM_UP: Duration = Duration::from_millis(300);

/// One connection and what it does.
pub trait Work: Send + 'static {
    /// Does it once, and tells how many messages that were.
    fn once(&mut self) -> impl Future<Output = usize> + Send;
}

/// What one turn came to.
#[derive(Debug, Clone)]
pub struct Measured {
    /// From the first start to the last end.
    pub took: Duration,
    /// CPU used meanwhile.
    pub cpu: Cpu,
    /// How many messages that were.
    pub messages: usize,
    /// How long each call took, ascending.
    pub latencies: Vec<Duration>,
}

impl Measured {
    /// Messages a second.
    pub fn rate(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds below which this share of the calls stayed.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.latencies, share)
    }

    /// Microseconds of CPU for each message.
    pub fn each(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.messages.max(1) as f64
    }
}

/// Milliseconds below which this share of ascending times stayed.
pub fn percentile(ascending: &[Duration], share: f64) -> f64 {
    let place = (ascending.len() as f64 * share) as usize;
    ascending.get(place).or(ascending.last()).map_or(0.0, |it| it.as_secs_f64() * 1e3)
}

/// Lets the team get warm, then works for so long.
pub async fn measure<W: Work>(stage: &Stage, team: Vec<W>, time: Duration) -> Measured {
    let (team, _) = work(stage, team, WARM_UP).await;
    work(stage, team, time).await.1
}

/// The team comes back, since its connections must still be there when the CPU of their backends is read.
async fn work<W: Work>(stage: &Stage, team: Vec<W>, time: Duration) -> (Vec<W>, Measured) {
    let (before, began) = (stage.cpu(), Instant::now());
    let mut working = JoinSet::new();
    for mut worker in team {
        working.spawn(async move {
            let (mut latencies, mut messages) = (Vec::with_capacity(1 << 15), 0);
            while began.elapsed() < time {
                let start = Instant::now();
                messages += worker.once().await;
                latencies.push(start.elapsed());
            }
            (worker, latencies, messages)
        });
    }
    let (mut team, mut latencies, mut messages) = (Vec::new(), Vec::new(), 0);
    for (worker, of_one, count) in working.join_all().await {
        team.push(worker);
        latencies.extend(of_one);
        messages += count;
    }
    let (took, cpu) = (began.elapsed(), stage.cpu().since(before));
    latencies.sort_unstable();
    (team, Measured { took, cpu, messages, latencies })
}

/// A single-row insert and commit, straight into the database.
pub struct Insert {
    db: PgConnection,
    number: i64,
}

impl Insert {
    /// With a connection of its own.
    pub async fn open(stage: &Stage) -> Insert {
        Insert { db: stage.connect().await, number: 0 }
    }
}

impl Work for Insert {
    async fn once(&mut self) -> usize {
        self.number += 1;
        let insert = sqlx::query("insert into floor (number, body) values ($1, $2)");
        insert.bind(self.number).bind(BODY).execute(&mut self.db).await.unwrap();
        1
    }
}

/// 200 bytes.
pub const BODY: &str = "The tide table for the week is ready: high water comes a little later every day, and the harbour mas\
    ter asks that boats of more than two metres draught leave on the morning ebb. Reply if you need it..";
const _: () = assert!(BODY.len() == 200);

/// Chooses recipients (xorshift: even enough for that).
pub struct Dice(u64);

impl Dice {
    /// Different ones for every place.
    pub fn new(place: usize) -> Dice {
        Dice(0x9E37_79B9_7F4A_7C15 ^ ((place as u64 + 1) << 17))
    }

    /// One of these.
    pub fn choose<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        &among[(self.0 % among.len() as u64) as usize]
    }
}
