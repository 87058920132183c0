//! What is measured, for how long and in which order.

use std::fmt;
use std::time::Duration;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A single-row insert and commit, straight into the database: the floor.
    Insert,
    /// `mailbox_send` at its REST route, with a client_message_id.
    Rest,
    /// The same without a client_message_id.
    RestNoKey,
    /// `mailbox_send` over MCP, modern era, with a client_message_id.
    Mcp,
    /// `tools/list` over MCP, modern era.
    List,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Insert, Kind::Rest, Kind::RestNoKey, Kind::Mcp, Kind::List];

    fn word(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Rest => "rest",
            Kind::RestNoKey => "rest-no-key",
            Kind::Mcp => "mcp",
            Kind::List => "list",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.word())
    }
}

/// One kind of work at one number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Turn {
    /// What is done.
    pub kind: Kind,
    /// By how many connections at once.
    pub connections: usize,
}

/// What was asked for on the command line.
#[derive(Debug)]
pub struct Plan {
    /// How long a turn is measured.
    pub seconds: Duration,
    /// How often each turn comes.
    pub rounds: usize,
    /// The kinds of work.
    pub work: Vec<Kind>,
    /// The numbers of connections; `tools/list` is measured at 16 alone.
    pub connections: Vec<usize>,
}

const LIST_CONNECTIONS: usize = 16;

impl Plan {
    /// Reads the command line; what it does not understand ends the bench with a sentence.
    pub fn from_arguments() -> Plan {
        let mut plan = Plan {
            seconds: Duration::from_secs_f64(1.5),
            rounds: 5,
            work: Kind::ALL.to_vec(),
            connections: vec![1, 16, 64],
        };
        // Cargo passes --bench; a trailing filter has no meaning here.
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(flag) = words.next() {
            let value = words.next().unwrap_or_default();
            plan.set(&flag, &value).unwrap_or_else(|| {
                panic!("{flag} {value}: use --seconds N, --rounds N, --only insert,rest,rest-no-key,mcp,list, --connections 1,16,64")
            });
        }
        plan
    }

    fn set(&mut self, flag: &str, value: &str) -> Option<()> {
        match flag {
            "--seconds" => self.seconds = Duration::try_from_secs_f64(value.parse().ok()?).ok()?,
            "--rounds" => self.rounds = value.parse().ok()?,
            "--only" => {
                let find = |word: &str| Kind::ALL.into_iter().find(|kind| kind.word() == word);
                self.work = value.split(',').map(find).collect::<Option<_>>()?;
            }
            "--connections" => {
                self.connections = value.split(',').map(|count| count.parse().ok()).collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// The turns of a round: kinds at the same number of connections stand together, and who begins changes
    /// from round to round.
    pub fn turns(&self, round: usize) -> Vec<Turn> {
        let mut turns = Vec::new();
        for &connections in &self.connections {
            let mut work: Vec<Kind> = self.work.iter().copied().filter(|kind| *kind != Kind::List).collect();
            if work.is_empty() {
                continue;
            }
            let first = round % work.len();
            work.rotate_left(first);
            if round % 2 == 1 {
                work.reverse();
            }
            turns.extend(work.into_iter().map(|kind| Turn { kind, connections }));
        }
        if self.work.contains(&Kind::List) {
            turns.push(Turn { kind: Kind::List, connections: LIST_CONNECTIONS });
        }
        turns
    }
}
