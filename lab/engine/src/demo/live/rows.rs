//! The live part's numbers as benchmark rows (suite `demo`, cases `live_*`).
//!
//! `engine` is who analyses beside the transactions: `none`, `datafusion` or `corun`; so is `versus` of the ratios. `teams` is how
//! the terminals run, `off` or `on`; the ratio of `on` has `teams off` for `versus`.

use super::summary::{Analytics, LiveSummary, StatementSummary, Transactions};
use super::{LiveResult, Side};
use lab_core::row::Row;
use lab_core::stats::Spread;

const SUITE: &str = "demo";
const TRANSACTIONS: &str = "live_transactions";
const ANALYTIC: &str = "live_analytic";

/// All rows: transactions, analytic clients, statements.
pub fn rows(result: &LiveResult, summary: &LiveSummary) -> Vec<Row> {
    let answer_ok = summary.wrong.is_empty();
    let mut rows = Vec::new();
    for numbers in &summary.transactions {
        transaction_rows(numbers, answer_ok, &mut rows);
    }
    for numbers in &summary.analytics {
        analytic_rows(numbers, answer_ok, &mut rows);
    }
    for statement in &summary.statements {
        statement_rows(statement, answer_ok, &mut rows);
    }
    let options = &result.options;
    rows.into_iter()
        .map(|row| {
            row.with("warehouses", options.warehouses)
                .with("divisor", i64::from(options.divisor))
                .with("terminals", options.terminals)
                .with("workers", options.workers)
                .with("clients", options.clients)
                .with("partitions", options.partitions)
                .with("seconds", options.seconds)
        })
        .collect()
}

/// A number over all rounds as a spread of itself.
fn single(value: f64, n: usize) -> Spread {
    Spread {
        n,
        min: value,
        median: value,
        max: value,
    }
}

fn transaction_rows(numbers: &Transactions, answer_ok: bool, rows: &mut Vec<Row>) {
    let row = |metric: &str, unit: &str, spread: Spread| {
        Row::measured(SUITE, TRANSACTIONS, metric, unit, spread, answer_ok)
            .with("engine", numbers.side.engine())
            .with("teams", numbers.side.teams().as_str())
    };
    let timed = usize::try_from(numbers.timed).unwrap_or(usize::MAX);
    rows.extend(
        numbers
            .new_orders_per_min
            .map(|rate| row("new_orders_per_min", "1/min", rate)),
    );
    rows.extend(numbers.tps.map(|rate| row("tps", "1/s", rate)));
    for (metric, value) in [("p50_us", numbers.p50_us), ("p99_us", numbers.p99_us)] {
        rows.extend(value.map(|value| row(metric, "us", single(value, timed))));
    }
    rows.extend(numbers.retries.map(|retries| row("retries", "count", retries)));
    for (ratio, versus) in [
        (
            numbers.over_alone,
            match numbers.side {
                Side::Teams => "teams off",
                _ => Side::Alone.engine(),
            },
        ),
        (numbers.over_stock, Side::Stock.engine()),
        (numbers.control, numbers.side.engine()),
    ] {
        rows.extend(ratio.map(|ratio| row("ratio", "x", ratio).versus(versus)));
    }
}

fn analytic_rows(numbers: &Analytics, answer_ok: bool, rows: &mut Vec<Row>) {
    let row = |metric: &str, unit: &str, spread: Spread| {
        Row::measured(SUITE, ANALYTIC, metric, unit, spread, answer_ok).with("engine", numbers.side.engine())
    };
    rows.extend(numbers.rate.map(|rate| row("queries_per_s", "1/s", rate)));
    if let Some(latency) = numbers.latency {
        for (metric, value) in [("p50_ms", latency.p50), ("p95_ms", latency.p95)] {
            rows.push(row(metric, "ms", single(value, numbers.executions)));
        }
    }
    for (ratio, versus) in [(numbers.over_stock, Side::Stock), (numbers.control, numbers.side)] {
        rows.extend(ratio.map(|ratio| row("ratio", "x", ratio).versus(versus.engine())));
    }
}

fn statement_rows(statement: &StatementSummary, answer_ok: bool, rows: &mut Vec<Row>) {
    let case = format!("live_{}", statement.name);
    let row = |metric: &str, unit: &str, spread: Spread, side: Side| {
        Row::measured(SUITE, &case, metric, unit, spread, answer_ok).with("engine", side.engine())
    };
    for (side, median) in [
        (Side::Stock, statement.stock_ms),
        (Side::Corun, statement.corun_ms),
    ] {
        rows.extend(median.map(|median| row("ms", "ms", single(median, 1), side)));
    }
    rows.extend(
        statement
            .speed_up
            .map(|ratio| row("ratio", "x", ratio, Side::Corun).versus(Side::Stock.engine())),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::live::summary::tests::result;

    #[test]
    fn transactions_analytics_and_statements_become_rows() {
        let result = result();
        let rows = rows(&result, &LiveSummary::of(&result));
        let find = |case: &str, metric: &str, engine: &str, versus: Option<&str>| {
            let found = rows.iter().find(|row| {
                row.case == case
                    && row.metric == metric
                    && row.engine() == engine
                    && row.versus.as_deref() == versus
            });
            found.and_then(Row::median)
        };
        assert_eq!(
            find(TRANSACTIONS, "new_orders_per_min", "none", None),
            Some(6000.0)
        );
        assert_eq!(find(TRANSACTIONS, "tps", "datafusion", None), Some(160.0));
        assert_eq!(find(TRANSACTIONS, "ratio", "datafusion", Some("none")), Some(0.8));
        assert_eq!(
            find(TRANSACTIONS, "ratio", "corun", Some("datafusion")),
            Some(1.125)
        );
        assert_eq!(
            find(TRANSACTIONS, "ratio", "none", Some("none")),
            Some(1.0),
            "a control"
        );
        assert_eq!(find(TRANSACTIONS, "ratio", "none", Some("teams off")), Some(1.5));
        assert_eq!(find(TRANSACTIONS, "retries", "corun", None), Some(3.0));
        assert_eq!(find(ANALYTIC, "queries_per_s", "none", None), None);
        assert_eq!(find(ANALYTIC, "p95_ms", "datafusion", None), Some(50.0));
        assert_eq!(find(ANALYTIC, "ratio", "corun", Some("datafusion")), Some(2.0));
        assert_eq!(find("live_order_lines", "ms", "corun", None), Some(25.0));
        assert_eq!(find("live_payments", "ms", "corun", None), None, "never ran");
        assert!(
            rows.iter()
                .all(|row| row.answer_ok == Some(true) && row.suite == "demo")
        );
    }
}
