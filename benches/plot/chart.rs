//! Horizontal bars as SVG.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
/// Where labels end and bars begin.
const LEFT: f64 = 330.0;
/// How long the longest bar may be; behind it stands its figure.
const LONGEST: f64 = 380.0;
const LINE: f64 = 22.0;

/// One bar.
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// The figure as text.
    pub value: String,
    /// Where the whisker begins.
    pub least: f64,
    /// How long the bar is.
    pub middle: f64,
    /// Where the whisker ends.
    pub most: f64,
    /// Whether it reaches its target, if it has one.
    pub good: Option<bool>,
}

/// Panels of bars, one below the other.
pub struct Chart {
    body: String,
    /// Where the next line goes.
    top: f64,
}

impl Chart {
    /// With a title and a line below it.
    pub fn new(title: &str, below: &str) -> Chart {
        let mut chart = Chart { body: String::new(), top: 28.0 };
        chart.text(16.0, "start", "font-size='16' font-weight='bold'", title);
        chart.text(16.0, "start", "fill='#666'", below);
        chart
    }

    /// Adds bars on a scale of their own, with a line across them where they have a bound.
    pub fn panel(&mut self, title: &str, bars: &[Bar], line: Option<f64>) {
        let most = bars.iter().map(|bar| bar.most).chain(line).fold(f64::MIN_POSITIVE, f64::max);
        let at = |figure: f64| LEFT + figure / most * LONGEST;
        self.top += LINE / 2.0;
        self.text(16.0, "start", "font-weight='bold'", title);
        let begin = self.top - LINE * 0.7;
        for bar in bars {
            self.bar(bar, at);
        }
        if let Some(line) = line {
            let (x, end) = (at(line), self.top - LINE * 0.7);
            let _ = writeln!(
                self.body,
                "<line x1='{x:.1}' x2='{x:.1}' y1='{begin:.1}' y2='{end:.1}' stroke='#222' stroke-dasharray='4 3'/>"
            );
        }
    }

    fn bar(&mut self, bar: &Bar, at: impl Fn(f64) -> f64) {
        let colour = match bar.good {
            None => "#7c9cc4",
            Some(true) => "#6aa87a",
            Some(false) => "#cc7a6a",
        };
        let (top, middle, long) = (self.top - 13.0, self.top - 5.0, at(bar.middle) - LEFT);
        let (least, most) = (at(bar.least), at(bar.most));
        let _ = writeln!(
            self.body,
            "<rect x='{LEFT}' y='{top:.1}' width='{long:.1}' height='16' fill='{colour}'/>\n\
             <line x1='{least:.1}' x2='{most:.1}' y1='{middle:.1}' y2='{middle:.1}' stroke='#333'/>"
        );
        let line = self.top;
        self.text(LEFT - 8.0, "end", "", &bar.label);
        self.top = line;
        self.text(most.max(at(bar.middle)) + 8.0, "start", "", &bar.value);
    }

    /// One line of text; the next one comes below.
    fn text(&mut self, x: f64, anchor: &str, style: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let y = self.top;
        let _ =
            writeln!(self.body, "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' {style}>{text}</text>");
        self.top += LINE;
    }

    /// The whole drawing.
    pub fn svg(&self) -> String {
        let (height, body) = (self.top, &self.body);
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='12'>\n\
             <rect width='{WIDTH}' height='{height}' fill='#fff'/>\n{body}</svg>\n"
        )
    }
}
