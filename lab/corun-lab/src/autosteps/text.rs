//! A [`Study`] as tables for a terminal.

use std::io::{self, Write};

use super::study::{Choice, Operation, Study, Trial, reduction};
use corun_cli::out;

/// Rows of the table that stands for the paper's Figure 15.
const STEPS: u64 = 10;
/// Heading of what each member of a team but the first misses.
const EACH: &str = "each further member";
/// Heading of what such a member would miss if switching took no code.
const IDEAL: &str = "ideal";

/// Prints all of it, the trade-off over knees with `sweep`.
///
/// # Errors
/// A closed pipe.
pub fn print(out: &mut impl Write, study: &Study, sweep: bool) -> io::Result<()> {
    writeln!(
        out,
        "L1-I: {}, {} ways, lines of {} B ({}); knee: {} instructions wide, {} evictions high\nmisses are simulated\n",
        size(u64::from(study.l1i.bytes)),
        study.l1i.ways,
        study.l1i.line_bytes,
        study.l1i_origin,
        study.knee.width,
        study.knee.height,
    )?;
    operations(out, study)?;
    writeln!(out)?;
    teams(out, study)?;
    writeln!(out)?;
    points(out, study)?;
    for operation in &study.operations {
        if !operation.misses_anything() {
            continue;
        }
        writeln!(out)?;
        course(out, operation)?;
        if sweep && !operation.trials.is_empty() {
            writeln!(out)?;
            trials(out, study, operation)?;
        }
    }
    Ok(())
}

fn operations(out: &mut impl Write, study: &Study) -> io::Result<()> {
    let rows: Vec<Vec<String>> = study
        .operations
        .iter()
        .enumerate()
        .map(|(index, operation)| {
            vec![
                operation.name.clone(),
                operation.instructions.to_string(),
                operation.footprint_lines.to_string(),
                size(operation.footprint_lines * u64::from(study.l1i.line_bytes)),
                operation.cold.to_string(),
                operation.warm.to_string(),
                study.points_of(index).to_string(),
                operation.calls.len().to_string(),
            ]
        })
        .collect();
    let headings = [
        "operation",
        "instructions",
        "lines",
        "code",
        "misses cold",
        "warm",
        "points",
        "calls",
    ];
    out::table(out, &headings, 7, &rows)
}

fn teams(out: &mut impl Write, study: &Study) -> io::Result<()> {
    let rows: Vec<Vec<String>> = study
        .operations
        .iter()
        .map(|operation| {
            let team = &operation.team;
            vec![
                operation.name.clone(),
                team.serial.to_string(),
                team.team.to_string(),
                percent(reduction(team.serial, team.team as f64)),
                format!("{:.1}", team.additional),
                percent(reduction(operation.warm, team.additional)),
                operation.non_leading.to_string(),
            ]
        })
        .collect();
    let (serial, team) = (
        format!("{} in turn", study.members),
        format!("team of {}", study.members),
    );
    let headings = ["operation", &serial, &team, "fewer", EACH, "fewer", IDEAL];
    out::table(out, &headings, 6, &rows)?;
    writeln!(
        out,
        "{IDEAL}: what a non-leading member would miss if switching took no code (paper 003, Figure 15)"
    )
}

fn points(out: &mut impl Write, study: &Study) -> io::Result<()> {
    if study.points.is_empty() {
        return writeln!(out, "{}", study.no_points());
    }
    let what = match study.choice {
        Choice::Lines => "CTX point before",
        Choice::Sites => "CTX point compiled in",
        Choice::Entries => "CTX point at the entry of",
    };
    let rows: Vec<Vec<String>> = study
        .points
        .iter()
        .map(|point| {
            let mut row = vec![point.place.line(), point.place.functions()];
            row.extend(point.calls.iter().map(ToString::to_string));
            row
        })
        .collect();
    let calls: Vec<String> = match &study.operations[..] {
        [_] => vec!["calls".to_owned()],
        several => several
            .iter()
            .map(|operation| format!("calls in {}", operation.name))
            .collect(),
    };
    let mut headings = vec![what, "function"];
    headings.extend(calls.iter().map(String::as_str));
    out::table(out, &headings, calls.len(), &rows)
}

/// Misses as they add up: the paper's Figure 15 in rows.
fn course(out: &mut impl Write, operation: &Operation) -> io::Result<()> {
    let before = |list: &[u32], end: u64| list.partition_point(|&at| u64::from(at) < end).to_string();
    let rows: Vec<Vec<String>> = (1..=STEPS.min(operation.instructions))
        .map(|step| operation.instructions * step / STEPS.min(operation.instructions))
        .map(|end| {
            vec![
                end.to_string(),
                before(&operation.warm_at, end),
                before(&operation.non_leading_at, end),
                operation
                    .calls
                    .partition_point(|(at, _)| u64::from(*at) < end)
                    .to_string(),
            ]
        })
        .collect();
    writeln!(out, "{}, misses as they add up:", operation.name)?;
    out::table(out, &["instructions", "original", IDEAL, "calls"], 4, &rows)
}

/// Headings of [`trial_cells`].
pub const TRIAL_HEADINGS: [&str; 6] = ["knee", "points", "calls", EACH, "fewer", IDEAL];

/// What one knee gives, behind how it is called: the same in the terminal and on the page.
pub fn trial_cells(knee: String, operation: &Operation, trial: &Trial) -> Vec<String> {
    vec![
        knee,
        trial.points.to_string(),
        trial.calls.to_string(),
        format!("{:.1}", trial.additional),
        percent(reduction(operation.warm, trial.additional)),
        trial.misses.to_string(),
    ]
}

/// The paper's Figure 16 in rows.
fn trials(out: &mut impl Write, study: &Study, operation: &Operation) -> io::Result<()> {
    let rows: Vec<Vec<String>> = operation
        .trials
        .iter()
        .map(|trial| {
            let knee = match trial.knee == study.knee {
                true => format!("* {}", trial.knee),
                false => trial.knee.to_string(),
            };
            trial_cells(knee, operation, trial)
        })
        .collect();
    writeln!(
        out,
        "{}, other knees (original: {} misses):",
        operation.name, operation.warm
    )?;
    out::table(out, &TRIAL_HEADINGS, 6, &rows)?;
    if let Some(better) = operation.better_knee(study.knee) {
        writeln!(
            out,
            "hint: --knee {} leaves {:.1} misses with {} calls",
            better.knee, better.additional, better.calls
        )?;
    }
    Ok(())
}

/// `90.0 %`, or `-` of nothing.
pub fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"))
}

/// `32 KiB`, `50.8 KiB`, `640 B`.
pub fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes if bytes >= 1 << 10 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autosteps::study::tests::study;

    fn printed(study: &Study) -> String {
        let mut text = Vec::new();
        print(&mut text, study, true).expect("memory does not fail");
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn tables_hold_every_number() {
        let text = printed(&study());
        for line in [
            "L1-I: 32 KiB, 8 ways, lines of 64 B (this machine's); knee: 200 instructions wide, 4 evictions high",
            "fetch 1000 700 43.8 KiB 700 600 1 2",
            "fetch 6000 1150 80.8 % 60.0 90.0 % 60",
            "src/a.c:12 find in fetch 2",
            "500 300 30 1",
            "* 200,4 1 2 61.5 89.8 % 60",
        ] {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                text.lines().any(|found| words(found) == line),
                "{line:?} in\n{text}"
            );
        }
    }

    #[test]
    fn nothing_needed_is_said() {
        let mut study = study();
        study.points.clear();
        study.operations[0].calls.clear();
        assert!(printed(&study).contains("no CTX point is needed"));
        study.operations[0].non_leading = 3;
        assert!(
            study
                .warnings()
                .iter()
                .any(|text| text.contains("make no knee of 200,4"))
        );
    }

    #[test]
    fn sizes_and_percent() {
        assert_eq!([32 << 10, 51_968, 640].map(size), ["32 KiB", "50.8 KiB", "640 B"]);
        assert_eq!(
            (percent(None), percent(Some(91.26))),
            ("-".to_owned(), "91.3 %".to_owned())
        );
        assert_eq!(reduction(0, 3.0), None);
    }
}
