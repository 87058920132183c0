//! What a bench came to: told, judged against its targets, and kept in `target/bench-results/` for `plot`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::spread::{Spread, digits};

/// All figures of one bench.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// The bench.
    pub bench: String,
    /// What it ran on and for how long, in a line.
    pub taken: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// Those that must reach something.
    pub targets: Vec<Target>,
}

/// A figure.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// Of what.
    pub label: String,
    /// Its unit; empty for a plain ratio.
    pub unit: String,
    /// The figure.
    pub figure: Spread,
}

/// A figure and what it must reach.
#[derive(Debug, Serialize, Deserialize)]
pub struct Target {
    /// The figure.
    #[serde(flatten)]
    pub row: Row,
    /// What it must reach.
    pub bound: Bound,
}

/// What a figure must reach.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Bound {
    /// The number itself.
    pub fn number(self) -> f64 {
        let (Bound::AtLeast(number) | Bound::AtMost(number)) = self;
        number
    }

    /// Whether a figure reaches it.
    pub fn holds(self, figure: f64) -> bool {
        match self {
            Bound::AtLeast(number) => figure >= number,
            Bound::AtMost(number) => figure <= number,
        }
    }

    /// As a reader says it.
    pub fn text(self) -> String {
        match self {
            Bound::AtLeast(number) => format!("at least {number}"),
            Bound::AtMost(number) => format!("at most {number}"),
        }
    }
}

impl Results {
    /// None yet.
    pub fn new(bench: &str, machine: &str, plan: &Plan) -> Results {
        let taken = format!(
            "{machine}; {} rounds of {} s a turn; medians over rounds (least-most)",
            plan.rounds,
            plan.seconds.as_secs_f64()
        );
        Results { bench: bench.to_owned(), taken, rows: Vec::new(), targets: Vec::new() }
    }

    /// Keeps a figure that was measured.
    pub fn row(&mut self, label: impl Into<String>, unit: &str, figure: Option<Spread>) {
        let row = |figure| Row { label: label.into(), unit: unit.to_owned(), figure };
        self.rows.extend(figure.map(row));
    }

    /// Keeps a figure that must reach something, if it was measured.
    pub fn target(&mut self, label: &str, unit: &str, figure: Option<Spread>, bound: Bound) {
        let row = |figure| Row { label: label.to_owned(), unit: unit.to_owned(), figure };
        self.targets.extend(figure.map(|figure| Target { row: row(figure), bound }));
    }

    /// The rows as lines.
    pub fn listed(&self) -> String {
        let line = |row: &Row| format!("{:<40}{}\n", row.label, row.text());
        self.rows.iter().map(line).collect()
    }

    /// Which targets hold, as lines.
    pub fn verdict(&self) -> String {
        let line = |target: &Target| {
            let word = if target.bound.holds(target.row.figure.middle) { "holds" } else { "MISSED" };
            format!("{}: {}, {}: {word}\n", target.row.label, target.row.text(), target.bound.text())
        };
        self.targets.iter().map(line).collect()
    }

    /// Keeps them for `plot`.
    pub fn keep(&self) {
        let text = serde_json::to_string_pretty(self).expect("figures are JSON");
        fs::create_dir_all(folder()).unwrap();
        fs::write(folder().join(format!("{}.json", self.bench)), text).unwrap();
    }
}

impl Row {
    /// The figure with its spread and its unit.
    pub fn text(&self) -> String {
        let figure = self.figure.text(digits(self.figure.middle));
        format!("{figure} {}", self.unit).trim_end().to_owned()
    }
}

/// Where results are kept: beside what else is built.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench-results")
}
