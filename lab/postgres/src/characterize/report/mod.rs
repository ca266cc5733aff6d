//! The report of a run of `corun-lab characterize`, made from its rows alone: sections in the order of paper 001's figures.
//!
//! ```text
//!   rows ─► sections ─┬─► crate::characterize::text   headings, sentences and tables
//!                     └─► crate::characterize::html   the same with plots
//! ```
//!
//! [`sections`] is a function of the rows: what was not run, or broke off, is not on it. Every figure says how it came about; what the
//! paper states stands beside it, never in its place. Not here: measuring anything, or printing.

mod functions;
mod interference;
mod misses;
mod missing;
mod time;
mod view;

use view::View;

use super::rows::{ADVICE, INTERFERENCE, SPEEDUP, facts};
use corun_cli::number;
use lab_core::report::page::{Entry, Section, Tile};
use lab_core::row::Row;

/// The cards of a run, in reading order: what to do, what could not be had, the paper's figures, what it could not have, the machine.
pub fn sections(rows: &[Row]) -> Vec<Section> {
    let view = View(rows);
    let mut sections = Vec::new();
    sections.extend(advice(view));
    sections.extend(missing::section(view));
    sections.extend(wrong_answers(view));
    sections.extend(time::plans(view));
    sections.extend(time::speedup(view));
    sections.extend(time::distribution(view));
    sections.extend(misses::rates(view));
    sections.extend(misses::cycles(view));
    sections.extend(misses::stalls(view));
    sections.extend(misses::top_down(view));
    sections.extend(functions::functions(view));
    sections.extend(functions::mix(view));
    sections.extend(functions::footprint(view));
    sections.extend(time::resources(view));
    if let Some(mut section) = interference::interference(view) {
        section.text.extend(interference::agreement(view));
        sections.push(section);
    }
    let facts = facts(rows);
    if !facts.is_empty() {
        sections.push(Section::machine(&facts));
    }
    sections
}

/// The big numbers of a run.
pub(super) fn headline(rows: &[Row]) -> Vec<Tile> {
    let view = View(rows);
    let checked = rows.iter().filter(|row| row.answer_ok.is_some()).count();
    if checked == 0 {
        return Vec::new();
    }
    let wrong = rows.iter().filter(|row| row.answer_ok == Some(false)).count();
    let answers = Tile {
        value: if wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{wrong} wrong")
        },
        name: format!("answers behind {checked} rows"),
        note: "a run with a wrong answer says nothing".to_owned(),
    };
    let largest = |case, metric, versus: Option<&str>| {
        view.metric(case, metric)
            .filter(|row| row.versus.as_deref() == versus)
            .max_by(|a, b| a.median().unwrap_or(0.0).total_cmp(&b.median().unwrap_or(0.0)))
    };
    let range = |row: &Row| {
        row.spread.map_or_else(String::new, |spread| {
            format!("{} to {}", number::short(spread.min), number::short(spread.max))
        })
    };
    let place = |row: &Row| {
        let clients = view::parameter(row, "concurrency");
        format!("{}, {clients} clients", view::workload_name(row.text("workload")))
    };
    let ratio = |row: &Row, name: &str| Tile {
        value: format!("{:.2}x", row.median().unwrap_or(f64::NAN)),
        name: name.to_owned(),
        note: format!("{}: {}", place(row), range(row)),
    };
    let speedup = largest(SPEEDUP, "ratio", Some("smt_off"))
        .map(|row| ratio(row, "largest speed-up by SMT"))
        .or_else(|| {
            largest(SPEEDUP, "ratio", Some("alone")).map(|row| ratio(row, "largest rate over one client's"))
        });
    let sensitivity = largest(INTERFERENCE, "sensitivity_percent", None).map(|row| Tile {
        value: format!("{} %", number::short(row.median().unwrap_or(f64::NAN))),
        name: "slower beside a cache polluter".to_owned(),
        note: format!("{}: {}", view::workload_name(row.text("workload")), range(row)),
    });
    let gone = missing::count(view);
    let had = (gone > 0).then(|| Tile {
        value: gone.to_string(),
        name: "capabilities missing here".to_owned(),
        note: "each is named below, once".to_owned(),
    });
    [Some(answers), speedup, sensitivity, had]
        .into_iter()
        .flatten()
        .collect()
}

/// The ranked advice.
fn advice(view: View<'_>) -> Option<Section> {
    let mut ranked: Vec<&Row> = view.of(ADVICE).collect();
    ranked.sort_by(|a, b| {
        let rank = |row: &Row| row.median().unwrap_or(f64::INFINITY);
        rank(a).total_cmp(&rank(b))
    });
    let entries: Vec<Entry> = ranked
        .into_iter()
        .map(|row| Entry {
            heading: format!(
                "{}. {}: {}",
                view::cell(row),
                view::workload_names(row.text("subject")),
                row.text("advice")
            ),
            text: vec![format!(
                "Evidence: {}.",
                row.text("evidence").trim_end_matches('.')
            )],
            command: row.text("command").to_owned(),
        })
        .collect();
    (!entries.is_empty()).then(|| Section {
        heading: "What to do, most important first".to_owned(),
        text: vec![
            "What is at stake is what these figures show to be lost today; what a command gets back is found out by running it."
                .to_owned(),
        ],
        entries,
        ..Section::default()
    })
}

/// Rows whose answers were wrong: nothing they say counts.
fn wrong_answers(view: View<'_>) -> Option<Section> {
    let wrong = view.0.iter().filter(|row| row.answer_ok == Some(false));
    let text = view::distinct(wrong.map(|row| {
        format!(
            "{}, {}: a query answered wrongly, so none of its figures count.",
            view::workload_name(row.text("workload")),
            row.case
        )
    }));
    (!text.is_empty()).then(|| Section {
        heading: "WRONG ANSWERS".to_owned(),
        text,
        ..Section::default()
    })
}
