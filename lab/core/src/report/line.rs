//! Lines with dots: one or more series over a common axis, linear or logarithmic either way, with upright marks at values to be seen.

use super::scale::{Scale, Spacing};
use super::style::class;
use super::svg::{Anchor, Svg, text_width};
use corun_cli::number;

use super::Plot;
use super::page::Table;

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in tooltips; the page's legend names the colours.
    pub name: String,
    /// The colour: index into the page's series colours.
    pub colour: usize,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// An upright line at a value of the horizontal axis, such as the size of a cache.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// A few words beside it, at the top.
    pub name: String,
}

/// A plot of lines.
#[derive(Debug, Clone)]
pub struct LinePlot {
    /// What a screen reader says.
    pub label: String,
    /// The name under the horizontal axis.
    pub x_axis: String,
    /// The name above the vertical axis.
    pub y_axis: String,
    /// Horizontal spacing.
    pub x_spacing: Spacing,
    /// Vertical spacing; a linear axis starts at zero, so that heights can be compared.
    pub y_spacing: Spacing,
    /// Exactly these horizontal ticks, or round ones.
    pub x_ticks: Option<Vec<f64>>,
    /// Upright lines.
    pub marks: Vec<Mark>,
    /// The lines.
    pub series: Vec<Series>,
}

const PLOT_HEIGHT: f64 = 220.0;
const TOP: f64 = 28.0;

/// The smallest range that holds all finite values.
fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
}

impl Plot for LinePlot {
    /// A line for each value of the horizontal axis, a column for each series.
    fn table(&self) -> Table {
        let mut places: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| &series.points)
            .map(|point| point.0)
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let row = |&place: &f64| {
            let heights = self.series.iter().map(|series| {
                let point = series.points.iter().find(|point| point.0 == place);
                point.map_or_else(String::new, |point| number::short(point.1))
            });
            [number::short(place)].into_iter().chain(heights).collect()
        };
        let names = self.series.iter().map(|series| series.name.clone());
        Table {
            headings: [self.x_axis.clone()].into_iter().chain(names).collect(),
            numeric_columns: self.series.len(),
            rows: places.iter().map(row).collect(),
        }
    }

    fn render(&self, width: f64) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let (y_low, y_high) = extent(points().map(|point| point.1));
        let y_low = if self.y_spacing == Spacing::Linear {
            y_low.min(0.0)
        } else {
            y_low
        };
        let bottom = TOP + PLOT_HEIGHT;
        let y = Scale::new(self.y_spacing, (y_low, y_high), (bottom, TOP), 5);
        let left = y
            .ticks()
            .iter()
            .map(|tick| text_width(&tick.label))
            .fold(0.0, f64::max)
            + 10.0;
        let right = width - 14.0;

        let mut svg = Svg::new(width, bottom + 44.0);
        for tick in y.ticks() {
            let height = y.position(tick.value);
            svg.line("grid", (left, height), (right, height));
            svg.text("tick", (left - 6.0, height + 4.0), Anchor::End, &tick.label);
        }
        let x_extent = extent(
            points()
                .map(|point| point.0)
                .chain(self.marks.iter().map(|mark| mark.at)),
        );
        let tick_count = if width < 500.0 { 4 } else { 8 };
        let x_round = Scale::new(self.x_spacing, x_extent, (left + 10.0, right - 10.0), tick_count);
        // Named ticks (rounds, client counts) span the axis evenly from the first to the last.
        let x_position = |value: f64| match &self.x_ticks {
            Some(ticks) if ticks.len() > 1 => {
                let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
                left + 16.0 + (value - first) / (last - first) * (right - left - 32.0)
            }
            Some(_) => (left + right) / 2.0,
            None => x_round.position(value),
        };
        let x_ticks: Vec<f64> = match &self.x_ticks {
            Some(ticks) => ticks.clone(),
            None => x_round.ticks().iter().map(|tick| tick.value).collect(),
        };
        // At most about eight labels on a phone: every n-th.
        let stride = x_ticks.len().div_ceil(if width < 500.0 { 8 } else { 16 }).max(1);
        for value in x_ticks.iter().step_by(stride) {
            let position = x_position(*value);
            svg.text(
                "tick",
                (position, bottom + 16.0),
                Anchor::Middle,
                &number::short(*value),
            );
        }
        svg.line("base", (left, bottom), (right, bottom));
        svg.text(
            "axis-name",
            ((left + right) / 2.0, bottom + 36.0),
            Anchor::Middle,
            &self.x_axis,
        );
        svg.text("axis-name", (0.0, 12.0), Anchor::Start, &self.y_axis);

        for (index, mark) in self
            .marks
            .iter()
            .enumerate()
            .filter(|(_, mark)| mark.at.is_finite())
        {
            let at = x_position(mark.at);
            // A bar one pixel wide, since a line has no tooltip.
            let tip = format!("{}: {} {}", mark.name, number::short(mark.at), self.x_axis);
            svg.rect("mark", (at - 0.5, TOP), (1.0, PLOT_HEIGHT), &tip);
            // Names stand below each other, on the side that has room.
            let height = TOP + 12.0 + index as f64 * 15.0;
            let name_width = text_width(&mark.name) + 6.0;
            let (x, anchor) = if at + name_width < right {
                (at + 6.0, Anchor::Start)
            } else if at - name_width > left {
                (at - 6.0, Anchor::End)
            } else {
                (right, Anchor::End)
            };
            svg.text("tick halo", (x, height), anchor, &mark.name);
        }
        for series in &self.series {
            let drawn: Vec<(f64, f64)> = series
                .points
                .iter()
                .filter(|point| point.0.is_finite() && point.1.is_finite())
                .map(|point| (x_position(point.0), y.position(point.1)))
                .collect();
            svg.polyline(&class("line", series.colour), &drawn);
            let finite = series
                .points
                .iter()
                .filter(|point| point.0.is_finite() && point.1.is_finite());
            for (point, position) in finite.zip(&drawn) {
                let tip = format!(
                    "{}, {} {}: {} {}",
                    series.name,
                    self.x_axis,
                    number::short(point.0),
                    number::short(point.1),
                    self.y_axis
                );
                svg.dot(&class("dot", series.colour), *position, &tip);
            }
        }
        svg.finish(&self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> LinePlot {
        LinePlot {
            label: "throughput".to_owned(),
            x_axis: "round".to_owned(),
            y_axis: "queries/s".to_owned(),
            x_spacing: Spacing::Linear,
            y_spacing: Spacing::Linear,
            x_ticks: Some(vec![1.0, 2.0, 3.0]),
            marks: Vec::new(),
            series: vec![Series {
                name: "stock".to_owned(),
                colour: 0,
                points,
            }],
        }
    }

    #[test]
    fn one_dot_per_finite_point() {
        let drawn = plot(vec![(1.0, 5.0), (2.0, f64::NAN), (3.0, 7.0)]).render(600.0);
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains("stock, round 3: 7 queries/s"), "{drawn}");
    }

    #[test]
    fn marks_are_within_the_axis_and_named() {
        let mut marked = plot(vec![(1.0, 5.0), (3.0, 7.0)]);
        marked.x_ticks = None;
        marked.marks = [2.0, 9.0, f64::NAN]
            .map(|at| Mark {
                at,
                name: "cache <L3>".to_owned(),
            })
            .to_vec();
        let drawn = marked.render(600.0);
        assert_eq!(drawn.matches("class=\"mark\"").count(), 2);
        assert!(drawn.contains("cache &lt;L3&gt;: 9 round"), "{drawn}");
        assert!(
            drawn.contains(r#"text-anchor="end">cache &lt;L3&gt;</text>"#),
            "{drawn}"
        );
    }

    #[test]
    fn an_empty_plot_is_still_a_plot() {
        let drawn = plot(Vec::new()).render(340.0);
        assert!(drawn.starts_with("<svg") && drawn.ends_with("</svg>"));
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
