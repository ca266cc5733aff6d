//! Counts that only grow, over a common axis, with upright marks where something happened: Figure 15 of paper 003.
//!
//! Lines without dots, since there are as many points as there are events; what a mark is says its tooltip.

use super::scale::{Scale, Spacing};
use super::style::class;
use super::svg::{Anchor, Svg, text_width};
use corun_cli::number;

use super::Plot;
use super::page::Table;

/// Points of a line that are drawn at most: more cannot be told apart on a page.
const POINTS_MAX: usize = 400;
const PLOT_HEIGHT: f64 = 240.0;
const TOP: f64 = 28.0;

/// One growing count.
#[derive(Debug, Clone)]
pub struct Count {
    /// The colour: index into the page's series colours.
    pub colour: usize,
    /// Where it grew, ascending, and to what.
    pub points: Vec<(u64, u64)>,
}

/// An upright line.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Where on the horizontal axis.
    pub at: u64,
    /// What happened there.
    pub tip: String,
}

/// A plot of growing counts from 0 to `end`.
#[derive(Debug, Clone)]
pub struct CumulativePlot {
    /// What a screen reader says.
    pub label: String,
    /// The name under the horizontal axis.
    pub x_axis: String,
    /// The name above the vertical axis.
    pub y_axis: String,
    /// The end of the horizontal axis.
    pub end: u64,
    /// The lines.
    pub counts: Vec<Count>,
    /// The marks.
    pub marks: Vec<Mark>,
}

/// At most [`POINTS_MAX`] of `points`, the last among them.
fn thinned(points: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let stride = points.len().div_ceil(POINTS_MAX).max(1);
    let mut kept: Vec<(u64, u64)> = points.iter().copied().step_by(stride).collect();
    if let Some(&last) = points.last()
        && kept.last() != Some(&last)
    {
        kept.push(last);
    }
    kept
}

impl Plot for CumulativePlot {
    /// Where each mark is and what the counts had come to there; the last line is the end.
    fn table(&self) -> Table {
        let reached = |count: &Count, at: u64| {
            let before = count.points.iter().take_while(|point| point.0 <= at).last();
            before.map_or(0, |point| point.1).to_string()
        };
        let end = Mark {
            at: self.end,
            tip: "end".to_owned(),
        };
        let row = |mark: &Mark| {
            let counts = self.counts.iter().map(|count| reached(count, mark.at));
            let place = [mark.tip.clone(), mark.at.to_string()];
            place.into_iter().chain(counts).collect()
        };
        let heights = self.counts.iter().map(|_| self.y_axis.clone());
        Table {
            headings: [String::new(), self.x_axis.clone()]
                .into_iter()
                .chain(heights)
                .collect(),
            numeric_columns: self.counts.len() + 1,
            rows: self.marks.iter().chain([&end]).map(row).collect(),
        }
    }

    fn render(&self, width: f64) -> String {
        let most = self.counts.iter().flat_map(|count| &count.points);
        let most = most.map(|point| point.1).max().unwrap_or(0).max(1);
        let bottom = TOP + PLOT_HEIGHT;
        let y = Scale::new(Spacing::Linear, (0.0, most as f64), (bottom, TOP), 5);
        let labels = y.ticks().iter().map(|tick| text_width(&tick.label));
        let left = labels.fold(0.0, f64::max) + 10.0;
        let right = width - 14.0;
        let end = self.end.max(1) as f64;
        let ticks = if width < 500.0 { 4 } else { 8 };
        let x = Scale::new(Spacing::Linear, (0.0, end), (left, right), ticks);

        let mut svg = Svg::new(width, bottom + 44.0);
        for tick in y.ticks() {
            let height = y.position(tick.value);
            svg.line("grid", (left, height), (right, height));
            svg.text("tick", (left - 6.0, height + 4.0), Anchor::End, &tick.label);
        }
        for tick in x.ticks() {
            let at = (x.position(tick.value), bottom + 16.0);
            svg.text("tick", at, Anchor::Middle, &tick.label);
        }
        svg.line("base", (left, bottom), (right, bottom));
        let middle = ((left + right) / 2.0, bottom + 36.0);
        svg.text("axis-name", middle, Anchor::Middle, &self.x_axis);
        svg.text("axis-name", (0.0, 12.0), Anchor::Start, &self.y_axis);
        for mark in &self.marks {
            let at = x.position(mark.at as f64);
            // A bar one pixel wide, since a line has no tooltip.
            svg.rect("mark", (at - 0.5, TOP), (1.0, PLOT_HEIGHT), &mark.tip);
        }
        for count in &self.counts {
            let mut stairs = vec![(x.position(0.0), y.position(0.0))];
            for (at, value) in thinned(&count.points) {
                let (at, height) = (x.position(at as f64), y.position(value as f64));
                stairs.push((at, stairs[stairs.len() - 1].1));
                stairs.push((at, height));
            }
            stairs.push((x.position(end), stairs[stairs.len() - 1].1));
            svg.polyline(&class("line", count.colour), &stairs);
        }
        svg.finish(&format!(
            "{} Ends at {}.",
            self.label,
            number::short(self.end as f64)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(u64, u64)>, marks: Vec<Mark>) -> CumulativePlot {
        CumulativePlot {
            label: "misses".to_owned(),
            x_axis: "instructions".to_owned(),
            y_axis: "misses".to_owned(),
            end: 100,
            counts: vec![Count { colour: 1, points }],
            marks,
        }
    }

    #[test]
    fn counts_are_stairs_from_zero_to_the_end() {
        let drawn = plot(vec![(50, 1), (100, 2)], Vec::new()).render(600.0);
        let line = drawn
            .split("points=\"")
            .nth(1)
            .and_then(|text| text.split('"').next());
        let corners: Vec<&str> = line.expect("a line").split(' ').collect();
        // Start, two steps of two corners each, end.
        assert_eq!(corners.len(), 6, "{corners:?}");
        let height = |corner: &str| corner.split(',').nth(1).expect("two numbers").to_owned();
        assert_eq!(height(corners[0]), height(corners[1]));
        assert_ne!(height(corners[1]), height(corners[2]));
        assert_eq!(height(corners[4]), height(corners[5]));
    }

    #[test]
    fn marks_have_tooltips() {
        let mark = Mark {
            at: 10,
            tip: "CTX <1>".to_owned(),
        };
        let drawn = plot(Vec::new(), vec![mark]).render(340.0);
        assert_eq!(drawn.matches("class=\"mark\"").count(), 1);
        assert!(
            drawn.contains("CTX &lt;1&gt;") && !drawn.contains("NaN"),
            "{drawn}"
        );
    }

    #[test]
    fn long_lines_are_thinned_but_end_where_they_end() {
        let points: Vec<(u64, u64)> = (1..=10_001).map(|at| (at, at)).collect();
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS_MAX + 1, "{}", kept.len());
        assert_eq!((kept[0], kept[kept.len() - 1]), ((1, 1), (10_001, 10_001)));
        assert_eq!(thinned(&[]), []);
    }
}
