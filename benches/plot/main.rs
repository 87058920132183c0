//! `cargo bench --bench plot -- FOLDER`: draws what the other benches have kept, one SVG for each, into that folder;
//! without one, beside the results.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a drawing that cannot be made ends")]

mod chart;
#[path = "../stage/mod.rs"]
#[expect(dead_code, reason = "each bench uses its part of it")]
mod stage;

use std::fs;
use std::path::PathBuf;

use chart::{Bar, Chart};
use stage::results::{self, Results, Row};
use stage::say;

fn main() {
    // Cargo passes --bench, and runs benches in the package's folder.
    let folder = std::env::args().skip(1).find(|word| word != "--bench");
    let folder = folder.map_or_else(results::folder, PathBuf::from);
    fs::create_dir_all(&folder).unwrap();
    let Ok(kept) = fs::read_dir(results::folder()) else {
        return say("there are no results yet: run another bench first\n");
    };
    let files = kept.map(|entry| entry.unwrap().path());
    for file in files.filter(|file| file.extension().is_some_and(|it| it == "json")) {
        let results: Results = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let drawing = folder.join(format!("{}.svg", results.bench));
        fs::write(&drawing, draw(&results)).unwrap();
        say(&format!("{}\n", drawing.display()));
    }
}

/// What must reach something as a share of that; below it the figures, those of one unit on one scale.
fn draw(results: &Results) -> String {
    let mut chart = Chart::new(&results.bench, &results.taken);
    if !results.targets.is_empty() {
        let bars = results.targets.iter().map(|target| {
            let bound = target.bound.number();
            let Row { label, figure, .. } = &target.row;
            Bar {
                label: format!("{label} ({})", target.bound.text()),
                value: target.row.text(),
                least: figure.least / bound,
                middle: figure.middle / bound,
                most: figure.most / bound,
                good: Some(target.bound.holds(figure.middle)),
            }
        });
        chart.panel("against the targets (the line)", &bars.collect::<Vec<_>>(), Some(1.0));
    }
    let mut units: Vec<&str> = Vec::new();
    for row in &results.rows {
        if !units.contains(&row.unit.as_str()) {
            units.push(&row.unit);
        }
    }
    for unit in units {
        let of_unit = results.rows.iter().filter(|row| row.unit == unit);
        chart.panel(unit, &of_unit.map(bar).collect::<Vec<_>>(), None);
    }
    chart.svg()
}

fn bar(row: &Row) -> Bar {
    let (label, value, figure) = (row.label.clone(), row.text(), row.figure);
    Bar { label, value, least: figure.least, middle: figure.middle, most: figure.most, good: None }
}
