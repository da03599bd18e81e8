//! Line charts as inline SVG: no script, no font, no file beside the page.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
const LEFT: f64 = 80.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 8.0;
const COLOURS: [&str; 4] = ["#2563eb", "#dc2626", "#059669", "#9333ea"];

/// One line of a chart: its name and its points.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of lines over time, from 0 upwards.
pub(super) fn chart(title: &str, unit: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let right = all().map(|p| p.0).fold(1.0, f64::max);
    let top = round_up(all().map(|p| p.1).filter(|y| y.is_finite()).fold(0.0, f64::max));
    let x = |v: f64| LEFT + (WIDTH - LEFT - 16.0) * v / right;
    let y = |v: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - v / top);
    let mut out = format!("<figure><figcaption>{title}");
    for (line, colour) in lines.iter().zip(COLOURS) {
        let _infallible = write!(out, " <b style=\"color:{colour}\">{}</b>", line.name);
    }
    let _infallible =
        write!(out, "</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">");
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let at = y(value);
        let _infallible = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{} {unit}</text>",
            LEFT - 5.0,
            at + 4.0,
            short(value)
        );
    }
    for step in 0..=6 {
        let value = right * f64::from(step) / 6.0;
        let (at, base) = (x(value), HEIGHT - 6.0);
        let _infallible = write!(out, "<text x=\"{at:.1}\" y=\"{base}\" text-anchor=\"middle\">{value:.0} s</text>");
    }
    for (line, colour) in lines.iter().zip(COLOURS) {
        let points: Vec<_> = line.points.iter().map(|p| format!("{:.1},{:.1}", x(p.0), y(p.1))).collect();
        let _infallible = write!(out, "<polyline points=\"{}\" stroke=\"{colour}\"/>", points.join(" "));
    }
    out + "</svg></figure>\n"
}

/// The next of 1, 2, 4, 5, 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|n| *n >= value).unwrap_or(value)
}

fn short(value: f64) -> String {
    if value >= 10_000.0 {
        format!("{:.0}k", value / 1000.0)
    } else if value >= 10.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_scales_to_its_largest_value() {
        let line = Line { name: "p99", points: vec![(0.0, 0.0), (10.0, 37.0)] };
        let svg = chart("Latency", "ms", &[line]);
        assert!(svg.contains(">40 ms<"), "{svg}");
        assert!(svg.contains("80.0,158.0 704.0,"), "{svg}");
        assert_eq!([0.0, 0.3, 1.0, 37.0, 99.0].map(round_up), [1.0, 0.4, 1.0, 40.0, 100.0]);
        // Nothing measured is a chart too.
        assert!(chart("Empty", "ms", &[]).contains("</svg>"));
    }
}
