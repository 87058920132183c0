//! The table, and whether the targets hold.

use std::fmt::Write;
use std::time::Duration;

use crate::plan::{Kind, Plan, Turn};
use crate::work::Measured;

/// What was measured so far.
pub struct Report {
    machine: String,
    notes: Vec<(usize, Turn, Measured)>,
}

/// Where the targets are judged.
const JUDGED_AT: usize = 64;
/// Least rate of REST over inserts.
const REST_TARGET: f64 = 0.08;
/// Least rate of MCP over REST.
const MCP_TARGET: f64 = 0.85;
/// Least `tools/list` per second of the pod's CPU.
const LIST_TARGET: f64 = 5_000.0;

impl Report {
    /// Nothing yet.
    pub fn new(machine: String) -> Report {
        Report { machine, notes: Vec::new() }
    }

    /// Keeps what a turn came to.
    pub fn note(&mut self, round: usize, turn: Turn, measured: Measured) {
        self.notes.push((round, turn, measured));
    }

    /// The table and the verdict.
    pub fn text(&self, plan: &Plan) -> String {
        let mut text = format!(
            "{}\n{} rounds of {:?} a turn; medians over rounds, (least-most)\n\n{:<12}{:>6}{:>24}{:>26}{:>10}{:>10}{:>24}\n",
            self.machine,
            plan.rounds,
            plan.seconds,
            "work",
            "conns",
            "a second",
            "of insert",
            "p50 ms",
            "p99 ms",
            "CPU µs pod/pg/client"
        );
        for turn in plan.turns(0) {
            self.line(&mut text, turn);
        }
        text.push('\n');
        text.push_str(&self.verdict());
        text
    }

    fn line(&self, text: &mut String, turn: Turn) {
        let Some(rate) = self.spread(turn, Measured::rate) else { return };
        let p = |share: f64| {
            self.spread(turn, |it| it.percentile(share))
                .map_or(String::new(), |it| format!("{:.2}", it.middle))
        };
        let cpu = |part: fn(&Measured) -> Duration| {
            self.spread(turn, |it| it.each(part(it))).map_or(0.0, |it| it.middle)
        };
        let of_insert = match turn.kind {
            Kind::List | Kind::Insert => String::new(),
            _ => self.ratio(turn, Kind::Insert).map_or(String::new(), |it| it.text(3)),
        };
        let cpu = format!(
            "{:.0} / {:.0} / {:.0}",
            cpu(|it| it.cpu.pod),
            cpu(|it| it.cpu.postgres),
            cpu(|it| it.cpu.client)
        );
        let _ = writeln!(
            text,
            "{:<12}{:>6}{:>24}{:>26}{:>10}{:>10}{:>24}",
            turn.kind,
            turn.connections,
            rate.text(0),
            of_insert,
            p(0.5),
            p(0.99),
            cpu
        );
    }

    /// A figure of all rounds of a turn.
    fn spread(&self, turn: Turn, figure: impl Fn(&Measured) -> f64) -> Option<Spread> {
        let of_turn = self.notes.iter().filter(|(_, other, _)| *other == turn);
        Spread::of(of_turn.map(|(_, _, measured)| figure(measured)).collect())
    }

    /// The rate of a turn over that of another kind at as many connections, round by round.
    fn ratio(&self, turn: Turn, base: Kind) -> Option<Spread> {
        let base = Turn { kind: base, ..turn };
        let rate_of = |round: usize, turn: Turn| {
            let found = self.notes.iter().find(|(in_round, of, _)| *in_round == round && *of == turn);
            found.map(|(_, _, measured)| measured.rate())
        };
        let rounds = self.notes.iter().map(|(round, ..)| *round).max()? + 1;
        let ratios = (0..rounds).filter_map(|round| Some(rate_of(round, turn)? / rate_of(round, base)?));
        Spread::of(ratios.collect())
    }

    fn verdict(&self) -> String {
        let at = |kind| Turn { kind, connections: JUDGED_AT };
        let list = Turn { kind: Kind::List, connections: 16 };
        let per_core = |it: &Measured| 1e6 / it.each(it.cpu.pod);
        let targets = [
            ("REST of insert", self.ratio(at(Kind::Rest), Kind::Insert), REST_TARGET, 3),
            ("MCP of REST", self.ratio(at(Kind::Mcp), Kind::Rest), MCP_TARGET, 3),
            ("tools/list a second and core", self.spread(list, per_core), LIST_TARGET, 0),
        ];
        let judged = targets.iter().filter_map(|(name, spread, target, digits)| {
            let spread = spread.as_ref()?;
            let word = if spread.middle >= *target { "holds" } else { "MISSED" };
            Some(format!("{name} {} against {target}: {word}", spread.text(*digits)))
        });
        format!("targets: {}\n", judged.collect::<Vec<_>>().join("; "))
    }
}

impl Measured {
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds below which this share of the calls stayed.
    fn percentile(&self, share: f64) -> f64 {
        let place = (self.latencies.len() as f64 * share) as usize;
        let latency = self.latencies.get(place).or(self.latencies.last());
        latency.map_or(0.0, |it| it.as_secs_f64() * 1e3)
    }

    /// Microseconds of CPU for each call.
    fn each(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.latencies.len().max(1) as f64
    }
}

/// The median of several rounds, and how far they lie apart.
struct Spread {
    least: f64,
    middle: f64,
    most: f64,
}

impl Spread {
    fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_unstable_by(f64::total_cmp);
        let middle = *figures.get(figures.len() / 2)?;
        Some(Spread { least: *figures.first()?, middle, most: *figures.last()? })
    }

    fn text(&self, digits: usize) -> String {
        format!("{:.*} ({:.*}-{:.*})", digits, self.middle, digits, self.least, digits, self.most)
    }
}
