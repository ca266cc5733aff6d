//! The report of a run of the suite `heavy-queue`: the paper's figures with its numbers beside this machine's.
//!
//! [`page`] is a function of the rows: what was not run is not on it, and what was simulated says so. Sentences about agreement are
//! computed from the medians.

use super::estimation::PAPER_PERCENT;
use super::keys::{ALONE, MIX_SECONDS, SLOWDOWN};
use super::{cases, ceiling, estimation, sim};
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::finding::{Agreement, Finding};
use lab_core::report::page::{Figure, Page, Section, Tile};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};

/// Colours of classes of co-runners and of policies.
const SERIES: [(&str, usize); 3] = [("strong", 2), ("moderate", 1), ("weak", 0)];

/// The page for the rows of a run; `facts` say on which machine, when and with what. A `quick` run's times mean nothing, and the page
/// says so.
pub fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    let drawn = [
        beside(
            rows,
            &["fig1", "fig4"],
            "Figures 1 and 4: queries beside each other",
            FIG4_NOTE,
        ),
        orders(rows),
        fig6(rows),
        sides(
            rows,
            cases::PLAN_CHOICE,
            "Section 7.3: four instances of one query",
            S73_NOTE,
        ),
        errors(rows),
        beside(
            rows,
            &["s7.4"],
            "Section 7.4: SSB's long queries beside each other",
            S74_NOTE,
        ),
        sides(rows, cases::MIX, "A closed mix of 8 clients", MIX_NOTE),
        sides(
            rows,
            cases::OVERHEAD,
            "What the heavy queue costs where there is nothing to gain",
            OVERHEAD_NOTE,
        ),
    ];
    let mut sections: Vec<Section> = drawn.into_iter().flatten().collect();
    sections.extend(sim::report::sections(rows));
    // Times of a quick run mean nothing, so neither does agreement.
    let findings = match quick {
        true => Vec::new(),
        false => [findings(rows), sim::report::findings(rows)].concat(),
    };
    if !findings.is_empty() {
        sections.push(Section {
            heading: "The paper's statements".to_owned(),
            text: findings.iter().map(Finding::sentence).collect(),
            ..Section::default()
        });
    }
    sections.push(Section::machine(facts));
    let warning = if quick {
        " THIS RUN WAS QUICK: its tables fit any cache, so only the answers mean anything."
    } else {
        ""
    };
    Page {
        title: "corun-lab bench heavy-queue: PostgreSQL's queries in one last-level cache".to_owned(),
        lead: format!(
            "The experiments of \u{201c}MCC-DB: Minimizing Cache Conflicts in Multi-core Processors for Databases\u{201d} (VLDB 2009) \
             on PostgreSQL without patches, on the machine below. Slow-downs are the time beside others over the time alone in the same \
             round; bars are medians, whiskers the smallest and largest round. Every answer is checked against the generator. Numbers are \
             measured unless they are said to be simulated.{warning}"
        ),
        tiles: tiles(rows, &findings),
        sections,
        footer:
            "Written by corun-lab bench heavy-queue. The page is complete in itself: it loads nothing from elsewhere."
                .to_owned(),
    }
}

const FIG4_NOTE: &str = "Two backends on two cores, no product code; times by the clock. The paper's Figure 1: a hash join alone misses \
    6.0 %, beside a hash join 21.3 %, beside an index join 27.7 %.";
const S73_NOTE: &str = "The query's two forms cost about the same. The paper: 13.61 s on average by hash joins only, 11.36 s with two of \
    each form and a partitioned cache.";
const S74_NOTE: &str = "Hash joins (Q3.1, Q4.1, Q4.2) and index joins (Q1.1, Q2.1, Q3.2, Q4.3). The paper: index joins lose 7 to 12 %, \
    Q3.1 and Q4.1 29 to 35 %, Q4.2 16 to 22 %.";
const MIX_NOTE: &str =
    "Half of the queries are moderate. Above 1 a side ended sooner than a pooler that goes by arrival.";
const OVERHEAD_NOTE: &str = "Short queries, and joins whose tables are so small that they hurt nobody: the heavy queue on against off.";

fn bars(label: &str, axis: &str, suffix: &str, base: f64, rows: Vec<BarRow>) -> Figure {
    Figure {
        caption: String::new(),
        plot: Box::new(BarPlot {
            label: label.to_owned(),
            axis: axis.to_owned(),
            suffix: suffix.to_owned(),
            base,
            spacing: Spacing::Linear,
            rows,
        }),
    }
}

fn bar(row: &Row, label: String, series: usize) -> Option<BarRow> {
    let spread = row.spread?;
    Some(BarRow {
        label,
        value: spread.median,
        spread: Some((spread.min, spread.max)),
        series,
    })
}

fn series_of(class: &str) -> usize {
    SERIES
        .iter()
        .find(|(name, _)| *name == class)
        .map_or(3, |(_, colour)| *colour)
}

fn classes() -> Vec<(usize, String)> {
    SERIES
        .iter()
        .map(|(name, colour)| (*colour, format!("a {name} query")))
        .collect()
}

/// Why something of a case is unavailable, each reason once.
fn reasons<'r>(rows: impl Iterator<Item = &'r Row>) -> Vec<String> {
    let mut all: Vec<&str> = rows
        .filter(|row| row.label == Label::Unavailable)
        .map(|row| row.text("reason"))
        .collect();
    all.dedup();
    match all.is_empty() {
        true => Vec::new(),
        false => vec![format!("Unavailable here: {}.", all.join("; "))],
    }
}

fn section(
    heading: &str,
    note: &str,
    more: Vec<String>,
    legend: Vec<(usize, String)>,
    figures: Vec<Figure>,
) -> Section {
    Section {
        heading: heading.to_owned(),
        text: std::iter::once(note.to_owned()).chain(more).collect(),
        legend,
        figures,
        ..Section::default()
    }
}

/// Slow-downs of pinned queries.
fn beside(rows: &[Row], figures: &[&str], heading: &str, note: &str) -> Option<Section> {
    let of = rows.iter().filter(|row| {
        row.metric == SLOWDOWN
            && row.text("time") == "clock"
            && row.text("corunner") != ALONE
            && figures.contains(&row.text("figure"))
    });
    let drawn: Vec<BarRow> = of
        .filter_map(|row| {
            let label = format!("{} | {}", row.text("query"), row.text("corunner"));
            bar(row, label, series_of(row.text("class")))
        })
        .collect();
    (!drawn.is_empty()).then(|| {
        let plot = bars(heading, "slow-down: query | co-runner", "x", 1.0, drawn);
        section(heading, note, Vec::new(), classes(), vec![plot])
    })
}

/// What orders of the mix take.
fn orders(rows: &[Row]) -> Option<Section> {
    let of = |label: Label| -> Vec<BarRow> {
        rows.iter()
            .filter(|row| {
                row.case == ceiling::CASE
                    && row.metric == "ratio"
                    && row.label == label
                    && row.parameter("control").is_none()
            })
            .filter_map(|row| bar(row, row.text("policy").to_owned(), 1))
            .collect()
    };
    let (measured, simulated) = (of(Label::Measured), of(Label::Simulated));
    let mut figures = Vec::new();
    for (name, drawn) in [
        ("measured", measured),
        ("simulated, from the slow-downs above", simulated),
    ] {
        if !drawn.is_empty() {
            figures.push(Figure {
                caption: name.to_owned(),
                ..bars(name, "times as fast as by arrival", "x", 1.0, drawn)
            });
        }
    }
    let note = "Two of each of these queries on two cores: the best and the worst order found, against arrival by chance. No scheduler can \
                gain more than the best.";
    (!figures.is_empty()).then(|| {
        section(
            "The ceiling of co-scheduling",
            note,
            Vec::new(),
            Vec::new(),
            figures,
        )
    })
}

/// Fig. 6.
fn fig6(rows: &[Row]) -> Option<Section> {
    let all = || rows.iter().filter(|row| row.case == cases::FIG6);
    let drawn: Vec<BarRow> = all()
        .filter(|row| row.metric == SLOWDOWN && row.text("query").starts_with("hash"))
        .filter_map(|row| {
            let label = format!("{}, {}", row.text("query"), row.text("side"));
            bar(row, label, series_of(row.text("class")))
        })
        .collect();
    let note = "Two hash joins and two index joins that arrive in turn, behind the proxy, by who chooses what runs together. The paper: worst \
                without a scheduler, better with SLS, best with MLS and a partitioned cache.";
    (!drawn.is_empty()).then(|| {
        let plot = bars("Figure 6", "slow-down of the hash join", "x", 1.0, drawn);
        section(
            "Figure 6: hash joins by scheduling policy",
            note,
            reasons(all()),
            classes(),
            vec![plot],
        )
    })
}

/// Ratios of the sides of a case.
fn sides(rows: &[Row], case: &str, heading: &str, note: &str) -> Option<Section> {
    let all = || rows.iter().filter(|row| row.case == case);
    let drawn: Vec<BarRow> = all()
        .filter(|row| row.metric == "ratio")
        .filter_map(|row| {
            let versus = row.versus.as_deref().unwrap_or_default();
            let control = if row.parameter("control").is_some() {
                " (A/A)"
            } else {
                ""
            };
            let query = match row.text("query") {
                "all" => String::new(),
                query => format!("{query}: "),
            };
            bar(row, format!("{query}{} / {versus}{control}", row.text("side")), 1)
        })
        .collect();
    (!drawn.is_empty()).then(|| {
        let plot = bars(heading, "times as fast", "x", 1.0, drawn);
        section(heading, note, reasons(all()), Vec::new(), vec![plot])
    })
}

/// Estimates of hash tables.
fn errors(rows: &[Row]) -> Option<Section> {
    let drawn: Vec<BarRow> = rows
        .iter()
        .filter(|row| row.case == estimation::CASE && row.metric == "error_percent")
        .filter_map(|row| bar(row, row.text("query").to_owned(), 1))
        .collect();
    let note = format!(
        "How far the bytes that the proxy reads from a plan are from those that were built; the paper's largest is {PAPER_PERCENT} %."
    );
    (!drawn.is_empty()).then(|| {
        let plot = bars("errors", "error of a table's bytes", " %", 0.0, drawn);
        section(
            "Section 7.4: estimated sizes",
            &note,
            Vec::new(),
            Vec::new(),
            vec![plot],
        )
    })
}

/// The median of the first row of a case with this metric, side and label, and no control.
fn median(rows: &[Row], case: &str, metric: &str, key: &str, value: &str) -> Option<f64> {
    let mut found = rows.iter().filter(|row| {
        row.case == case
            && row.metric == metric
            && row.text(key) == value
            && row.label == Label::Measured
            && row.parameter("control").is_none()
    });
    found.next().and_then(Row::median)
}

fn findings(rows: &[Row]) -> Vec<Finding> {
    let mut all = Vec::new();
    let largest = rows
        .iter()
        .filter(|row| row.case == estimation::CASE && row.metric == "error_percent")
        .filter_map(|row| Some(row.spread?.max))
        .reduce(f64::max);
    if let Some(largest) = largest {
        all.push(Finding::order(
            "estimated sizes of hash tables are off by at most 11.8 % (section 7.4)",
            largest <= PAPER_PERCENT,
            format!("by at most {largest:.1} %"),
        ));
    }
    let hashes = |side: &str| {
        let of = rows.iter().filter(|row| {
            row.case == cases::FIG6
                && row.metric == SLOWDOWN
                && row.text("side") == side
                && row.text("query").starts_with("hash")
                && row.text("class") == "moderate"
        });
        of.filter_map(Row::median).reduce(f64::max)
    };
    if let (Some(fifo), Some(sls)) = (hashes("fifo"), hashes("sls")) {
        all.push(Finding::order(
            "SLS slows moderate hash joins down less than no scheduling does (Figure 6)",
            sls < fifo,
            format!("at most {sls:.2}x against {fifo:.2}x"),
        ));
    }
    if let Some(ratio) = median(rows, cases::PLAN_CHOICE, "ratio", "side", "auto_plans") {
        let percent = 100.0 * (1.0 - 1.0 / ratio);
        all.push(Finding {
            paper: "choosing plans and co-runners takes 16.5 % off four instances of one query (section 7.3)"
                .to_owned(),
            here: format!("{percent:.1} %, without a partitioned cache"),
            agreement: Agreement::of_percent(16.5, percent, 1.0),
        });
    }
    all
}

fn tiles(rows: &[Row], findings: &[Finding]) -> Vec<Tile> {
    let checked = rows.iter().filter(|row| row.answer_ok.is_some()).count();
    let wrong = rows.iter().filter(|row| row.answer_ok == Some(false)).count();
    let mut tiles = vec![Tile {
        value: if wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{wrong} wrong")
        },
        name: format!("answers behind {checked} rows"),
        note: "checked in every run".to_owned(),
    }];
    if !findings.is_empty() {
        let verdicts: Vec<Agreement> = findings.iter().map(|finding| finding.agreement).collect();
        tiles.insert(0, Agreement::tile(&verdicts));
    }
    for (case, key, value, name) in [
        (ceiling::CASE, "policy", "best", "the best order against arrival"),
        (
            cases::MIX,
            "side",
            "auto_plans",
            "the heavy queue against a pooler, closed mix",
        ),
    ] {
        if let Some(ratio) = median(rows, case, "ratio", key, value) {
            tiles.push(Tile {
                value: format!("{ratio:.2}x"),
                name: name.to_owned(),
                note: format!("ratio of {MIX_SECONDS}, medians"),
            });
        }
    }
    tiles
}

#[cfg(test)]
mod tests {
    use super::super::SUITE;
    use super::super::keys::Keys;
    use super::*;
    use corun_model::units::Bytes;
    use lab_core::stats::Spread;

    fn rows() -> Vec<Row> {
        let keys = |case, figure| Keys::new(case, figure, Bytes::mib(8));
        let row = |case, metric, value: f64| {
            let spread = Spread::of(&[value]).expect("one");
            Row::measured(SUITE, case, metric, "x", spread, true)
        };
        let slow = Keys {
            query: "hash_plq6".to_owned(),
            corunner: "index_plq6".to_owned(),
            class: "moderate".to_owned(),
            ..keys(ceiling::CASE, "fig1")
        };
        let six = |side: &str, value| {
            let keys = Keys {
                query: "hash_plq3".to_owned(),
                class: "moderate".to_owned(),
                ..keys(cases::FIG6, "fig6")
            };
            keys.put(row(cases::FIG6, SLOWDOWN, value)).with("side", side)
        };
        let best = Keys {
            policy: "best".to_owned(),
            ..keys(ceiling::CASE, ceiling::CASE)
        };
        vec![
            slow.put(row(ceiling::CASE, SLOWDOWN, 1.2)).with("time", "clock"),
            best.put(row(ceiling::CASE, "ratio", 1.1)).versus("fifo"),
            six("fifo", 1.3),
            six("sls", 1.1),
            keys(cases::FIG6, "fig6").unavailable(MIX_SECONDS, "s", "no ways"),
            keys(estimation::CASE, "s7.4").put(row(estimation::CASE, "error_percent", 40.0)),
            keys(cases::MIX, "mix")
                .put(row(cases::MIX, "ratio", 1.05))
                .with("side", "auto_plans")
                .versus("fifo"),
        ]
    }

    #[test]
    fn every_figure_that_ran_is_on_the_page() {
        let html = page(&rows(), &[], false).render();
        for words in [
            "Figures 1 and 4",
            "hash_plq6 | index_plq6",
            "The ceiling of co-scheduling",
            "Figure 6: hash joins",
            "Unavailable here: no ways.",
            "at most 1.10x against 1.30x. This agrees",
            "by at most 40.0 %. This does not agree",
            "A closed mix of 8 clients",
            "1.05x",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(!html.contains("Section 7.3: four"));
    }

    #[test]
    fn a_quick_run_claims_nothing() {
        let html = page(&rows(), &[], true).render();
        assert!(html.contains("THIS RUN WAS QUICK") && !html.contains("This agrees"));
        assert!(page(&[], &[], false).render().contains("all right"));
    }
}
