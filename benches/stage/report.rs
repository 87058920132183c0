//! The table of what teams of workers came to.

use std::fmt::Write;
use std::time::Duration;

use super::load::Measured;
use super::plan::Turn;
use super::results::Results;
use super::spread::Spread;

/// What was measured so far.
#[derive(Default)]
pub struct Report {
    notes: Vec<(usize, Turn, Measured)>,
}

impl Report {
    /// Keeps what a turn came to.
    pub fn note(&mut self, round: usize, turn: Turn, measured: Measured) {
        self.notes.push((round, turn, measured));
    }

    /// The table, each turn with its ratio to what `base` names; its rates and ratios go into the results.
    pub fn table(
        &self,
        turns: &[Turn],
        base: fn(&str) -> Option<&'static str>,
        results: &mut Results,
    ) -> String {
        let mut text = format!(
            "{:<12}{:>6}{:>24}{:>38}{:>9}{:>9}{:>24}\n",
            "work", "conns", "a second", "ratio", "p50 ms", "p99 ms", "CPU µs pod/pg/client"
        );
        for turn in turns {
            let base = base(turn.work);
            text.push_str(&self.line(*turn, base).unwrap_or_default());
            let label = format!("{}, {} connections", turn.work, turn.connections);
            results.row(label.clone(), "a second", self.spread(*turn, Measured::rate));
            if let Some(base) = base {
                results.row(label, &format!("of {base}"), self.ratio(*turn, base, Measured::rate));
            }
        }
        text
    }

    fn line(&self, turn: Turn, base: Option<&'static str>) -> Option<String> {
        let rate = self.spread(turn, Measured::rate)?;
        let p = |share: f64| self.spread(turn, |it| it.percentile(share)).map_or(0.0, |it| it.middle);
        let cpu = |part: fn(&Measured) -> Duration| {
            self.spread(turn, |it| it.each(part(it))).map_or(0.0, |it| it.middle)
        };
        let ratio = base.and_then(|base| {
            let ratio = self.ratio(turn, base, Measured::rate)?;
            Some(format!("{} of {base}", ratio.text(3)))
        });
        let cpus = [cpu(|it| it.cpu.pod), cpu(|it| it.cpu.postgres), cpu(|it| it.cpu.client)];
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:<12}{:>6}{:>24}{:>38}{:>9.2}{:>9.2}{:>24}",
            turn.work,
            turn.connections,
            rate.text(0),
            ratio.unwrap_or_default(),
            p(0.5),
            p(0.99),
            format!("{:.0} / {:.0} / {:.0}", cpus[0], cpus[1], cpus[2])
        );
        Some(text)
    }

    /// A figure of all rounds of a turn.
    pub fn spread(&self, turn: Turn, figure: impl Fn(&Measured) -> f64) -> Option<Spread> {
        let of_turn = self.notes.iter().filter(|(_, other, _)| *other == turn);
        Spread::of(of_turn.map(|(_, _, measured)| figure(measured)))
    }

    /// A figure of a turn over that of other work at as many connections, round by round.
    pub fn ratio(&self, turn: Turn, base: &'static str, figure: impl Fn(&Measured) -> f64) -> Option<Spread> {
        let base = Turn { work: base, ..turn };
        let of = |round: usize, turn: Turn| {
            let found = self.notes.iter().find(|(in_round, of, _)| *in_round == round && *of == turn);
            found.map(|(_, _, measured)| figure(measured))
        };
        let rounds = self.notes.iter().map(|(round, ..)| *round).max()? + 1;
        Spread::of((0..rounds).filter_map(|round| Some(of(round, turn)? / of(round, base)?)))
    }
}
