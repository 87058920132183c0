//! A figure of several rounds.

use serde::{Deserialize, Serialize};

/// The median of several rounds, and how far they lie apart.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Spread {
    /// The least.
    pub least: f64,
    /// The median.
    pub middle: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of these; nothing of none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_unstable_by(f64::total_cmp);
        let middle = *figures.get(figures.len() / 2)?;
        Some(Spread { least: *figures.first()?, middle, most: *figures.last()? })
    }

    /// `middle (least-most)`.
    pub fn text(&self, digits: usize) -> String {
        format!("{:.*} ({:.*}-{:.*})", digits, self.middle, digits, self.least, digits, self.most)
    }
}

/// Digits after the point, so that three figures say something.
pub fn digits(figure: f64) -> usize {
    match figure.abs() {
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    }
}
