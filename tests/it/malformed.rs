//! A table of what nobody should send, each row with its one answer, at both doors.
//!
//! The tables are plain rows: what it is, what is sent, what is answered. An answer is written `STATUS WORD`: the
//! code of the refusal in the words of its door, `ok` for what is taken, `-` where HTTP itself ends before a door
//! could speak. Nothing that is refused leaves a trace, nothing is answered 5xx, and nobody is hung up on unanswered.

mod addresses;
pub mod arguments;
pub mod envelopes;
pub mod frames;
mod heads;
mod said;
mod wire;

use sqlx::AssertSqlSafe;

use crate::house::{Agent, House, send};

/// A pod, somebody who calls, and a row of every kind in its tables.
pub struct Bench {
    pub house: House,
    pub agent: Agent,
    /// Where rows are sent: the pod, or what stands before it.
    pub address: String,
}

impl Bench {
    pub async fn open() -> Bench {
        let house = House::open().await;
        let address = house.pods[0].address.to_string();
        Bench::at(house, address).await
    }

    /// In that house, by that way.
    pub async fn at(house: House, address: String) -> Bench {
        let agent = house.register().await;
        let peer = house.register().await;
        send(&house, &peer, &agent, "hello").await;
        Bench { house, agent, address }
    }

    /// How many rows each table has, in one line.
    pub async fn rows(&self) -> String {
        let tables: Vec<String> = sqlx::query_scalar(
            "select tablename::text from pg_tables where schemaname = 'public' order by tablename",
        )
        .fetch_all(&self.house.db)
        .await
        .unwrap();
        let counts: Vec<String> =
            tables.iter().map(|table| format!("select '{table} ' || count(*) from {table}")).collect();
        let counts: Vec<String> = sqlx::query_scalar(AssertSqlSafe(counts.join(" union all ")))
            .fetch_all(&self.house.db)
            .await
            .unwrap();
        counts.join(", ")
    }
}

/// The rows whose answer was another one, for whoever must mend it.
#[derive(Default)]
pub struct Verdict {
    rows: usize,
    wrong: Vec<String>,
}

impl Verdict {
    /// One row at one door.
    pub fn judge(&mut self, what: &str, expected: &str, said: &str) {
        self.rows += 1;
        if expected != said {
            self.wrong.push(format!("{what}: {said}, not {expected}"));
        }
    }

    /// Something else that must hold.
    pub fn hold(&mut self, what: &str, holds: bool, otherwise: &str) {
        if !holds {
            self.wrong.push(format!("{what}: {otherwise}"));
        }
    }

    /// At least so many rows, and all answers right.
    pub fn end(self, at_least: usize) {
        assert!(self.wrong.is_empty(), "{} answers are wrong:\n{}", self.wrong.len(), self.wrong.join("\n"));
        assert!(self.rows >= at_least, "only {} rows", self.rows);
    }
}

/// An agent key that is well written and stands nowhere.
pub fn never_issued() -> String {
    use waypost::call::credential::{Kind, Secret};
    Secret::mint(Kind::Agent).expose().to_owned()
}
