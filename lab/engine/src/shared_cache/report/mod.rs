//! The report of a run of the `llc` suite: the paper's figures with its numbers beside this machine's.
//!
//! [`page`] is a function of the rows: what was not run is not on it, and what was simulated says so. Sentences about agreement are
//! computed ([`claims`]).

mod claims;
mod figures;
mod policies;
mod view;

use view::View;

use lab_core::report::finding::{Agreement, Finding};
use lab_core::report::page::{Page, Section, Tile};
use lab_core::row::{Label, Row};

/// The page for the rows of a run; `facts` say on which machine, when and with what. A `quick` run's times mean nothing, and the page
/// says so.
pub fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    let view = View(rows);
    let drawn = [
        ("1", figures::figure_1(view)),
        ("4", figures::figure_4(view)),
        ("table1", figures::table_1(view)),
        ("5", figures::figure_5(view)),
        ("table2", figures::table_2(view)),
        ("6", policies::figure_6(view)),
        ("7.3", policies::plan_choice(view)),
        ("7.4", figures::pairs(view)),
        ("mix", policies::mix(view)),
        ("nothing_to_gain", policies::nothing_to_gain(view)),
    ];
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    for (figure, section) in drawn {
        let Some(mut section) = section else { continue };
        // Times of a quick run mean nothing, so neither does agreement.
        let findings = if quick {
            Vec::new()
        } else {
            claims::of(view, figure)
        };
        verdicts.extend(findings.iter().map(|finding| finding.agreement));
        section.text.extend(findings.iter().map(Finding::sentence));
        sections.push(section);
    }
    sections.extend(figures::simulated(view));
    sections.push(Section::machine(facts));
    let warning = match quick {
        true => {
            " THIS RUN WAS QUICK: its tables fit any last-level cache, so only the answers mean anything."
        }
        false => "",
    };
    Page {
        title: "corun-lab bench llc: queries that share a last-level cache".to_owned(),
        lead: format!(
            "The experiments of \u{201c}MCC-DB: Minimizing Cache Conflicts in Multi-core Processors for Databases\u{201d} (VLDB 2009) \
             on the machine below, with DataFusion's operators and corun's. Each query runs on one core; its co-runner loops on \
             another core that shares the last-level cache. A slow-down is the time beside the co-runner over the time alone in the \
             same round; bars and dots are medians, whiskers the smallest and largest round. Every answer is checked. Numbers are \
             measured unless a section says that they are simulated.{warning}"
        ),
        tiles: tiles(view, &verdicts),
        sections,
        footer:
            "Written by corun-lab bench llc. The page is complete in itself: it loads nothing from elsewhere."
                .to_owned(),
    }
}

fn tiles(view: View<'_>, verdicts: &[Agreement]) -> Vec<Tile> {
    let checked = view.0.iter().filter(|row| row.answer_ok.is_some()).count();
    let wrong = view.0.iter().filter(|row| row.answer_ok == Some(false)).count();
    let worst = view
        .0
        .iter()
        .filter(|row| {
            row.label == Label::Measured
                && row.metric == super::keys::SLOWDOWN
                && row.parameter("control").is_none()
        })
        .filter_map(|row| Some((row.median()?, row)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let mut tiles = vec![Tile {
        value: if wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{wrong} wrong")
        },
        name: format!("answers behind {checked} rows"),
        note: "checked in every run".to_owned(),
    }];
    if !verdicts.is_empty() {
        tiles.insert(0, Agreement::tile(verdicts));
    }
    if let Some((slowdown, row)) = worst {
        tiles.push(Tile {
            value: format!("{slowdown:.2}x"),
            name: "largest slow-down of a query".to_owned(),
            note: format!("{} beside {}", row.text("query"), row.text("corunner")),
        });
    }
    tiles
}
