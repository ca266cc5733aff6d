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

/// The colour of the paper's bars.
const PAPER: usize = 3;

impl SeriesSpec {
    /// Whether the row is the line's, or has the colour.
    pub(super) fn finds(&self, rows: &Rows<'_>, row: &Row) -> bool {
        self.filter.has(&|key| rows.value(row, key)) && rows.holds(row, self.when.as_deref())
    }
}

impl PlotSpec {
    /// A plot for each value of the keys it is drawn for, where there is anything to draw. The legend gets what is missing there.
    pub(super) fn figures(&self, label: &str, figure: &Rows<'_>, legend: &mut Legend) -> Vec<Figure> {
        let drawn = self.panels(figure).into_iter().filter_map(|rows| {
            let plot = match &self.bars {
                Some(bars) => self.bars(label, bars, &rows, legend)?,
                None => self.lines(label, &rows, legend)?,
            };
            let caption = rows.words(rows.rows.first()?, &self.caption)?;
            Some(Figure { caption, plot })
        });
        drawn.collect()
    }

    /// The rows of each plot.
    pub(super) fn panels<'r>(&self, figure: &Rows<'r>) -> Vec<Rows<'r>> {
        let rows = match self.controls {
            true => figure.all(&self.filter),
            false => figure.of(&self.filter),
        };
        rows.each(&self.each)
    }

    fn bars(&self, label: &str, bars: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
        let mut drawn = Vec::new();
        for row in &rows.rows {
            let (Some(spread), Some(label)) = (row.spread, rows.words(row, bars)) else {
                continue;
            };
            let colour = self.colours.iter().find(|colour| colour.finds(rows, row));
            if let Some(colour) = colour {
                add(legend, colour.colour, &colour.name);
            }
            let paper = row.number("paper").filter(|_| self.paper).map(|value| {
                add(legend, PAPER, "the paper's");
                BarRow {
                    label: format!("{label}, paper"),
                    value,
                    spread: None,
                    series: PAPER,
                }
            });
            drawn.push(BarRow {
                label,
                value: spread.median,
                spread: (spread.n > 1).then_some((spread.min, spread.max)),
                series: colour.map_or(1, |colour| colour.colour),
            });
            drawn.extend(paper);
        }
        if drawn.is_empty() {
            return None;
        }
        Some(Box::new(BarPlot {
            label: label.to_owned(),
            axis: self.axis.clone(),
            suffix: self.unit.clone(),
            base: self.base,
            spacing: spacing(self.log),
            rows: drawn,
        }))
    }

    fn lines(&self, label: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
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
        for (name, colour, of) in self.rows_of_lines(rows) {
            let points = self.points(rows, &of);
            if let (Some(first), Some(last)) = (points.first(), points.last()) {
                ends = (ends.0.min(first.0), ends.1.max(last.0));
                draw(&name, colour, points);
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
            x_ticks: self.x_ticks.clone(),
            marks: Vec::new(),
            series: lines,
        }))
    }
}

impl PlotSpec {
    /// Names, colours and rows of the lines: those that are listed, or one for each name that the rows have.
    pub(super) fn rows_of_lines<'r>(&self, rows: &Rows<'r>) -> Vec<(String, usize, Vec<&'r Row>)> {
        let all = || rows.rows.iter().copied();
        let Some(by) = &self.by else {
            let of = |series: &SeriesSpec| all().filter(|row| series.finds(rows, row)).collect();
            let lines = self.series.iter();
            return lines
                .map(|series| (series.name.clone(), series.colour, of(series)))
                .collect();
        };
        let mut lines: Vec<(String, usize, Vec<&Row>)> = Vec::new();
        for (row, name) in all().filter_map(|row| Some((row, rows.words(row, by)?))) {
            match lines.iter_mut().find(|(known, ..)| *known == name) {
                Some((.., of)) => of.push(row),
                None => lines.push((name, lines.len(), vec![row])),
            }
        }
        lines
    }

    /// Places and values of a line's rows, from left to right.
    pub(super) fn points(&self, rows: &Rows<'_>, of: &[&Row]) -> Vec<(f64, f64)> {
        let x = |row: &Row| expression::value(&self.x, &|name| rows.number(row, name));
        let points = of.iter().filter_map(|row| Some((x(row)?, row.median()?)));
        // A logarithmic axis has no zero.
        let mut points: Vec<_> = points.filter(|(_, y)| !self.log || *y > 0.0).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
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
