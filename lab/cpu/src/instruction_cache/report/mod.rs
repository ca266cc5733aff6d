//! The report of a run of the suite `instruction-cache`: the paper's figures with our store's numbers, and what both say.
//!
//! [`page`] is a function of the rows: what was not run is not on it. Sentences about agreement are computed ([`claims`]).

mod claims;
mod figures;
mod tables;
mod view;

use view::View;

use super::figures as cases;
use super::rows::metric;
use lab_core::report::finding::{Agreement, Finding};
use lab_core::report::page::{Page, Section, Tile};
use lab_core::row::Row;

/// Draws a case.
type Draw = fn(View<'_>, &'static str) -> Section;

/// All that can be drawn, in the order of the paper: case, heading, how.
const CHAPTERS: [(&str, &str, Draw); 12] = [
    (
        cases::TABLE_2,
        "Table 2: operations, and how much of their code transactions share",
        tables::operations,
    ),
    (
        cases::FIGURE_5,
        "Figure 5: instruction-cache misses by team size",
        figures::by_team_size,
    ),
    (
        cases::FIGURE_6,
        "Figure 6: time and data misses, one to ten members",
        figures::time_and_data,
    ),
    (
        cases::FIGURE_7,
        "Figure 7: speed-up and fewer misses, 2 to 80 members",
        figures::large_teams,
    ),
    (
        cases::FIGURE_8,
        "Figure 8: the size of the switch's code",
        figures::switch_size,
    ),
    (
        cases::FIGURE_9,
        "Figure 9: several processors",
        figures::processors,
    ),
    (
        cases::FIGURE_10,
        "Figure 10: size and associativity of the instruction cache",
        figures::geometries,
    ),
    (
        cases::FIGURE_13,
        "Figure 13: TPC-C Payment",
        figures::transactions,
    ),
    (
        cases::TABLE_4,
        "Table 4: who enters and leaves the teams of Payment",
        tables::teams,
    ),
    (
        cases::FIGURE_14,
        "Figure 14: TPC-C without Delivery",
        figures::transactions,
    ),
    (
        cases::FIGURE_16,
        "Figure 16: misses against calls, by knee",
        figures::knees,
    ),
    (
        cases::FIGURE_17,
        "Figure 17: which points are on",
        figures::choices,
    ),
];

/// The page for the rows of a run; `facts` say on which machine, when and with what. A `quick` run's times mean nothing, and the page
/// says so.
pub fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    let view = View(rows);
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    for (case, heading, draw) in CHAPTERS {
        if view.case(case).next().is_none() {
            continue;
        }
        let findings = if quick { Vec::new() } else { claims::of(view, case) };
        verdicts.extend(findings.iter().map(|finding| finding.agreement));
        let mut section = draw(view, case);
        section.heading = heading.to_owned();
        section.text.insert(0, view.label_text(case));
        section.text.extend(findings.iter().map(Finding::sentence));
        sections.push(section);
    }
    sections.push(Section::machine(facts));
    let warning = match quick {
        true => {
            " THIS RUN WAS QUICK: its tables are tiny and its rounds few, so only the answers mean anything."
        }
        false => "",
    };
    Page {
        title: "corun-lab bench instruction-cache: transactions in teams".to_owned(),
        lead: format!(
            "The experiments of \u{201c}Improving Instruction Cache Performance in OLTP\u{201d} (TODS 2006) on corun's own store. Misses, \
             mispredictions and instructions are simulated on the program's own instructions, traced one by one; time is measured on \
             the machine below, untraced, sides taking turns. Serial is one client after the other on a plain thread, without \
             any scheduler. Our store's code is smaller than the paper's, so caches smaller than today's stand beside them: a \
             reduction is judged where an operation's code is at least twice the cache.{warning}"
        ),
        tiles: tiles(view, &verdicts, quick),
        sections,
        footer:
            "Written by corun-lab bench instruction-cache. The page is complete in itself: it loads nothing from elsewhere."
                .to_owned(),
    }
}

fn tiles(view: View<'_>, verdicts: &[Agreement], quick: bool) -> Vec<Tile> {
    let checked = view.0.iter().filter(|row| row.answer_ok.is_some()).count();
    let wrong = view.0.iter().filter(|row| row.answer_ok == Some(false)).count();
    let mut tiles = vec![Tile {
        value: if wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{wrong} wrong")
        },
        name: format!("answers behind {checked} rows"),
        note: "rows fetched, tables and TPC-C's conditions afterwards".to_owned(),
    }];
    if quick {
        return tiles;
    }
    tiles.insert(0, Agreement::tile(verdicts));
    let judged = view.judged_reduction(cases::FIGURE_5);
    tiles.extend(judged.map(|(percent, row)| Tile {
        value: format!("{percent:.0} %"),
        name: "fewer instruction misses, index fetch".to_owned(),
        note: format!(
            "team of {}, {}",
            row.number("team_size").unwrap_or_default(),
            row.text("l1i")
        ),
    }));
    let mut ratios: Vec<&Row> = view
        .0
        .iter()
        .filter(|row| row.metric == metric::RATIO && row.parameter("control").is_none())
        .filter(|row| row.text("mode") == "team")
        .collect();
    ratios.sort_by(|a, b| a.median().unwrap_or(0.0).total_cmp(&b.median().unwrap_or(0.0)));
    for (row, name) in [
        (ratios.last(), "best speed over serial"),
        (ratios.first(), "worst speed over serial"),
    ] {
        tiles.extend(row.and_then(|row| {
            Some(Tile {
                value: format!("{:.2}x", row.median()?),
                name: name.to_owned(),
                note: format!(
                    "{}, {} members, points {}",
                    row.case,
                    row.number("team_size")?,
                    row.text("points")
                ),
            })
        }));
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruction_cache::job::Mode;
    use crate::instruction_cache::rows::Shape;

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        let mut add = |size: usize, mode: Mode, metric: &str, value: f64| {
            let shape = Shape {
                case: cases::FIGURE_5,
                figure: "5",
                operation: "index_fetch",
                team_size: size,
                l1i: "3k/6/64".parse().ok(),
                mode,
                points: "trial",
            };
            rows.extend(
                shape
                    .simulated(metric, &[value], true)
                    .map(|row| row.with("cache", "warm")),
            );
        };
        add(1, Mode::Serial, metric::FOOTPRINT, 6_912.0);
        for (size, serial, held) in [(1, 105.0, 105.0), (10, 105.0, 11.0)] {
            add(size, Mode::Serial, metric::L1I, serial);
            add(size, Mode::Held, metric::L1I, held);
        }
        add(10, Mode::Held, metric::REDUCTION, 89.5);
        add(10, Mode::Held, metric::MEMBER_REDUCTION, 30.0);
        rows
    }

    #[test]
    fn figures_stand_beside_what_the_paper_says() {
        let html = page(&rows(), &[("processor".to_owned(), "a <test>".to_owned())], false).render();
        for wanted in [
            "Figure 5: instruction-cache misses",
            "6912 bytes of code",
            "saves 90 %. This agrees",
            "saves 30 %. The direction is the paper",
            "1 of 2",
            "a &lt;test&gt;",
        ] {
            assert!(html.contains(wanted), "{wanted}: {html}");
        }
        assert!(!html.contains("NaN") && !html.contains("Figure 6"));
    }

    #[test]
    fn a_quick_run_and_an_empty_one_claim_nothing() {
        for rows in [rows(), Vec::new()] {
            let html = page(&rows, &[], true).render();
            assert!(html.contains("THIS RUN WAS QUICK") && !html.contains("agrees"));
        }
    }
}
