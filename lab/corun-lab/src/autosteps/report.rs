//! A [`Study`] as a page with plots: the paper's Figures 15 and 16 of each operation.

use lab_core::report::cumulative::{Count, CumulativePlot, Mark};
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Page, Section, Table, Tile};
use lab_core::report::scale::Spacing;

use super::study::{Choice, Operation, Study, reduction};
use super::text::{TRIAL_HEADINGS, percent, size, trial_cells};
use crate::facts;

/// The page.
pub fn page(study: &Study) -> Page {
    let mut sections: Vec<Section> = Vec::new();
    let warnings = study.warnings();
    if !warnings.is_empty() {
        sections.push(Section {
            heading: "Mind".to_owned(),
            text: warnings,
            ..Section::default()
        });
    }
    sections.push(points(study));
    for (index, operation) in study.operations.iter().enumerate() {
        sections.push(misses(study, index, operation));
        if !operation.misses_anything() {
            continue;
        }
        sections.push(course(study, operation));
        if !operation.trials.is_empty() {
            sections.push(trials(study, operation));
        }
    }
    sections.push(Section::machine(&facts::facts(
        "misses are simulated, from instructions that ran",
    )));
    Page {
        title: "Where teams should switch".to_owned(),
        lead: format!(
            "L1 instruction cache: {}, {} ways, lines of {} B ({}). Knee: {} instructions wide, {} evictions high. All misses are \
             simulated.",
            size(u64::from(study.l1i.bytes)),
            study.l1i.ways,
            study.l1i.line_bytes,
            study.l1i_origin,
            study.knee.width,
            study.knee.height
        ),
        tiles: study.operations.iter().flat_map(|operation| tiles(study, operation)).collect(),
        sections,
        footer: "Made by corun-lab autosteps. A point is a place where a member of a team hands the CPU to the next one; how often the \
                 operation comes through it is its calls. Paper 003, section 5."
            .to_owned(),
    }
}

fn tiles(study: &Study, operation: &Operation) -> Vec<Tile> {
    if !operation.misses_anything() {
        return vec![Tile {
            value: "0".to_owned(),
            name: format!("misses of {} in a warm cache", operation.name),
            note: "it fits".to_owned(),
        }];
    }
    vec![
        Tile {
            value: percent(reduction(operation.warm, operation.team.additional)),
            name: format!("fewer misses of each further member, {}", operation.name),
            note: format!("{:.1} instead of {}", operation.team.additional, operation.warm),
        },
        Tile {
            value: percent(reduction(operation.team.serial, operation.team.team as f64)),
            name: format!("fewer misses of a team of {}", study.members),
            note: format!("{} instead of {}", operation.team.team, operation.team.serial),
        },
    ]
}

fn points(study: &Study) -> Section {
    let mut headings = vec!["line".to_owned(), "function".to_owned()];
    headings.extend(
        study
            .operations
            .iter()
            .map(|operation| format!("calls in {}", operation.name)),
    );
    let rows = study.points.iter().map(|point| {
        let mut row = vec![point.place.line(), point.place.functions()];
        row.extend(point.calls.iter().map(ToString::to_string));
        row
    });
    let what = match study.choice {
        Choice::Lines => "A CTX point belongs before each of these lines.",
        Choice::Sites => "These of the points compiled into the program are to be on.",
        Choice::Entries => "The entries of these functions are to be points.",
    };
    Section {
        heading: "CTX points".to_owned(),
        text: vec![
            if study.points.is_empty() {
                study.no_points()
            } else {
                what
            }
            .to_owned(),
        ],
        table: (!study.points.is_empty()).then(|| Table {
            headings,
            numeric_columns: study.operations.len(),
            rows: rows.collect(),
        }),
        ..Section::default()
    }
}

fn misses(study: &Study, index: usize, operation: &Operation) -> Section {
    let row = |name: &str, count: String| vec![name.to_owned(), count];
    let team = &operation.team;
    Section {
        heading: format!("{}: misses", operation.name),
        text: vec![format!(
            "{} instructions in {} lines of the cache ({}); {} points, {} calls.",
            operation.instructions,
            operation.footprint_lines,
            size(operation.footprint_lines * u64::from(study.l1i.line_bytes)),
            study.points_of(index),
            operation.calls.len()
        )],
        table: Some(Table {
            headings: vec!["who".to_owned(), "misses".to_owned()],
            numeric_columns: 1,
            rows: vec![
                row("alone, cold cache", operation.cold.to_string()),
                row("alone, warm cache", operation.warm.to_string()),
                row(&format!("{} in turn", study.members), team.serial.to_string()),
                row(
                    &format!("team of {}, switches included", study.members),
                    team.team.to_string(),
                ),
                row("first member of that team", operation.leading.to_string()),
                row(
                    "each further member of that team",
                    format!("{:.1}", team.additional),
                ),
                row(
                    "the same if switching took no code",
                    operation.non_leading.to_string(),
                ),
            ],
        }),
        ..Section::default()
    }
}

/// Figure 15.
fn course(study: &Study, operation: &Operation) -> Section {
    let count = |colour, list: &[u32]| Count {
        colour,
        points: list.iter().map(|&at| u64::from(at)).zip(1..).collect(),
    };
    let marks = operation.calls.iter().map(|&(at, point)| Mark {
        at: u64::from(at),
        tip: match study.points.get(point) {
            Some(point) => format!("switch at {}, instruction {at}", point.place),
            None => format!("switch at instruction {at}"),
        },
    });
    Section {
        heading: format!("{}: misses as they add up", operation.name),
        legend: vec![
            (0, "original, warm".to_owned()),
            (
                1,
                format!("a further member if switching took no code, knee {}", study.knee),
            ),
        ],
        figures: vec![Figure {
            caption: "Upright lines: where a team switches. Figure 15 of the paper.".to_owned(),
            plot: Box::new(CumulativePlot {
                label: format!(
                    "Misses of {} as they add up: {} as it is, {} of a further member if switching took no code.",
                    operation.name, operation.warm, operation.non_leading
                ),
                x_axis: "instructions".to_owned(),
                y_axis: "misses so far".to_owned(),
                end: operation.instructions,
                counts: vec![count(0, &operation.warm_at), count(1, &operation.non_leading_at)],
                marks: marks.collect(),
            }),
        }],
        ..Section::default()
    }
}

/// Figure 16.
fn trials(study: &Study, operation: &Operation) -> Section {
    let mut heights: Vec<u32> = operation.trials.iter().map(|trial| trial.knee.height).collect();
    heights.sort_unstable();
    heights.dedup();
    let series = heights.iter().enumerate().map(|(colour, &height)| {
        let of_height = operation
            .trials
            .iter()
            .filter(|trial| trial.knee.height == height);
        let mut points: Vec<(f64, f64)> = of_height
            .map(|trial| (trial.calls as f64, trial.additional))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: format!("height {height}"),
            colour,
            points,
        }
    });
    let rows = operation.trials.iter().map(|trial| {
        let knee = match trial.knee == study.knee {
            true => format!("{} (chosen)", trial.knee),
            false => trial.knee.to_string(),
        };
        trial_cells(knee, operation, trial)
    });
    Section {
        heading: format!("{}: calls against misses, by knee", operation.name),
        text: vec![format!(
            "A lower knee asks for more switches and leaves fewer misses; the original has {}. Figure 16 of the paper.",
            operation.warm
        )],
        entries: Vec::new(),
        legend: heights
            .iter()
            .enumerate()
            .map(|(colour, height)| (colour, format!("height {height}")))
            .collect(),
        figures: vec![Figure {
            caption: String::new(),
            plot: Box::new(LinePlot {
                label: format!(
                    "Misses of each further member of {} against calls",
                    operation.name
                ),
                x_axis: "calls".to_owned(),
                y_axis: "misses".to_owned(),
                x_spacing: Spacing::Linear,
                y_spacing: Spacing::Linear,
                x_ticks: None,
                marks: Vec::new(),
                series: series.collect(),
            }),
        }],
        table: Some(Table {
            headings: TRIAL_HEADINGS.map(str::to_owned).to_vec(),
            numeric_columns: 5,
            rows: rows.collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autosteps::study::tests::study;

    #[test]
    fn the_page_has_both_figures_and_every_point() {
        let html = page(&study()).render();
        // Two figures, each for wide and narrow screens.
        assert_eq!(html.matches("<svg").count(), 4);
        assert_eq!(html.matches("class=\"mark\"").count(), 2 * 2);
        for words in [
            "src/a.c:12",
            "find in fetch",
            "90.0 %",
            "200,4 (chosen)",
            "1150 instead of 6000",
        ] {
            assert!(html.contains(words), "{words}");
        }
    }
}
