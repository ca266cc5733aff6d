//! The sections about policies: Figure 6, section 7.3, the mix, and work that has nothing to gain.

use super::view::View;
use crate::shared_cache::keys::SLOWDOWN;
use lab_core::report::bar::{BarPlot, BarRow};
use lab_core::report::page::{Figure, Section, Table};
use lab_core::report::scale::Spacing;
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// The queries of Figure 6.
pub(super) const KS: [usize; 4] = [2, 6, 11, 24];

/// Streaming is what the other colour means.
const LEGEND: [(usize, &str); 3] = [
    (0, "DataFusion's operators"),
    (1, "corun's operators"),
    (2, "corun's operators, streaming"),
];

fn legend() -> Vec<(usize, String)> {
    LEGEND.map(|(colour, name)| (colour, name.to_owned())).to_vec()
}

fn colour(row: &Row) -> usize {
    match (row.text("engine"), row.text("partition")) {
        ("datafusion", _) => 0,
        (_, "streaming") => 2,
        _ => 1,
    }
}

/// What is not there, and why, once each.
fn missing(view: View<'_>, figure: &str) -> Vec<String> {
    let reasons = view.unavailable(figure);
    match reasons.is_empty() {
        true => Vec::new(),
        false => vec![format!("Unavailable here: {}.", reasons.join("; "))],
    }
}

fn measured<'r>(view: View<'r>, figure: &str, metric: &str) -> Vec<(&'r Row, Spread)> {
    view.figure(figure)
        .filter(|row| row.metric == metric && row.label == Label::Measured)
        .filter_map(|row| Some((row, row.spread?)))
        .collect()
}

fn bars(
    caption: &str,
    axis: &str,
    (base, suffix): (f64, &str),
    rows: Vec<(String, &Row, Spread)>,
) -> Option<Figure> {
    (!rows.is_empty()).then(|| Figure {
        caption: caption.to_owned(),
        plot: Box::new(BarPlot {
            label: caption.to_owned(),
            axis: axis.to_owned(),
            suffix: suffix.to_owned(),
            base,
            spacing: if base > 0.0 { Spacing::Log } else { Spacing::Linear },
            rows: rows
                .into_iter()
                .map(|(label, row, spread)| BarRow {
                    label,
                    value: spread.median,
                    spread: Some((spread.min, spread.max)),
                    series: colour(row),
                })
                .collect(),
        }),
    })
}

/// Figure 6.
pub(super) fn figure_6(view: View<'_>) -> Option<Section> {
    let rows = measured(view, "6", SLOWDOWN);
    let labelled = rows.into_iter().map(|(row, spread)| {
        (
            format!("{} {}", row.text("query"), row.text("policy")),
            row,
            spread,
        )
    });
    let figure = bars("", "slow-down of the hash joins", (1.0, "x"), labelled.collect())?;
    Some(Section {
        heading: "Figure 6: hash joins under three policies".to_owned(),
        text: std::iter::once(
            "Of each query two hash joins and two index joins wait together. The default takes them in order of arrival, SLS pairs like \
             with like, MLS a hash join with an index join. The paper's MLS partitions the cache by page colours; here streaming stands \
             in for it. Slow-downs are run times over the time alone; waiting is not in them."
                .to_owned(),
        )
        .chain(missing(view, "6"))
        .collect(),
        legend: legend(),
        figures: vec![figure],
        ..Section::default()
    })
}

/// Section 7.3.
pub(super) fn plan_choice(view: View<'_>) -> Option<Section> {
    let rows = measured(view, "7.3", "ms");
    let name = |row: &Row| {
        let chosen = match row.parameter("plan_choice") {
            Some(lab_core::row::Value::Flag(true)) => "plans by locality",
            _ => "cheapest plans",
        };
        format!("{}, {chosen}", row.text("policy"))
    };
    let labelled = rows.into_iter().map(|(row, spread)| (name(row), row, spread));
    let figure = bars(
        "",
        "mean run time of an instance, ms",
        (0.0, ""),
        labelled.collect(),
    )?;
    Some(Section {
        heading: "Section 7.3: four instances of one query, its plans chosen by cost or by locality".to_owned(),
        text: std::iter::once(
            "PLQ_13 can be a hash join or an index join at about the same cost. The paper's average falls from 13.61 s (four hash joins) \
             to 11.36 s (two of each, paired by MLS)."
                .to_owned(),
        )
        .chain(missing(view, "7.3"))
        .collect(),
        legend: legend(),
        figures: vec![figure],
        ..Section::default()
    })
}

/// The PLQ mix.
pub(super) fn mix(view: View<'_>) -> Option<Section> {
    let name = |row: &Row| row.text("policy").to_owned();
    let of = |metric: &str, wanted: &dyn Fn(&Row) -> bool| -> Vec<(String, &Row, Spread)> {
        measured(view, "mix", metric)
            .into_iter()
            .filter(|(row, _)| wanted(row))
            .map(|(row, spread)| (name(row), row, spread))
            .collect()
    };
    let moderate = of(SLOWDOWN, &|row| row.text("class") == "moderate");
    let rates = of("queries_per_s", &|_| true);
    let ratios = of("ratio", &|row| row.versus.as_deref() == Some("fifo"));
    let mut words = vec![
        "Six clients share a fixed amount of work: half of it moderate hash joins, the rest scans, index joins and weak hash joins. \
         stock_fifo takes queries in order of arrival, one a CPU, on DataFusion's operators where it has them."
            .to_owned(),
    ];
    words.extend(mix_summary(&moderate, &ratios));
    words.extend(missing(view, "mix"));
    let figures: Vec<Figure> = [
        bars(
            "Mean slow-down of the moderate queries beside the others",
            "slow-down",
            (1.0, "x"),
            moderate,
        ),
        bars("All queries a second", "queries a second", (0.0, ""), rates),
        bars(
            "Queries a second over those of fifo on corun's operators",
            "ratio",
            (1.0, "x"),
            ratios,
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!figures.is_empty()).then(|| Section {
        heading: "The PLQ mix under every policy".to_owned(),
        text: words,
        legend: legend(),
        figures,
        ..Section::default()
    })
}

/// The best policy against order of arrival, in a sentence made of the rows.
fn mix_summary(moderate: &[(String, &Row, Spread)], ratios: &[(String, &Row, Spread)]) -> Option<String> {
    let stock = moderate
        .iter()
        .find(|(policy, ..)| policy == "stock_fifo")?
        .2
        .median;
    let (calm_name, calm_row, calm) = moderate
        .iter()
        .filter(|(policy, ..)| policy != "stock_fifo")
        .min_by(|a, b| a.2.median.total_cmp(&b.2.median))?;
    let loss = |slowdown: f64| (slowdown - 1.0) * 100.0;
    let mut sentence = format!(
        "Moderate queries lose {:.0} % under stock_fifo and {:.0} % under {calm_name} with partition {}, the calmest.",
        loss(stock),
        loss(calm.median),
        calm_row.text("partition")
    );
    if let Some((name, row, spread)) = ratios.iter().max_by(|a, b| a.2.median.total_cmp(&b.2.median)) {
        sentence.push_str(&format!(
            " The most queries a second are those of {name} with partition {}: {:.2} times fifo's.",
            row.text("partition"),
            spread.median
        ));
    }
    Some(sentence)
}

/// Work that has nothing to gain.
pub(super) fn nothing_to_gain(view: View<'_>) -> Option<Section> {
    let rows: Vec<Vec<String>> = measured(view, "nothing_to_gain", "ratio")
        .into_iter()
        .map(|(row, spread)| {
            let bound = |key: &str| {
                row.number(key)
                    .map_or_else(|| "-".to_owned(), |b| format!("{b:.3}"))
            };
            vec![
                row.text("mix").replace('_', " "),
                match row.parameter("control") {
                    Some(_) => "engine against itself".to_owned(),
                    None => "coordinator against engine".to_owned(),
                },
                spread.n.to_string(),
                format!("{:.3}", spread.median),
                format!("{} to {}", bound("noise_low"), bound("noise_high")),
                row.text("verdict").replace('_', " "),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Section {
        heading: "Where there is nothing to gain".to_owned(),
        text: vec![
            "The coordinator as it is by default against the same engine without it, all queries strong or one client alone. Above 1 the \
             coordinator is faster; noise is what the engine against itself varies by."
                .to_owned(),
        ],
        table: Some(Table {
            headings: ["work", "what", "pairs", "median ratio", "noise", "verdict"]
                .map(str::to_owned)
                .to_vec(),
            numeric_columns: 0,
            rows,
        }),
        ..Section::default()
    })
}
