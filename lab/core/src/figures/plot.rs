//! The plots of a figure: bars, boxes, or lines with level lines.

use super::expression;
use super::select::{Picked, Rows};
use super::spec::{PlotSpec, SeriesSpec};
use crate::report::Plot;
use crate::report::bar::{BarPlot, BarRow};
use crate::report::box_plot::{BoxPlot, BoxRow, Quantiles};
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
            let plot = match (&self.bars, &self.boxes) {
                (Some(bars), _) => self.bars(label, bars, &rows, legend)?,
                (None, Some(boxes)) => self.boxes(label, boxes, &rows, legend)?,
                (None, None) => self.lines(label, &rows, legend)?,
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
        let panels = rows.each(&self.each).into_iter();
        panels.map(|panel| panel.keep(&self.keep)).collect()
    }

    /// What is drawn of a row, with the range of its rounds.
    fn value<'r>(&self, rows: &Rows<'r>, row: &'r Row) -> Option<Picked<'r>> {
        rows.value_of(row, (&self.y, &self.over), |row| row.spread)
    }

    fn bars(&self, label: &str, bars: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
        let mut drawn = Vec::new();
        for row in &rows.rows {
            let (Some(picked), Some(label)) = (self.value(rows, row), rows.words(row, bars)) else {
                continue;
            };
            let several = row.spread.is_some_and(|spread| spread.n > 1);
            let series = self.colour(rows, row, legend);
            let paper = rows.number(row, "paper").filter(|_| self.paper).map(|value| {
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
                value: picked.value,
                spread: several.then_some((picked.low, picked.high)),
                series,
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

    /// The colour of a bar or a box; the legend names it.
    fn colour(&self, rows: &Rows<'_>, row: &Row, legend: &mut Legend) -> usize {
        match self.colours.iter().find(|colour| colour.finds(rows, row)) {
            Some(colour) => {
                add(legend, colour.colour, &colour.name);
                colour.colour
            }
            None => 1,
        }
    }

    fn boxes(&self, label: &str, boxes: &str, rows: &Rows<'_>, legend: &mut Legend) -> Option<Box<dyn Plot>> {
        let drawn = rows.rows.iter().filter_map(|row| {
            let spread = row.spread?;
            let quantiles = Quantiles {
                p05: row.number("p05")?,
                p25: row.number("p25")?,
                p50: spread.median,
                p75: row.number("p75")?,
                p95: row.number("p95")?,
                max: spread.max,
            };
            Some(BoxRow {
                label: rows.words(row, boxes)?,
                series: self.colour(rows, row, legend),
                quantiles: Some(quantiles),
            })
        });
        let drawn: Vec<BoxRow> = drawn.collect();
        (!drawn.is_empty()).then(|| {
            let plot: Box<dyn Plot> = Box::new(BoxPlot {
                label: label.to_owned(),
                axis: self.axis.clone(),
                spacing: spacing(self.log),
                rows: drawn,
            });
            plot
        })
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
        let mut places: Vec<f64> = Vec::new();
        for (name, colour, of) in self.rows_of_lines(rows) {
            let points = self.points(rows, &of);
            if !points.is_empty() {
                places.extend(points.iter().map(|(x, _)| x));
                draw(&name, colour, points);
            }
        }
        places.sort_by(f64::total_cmp);
        places.dedup();
        let ends = (*places.first()?, *places.last()?);
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
            x_ticks: if self.x_points {
                Some(places)
            } else {
                self.x_ticks.clone()
            },
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
                None => {
                    let colour = self.colours.iter().find(|colour| colour.finds(rows, row));
                    let colour = colour.map_or(lines.len(), |colour| colour.colour);
                    lines.push((name, colour, vec![row]));
                }
            }
        }
        lines
    }

    /// Places and values of a line's rows, from left to right.
    pub(super) fn points<'r>(&self, rows: &Rows<'r>, of: &[&'r Row]) -> Vec<(f64, f64)> {
        let x = |row: &Row| expression::value(&self.x, &|name| rows.number(row, name));
        let points = of
            .iter()
            .filter_map(|row| Some((x(row)?, self.value(rows, row)?.value)));
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
