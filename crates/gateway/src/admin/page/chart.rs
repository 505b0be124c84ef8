//! Draws one chart: lines over the last minutes, or bars. The numbers stand beside it as text, for those who do not see it.

use super::html::Html;
use crate::admin::history::Line;

// === types ===

/// Lines over time.
#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    pub(super) unit: Unit,
    /// Of each moment, how many seconds ago it was.
    pub(super) ago: &'a [f64],
    pub(super) lines: Vec<Drawn<'a>>,
}

/// One line, its name, and the class that says its colour.
#[derive(Debug)]
pub(super) struct Drawn<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'static str,
    pub(super) line: &'a Line,
}

/// What a number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    PerSecond,
    /// Between 0 and 1, shown in percent.
    Share,
    Seconds,
    Count,
}

/// In units of the drawing: it is as wide as a phone, where one of them is a pixel.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 150.0;
/// The part in which lines are drawn: what is left beside the labels.
const LEFT: f64 = 46.0;
const RIGHT: f64 = WIDTH - 6.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - 22.0;
/// How far back the drawing goes, whether or not there are samples yet.
const SECONDS: f64 = 300.0;

// === impl Chart ===

impl Chart<'_> {
    pub(super) fn draw(&self) -> Html {
        let values = self.lines.iter().flat_map(|drawn| drawn.line.iter().copied().flatten());
        let most = match self.unit {
            Unit::Share => 1.0,
            Unit::PerSecond | Unit::Seconds | Unit::Count => round_above(values.clone().fold(0.0, f64::max), self.unit),
        };
        let drawing = if values.count() == 0 { Html::of(NOTHING) } else { self.drawing(most) };
        figure(self.title, self.hint, drawing, self.legend())
    }

    fn drawing(&self, most: f64) -> Html {
        let paths = self.lines.iter().map(|drawn| {
            let values = [("class", Html::of(drawn.class)), ("path", Html::text(self.path(drawn.line, most)))];
            Html::filled("<path class=\"line {{class}}\" d=\"{{path}}\"/>", &values)
        });
        let grid = [0.0, 0.5, 1.0].map(|part| grid_line(BOTTOM - part * (BOTTOM - TOP), &self.unit.text(part * most)));
        let times = [("start", LEFT, "5 min ago"), ("end", RIGHT, "now")]
            .map(|(anchor, x, words)| text(anchor, x, HEIGHT - 6.0, words));
        drawn(grid.into_iter().chain(times).chain(paths).collect())
    }

    /// A gap where nothing is known; a dot where only one moment is.
    fn path(&self, line: &Line, most: f64) -> String {
        let (mut path, mut is_open) = (String::new(), false);
        for (ago, value) in self.ago.iter().zip(line) {
            let Some(value) = value else {
                is_open = false;
                continue;
            };
            let x = RIGHT - ago.min(SECONDS) / SECONDS * (RIGHT - LEFT);
            let y = BOTTOM - value / most * (BOTTOM - TOP);
            let step = if is_open { format!("L{x:.1} {y:.1}") } else { format!("M{x:.1} {y:.1}h0") };
            path += &step;
            is_open = true;
        }
        path
    }

    fn legend(&self) -> Html {
        let item = |drawn: &Drawn<'_>| {
            let last = drawn.line.last().copied().flatten();
            let values = [
                ("class", Html::of(drawn.class)),
                ("name", Html::text(drawn.name)),
                ("last", last.map_or(Html::of("–"), |last| Html::text(self.unit.text(last)))),
            ];
            Html::filled("<li class=\"{{class}}\">{{name}} <b>{{last}}</b></li>", &values)
        };
        self.lines.iter().map(item).collect()
    }
}

// === bars ===

/// One bar per name, as high as its number.
pub(super) fn bars(title: &'static str, hint: &'static str, bars: &[(String, u64)]) -> Html {
    let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let most = bars.iter().map(|(_, count)| *count).max().unwrap_or_default();
    let scale = round_above(number(most), Unit::Count);
    let width = (RIGHT - LEFT) / number(bars.len().max(1) as u64);
    let bar = |(index, (name, count)): (u64, &(String, u64))| {
        let (x, height) = (LEFT + number(index) * width, number(*count) / scale * (BOTTOM - TOP));
        let values = [
            ("x", Html::text(format!("{:.1}", x + 3.0))),
            ("y", Html::text(format!("{:.1}", BOTTOM - height))),
            ("width", Html::text(format!("{:.1}", width - 6.0))),
            ("height", Html::text(format!("{height:.1}"))),
        ];
        let rectangle =
            Html::filled("<rect x=\"{{x}}\" y=\"{{y}}\" width=\"{{width}}\" height=\"{{height}}\"/>", &values);
        let middle = x + width / 2.0;
        [rectangle, text("middle", middle, HEIGHT - 6.0, name)].into_iter().collect()
    };
    let grid = [0.0, 0.5, 1.0].map(|part| grid_line(BOTTOM - part * (BOTTOM - TOP), &Unit::Count.text(part * scale)));
    let drawing = match most {
        0 => Html::of("<p class=\"nothing\">none</p>"),
        _ => drawn(grid.into_iter().chain((0..).zip(bars).map(bar)).collect()),
    };
    let item = |(name, count): &(String, u64)| {
        Html::filled("<li>{{name}} <b>{{count}}</b></li>", &[("name", Html::text(name)), ("count", Html::text(count))])
    };
    figure(title, hint, drawing, bars.iter().map(item).collect())
}

// === parts ===

const NOTHING: &str = "<p class=\"nothing\">nothing yet</p>";

fn figure(title: &'static str, hint: &'static str, drawing: Html, legend: Html) -> Html {
    let values = [("title", Html::of(title)), ("hint", Html::of(hint)), ("drawing", drawing), ("legend", legend)];
    Html::filled(
        "<figure><figcaption>{{title}}<small>{{hint}}</small></figcaption>{{drawing}}<ul class=\"legend\">{{legend}}</ul></figure>\n",
        &values,
    )
}

fn drawn(parts: Html) -> Html {
    let size = Html::text(format!("0 0 {WIDTH} {HEIGHT}"));
    Html::filled("<svg viewBox=\"{{size}}\" aria-hidden=\"true\">{{parts}}</svg>", &[("size", size), ("parts", parts)])
}

fn grid_line(y: f64, label: &str) -> Html {
    let line = Html::filled(
        "<line x1=\"{{left}}\" x2=\"{{right}}\" y1=\"{{y}}\" y2=\"{{y}}\"/>",
        &[("left", Html::text(LEFT)), ("right", Html::text(RIGHT)), ("y", Html::text(y))],
    );
    [line, text("end", LEFT - 5.0, y + 4.0, label)].into_iter().collect()
}

fn text(anchor: &'static str, x: f64, y: f64, words: &str) -> Html {
    let values =
        [("anchor", Html::of(anchor)), ("x", Html::text(x)), ("y", Html::text(y)), ("words", Html::text(words))];
    Html::filled("<text text-anchor=\"{{anchor}}\" x=\"{{x}}\" y=\"{{y}}\">{{words}}</text>", &values)
}

/// A round number that is not less, so that lines stay where they are while the numbers move a little. Half of it is
/// written too, so that of counts it is even.
fn round_above(value: f64, unit: Unit) -> f64 {
    let (least, steps) = match unit {
        Unit::Count => (2.0, [2.0, 4.0, 10.0]),
        Unit::PerSecond | Unit::Share => (1.0, [1.0, 2.0, 5.0]),
        Unit::Seconds => (0.001, [1.0, 2.0, 5.0]),
    };
    let value = value.max(least);
    let power = 10_f64.powf(value.log10().floor());
    // A millionth less, for what no number of two digits can be.
    steps.map(|step| step * power).into_iter().find(|round| *round >= value * 0.999_999).unwrap_or(10.0 * power)
}

// === impl Unit ===

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{} %", digits(value * 100.0)),
            Self::Seconds if value <= 0.0 => "0".to_owned(),
            Self::Seconds if value < 0.9995 => format!("{} ms", digits(value * 1000.0)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::PerSecond | Self::Count => digits(value),
        }
    }
}

/// Three digits are enough to be read.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(ago: &[f64], line: &Line) -> String {
        let lines = vec![Drawn { name: "<b>", class: "c1", line }];
        Chart { title: "Title", hint: "", unit: Unit::Seconds, ago, lines }.draw().into_string()
    }

    #[test]
    fn a_line_has_a_gap_where_nothing_is_known() {
        let html = chart(&[3.0, 2.0, 1.0, 0.0], &vec![Some(0.001), Some(0.002), None, Some(0.0)]);
        assert_eq!(html.matches('M').count(), 2, "{html}");
        assert!(html.contains("h0L"), "{html}");
        assert!(html.contains("&lt;b&gt; <b>0</b>"), "the last value stands beside it: {html}");
    }

    #[test]
    fn without_values_no_line_is_drawn() {
        assert!(chart(&[0.0], &vec![None]).contains("nothing yet"));
        assert!(!bars("Title", "", &[("1 s".to_owned(), 0)]).into_string().contains("<svg"));
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (unit, value, text) in [
            (Unit::Seconds, 0.0025, "2.5 ms"),
            (Unit::Seconds, 1.0, "1 s"),
            (Unit::Seconds, 0.0, "0"),
            (Unit::Share, 0.125, "12.5 %"),
            (Unit::PerSecond, 1234.5, "1234"),
            (Unit::Count, 10.0, "10"),
            (Unit::PerSecond, 0.333, "0.33"),
        ] {
            assert_eq!(unit.text(value), text);
        }
    }

    #[test]
    fn the_top_of_a_chart_is_a_round_number() {
        for (value, top) in
            [(0.0, 1.0), (1.5, 2.0), (2.0, 2.0), (3.0, 5.0), (7.0, 10.0), (100.0, 100.0), (101.0, 200.0)]
        {
            assert!((round_above(value, Unit::PerSecond) - top).abs() < 1e-9, "{value}");
        }
        for (value, top) in [(0.0, 2.0), (3.0, 4.0), (5.0, 10.0), (30.0, 40.0)] {
            assert!((round_above(value, Unit::Count) - top).abs() < 1e-9, "{value}");
        }
    }
}
