//! Tables of the report: which mode won where, and the paper's Table 2.

use super::figures::short_mode;
use super::view::View;
use lab_core::report::page::{Section, Table};
use lab_core::row::{Row, Value};

fn headings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}x"))
}

/// One row a contest: the winner, and what `auto` chose for one thread and for two.
pub(super) fn winners(view: View<'_>) -> Option<Section> {
    let rows: Vec<Vec<String>> = view
        .0
        .iter()
        .filter(|row| row.metric == "winner")
        .map(|row| {
            let mut cells = vec![
                row.case.clone(),
                short_mode(row.text("mode")),
                ratio(row.median()),
            ];
            for threads in ["1", "2"] {
                cells.push(short_mode(row.text(&format!("auto{threads}"))));
                cells.push(ratio(row.number(&format!("auto{threads}_versus_best"))));
            }
            cells
        })
        .collect();
    (!rows.is_empty()).then(|| Section {
        heading: "Which mode won where, and what auto chose".to_owned(),
        text: vec![
            "Winner: the fastest of the modes that could be chosen, with its speed over serial code. Auto: what corun's calibration \
             chose for one thread and for two, with its speed over the best fixed mode of as many threads; 1.00x is as good as \
             the best. Measured."
                .to_owned(),
        ],
        table: Some(Table {
            headings: headings(["case", "winner", "gain", "auto, 1 thread", "vs best", "auto, 2 threads", "vs best"]),
            numeric_columns: 0,
            rows,
        }),
        ..Section::default()
    })
}

/// What the paper's Table 2 says about a technique: row-wise and column-wise performance.
fn papers(technique: &str) -> (&'static str, &'static str) {
    match technique {
        "parallel" => ("moderate", "moderate"),
        "bi_threaded" => ("high", "high"),
        "work_ahead_set" => ("high", "moderate"),
        _ => ("not in it", "not in it"),
    }
}

/// Table 2 from this run's numbers.
pub(super) fn table2(view: View<'_>) -> Option<Section> {
    let of_rows = view.case("table2").filter(|row| row.text("layout") == "rows");
    let rows: Vec<Vec<String>> = of_rows
        .map(|row| {
            let technique = row.text("technique");
            let columns = view
                .case("table2")
                .find(|other| other.text("technique") == technique && other.text("layout") == "columns");
            let flag = |key: &str| match row.parameter(key) {
                Some(Value::Flag(true)) => "yes",
                _ => "no",
            };
            let (paper_rows, paper_columns) = papers(technique);
            vec![
                technique.replace('_', " "),
                format!("{} (paper: {paper_rows})", ratio(row.median())),
                format!(
                    "{} (paper: {paper_columns})",
                    ratio(columns.and_then(Row::median))
                ),
                row.text("order_kept").to_owned(),
                flag("format_kept").to_owned(),
                flag("cache_controlled").to_owned(),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Section {
        heading: "Table 2: the techniques".to_owned(),
        text: vec![
            "Speed over serial code, row-wise (geometric mean of figures 6(a) and 6(b)) and column-wise (figure 9), measured; the last \
             three columns are properties of the techniques."
                .to_owned(),
        ],
        table: Some(Table {
            headings: headings(["technique", "row-wise", "column-wise", "order kept", "format kept", "cache use controlled"]),
            numeric_columns: 0,
            rows,
        }),
        ..Section::default()
    })
}
