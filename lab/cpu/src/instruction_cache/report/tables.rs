//! Tables of the report: the paper's 2 and 4.

use super::super::rows::metric;
use super::view::View;
use corun_cli::number;
use lab_core::report::page::{Section, Table};
use lab_core::row::Row;

fn headings<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number::short)
}

/// Table 2.
pub(super) fn operations(view: View<'_>, case: &'static str) -> Section {
    let rows = view.texts(case, "operation").into_iter().map(|operation| {
        let of = |metric: &str, wanted: &dyn Fn(&Row) -> bool| {
            view.value(case, metric, |row| {
                row.text("operation") == operation && wanted(row)
            })
        };
        let all = |_: &Row| true;
        let judged = view
            .metric(case, metric::FOOTPRINT)
            .find(|row| row.text("operation") == operation)
            .map_or("", |row| row.text("l1i"));
        let with = |what: &'static str| move |row: &Row| row.text("with") == what;
        let at = |mode: &'static str| move |row: &Row| row.text("mode") == mode && row.text("l1i") == judged;
        vec![
            operation.replace('_', " "),
            cell(of(metric::INSTRUCTIONS, &all)),
            cell(of(metric::FOOTPRINT, &all)),
            cell(of(metric::OVERLAP, &with("same_table"))),
            cell(of(metric::OVERLAP, &with("other_table"))),
            judged.to_owned(),
            cell(of(metric::L1I, &at("serial"))),
            cell(of(metric::L1I, &at("team"))),
            cell(of(metric::REDUCTION, &at("team"))),
            cell(of(metric::MEMBER_REDUCTION, &at("team"))),
        ]
    });
    Section {
        text: vec![
            "Overlap: percent of the code lines of one execution that another one runs too, on the same table and on one with fewer \
             levels. The cache is the largest that an operation's code fills twice; misses are those of one operation, serial and \
             in a team of ten with points found by trial, in percent fewer for the team and for each additional member."
                .to_owned(),
        ],
        table: Some(Table {
            headings: headings([
                "operation",
                "instructions",
                "code bytes",
                "same table %",
                "other table %",
                "cache",
                "serial",
                "team",
                "fewer %",
                "additional %",
            ]),
            numeric_columns: 9,
            rows: rows.collect(),
        }),
        ..Section::default()
    }
}

/// Table 4.
pub(super) fn teams(view: View<'_>, case: &'static str) -> Section {
    let mut warehouses: Vec<f64> = view
        .metric(case, metric::TEAM_IN)
        .filter_map(|row| row.number("warehouses"))
        .collect();
    warehouses.dedup();
    let steps = view.texts(case, "step");
    let value = |metric: &str, step: &str, count: f64| {
        view.value(case, metric, |row| {
            row.text("step") == step && row.number("warehouses") == Some(count)
        })
    };
    let mut rows: Vec<Vec<String>> = steps
        .iter()
        .map(|step| {
            let numbers = warehouses.iter().flat_map(|&count| {
                [metric::TEAM_IN, metric::TEAM_OUT].map(|metric| cell(value(metric, step, count)))
            });
            std::iter::once((*step).to_owned()).chain(numbers).collect()
        })
        .collect();
    let ready = warehouses.iter().flat_map(|&count| {
        let ready = view.value(case, "ready_members", |row| {
            row.number("warehouses") == Some(count)
        });
        [cell(ready), String::new()]
    });
    rows.push(std::iter::once("ready members".to_owned()).chain(ready).collect());
    let columns = warehouses.iter().flat_map(|count| {
        [
            format!("{} W in", number::short(*count)),
            format!("{} W out", number::short(*count)),
        ]
    });
    Section {
        text: vec![
            "Members that enter a team on average, and those that finish the operation in it; the others became stray, most of them \
             waiting for the lock of a warehouse or a district. The paper at 10 warehouses: 8.6 in and 6.9 out on average, 8.9 in \
             and 0.5 out for the warehouse."
                .to_owned(),
        ],
        table: Some(Table {
            headings: std::iter::once("operation".to_owned()).chain(columns).collect(),
            numeric_columns: warehouses.len() * 2,
            rows,
        }),
        ..Section::default()
    }
}
