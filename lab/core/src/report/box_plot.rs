//! Quantile boxes: how a latency spreads, one row per class and side.
//!
//! ```text
//!   p5      p25  p50  p75           p95          max
//!   |--------[====|====]-------------|            o
//! ```

use super::scale::{Scale, Spacing};
use super::style::class;
use super::svg::{Anchor, Svg, text_width};
use corun_cli::number;

use super::Plot;
use super::page::Table;

/// The quantiles of one distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// 5 % of the samples are below.
    pub p05: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// 95 % of the samples are below.
    pub p95: f64,
    /// The largest sample.
    pub max: f64,
}

/// One box.
#[derive(Debug, Clone)]
pub struct BoxRow {
    /// Its name, above the box.
    pub label: String,
    /// The colour: index into the page's series colours.
    pub series: usize,
    /// Where it sits; `None` when there is no sample.
    pub quantiles: Option<Quantiles>,
}

/// A plot of boxes.
#[derive(Debug, Clone)]
pub struct BoxPlot {
    /// What a screen reader says.
    pub label: String,
    /// What the axis counts, with its unit.
    pub axis: String,
    /// Linear or logarithmic.
    pub spacing: Spacing,
    /// Top to bottom.
    pub rows: Vec<BoxRow>,
}

const ROW_HEIGHT: f64 = 46.0;
const BOX_HEIGHT: f64 = 16.0;

impl Plot for BoxPlot {
    fn table(&self) -> Table {
        let row = |row: &BoxRow| {
            let quantiles = row
                .quantiles
                .map_or([f64::NAN; 4], |q| [q.p05, q.p50, q.p95, q.max]);
            let cells = quantiles.map(|value| match value.is_nan() {
                true => String::new(),
                false => number::short(value),
            });
            [row.label.clone()].into_iter().chain(cells).collect()
        };
        Table {
            headings: [self.axis.as_str(), "p5", "p50", "p95", "max"]
                .map(str::to_owned)
                .to_vec(),
            numeric_columns: 4,
            rows: self.rows.iter().map(row).collect(),
        }
    }

    fn render(&self, width: f64) -> String {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
        for quantiles in self.rows.iter().filter_map(|row| row.quantiles) {
            low = low.min(quantiles.p05);
            high = high.max(quantiles.max);
        }
        if self.spacing == Spacing::Linear {
            low = 0.0;
        }
        let (left, right) = (12.0, width - 14.0);
        let bottom = self.rows.len() as f64 * ROW_HEIGHT + 4.0;
        let ticks = if width < 500.0 { 4 } else { 8 };
        let scale = Scale::new(self.spacing, (low, high), (left, right), ticks);
        let mut svg = Svg::new(width, bottom + 44.0);
        // Where labels would collide, only every n-th is written.
        let labels = scale.ticks();
        let widest = labels
            .iter()
            .map(|tick| text_width(&tick.label))
            .fold(0.0, f64::max)
            + 8.0;
        let stride = (labels.len() as f64 * widest / (right - left)).ceil().max(1.0) as usize;
        for (index, tick) in labels.iter().enumerate() {
            let x = scale.position(tick.value);
            svg.line("grid", (x, 0.0), (x, bottom));
            if index % stride == 0 {
                svg.text("tick", (x, bottom + 16.0), Anchor::Middle, &tick.label);
            }
        }
        svg.line("base", (left, bottom), (right, bottom));
        svg.text(
            "axis-name",
            ((left + right) / 2.0, bottom + 36.0),
            Anchor::Middle,
            &self.axis,
        );
        for (index, row) in self.rows.iter().enumerate() {
            let top = index as f64 * ROW_HEIGHT;
            let middle = top + 20.0 + BOX_HEIGHT / 2.0;
            let Some(q) = row.quantiles else {
                svg.text(
                    "label halo",
                    (left, top + 14.0),
                    Anchor::Start,
                    &format!("{}: no sample", row.label),
                );
                continue;
            };
            let heading = format!(
                "{}: median {}, p95 {}",
                row.label,
                number::short(q.p50),
                number::short(q.p95)
            );
            svg.text("label halo", (left, top + 14.0), Anchor::Start, &heading);
            let x = |value: f64| scale.position(value);
            svg.line("whisker", (x(q.p05), middle), (x(q.p25), middle));
            svg.line("whisker", (x(q.p75), middle), (x(q.p95), middle));
            for end in [q.p05, q.p95] {
                svg.line("whisker", (x(end), middle - 5.0), (x(end), middle + 5.0));
            }
            let tip = format!(
                "{}: p5 {}, p25 {}, median {}, p75 {}, p95 {}, max {}",
                row.label,
                number::short(q.p05),
                number::short(q.p25),
                number::short(q.p50),
                number::short(q.p75),
                number::short(q.p95),
                number::short(q.max)
            );
            svg.rect(
                &class("fill", row.series),
                (x(q.p25), middle - BOX_HEIGHT / 2.0),
                ((x(q.p75) - x(q.p25)).max(2.0), BOX_HEIGHT),
                &tip,
            );
            let median = x(q.p50);
            svg.line(
                "median",
                (median, middle - BOX_HEIGHT / 2.0),
                (median, middle + BOX_HEIGHT / 2.0),
            );
            svg.dot(&class("ring", row.series), (x(q.max), middle), &tip);
        }
        svg.finish(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_and_missing_samples() {
        let q = Quantiles {
            p05: 1.0,
            p25: 2.0,
            p50: 3.0,
            p75: 4.0,
            p95: 9.0,
            max: 20.0,
        };
        let plot = BoxPlot {
            label: "latency".to_owned(),
            axis: "ms".to_owned(),
            spacing: Spacing::Log,
            rows: vec![
                BoxRow {
                    label: "short, stock".to_owned(),
                    series: 0,
                    quantiles: Some(q),
                },
                BoxRow {
                    label: "short, corun".to_owned(),
                    series: 1,
                    quantiles: None,
                },
            ],
        };
        let drawn = plot.render(340.0);
        assert_eq!(drawn.matches("<rect").count(), 1);
        assert!(drawn.contains("short, stock: median 3, p95 9"));
        assert!(drawn.contains("short, corun: no sample"));
    }
}
