//! A pod behind a proxy that breaks its connection to the database, beside one that has the real one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;
use waypost::config::{Caps, Config};

use super::proxy::{At, How, Proxy};
use crate::house::{Agent, Answer, House, settings};

/// No call may take longer, whatever breaks.
pub const BOUND: Duration = Duration::from_secs(35);
const CUTS: [How; 3] = [How::CutBefore, How::CutWithin, How::CutAfter];

/// A house whose first pod talks to the database through a proxy; the second has the real one.
pub struct Cut {
    pub house: House,
    pub proxy: Proxy,
    /// Whether the last [`Cut::first_call`] was cut.
    took_place: AtomicBool,
}

fn uncapped() -> Config {
    Config { caps: Caps { mailbox: 0, sender: 0 }, ..settings() }
}

impl Cut {
    pub async fn open() -> Cut {
        Cut::with_pool(10).await
    }

    /// The pod behind the proxy has so many connections for calls.
    pub async fn with_pool(pool: u32) -> Cut {
        let mut house = House::empty().await;
        let real = house.options.clone();
        let proxy = Proxy::start(real.get_socket().unwrap()).await;
        house.options = real.clone().socket(proxy.folder());
        house.add_pod(Config { pool, ..uncapped() }, waypost::registry()).await;
        house.options = real;
        house.add_pod(uncapped(), waypost::registry()).await;
        Cut { house, proxy, took_place: AtomicBool::default() }
    }

    /// An agent that was registered past the proxy.
    pub async fn agent(&self) -> Agent {
        let answer = self.house.post(1, "/api/v1/onboard", None, &json!({})).await;
        Agent::of(&answer.body)
    }

    /// A call to the pod behind the proxy; bounded in time.
    pub async fn call(&self, agent: &Agent, tool: &str, arguments: Value) -> Answer {
        let began = Instant::now();
        let call = self.house.call(0, agent, tool, arguments);
        let answer = timeout(BOUND, call).await.unwrap_or_else(|_| panic!("no answer in {BOUND:?}"));
        assert!(matches!(answer.status, 200 | 503), "{:?}: {}", began.elapsed(), answer.body);
        answer
    }

    /// The call of a scenario that is cut; what comes after it is not.
    pub async fn first_call(&self, agent: &Agent, tool: &str, arguments: Value) -> Answer {
        let answer = self.call(agent, tool, arguments).await;
        self.took_place.store(self.proxy.heal(), Ordering::Relaxed);
        answer
    }

    /// Runs the scenario with its first call cut at each chunk in turn, in each way, on a fresh
    /// connection and on one that knows the statements, until nothing is left to cut. Gives how
    /// many cuts there were.
    pub async fn everywhere(&self, scenario: impl AsyncFn() -> Answer) -> usize {
        // The one connection of the pod's pool says everything once.
        assert_eq!(scenario().await.status, 200);
        let mut cuts = 0;
        for is_fresh in [false, true] {
            for how in CUTS {
                let mut at = 1;
                while self.cut_at(At::Chunk(at), how, is_fresh, &scenario).await {
                    at += 1;
                }
                // Among those, but for chunks that came together by chance.
                assert!(self.cut_at(At::Saying("commit"), how, is_fresh, &scenario).await);
                cuts += at;
            }
        }
        cuts
    }

    /// Runs the scenario with its first call cut there; false when there was nothing to cut.
    async fn cut_at(&self, at: At, how: How, is_fresh: bool, scenario: &impl AsyncFn() -> Answer) -> bool {
        if is_fresh {
            self.proxy.hang_up();
        }
        self.proxy.break_at(at, how);
        let told = scenario().await;
        let took_place = self.took_place.load(Ordering::Relaxed);
        assert!(took_place || told.status == 200, "{}", told.body);
        took_place
    }

    /// No session of any pod is in a transaction once all calls have been answered. A server
    /// needs a moment to see that its client is gone.
    pub async fn leaves_nothing_open(&self) {
        let closed = async {
            loop {
                let open: i64 = sqlx::query_scalar(
                    "select count(*) from pg_stat_activity
                     where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null",
                )
                .fetch_one(&self.house.db)
                .await
                .unwrap();
                if open == 0 {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(15), closed).await.expect("no session stays in a transaction");
    }

    /// What the mailboxes' rows count is what is in them.
    pub async fn counters_agree(&self) {
        let differing: i64 = sqlx::query_scalar(
            "select count(*) from mailbox m left join lateral (
                select max(seq) as last_seq, count(*) filter (where acked_at is null) as open,
                    count(*) filter (where acked_at is null and counted) as counted
                from inbox_entry e where e.agent_id = m.agent_id) e on true
             where (m.last_seq, m.open, m.counted) is distinct from (e.last_seq, e.open, e.counted)",
        )
        .fetch_one(&self.house.db)
        .await
        .unwrap();
        assert_eq!(differing, 0);
    }
}
