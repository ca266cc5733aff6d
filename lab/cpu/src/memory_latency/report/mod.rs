//! The report of a run of the suite `memory-latency`: its figures beside what the paper states, and the table of winners.
//!
//! [`page`] is a function of the rows: what was not run is not on it. Sentences about agreement are computed ([`claims`]).

mod claims;
mod figures;
mod tables;
mod view;

use view::View;

use lab_core::report::finding::{Agreement, Finding};
use lab_core::report::page::{Page, Section, Tile};
use lab_core::row::{Label, Row};

/// A case on the page.
struct Chapter {
    case: &'static str,
    heading: &'static str,
    kind: Kind,
}

/// How a case is drawn.
enum Kind {
    /// Times by the size of the work-ahead set.
    BySize,
    /// Throughput by mode.
    Bars,
    /// Simulated misses by size.
    MissesBySize,
    /// Simulated misses by mode and thread.
    MissesByMode,
    /// Simulated interference.
    Events,
}

const fn chapter(case: &'static str, heading: &'static str, kind: Kind) -> Chapter {
    Chapter { case, heading, kind }
}

/// All that can be drawn, in the order of the paper.
const CHAPTERS: [Chapter; 23] = [
    chapter(
        "fig4a_index",
        "Figure 4(a): index traversal by size of the work-ahead set",
        Kind::BySize,
    ),
    chapter(
        "fig4b_index",
        "Figure 4(b): interference of the two threads, index traversal",
        Kind::Events,
    ),
    chapter(
        "fig4c_index",
        "Figure 4(c): who misses the cache, index traversal",
        Kind::MissesBySize,
    ),
    chapter("fig5_index_clustered", "Figure 5: clustered probes", Kind::BySize),
    chapter(
        "fig5_index_unclustered",
        "Figure 5: unclustered probes",
        Kind::BySize,
    ),
    chapter(
        "fig6a_index",
        "Figure 6(a): throughput of all techniques, index traversal",
        Kind::Bars,
    ),
    chapter(
        "fig6b_hash_join",
        "Figure 6(b): throughput of all techniques, hash join",
        Kind::Bars,
    ),
    chapter(
        "fig7a_index",
        "Figure 7(a): misses by thread, index traversal",
        Kind::MissesByMode,
    ),
    chapter(
        "fig7b_hash_join",
        "Figure 7(b): misses by thread, hash join",
        Kind::MissesByMode,
    ),
    chapter(
        "fig8_mixed",
        "Figure 8: a hash join and an index traversal",
        Kind::Bars,
    ),
    chapter("fig9_column_join", "Figure 9: hash join over columns", Kind::Bars),
    chapter(
        "fig10_join_index",
        "Figure 10: join index with prefetch instructions",
        Kind::Bars,
    ),
    chapter(
        "fig11a_join_index",
        "Figure 11(a): join index by size of the work-ahead set",
        Kind::BySize,
    ),
    chapter(
        "fig11b_join_index",
        "Figure 11(b): interference, join index",
        Kind::Events,
    ),
    chapter(
        "fig12_join_index",
        "Figure 12: who misses the cache, join index",
        Kind::MissesBySize,
    ),
    chapter(
        "fig13_join_index_outer",
        "Figure 13: left outer join index",
        Kind::BySize,
    ),
    chapter(
        "fig14a_hash_join",
        "Figure 14(a): hash join by size of the work-ahead set",
        Kind::BySize,
    ),
    chapter(
        "fig14b_hash_join",
        "Figure 14(b): interference, hash join",
        Kind::Events,
    ),
    chapter(
        "fig15_hash_join",
        "Figure 15: who misses the cache, hash join",
        Kind::MissesBySize,
    ),
    chapter(
        "direct_join_index",
        "Appendix: a helper that reads the join index itself",
        Kind::Bars,
    ),
    chapter(
        "skips_duplicates_join_index",
        "Appendix: a helper that skips duplicate lines",
        Kind::Bars,
    ),
    chapter(
        "tables_hash_join",
        "Beyond the paper: its hash table and corun's",
        Kind::Bars,
    ),
    chapter(
        "trees_index",
        "Beyond the paper: the CSB+-tree and the standard library's B-tree",
        Kind::Bars,
    ),
];

/// The page for the rows of a run; `facts` say on which machine, when and with what. A `quick` run's times mean nothing, and the page
/// says so.
pub fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    let view = View(rows);
    let mut sections = Vec::new();
    let mut verdicts = Vec::new();
    sections.extend(tables::winners(view));
    for chapter in CHAPTERS.iter().filter(|chapter| view.has(chapter.case)) {
        let findings = claims::of(view, chapter.case);
        verdicts.extend(findings.iter().map(|finding| finding.agreement));
        let mut section = match chapter.kind {
            Kind::BySize => figures::by_size(view, chapter.case),
            Kind::Bars => figures::bars(view, chapter.case),
            Kind::MissesBySize => figures::misses_by_size(view, chapter.case),
            Kind::MissesByMode => figures::misses_by_mode(view, chapter.case),
            Kind::Events => figures::events(view, chapter.case),
        };
        section.heading = chapter.heading.to_owned();
        section.text.extend(findings.iter().map(Finding::sentence));
        sections.push(section);
    }
    sections.extend(tables::table2(view));
    sections.push(Section::machine(facts));
    let warning = match quick {
        true => " THIS RUN WAS QUICK: its inputs fit any cache, so only the answers mean anything.",
        false => "",
    };
    Page {
        title: "corun-lab bench memory-latency: threads, stages and latency hiding".to_owned(),
        lead: format!(
            "The experiments of \u{201c}Improving Database Performance on Simultaneous Multithreading Processors\u{201d} (VLDB 2005) \
               with corun's operators on the machine below. Times are measured, with every answer checked; misses and interference are \
               measured where the machine counts them, and otherwise simulated or unavailable, as each figure says.{warning}"
        ),
        tiles: tiles(view, &verdicts),
        sections,
        footer:
            "Written by corun-lab bench memory-latency. The page is complete in itself: it loads nothing from elsewhere."
                .to_owned(),
    }
}

fn tiles(view: View<'_>, verdicts: &[Agreement]) -> Vec<Tile> {
    let wrong = view.0.iter().filter(|row| row.answer_ok == Some(false)).count();
    let checked = view.0.iter().filter(|row| row.metric == "ns_per_probe").count();
    let best = view
        .0
        .iter()
        // Against another tree, a gain is not over serial code of the same operator.
        .filter(|row| row.metric == "winner" && row.case != "trees_index")
        .filter_map(|row| Some((row.median()?, row)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let mut tiles = vec![
        Agreement::tile(verdicts),
        Tile {
            value: if wrong == 0 {
                "all right".to_owned()
            } else {
                format!("{wrong} wrong")
            },
            name: format!("answers of {checked} timed sides"),
            note: "checked in every round against naive oracles".to_owned(),
        },
    ];
    if let Some((gain, row)) = best {
        tiles.push(Tile {
            value: format!("{gain:.2}x"),
            name: "largest gain over serial code".to_owned(),
            note: format!("{} in {}", row.text("mode"), row.case),
        });
    }
    tiles
}

/// The words for how the numbers of a case came about.
fn label_text(view: View<'_>, case: &str) -> String {
    let has = |label: Label| view.case(case).any(|row| row.label == label);
    let mut text = match (has(Label::Measured), has(Label::Simulated)) {
        (true, true) => "Measured and simulated.".to_owned(),
        (true, false) => "Measured.".to_owned(),
        (false, true) => "Simulated.".to_owned(),
        (false, false) => String::new(),
    };
    if let Some(reason) = view.unavailable(case) {
        text.push_str(&format!(" Counted events are unavailable here: {reason}."));
    }
    text
}
