//! The demo's numbers as benchmark rows (suite `demo`), for `corun-lab demo --json` and for records.

use super::summary::{ClassSummary, QuerySummary, SideSummary, Summary};
use super::{DemoResult, Side};
use lab_core::row::Row;
use lab_core::stats::Spread;

const SUITE: &str = "demo";

/// All rows: classes, then queries, then memory.
pub fn rows(result: &DemoResult, summary: &Summary) -> Vec<Row> {
    let answer_ok = summary.wrong == 0;
    let mut rows = Vec::new();
    for class in &summary.classes {
        class_rows(class, answer_ok, &mut rows);
    }
    for query in &summary.queries {
        query_rows(query, answer_ok, &mut rows);
    }
    for &(side, peak) in &summary.peak_bytes {
        let row = Row::measured(SUITE, "all", "peak_bytes", "bytes", peak, answer_ok);
        rows.push(of_side(row, side));
    }
    let options = &result.options;
    rows.into_iter()
        .map(|row| {
            row.with("scale_factor", options.scale)
                .with("partitions", options.partitions)
                .with("clients", options.clients)
                .with("short_clients", options.short_clients)
                .with("seconds", options.seconds)
        })
        .collect()
}

/// A row of one side.
fn of_side(row: Row, side: Side) -> Row {
    row.with("engine", side.engine()).with("policy", side.policy())
}

fn class_rows(class: &ClassSummary, answer_ok: bool, rows: &mut Vec<Row>) {
    let case = class.class.name();
    let row = |metric: &str, unit: &str, spread: Spread, side: Side| {
        of_side(Row::measured(SUITE, case, metric, unit, spread, answer_ok), side)
    };
    for numbers in &class.sides {
        let side = numbers.side;
        rows.extend(numbers.rate.map(|rate| row("queries_per_s", "1/s", rate, side)));
        for (metric, value) in [("p50_ms", latency(numbers, 50)), ("p95_ms", latency(numbers, 95))] {
            rows.extend(value.map(|value| row(metric, "ms", value, side)));
        }
        for (ratio, versus) in [
            (numbers.speed_up, Side::Stock.engine()),
            (numbers.over_fifo, "fifo"),
        ] {
            rows.extend(ratio.map(|ratio| row("ratio", "x", ratio, side).versus(versus)));
        }
    }
    rows.extend(
        class
            .control
            .map(|ratio| row("ratio", "x", ratio, Side::Stock).versus(Side::Stock.engine())),
    );
}

/// One quantile as a spread of itself: the quantile over all rounds is one number.
fn latency(numbers: &SideSummary, percent: u8) -> Option<Spread> {
    let latency = numbers.latency?;
    let value = if percent == 50 { latency.p50 } else { latency.p95 };
    Some(Spread {
        n: numbers.executions,
        min: value,
        median: value,
        max: value,
    })
}

fn query_rows(query: &QuerySummary, answer_ok: bool, rows: &mut Vec<Row>) {
    let row = |metric: &str, unit: &str, spread: Spread, side: Side| {
        of_side(
            Row::measured(SUITE, &query.name, metric, unit, spread, answer_ok),
            side,
        )
        .with("class", query.class.name())
    };
    for (side, median) in [(Side::Stock, query.stock_ms), (Side::Corun, query.corun_ms)] {
        let spread = median.map(Spread::one);
        rows.extend(spread.map(|spread| row("ms", "ms", spread, side)));
    }
    rows.extend(
        query
            .speed_up
            .map(|ratio| row("ratio", "x", ratio, Side::Corun).versus(Side::Stock.engine())),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::summary::tests::result;

    #[test]
    fn classes_queries_and_memory_become_rows() {
        let result = result();
        let rows = rows(&result, &Summary::of(&result));
        let find = |case: &str, metric: &str, engine: &str| {
            let found = rows
                .iter()
                .find(|row| row.case == case && row.metric == metric && row.engine() == engine);
            found.and_then(Row::median)
        };
        assert_eq!(find("analytic", "queries_per_s", "datafusion"), Some(50.0));
        assert_eq!(find("analytic", "queries_per_s", "corun"), Some(100.0));
        assert_eq!(find("analytic", "ratio", "corun"), Some(2.0));
        assert_eq!(find("analytic", "ratio", "datafusion"), Some(1.0), "the control");
        assert_eq!(find("short", "p95_ms", "corun"), Some(1.0));
        assert_eq!(find("q1.1", "ratio", "corun"), Some(2.0));
        assert_eq!(find("q1.2", "ratio", "corun"), None, "never ran");
        assert_eq!(find("all", "peak_bytes", "corun"), Some(f64::from(3 << 20)));
        assert!(
            rows.iter()
                .all(|row| row.answer_ok == Some(true) && row.suite == "demo")
        );
    }
}
