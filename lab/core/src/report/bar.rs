//! Horizontal bars with whiskers: one value per row, its spread, and a reference line.
//!
//! Rows run downwards because names are longer than bars are wide, and a phone scrolls down, not sideways.

use super::scale::{Scale, Spacing};
use super::style::class;
use super::svg::{Anchor, Svg, text_width};
use corun_cli::number;

use super::Plot;
use super::page::Table;

/// One bar.
#[derive(Debug, Clone)]
pub struct BarRow {
    /// Its name, left of the bar.
    pub label: String,
    /// The bar's end.
    pub value: f64,
    /// The whisker, when the spread is known.
    pub spread: Option<(f64, f64)>,
    /// The colour: index into the page's series colours.
    pub series: usize,
}

/// A plot of bars.
#[derive(Debug, Clone)]
pub struct BarPlot {
    /// What a screen reader says.
    pub label: String,
    /// What the axis counts.
    pub axis: String,
    /// Written after each value, such as `x`.
    pub suffix: String,
    /// Bars start here and a line is drawn: 1 for ratios, 0 for amounts.
    pub base: f64,
    /// Linear, or logarithmic (then `base` must be positive): a ratio of 2 and one of 1/2 are equally far from 1.
    pub spacing: Spacing,
    /// Top to bottom.
    pub rows: Vec<BarRow>,
}

const ROW_HEIGHT: f64 = 24.0;
const BAR_HEIGHT: f64 = 14.0;
/// Height of a row whose name stands above its bar.
const STACKED_HEIGHT: f64 = 40.0;

impl BarPlot {
    /// The smallest range that shows the base, every value and every whisker.
    fn range(&self) -> (f64, f64) {
        let mut low = self.base;
        let mut high = self.base;
        for row in &self.rows {
            let (row_low, row_high) = row.spread.unwrap_or((row.value, row.value));
            for value in [row.value, row_low, row_high]
                .into_iter()
                .filter(|value| value.is_finite())
            {
                low = low.min(value);
                high = high.max(value);
            }
        }
        (low, high)
    }
}

impl BarPlot {
    /// What stands behind a bar. Two decimals line up; of small shares they would leave nothing, and large numbers have no room for them.
    fn value_text(&self, row: &BarRow) -> String {
        if row.value == 0.0 || (0.1..1e4).contains(&row.value.abs()) {
            format!("{:.2}{}", row.value, self.suffix)
        } else {
            format!("{}{}", number::short(row.value), self.suffix)
        }
    }
}

impl Plot for BarPlot {
    fn table(&self) -> Table {
        let row = |row: &BarRow| {
            let spread = row
                .spread
                .map(|(low, high)| format!("{} to {}", number::short(low), number::short(high)));
            vec![
                row.label.clone(),
                self.value_text(row),
                spread.unwrap_or_default(),
            ]
        };
        Table {
            headings: vec![String::new(), self.axis.clone(), "spread".to_owned()],
            numeric_columns: 2,
            rows: self.rows.iter().map(row).collect(),
        }
    }

    fn render(&self, width: f64) -> String {
        let names = self
            .rows
            .iter()
            .map(|row| text_width(&row.label))
            .fold(0.0, f64::max);
        // Names that would take too much of a narrow drawing stand above their bars.
        let stacked = names + 16.0 > width * 0.4;
        let left = if stacked { 6.0 } else { names + 16.0 };
        let row_height = if stacked { STACKED_HEIGHT } else { ROW_HEIGHT };
        let values = self.rows.iter().map(|row| text_width(&self.value_text(row)));
        let right = width - values.fold(text_width("00.00x"), f64::max) - 12.0;
        let bottom = self.rows.len() as f64 * row_height + 4.0;
        let ticks = if width < 500.0 { 3 } else { 6 };
        let scale = Scale::new(self.spacing, self.range(), (left, right), ticks);
        let mut svg = Svg::new(width, bottom + 44.0);
        for tick in scale.ticks() {
            let x = scale.position(tick.value);
            svg.line("grid", (x, 0.0), (x, bottom));
            let middle = x.max(text_width(&tick.label) / 2.0);
            svg.text("tick", (middle, bottom + 16.0), Anchor::Middle, &tick.label);
        }
        svg.text(
            "axis-name",
            (width / 2.0, bottom + 36.0),
            Anchor::Middle,
            &self.axis,
        );
        let base = scale.position(self.base);
        for (index, row) in self.rows.iter().enumerate() {
            let top = index as f64 * row_height;
            let middle = top + row_height - ROW_HEIGHT / 2.0;
            if stacked {
                svg.text("label halo", (left, top + 13.0), Anchor::Start, &row.label);
            } else {
                svg.text("label", (left - 8.0, middle + 4.0), Anchor::End, &row.label);
            }
            if !row.value.is_finite() {
                svg.text("tick", (base + 6.0, middle + 4.0), Anchor::Start, "no sample");
                continue;
            }
            let end = scale.position(row.value);
            let spread_text = row.spread.map_or(String::new(), |(low, high)| {
                format!(" ({}..{})", number::short(low), number::short(high))
            });
            let tip = format!(
                "{}: {}{}{spread_text}",
                row.label,
                number::short(row.value),
                self.suffix
            );
            let top = middle - BAR_HEIGHT / 2.0;
            svg.rect(
                &class("fill", row.series),
                (base.min(end), top),
                ((end - base).abs().max(1.0), BAR_HEIGHT),
                &tip,
            );
            let mut text_x = base.max(end);
            if let Some((low, high)) = row.spread {
                let (low, high) = (scale.position(low), scale.position(high));
                svg.line("whisker", (low, middle), (high, middle));
                svg.line("whisker", (low, middle - 4.0), (low, middle + 4.0));
                svg.line("whisker", (high, middle - 4.0), (high, middle + 4.0));
                text_x = text_x.max(high);
            }
            let value = self.value_text(row);
            svg.text("value", (text_x + 6.0, middle + 4.0), Anchor::Start, &value);
        }
        svg.line("base", (base, 0.0), (base, bottom));
        svg.finish(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> BarPlot {
        BarPlot {
            label: "speed-up".to_owned(),
            axis: "times faster".to_owned(),
            suffix: "x".to_owned(),
            base: 1.0,
            spacing: Spacing::Linear,
            rows: vec![
                BarRow {
                    label: "Q1.1".to_owned(),
                    value: 1.5,
                    spread: Some((1.2, 1.9)),
                    series: 1,
                },
                BarRow {
                    label: "Q1.2".to_owned(),
                    value: 0.5,
                    spread: None,
                    series: 0,
                },
                BarRow {
                    label: "Q1.3".to_owned(),
                    value: f64::NAN,
                    spread: None,
                    series: 0,
                },
            ],
        }
    }

    #[test]
    fn every_row_is_drawn_and_missing_values_say_so() {
        let drawn = plot().render(400.0);
        assert_eq!(drawn.matches("<rect").count(), 2);
        assert_eq!(drawn.matches("whisker").count(), 3);
        assert!(drawn.contains("no sample"));
        assert!(drawn.contains("Q1.1: 1.5x (1.2..1.9)"));
    }

    #[test]
    fn long_names_stand_above_their_bars_where_there_is_no_room() {
        let mut plot = plot();
        plot.rows[0].label = "a_function_with_a_long_name".to_owned();
        let place = |width: f64| {
            let drawn = plot.render(width);
            let label = drawn.find(">a_function_with_a_long_name<").expect("a label");
            let text = drawn[..label].rfind("<text").expect("a text");
            drawn[text..label].to_owned()
        };
        assert!(place(800.0).contains(r#"text-anchor="end""#));
        assert!(
            place(318.0).contains(r#"x="6.0" y="13.0" text-anchor="start""#),
            "{}",
            place(318.0)
        );
    }

    #[test]
    fn the_range_holds_base_values_and_whiskers() {
        assert_eq!(plot().range(), (0.5, 1.9));
    }
}
