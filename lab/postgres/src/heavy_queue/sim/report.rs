//! The simulated figures on the report's page, each beside the paper's values, and what becomes of the paper's statements.
//!
//! Functions of the rows, as all of [`super::super::report`]; what was not run is not on the page.

use super::super::keys::{ALONE, MIX_SECONDS, SLOWDOWN};
use super::figures::{CPI, MISS_RATE};
use super::{ORDER, PAIRS, TPCH, WAYS};
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::finding::Finding;
use lab_core::report::line::{LinePlot, Series};
use lab_core::report::page::{Figure, Section};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};

/// Colours: a query's own, and the paper's value.
const OWN: usize = 1;
const PAPER: usize = 3;
const COLOURS: usize = 8;
/// How much smaller a slow-down must be to count as smaller.
const CLEARLY: f64 = 0.005;

/// The sections for the rows of the simulated cases.
pub fn sections(rows: &[Row]) -> Vec<Section> {
    let simulated: Vec<&Row> = rows
        .iter()
        .filter(|row| [PAIRS, TPCH, WAYS, ORDER].contains(&row.case.as_str()))
        .collect();
    let drawn = [
        figure_1(&simulated),
        figure_2(&simulated),
        figure_4(&simulated),
        figure_5(&simulated),
        figure_6(&simulated),
        mix(&simulated),
    ];
    let mut sections: Vec<Section> = drawn.into_iter().flatten().collect();
    let mut reasons: Vec<&str> = simulated
        .iter()
        .filter(|row| row.label == Label::Unavailable)
        .map(|row| row.text("reason"))
        .collect();
    reasons.dedup();
    if !reasons.is_empty() {
        sections.push(Section {
            heading: "Simulated figures".to_owned(),
            text: vec![format!("Unavailable here: {}.", reasons.join("; "))],
            ..Section::default()
        });
    }
    sections
}

const ORIGIN: &str = "Simulated: PostgreSQL's own accesses, traced under valgrind, on the paper's caches with a shared one of a \
    sixteenth and tables in proportion.";

fn bar(label: String, value: f64, series: usize) -> BarRow {
    BarRow {
        label,
        value,
        spread: None,
        series,
    }
}

fn bars(name: &str, axis: &str, suffix: &str, base: f64, rows: Vec<BarRow>) -> Figure {
    Figure {
        caption: name.to_owned(),
        plot: Box::new(BarPlot {
            label: name.to_owned(),
            axis: axis.to_owned(),
            suffix: suffix.to_owned(),
            base,
            spacing: Spacing::Linear,
            rows,
        }),
    }
}

/// A row's bar, and the paper's under it where there is one.
fn with_paper(row: &Row, label: &str) -> Vec<BarRow> {
    let own = row.median().map(|value| bar(label.to_owned(), value, OWN));
    let paper = row
        .number("paper")
        .map(|value| bar(format!("{label}, paper"), value, PAPER));
    own.into_iter().chain(paper).collect()
}

fn ours_and_papers() -> Vec<(usize, String)> {
    vec![(OWN, "simulated".to_owned()), (PAPER, "the paper's".to_owned())]
}

fn section(heading: &str, note: &str, legend: Vec<(usize, String)>, figures: Vec<Figure>) -> Option<Section> {
    (!figures.is_empty()).then(|| Section {
        heading: heading.to_owned(),
        text: vec![note.to_owned()],
        legend,
        figures,
        ..Section::default()
    })
}

fn label(row: &Row) -> String {
    match row.text("corunner") {
        ALONE => format!("{} alone", row.text("query")),
        other => format!("{} | {other}", row.text("query")),
    }
}

fn figure_1(rows: &[&Row]) -> Option<Section> {
    let of = |metric: &str| -> Vec<BarRow> {
        rows.iter()
            .filter(|row| row.case == PAIRS && row.text("figure") == "fig1" && row.metric == metric)
            .flat_map(|row| with_paper(row, &label(row)))
            .collect()
    };
    let (misses, slow) = (of(MISS_RATE), of(SLOWDOWN));
    let mut figures = Vec::new();
    if !misses.is_empty() {
        figures.push(bars(
            "miss rate",
            "misses of accesses to the shared cache",
            " %",
            0.0,
            misses,
        ));
        figures.push(bars("slow-down", "slow-down: query | co-runner", "x", 1.0, slow));
    }
    section(
        "Figure 1, simulated: a hash join and an index join",
        ORIGIN,
        ours_and_papers(),
        figures,
    )
}

fn figure_4(rows: &[&Row]) -> Option<Section> {
    let drawn: Vec<BarRow> = rows
        .iter()
        .filter(|row| row.case == PAIRS && row.metric == SLOWDOWN)
        .filter_map(|row| Some(bar(label(row), row.median()?, class_colour(row))))
        .collect();
    let note = format!(
        "{ORIGIN} Each query beside itself, beside the index join of most parts (index joins: beside the hash join with the largest table) \
         and beside a scan. The paper: hash joins in between lose most, beside index joins more than half; index joins and those with large \
         tables little."
    );
    let legend = vec![
        (2, "a strong query".to_owned()),
        (1, "a moderate query".to_owned()),
        (0, "a weak query".to_owned()),
    ];
    let figures = match drawn.is_empty() {
        true => Vec::new(),
        false => vec![bars("slow-down", "slow-down: query | co-runner", "x", 1.0, drawn)],
    };
    section(
        "Figure 4, simulated: slow-downs by size of table",
        &note,
        legend,
        figures,
    )
}

fn class_colour(row: &Row) -> usize {
    match row.text("class") {
        "strong" => 2,
        "moderate" => 1,
        _ => 0,
    }
}

/// Lines of a metric over a key, one a name.
fn lines(
    rows: &[&Row],
    metric: &str,
    name: impl Fn(&Row) -> String,
    x: impl Fn(&Row) -> Option<f64>,
) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| row.metric == metric) {
        let (Some(x), Some(y)) = (x(row), row.median()) else {
            continue;
        };
        let name = name(row);
        match series.iter_mut().find(|series| series.name == name) {
            Some(known) => known.points.push((x, y)),
            None => series.push(Series {
                colour: series.len() % COLOURS,
                name,
                points: vec![(x, y)],
            }),
        }
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series
}

fn plot(caption: &str, x_axis: &str, y_axis: &str, x_ticks: Vec<f64>, series: Vec<Series>) -> Figure {
    Figure {
        caption: caption.to_owned(),
        plot: Box::new(LinePlot {
            label: caption.to_owned(),
            x_axis: x_axis.to_owned(),
            y_axis: y_axis.to_owned(),
            x_spacing: Spacing::Log,
            y_spacing: Spacing::Linear,
            x_ticks: Some(x_ticks),
            marks: Vec::new(),
            series,
        }),
    }
}

/// A section with the lines of two metrics over one axis.
fn over(
    rows: &[&Row],
    [heading, note]: [&str; 2],
    (axis, ticks): (&str, &[f64]),
    metrics: [(&str, [&str; 2]); 2],
    name: impl Fn(&Row) -> String,
    x: impl Fn(&Row) -> Option<f64>,
) -> Option<Section> {
    let drawn = metrics.map(|(metric, [caption, y_axis])| (caption, y_axis, lines(rows, metric, &name, &x)));
    let [(_, _, first), _] = &drawn;
    if first.is_empty() {
        return None;
    }
    let legend = first
        .iter()
        .map(|series| (series.colour, series.name.clone()))
        .collect();
    let figures = drawn.map(|(caption, y_axis, series)| plot(caption, axis, y_axis, ticks.to_vec(), series));
    section(heading, note, legend, figures.into())
}

fn figure_2(rows: &[&Row]) -> Option<Section> {
    let of: Vec<&Row> = rows.iter().copied().filter(|row| row.case == TPCH).collect();
    let note = "Counted by cachegrind, from the paper's cache sizes down to those that a database of a twentieth of the paper's asks for: \
                tables that outgrow 4 MiB there fit here. Cycles are a sum of latencies: no core overlaps them, no prefetcher hides them.";
    over(
        &of,
        ["Figure 2, simulated: TPC-H in a smaller cache", note],
        ("MiB of the last level", &[0.125, 0.25, 0.5, 1.0, 4.0]),
        [
            (MISS_RATE, ["miss rate", "% of accesses to it"]),
            (CPI, ["cycles an instruction", "cycles"]),
        ],
        |row| match row.text("paper_kind") {
            "" => row.text("query").to_owned(),
            kind => format!("{} (the paper: {kind})", row.text("query")),
        },
        |row| Some(row.number("cache_bytes")? / f64::from(1 << 20)),
    )
}

fn figure_5(rows: &[&Row]) -> Option<Section> {
    let of: Vec<&Row> = rows.iter().copied().filter(|row| row.case == WAYS).collect();
    let note = format!(
        "{ORIGIN} The paper: undivided, the moderate hash join misses 19 % beside the weak hash join and takes 1.28 times as long, beside the \
         index join 28 % and 1.56 times; with an eighth of the cache for the index join it takes a third less, and weak queries hardly more."
    );
    over(
        &of,
        ["Figure 5, simulated: fewer ways for weak queries", &note],
        (
            "ways of 16 that the weak query fills",
            &[1.0, 2.0, 4.0, 8.0, 16.0],
        ),
        [
            (MISS_RATE, ["miss rate", "% of accesses to it"]),
            (SLOWDOWN, ["slow-down", "x"]),
        ],
        label,
        |row| row.number("ways"),
    )
}

fn side(row: &Row) -> String {
    match row.text("partition") {
        "none" => row.text("policy").to_owned(),
        partition => format!("{} ({partition})", row.text("policy")),
    }
}

fn figure_6(rows: &[&Row]) -> Option<Section> {
    let drawn: Vec<BarRow> = rows
        .iter()
        .filter(|row| row.case == ORDER && row.text("figure") == "fig6" && row.metric == SLOWDOWN)
        .filter_map(|row| {
            let name = format!("{}, {}", row.text("query"), side(row));
            Some(bar(name, row.median()?, class_colour(row)))
        })
        .collect();
    let note = format!(
        "{ORIGIN} Two hash joins and two index joins that arrive in turn; corun's scheduler chooses. Under mls weak queries fill 2 of 16 ways, the \
         others the rest (ways_apart) or all (ways)."
    );
    let figures = match drawn.is_empty() {
        true => Vec::new(),
        false => vec![bars(
            "slow-down",
            "mean slow-down of the hash joins",
            "x",
            1.0,
            drawn,
        )],
    };
    section(
        "Figure 6, simulated: hash joins by policy",
        &note,
        Vec::new(),
        figures,
    )
}

fn mix(rows: &[&Row]) -> Option<Section> {
    let of = |metric: &str| -> Vec<BarRow> {
        rows.iter()
            .filter(|row| row.case == ORDER && row.text("figure") == "mix" && row.metric == metric)
            .filter_map(|row| Some(bar(side(row), row.median()?, OWN)))
            .collect()
    };
    let (ratio, slow) = (of("ratio"), of(SLOWDOWN));
    let figures = match ratio.is_empty() {
        true => Vec::new(),
        false => vec![
            bars("time of the mix", "times as fast as fifo", "x", 1.0, ratio),
            bars(
                "hash joins",
                "mean slow-down of strong and moderate hash joins",
                "x",
                1.0,
                slow,
            ),
        ],
    };
    let note = format!(
        "{ORIGIN} 24 queries on two cores, half of them moderate hash joins, medians over 25 orders of arrival."
    );
    section("A mix, simulated: all by policy", &note, Vec::new(), figures)
}

/// What becomes of the paper's statements about order.
pub fn findings(rows: &[Row]) -> Vec<Finding> {
    let of = |figure: &str, metric: &str, policy: &str, partition: &str| -> Vec<f64> {
        rows.iter()
            .filter(|row| {
                row.case == ORDER
                    && row.text("figure") == figure
                    && row.metric == metric
                    && row.text("policy") == policy
                    && row.text("partition") == partition
            })
            .filter_map(Row::median)
            .collect()
    };
    let mut all = Vec::new();
    let mean =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let fig6 = |policy, partition| mean(of("fig6", SLOWDOWN, policy, partition));
    if let (Some(fifo), Some(sls), Some(mls)) = (
        fig6("fifo", "none"),
        fig6("sls", "none"),
        fig6("mls", "ways_apart"),
    ) {
        all.push(Finding::order(
            "hash joins lose most without a scheduler, less with SLS, least with MLS and a divided cache (Figure 6, simulated)",
            fifo > sls + CLEARLY && sls > mls + CLEARLY,
            format!("{fifo:.2}x, {sls:.2}x, {mls:.2}x on average over the four queries"),
        ));
    }
    let in_mix = |policy, partition| mean(of("mix", SLOWDOWN, policy, partition));
    if let (Some(fifo), Some(sls), Some(mls)) = (
        in_mix("fifo", "none"),
        in_mix("sls", "none"),
        in_mix("mls", "ways_apart"),
    ) {
        all.push(Finding::order(
            "in a mix, hash joins lose most by arrival, less with SLS, least with MLS and a divided cache (simulated)",
            fifo > sls + CLEARLY && sls > mls + CLEARLY,
            format!("{fifo:.2}x, {sls:.2}x, {mls:.2}x"),
        ));
    }
    let one = |policy, partition| of("mix", "ratio", policy, partition).first().copied();
    if let (Some(sls), Some(mls)) = (one("sls", "none"), one("mls", "ways_apart")) {
        all.push(Finding::order(
            "a mix ends sooner with SLS than by arrival, and soonest with MLS and a divided cache (simulated)",
            sls > 1.0 + CLEARLY && mls > sls + CLEARLY,
            format!("{sls:.2} and {mls:.2} times as fast by {MIX_SECONDS}"),
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use corun_model::units::Bytes;

    use super::super::super::SUITE;
    use super::super::super::keys::Keys;
    use super::*;
    use lab_core::stats::Spread;

    fn row(
        case: &'static str,
        figure: &'static str,
        metric: &str,
        policy: &str,
        partition: &'static str,
        value: f64,
    ) -> Row {
        let keys = Keys {
            query: "hash_plq6".to_owned(),
            corunner: "scan".to_owned(),
            policy: policy.to_owned(),
            partition,
            class: "moderate".to_owned(),
            ..Keys::new(case, figure, Bytes::mib(1))
        };
        keys.put(Row::simulated(
            SUITE,
            case,
            metric,
            "x",
            Spread::of(&[value]).expect("one"),
            true,
        ))
    }

    #[test]
    fn each_figure_is_a_section_and_the_order_is_judged() {
        let mut rows = vec![
            row(PAIRS, "fig1", MISS_RATE, "pinned", "none", 20.0).with("paper", 21.3),
            row(PAIRS, "fig1", SLOWDOWN, "pinned", "none", 1.4),
            row(TPCH, "fig2", MISS_RATE, "pinned", "none", 30.0),
            row(WAYS, "fig5", MISS_RATE, "pinned", "ways", 30.0).with("ways", 4u64),
            row(ORDER, "fig6", SLOWDOWN, "fifo", "none", 1.5),
            row(ORDER, "fig6", SLOWDOWN, "sls", "none", 1.3),
            row(ORDER, "fig6", SLOWDOWN, "mls", "ways_apart", 1.1),
            row(ORDER, "mix", "ratio", "sls", "none", 1.1),
        ];
        let headings: Vec<String> = sections(&rows)
            .into_iter()
            .map(|section| section.heading)
            .collect();
        assert_eq!(headings.len(), 6, "{headings:?}");
        assert!(sections(&[]).is_empty());
        let judged = findings(&rows);
        assert_eq!(judged.len(), 1);
        assert!(
            judged[0].sentence().contains("This agrees"),
            "{}",
            judged[0].sentence()
        );
        rows[5] = row(ORDER, "fig6", SLOWDOWN, "sls", "none", 1.6);
        rows.push(row(ORDER, "mix", "ratio", "mls", "ways_apart", 1.0));
        let judged = findings(&rows);
        assert_eq!(judged.len(), 2);
        assert!(
            judged
                .iter()
                .all(|finding| finding.sentence().contains("does not agree"))
        );
    }
}
