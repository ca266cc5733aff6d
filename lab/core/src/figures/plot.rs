//! The plots of a figure: bars, or lines with level lines.

use super::expression;
use super::select::Rows;
use super::spec::{PlotSpec, SeriesSpec};
use crate::report::Plot;
use crate::report::bar::{BarPlot, BarRow};
use crate::report::line::{LinePlot, Series};
use crate::report::page::Figure;
use crate::report::scale::Spacing;
use crate::row::Row;

/// Colours and what they mean.
pub(super) type Legend = Vec<(usize, String)>;

impl SeriesSpec {
    /// Whether the row is the line's, or has the colour.
    pub(super) fn finds(&self, rows: &Rows<'_>, row: &Row) -> bool {
        let holds = |when: &String| {
            expression::value(when, &|name| rows.number(row, name)).is_some_and(|holds| holds != 0.0)
        };
        self.filter.has(&|key| rows.value(row, key)) && self.when.as_ref().is_none_or(holds)
    }
}

impl PlotSpec {
    /// A plot for each value of the keys it is drawn for, where there is anything to draw. The legend gets what is missing there.
    pub(super) fn figures(&self, label: &str, figure: &Rows<'_>, legend: &mut Legend) -> Vec<Figure> {
        let panels = figure.of(&self.filter).each(&self.each).into_iter();
        let drawn = panels.filter_map(|rows| {
            let plot = match &self.bars {
                Some(bars) => self.bars(label, bars, &rows, legend)?,
                None => self.lines(label, &rows, legend)?,
            };
            let caption = rows.words(rows.rows.first()?, &self.caption)?;
            Some(Figure { caption, plot })
        });
        drawn.collect()
    }

    fn bars(&self, label: &str, bars: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
        let bar = |row: &&Row| {
            let spread = row.spread?;
            let colour = self.colours.iter().find(|colour| colour.finds(rows, row));
            if let Some(colour) = colour {
                add(legend, colour.colour, &colour.name);
            }
            Some(BarRow {
                label: rows.words(row, bars)?,
                value: spread.median,
                spread: (spread.n > 1).then_some((spread.min, spread.max)),
                series: colour.map_or(1, |colour| colour.colour),
            })
        };
        let bars: Vec<BarRow> = rows.rows.iter().filter_map(bar).collect();
        if bars.is_empty() {
            return None;
        }
        Some(Box::new(BarPlot {
            label: label.to_owned(),
            axis: self.axis.clone(),
            suffix: self.unit.clone(),
            base: self.base,
            spacing: spacing(self.log),
            rows: bars,
        }))
    }

    fn lines(&self, label: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
        let points = |series: &SeriesSpec| -> Vec<(f64, f64)> {
            let found = rows.rows.iter().filter(|row| series.finds(rows, row));
            let point = |row: &&Row| Some((rows.number(row, &self.x)?, row.median()?));
            // A logarithmic axis has no zero.
            let mut points: Vec<_> = found
                .filter_map(point)
                .filter(|(_, y)| !self.log || *y > 0.0)
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let mut lines = Vec::new();
        let mut draw = |name: &str, colour: usize, points: Vec<(f64, f64)>| {
            add(legend, colour, name);
            lines.push(Series {
                name: name.to_owned(),
                colour,
                points,
            });
        };
        let mut ends = (f64::INFINITY, f64::NEG_INFINITY);
        for series in &self.series {
            let points = points(series);
            if let (Some(first), Some(last)) = (points.first(), points.last()) {
                ends = (ends.0.min(first.0), ends.1.max(last.0));
                draw(&series.name, series.colour, points);
            }
        }
        if !ends.0.is_finite() {
            return None;
        }
        for level in &self.level {
            if let Some(picked) = rows.pick(&level.pick) {
                let points = vec![(ends.0, picked.value), (ends.1, picked.value)];
                draw(&level.name, level.colour, points);
            }
        }
        Some(Box::new(LinePlot {
            label: label.to_owned(),
            x_axis: self.x_axis.clone(),
            y_axis: self.axis.clone(),
            x_spacing: spacing(self.x_log),
            y_spacing: spacing(self.log),
            x_ticks: None,
            marks: Vec::new(),
            series: lines,
        }))
    }
}

fn spacing(log: bool) -> Spacing {
    if log { Spacing::Log } else { Spacing::Linear }
}

fn add(legend: &mut Legend, colour: usize, name: &str) {
    let entry = (colour, name.to_owned());
    if !legend.contains(&entry) {
        legend.push(entry);
    }
}
