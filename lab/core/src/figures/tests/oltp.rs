//! The report of `oltp`: losses are in words and in the tiles, and a quick run claims nothing.

use super::*;

fn row(case: &str, engine: &str, metric: &str, values: &[f64]) -> Row {
    let spread = Spread::of(values).expect("values");
    let (workload, rest) = case.rsplit_once("_durable_t").expect("a durable case");
    let workers: usize = rest.parse().expect("a number");
    Row::measured("oltp", case, metric, "1/s", spread, true)
        .with("engine", engine)
        .with("workload", workload)
        .with("durability", "durable")
        .with("workers", workers)
        .with("scale", 2usize)
        .with("clients", 20usize)
        .with("transaction", "new_order")
        .with("version", "1.0")
        .with("configuration", format!("{engine} tuned"))
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (engine, tps) in [("corun", 900.0), ("sqlite", 1000.0), ("redb", 300.0)] {
        rows.push(row("tpcc_durable_t1", engine, "tps", &[tps]));
        rows.push(row(
            "tpcc_durable_t1",
            engine,
            "new_orders_per_min",
            &[tps * 27.0, tps * 28.0],
        ));
        rows.push(row("tpcc_durable_t1", engine, "p99_us", &[1e6 / tps]));
    }
    for (versus, ratio) in [("sqlite", 0.9), ("redb", 3.0)] {
        let row = row("tpcc_durable_t1", "corun", "ratio", &[ratio]).versus(versus);
        let verdict = if ratio < 1.0 { "slower" } else { "not_slower" };
        rows.push(
            row.with("verdict", verdict)
                .with("compared", "new_orders_per_min"),
        );
    }
    let control = row("tpcc_durable_t1", "corun", "ratio", &[1.0]).versus("corun");
    rows.push(
        control
            .with("control", "a/a")
            .with("noise_low", 0.97)
            .with("noise_high", 1.03),
    );
    let gone = Row::unavailable("oltp", "tpcc_durable_t1", "tps", "1/s", "not <built>");
    rows.push(gone.with("engine", "rocksdb").with("workload", "tpcc"));
    rows
}

fn html(rows: &[Row], quick: bool) -> String {
    let facts = [("processor".to_owned(), "a <test>".to_owned())];
    page("oltp", rows, &facts, quick).expect("a page").render()
}

#[test]
fn losses_are_in_words_and_in_the_tiles() {
    let html = html(&rows(), false);
    for wanted in [
        "TPC-C, the standard mix",
        "Where corun is slower",
        "<td>slower</td><td>0.9x of sqlite</td>",
        "0.9x of sqlite",
        "3x of redb",
        "0.90x",
        "sqlite tuned",
        "not &lt;built&gt;",
        "a &lt;test&gt;",
        "0.97 to 1.03",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    assert!(!html.contains("NaN"));
}

#[test]
fn what_was_not_lost_is_not_among_the_losses() {
    let of = |ratio: f64, verdict: &str| {
        let row = row("tpcc_durable_t1", "corun", "ratio", &[ratio]).versus("redb");
        html(&[row.with("verdict", verdict)], false)
    };
    assert!(of(0.98, "not_slower").contains("<td>less, but within the noise</td>"));
    assert!(of(1.02, "undecided").contains("<td>too near to say</td>"));
    let faster = of(1.02, "not_slower");
    let losses = ["<td>slower", "<td>too near", "<td>less"];
    assert!(losses.iter().all(|loss| !faster.contains(loss)));
}

#[test]
fn a_quick_run_claims_nothing() {
    let html = html(&rows(), true);
    assert!(html.contains("THIS RUN WAS QUICK"));
    for claim in [
        "Where corun is slower",
        "0.9x of",
        "3x of",
        "0.90x",
        "ratio to another",
    ] {
        assert!(!html.contains(claim), "{claim}");
    }
}

#[test]
fn nothing_run_is_a_page_too() {
    let html = html(&[], false);
    assert!(html.contains("corun-lab bench oltp") && !html.contains("Where corun is slower"));
}
