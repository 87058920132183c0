//! What was asked for on the command line, and who begins in which round.

use std::time::Duration;

/// One kind of work at one number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// What is done.
    pub work: &'static str,
    /// By how many connections at once.
    pub connections: usize,
}

/// What a bench does. One that knows no connections, or no streams, leaves them empty and takes no such flag.
#[derive(Debug)]
pub struct Plan {
    /// How long a turn is measured.
    pub seconds: Duration,
    /// How often each turn comes.
    pub rounds: usize,
    /// The kinds of work.
    pub only: Vec<&'static str>,
    /// The numbers of connections.
    pub connections: Vec<usize>,
    /// How many streams are held open.
    pub streams: usize,
}

impl Plan {
    /// These defaults, changed by the command line; what it does not understand ends the bench with a sentence.
    pub fn from_arguments(defaults: Plan) -> Plan {
        let mut plan = defaults;
        let known = plan.only.join(",");
        // Cargo passes --bench; a trailing filter has no meaning here.
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(flag) = words.next() {
            let value = words.next().unwrap_or_default();
            plan.set(&flag, &value).unwrap_or_else(|| {
                panic!("{flag} {value}: use --seconds N, --rounds N, --only {known}, or, where there are any, --connections 16,64 and --streams N")
            });
        }
        plan
    }

    fn set(&mut self, flag: &str, value: &str) -> Option<()> {
        match flag {
            "--seconds" => self.seconds = Duration::try_from_secs_f64(value.parse().ok()?).ok()?,
            "--rounds" => self.rounds = value.parse().ok()?,
            "--only" => {
                let find = |word: &str| self.only.iter().copied().find(|known| *known == word);
                self.only = value.split(',').map(find).collect::<Option<_>>()?;
            }
            "--connections" if !self.connections.is_empty() => {
                self.connections = value.split(',').map(|count| count.parse().ok()).collect::<Option<_>>()?;
            }
            "--streams" if self.streams > 0 => {
                self.streams = value.parse().ok().filter(|count| *count > 0)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Those of these kinds of work that were asked for.
    pub fn among(&self, works: &[&'static str]) -> Vec<&'static str> {
        works.iter().copied().filter(|work| self.only.contains(work)).collect()
    }

    /// The most connections that were asked for.
    pub fn most(&self) -> usize {
        self.connections.iter().copied().max().unwrap_or(1)
    }
}

/// The turns of a round that stand together; who begins changes from round to round.
pub fn turns(mut works: Vec<&'static str>, connections: usize, round: usize) -> Vec<Turn> {
    if !works.is_empty() {
        let first = round % works.len();
        works.rotate_left(first);
    }
    if round % 2 == 1 {
        works.reverse();
    }
    works.into_iter().map(|work| Turn { work, connections }).collect()
}
