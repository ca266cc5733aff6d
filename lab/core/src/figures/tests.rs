//! Every figure of every report finds its rows in what was recorded, so that a renamed key cannot empty one unseen.

mod characterize;
mod instruction_cache;
mod llc;
mod oltp;

use std::path::Path;

use super::select::Rows;
use super::spec::{self, ClaimSpec, FigureSpec, ReportSpec};
use super::*;
use crate::stats::Spread;

/// What was recorded for each report: of the instruction cache Figure 5, and a quick run of the others; for the characterization, what a
/// machine with counters and SMT would add is made up.
const RECORDED: [(&str, &[&str]); 13] = [
    ("memory-latency", &["records/2026-11-21-vm/smt.jsonl"]),
    (
        "instruction-cache",
        &[
            "records/2026-11-21-vm/steps-fig5-quick.jsonl",
            "lab/core/tests/rows/instruction-cache-quick.jsonl",
        ],
    ),
    (
        "characterize",
        &[
            "records/2026-11-22-epyc-vm/characterize.jsonl",
            "lab/core/tests/rows/characterize-made-up.jsonl",
        ],
    ),
    (
        "heavy-queue",
        &[
            "records/2026-11-22-epyc-vm/mcc-ceiling.jsonl",
            "records/2026-11-22-epyc-vm/mcc-fig6.jsonl",
            "records/2026-11-22-epyc-vm/mcc-mix.jsonl",
            "records/2026-11-22-epyc-vm/mcc-overhead.jsonl",
            "records/2026-11-22-epyc-vm/mcc-plan_choice.jsonl",
            "records/2026-11-22-epyc-vm/mcc-simulated.jsonl",
        ],
    ),
    ("floor", &["records/2026-11-21-vm/floor.jsonl"]),
    ("join", &["records/2026-11-21-vm/join.jsonl"]),
    (
        "ssb",
        &[
            "records/2026-11-27-vm/ssb.jsonl",
            "records/2026-11-27-vm/ssb-clients.jsonl",
        ],
    ),
    ("tpch", &["records/2026-11-27-vm/tpch.jsonl"]),
    (
        "tpcds",
        &[
            "records/2026-11-27-vm/tpcds.jsonl",
            "records/2026-11-27-vm/tpcds-clients.jsonl",
        ],
    ),
    ("proxy", &["lab/core/tests/rows/proxy-quick.jsonl"]),
    (
        "key-ranges",
        &[
            "records/2026-11-22-epyc-vm/caric-best_seller_c1.jsonl",
            "records/2026-11-22-epyc-vm/caric-replicas_fit_c8.jsonl",
            "records/2026-11-22-epyc-vm/caric-replicas_half_c8.jsonl",
            "records/2026-11-22-epyc-vm/caric-tpcw_c1.jsonl",
            "records/2026-11-22-epyc-vm/caric-tpcw_c8.jsonl",
            "lab/core/tests/rows/key-ranges-quick.jsonl",
        ],
    ),
    (
        "llc",
        &[
            "records/2026-11-21-vm/llc-fig1.jsonl",
            "records/2026-11-21-vm/llc-mix.jsonl",
            "records/2026-11-21-vm/llc-nothing-to-gain.jsonl",
            "records/2026-11-21-vm/llc-sim.jsonl",
            "records/2026-11-26-vm/llc.jsonl",
            "lab/core/tests/rows/llc-quick.jsonl",
        ],
    ),
    (
        "oltp",
        &[
            "records/2026-11-21-vm/oltp-tpcc.jsonl",
            "records/2026-11-21-vm/oltp-ycsb-c.jsonl",
            "records/2026-11-21-vm/oltp-recovery.jsonl",
            "lab/core/tests/rows/oltp-quick.jsonl",
        ],
    ),
];

/// Plots of what no recorded machine has, hardware event counters, and figures of which no run was recorded; of a quick run's few
/// branches serial code mispredicts none.
const NOT_RECORDED: [&str; 4] = [
    "Machine clears a probe that the processor counted, backward and waiting",
    "Section 7.4: estimated sizes",
    "Section 7.4: SSB's long queries beside each other",
    "64 % fewer mispredicted branches (section 3.4.4)",
];

/// Figures of runs with several clients, of which not every suite has a record.
const OF_CLIENTS: [&str; 2] = ["Several clients at once", "Latencies with several clients"];

fn recorded(files: &[&str]) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(folder.join(file)).expect("a record"));
    let texts: Vec<String> = texts.collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.map(|line| Row::parse(line).expect("a row")).collect()
}

fn with_each(check: impl Fn(&ReportSpec, &Rows<'_>)) {
    for (name, files) in RECORDED {
        let (spec, rows) = (spec::of(name).expect("a report"), recorded(files));
        check(&spec, &Rows::new(&spec.derive, &rows));
    }
}

fn figure(spec: &FigureSpec, rows: &Rows<'_>, nothing_below: f64) {
    let title = &spec.title;
    assert!(!rows.rows.is_empty(), "{title}: no rows");
    let plots = spec.plot.iter().enumerate();
    for (number, plot) in plots.filter(|(_, plot)| !NOT_RECORDED.contains(&plot.caption.as_str())) {
        let panels = plot.panels(rows);
        assert!(!panels.is_empty(), "{title}: plot {number} has no rows");
        assert_eq!(
            plot.figures(title, rows, &mut Vec::new()).len(),
            panels.len(),
            "{title}: plot {number}"
        );
        for panel in &panels {
            for (name, _, of) in plot.rows_of_lines(panel) {
                assert!(
                    !plot.points(panel, &of).is_empty(),
                    "{title}: no row of plot {number} for {name}"
                );
            }
            for level in &plot.level {
                assert!(
                    panel.pick(&level.pick).is_some(),
                    "{title}: no level {}",
                    level.name
                );
            }
            for row in panel.rows.iter().filter(|_| plot.bars.is_some()) {
                let label = plot.bars.as_ref().and_then(|bars| panel.words(row, bars));
                assert!(label.is_some(), "{title}: no name for {}", row.to_json());
            }
        }
    }
    if let Some(table) = &spec.table {
        let rows = rows.all(&table.filter);
        for column in &table.column {
            let found = rows.all(&column.filter);
            let shown = found
                .rows
                .iter()
                .any(|row| rows.words(row, &column.text).is_some());
            assert!(shown, "{title}: no row for the column {}", column.name);
        }
    }
    for say in &spec.say {
        assert!(
            !say.sentences(rows).is_empty(),
            "{title}: no row for {}",
            say.text
        );
    }
    for entry in &spec.entry {
        let entries = entry.entries(rows);
        let texts = entries.iter().map(|entry| entry.text.len()).max();
        assert_eq!(
            texts,
            Some(entry.text.len()),
            "{title}: no row for {}",
            entry.heading
        );
    }
    let recorded = |claim: &&ClaimSpec| !NOT_RECORDED.contains(&claim.paper.as_str());
    for claim in spec.claim.iter().filter(recorded) {
        for (name, pick) in &claim.values {
            assert!(
                rows.pick(pick).is_some(),
                "{title}: {}: no row for {name}",
                claim.paper
            );
        }
        assert!(
            claim.finding(rows, nothing_below).is_some(),
            "{title}: {}",
            claim.paper
        );
    }
}

#[test]
fn every_plot_line_column_and_claim_finds_a_recorded_row() {
    with_each(|spec, rows| {
        let with_clients = rows.rows.iter().any(|row| row.parameter("clients").is_some());
        let recorded = |figure: &&FigureSpec| {
            let title = figure.title.as_str();
            !NOT_RECORDED.contains(&title) && (with_clients || !OF_CLIENTS.contains(&title))
        };
        for spec_figure in spec.figure.iter().filter(recorded) {
            figure(spec_figure, &rows.all(&spec_figure.filter), spec.nothing_below);
        }
        for tile in &spec.tile {
            assert!(tile.tile(rows).is_some(), "{}", tile.name);
        }
        let answers = spec.answers.as_ref().expect("a suite checks answers");
        assert!(!rows.of(&answers.pick.filter).rows.is_empty());
    });
}

#[test]
fn every_bar_colour_and_every_made_key_is_used_by_a_recorded_row() {
    with_each(|spec, rows| {
        for plot in spec.figure.iter().flat_map(|figure| &figure.plot) {
            for colour in &plot.colours {
                assert!(
                    rows.rows.iter().any(|row| colour.finds(rows, row)),
                    "{}",
                    colour.name
                );
            }
        }
        for key in spec.derive.keys() {
            assert!(
                rows.rows.iter().any(|row| rows.value(row, key).is_some()),
                "{key}"
            );
        }
    });
}

#[test]
fn modes_are_short_enough_for_a_phone() {
    let spec = spec::of("memory-latency").expect("a report");
    for (mode, short) in [
        ("one/plain", "one/plain"),
        ("one/staged", "one/staged"),
        ("one/staged/workahead128-backward-spin", "ahead128"),
        ("bi2/staged/group32", "bi2/group32"),
    ] {
        let rows = [ratio(mode, [1.0; 3])];
        let rows = Rows::new(&spec.derive, &rows);
        assert_eq!(rows.words(rows.rows[0], "{short}").as_deref(), Some(short));
    }
}

fn ratio(mode: &str, [min, median, max]: [f64; 3]) -> Row {
    let spread = Spread {
        n: 5,
        min,
        median,
        max,
    };
    let row = Row::measured("smt", "fig6a_index", "ratio", "x", spread, true).versus("serial");
    row.with("mode", mode)
}

fn sections(rows: &[Row], quick: bool) -> Vec<String> {
    let page = page("memory-latency", rows, &[], quick).expect("a page");
    page.sections
        .into_iter()
        .flat_map(|section| section.text)
        .collect()
}

/// The sentence about what a bi-threaded traversal adds.
fn sentence(rows: &[Row]) -> String {
    sections(rows, false)
        .into_iter()
        .next()
        .expect("claims stand first")
}

#[test]
fn a_claim_is_judged_by_its_row_and_told_with_its_spread() {
    let of = |spread| sentence(&[ratio("bi2/plain", spread)]);
    assert_eq!(
        of([1.5, 1.6, 1.7]),
        "Paper: a bi-threaded traversal adds up to 69 % throughput (section 6.2). Here: it adds 60 % (50 to 70). \
         This agrees with the paper."
    );
    assert!(of([1.1, 1.2, 1.25]).ends_with("The direction is the paper's, the size is not."));
    assert!(of([0.6, 0.7, 0.8]).contains("Here: it loses 30 % (20 to 40). This does not agree"));
    assert!(of([0.9, 1.5, 1.7]).ends_with("The spread holds both: this run does not decide it."));
}

#[test]
fn what_a_side_against_itself_differs_by_is_not_decided() {
    let control = ratio("one/plain", [0.8, 1.0, 1.25]).with("control", "a/a");
    let rows = [ratio("bi2/plain", [1.1, 1.15, 1.2]), control];
    assert!(sentence(&rows).ends_with("The spread holds both: this run does not decide it."));
    assert!(sentence(&rows[..1]).ends_with("The direction is the paper's, the size is not."));
}

#[test]
fn a_quick_run_states_what_the_paper_says_and_no_agreement() {
    let (rows, quick) = (recorded(RECORDED[0].1), true);
    let page = page("memory-latency", &rows, &[], quick).expect("a page");
    assert!(page.lead.contains("THIS RUN WAS QUICK"));
    assert!(page.tiles.iter().all(|tile| !tile.name.contains("statements")));
    let html = page.render();
    assert!(html.contains("saves up to 33 %"));
    assert!(!html.contains("Here: ") && !html.contains("agree"), "{html}");
}

#[test]
fn a_figure_that_was_not_run_is_not_shown_and_reasons_stand_once() {
    let gone =
        |mode: &str| Row::unavailable("smt", "fig6a_index", "ratio", "x", "no counters").with("mode", mode);
    let text = sections(&[gone("bi2/plain"), gone("two/plain")], false);
    assert_eq!(text, ["Unavailable here: no counters."]);
    assert!(sections(&[], false).is_empty());
}

/// Rows of PostgreSQL's suite: case, metric, value, keys.
fn queries() -> Vec<Row> {
    let row = |case: &str, metric: &str, value: f64| {
        Row::measured("mcc", case, metric, "x", Spread::one(value), true).with("class", "moderate")
    };
    let slow = row("ceiling", "slowdown", 1.2)
        .with("figure", "fig1")
        .with("time", "clock");
    let six = |side: &str, value| {
        row("fig6", "slowdown", value)
            .with("query", "hash_plq3")
            .with("side", side)
    };
    vec![
        slow.with("query", "hash_plq6").with("corunner", "index_plq6"),
        row("ceiling", "ratio", 1.1).with("policy", "best").versus("fifo"),
        six("fifo", 1.3),
        six("sls", 1.1),
        Row::unavailable("mcc", "fig6", "mix_seconds", "s", "no ways"),
        row("estimation", "error_percent", 40.0).with("query", "hash_plq6"),
        row("mix", "ratio", 1.05)
            .with("side", "auto_plans")
            .versus("fifo"),
    ]
}

#[test]
fn every_figure_of_the_heavy_queue_that_ran_is_on_the_page() {
    let html = |rows: &[Row], quick| page("heavy-queue", rows, &[], quick).expect("a page").render();
    let run = html(&queries(), false);
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
        assert!(run.contains(words), "{words}");
    }
    assert!(!run.contains("Section 7.3: four"));
    let quick = html(&queries(), true);
    assert!(quick.contains("THIS RUN WAS QUICK") && !quick.contains("This agrees"));
    assert!(html(&[], false).contains("all right"));
}

#[test]
fn simulated_orders_are_judged() {
    let row = |figure: &str, metric: &str, policy: &str, partition: &str, value| {
        let row = Row::simulated("mcc", "sim_order", metric, "x", Spread::one(value), true);
        row.with("figure", figure)
            .with("policy", policy)
            .with("partition", partition)
            .with("query", "plq3")
    };
    let judged = |sls: f64, mix: f64| {
        let rows = [
            row("fig6", "slowdown", "fifo", "none", 1.5),
            row("fig6", "slowdown", "sls", "none", sls),
            row("fig6", "slowdown", "mls", "ways_apart", 1.1),
            row("mix", "ratio", "sls", "none", 1.1),
            row("mix", "ratio", "mls", "ways_apart", mix),
        ];
        let page = page("heavy-queue", &rows, &[], false).expect("a page");
        let text: Vec<String> = page
            .sections
            .into_iter()
            .flat_map(|section| section.text)
            .collect();
        let count = |words: &str| text.iter().filter(|sentence| sentence.ends_with(words)).count();
        (
            count("This agrees with the paper."),
            count("This does not agree with the paper."),
        )
    };
    assert_eq!(judged(1.3, 1.2), (2, 0));
    assert_eq!(judged(1.6, 1.0), (0, 2));
}
