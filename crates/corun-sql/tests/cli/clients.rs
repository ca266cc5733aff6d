//! `--clients`: concurrent clients, the same answers, and what is reported.

use std::fs;
use std::path::Path;

use crate::program::{Run, check_error, corun_in};
use crate::terminal::Terminal;

fn run(folder: &Path, arguments: &[&str]) -> Run {
    corun_in(folder, &[&["sql", "data", "--clients"], arguments].concat(), "")
}

/// Two tables in a folder, and queries of them in another.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["data", "queries"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let orders = "select value as o_id, value % 50 as o_customer, value * 0.1 as o_price from generate_series(1, 20000) as t(value)";
    let customers = "select value as c_id, 'c' || value as c_name from generate_series(0, 49) as t(value)";
    for (name, rows) in [("orders", orders), ("customers", customers)] {
        let copy = format!("copy ({rows}) to 'data/{name}.parquet'");
        let run = corun_in(folder.path(), &["sql", "-c", &copy], "");
        assert_eq!(run.code, 0, "{run:?}");
    }
    let query = |name: &str, sql: &str| {
        fs::write(folder.path().join("queries").join(name), sql).expect("written");
    };
    query(
        "q1.sql",
        "select c_name, count(*), sum(o_price) from orders join customers on o_customer = c_id group by c_name",
    );
    query(
        "q2.sql",
        "select count(*) from orders where o_price > 100;\nselect max(o_id) from orders;\n",
    );
    query("q10.sql", "-- any five\nselect o_id from orders limit 5");
    folder
}

fn objects(run: &Run) -> Vec<serde_json::Value> {
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    run.out
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

fn of_kind<'o>(objects: &'o [serde_json::Value], kind: &str) -> Vec<&'o serde_json::Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[test]
fn every_client_runs_every_query_in_every_round() {
    let folder = folder();
    for policy in ["auto", "fifo", "sls", "learned", "off"] {
        let run = run(
            folder.path(),
            &[
                "3",
                "--policy",
                policy,
                "--rounds",
                "2",
                "--partitions",
                "2",
                "-f",
                "queries",
                "--json",
            ],
        );
        let objects = objects(&run);
        let about = of_kind(&objects, "run");
        let expected = serde_json::json!({
            "kind": "run", "clients": 3, "policy": policy, "seed": 1, "queries": 4, "partitions": 2,
            "memory_limit_bytes": null, "rounds": 2, "interrupted": false,
        });
        assert_eq!(about, [&expected]);
        let queries = of_kind(&objects, "query");
        let names: Vec<&str> = queries
            .iter()
            .filter_map(|query| query["query"].as_str())
            .collect();
        assert_eq!(names, ["q1", "q2:1", "q2:2", "q10"]);
        for query in &queries {
            assert_eq!(query["n"], 6, "{query}");
            assert_eq!(query["side"], "subject");
            assert!(query["p50_ms"].as_f64() <= query["p95_ms"].as_f64(), "{query}");
            assert!(query["p95_ms"].as_f64() <= query["max_ms"].as_f64(), "{query}");
            assert_eq!(query["ran_ms"].is_null(), policy == "off", "{query}");
            let classes = ["strong", "moderate", "weak"];
            assert!(
                query["class"]
                    .as_str()
                    .is_some_and(|class| classes.contains(&class)),
                "{query}"
            );
        }
        assert_eq!(queries[0]["rows"], 50);
        assert_eq!(queries[0]["answers_differ"], false);
        assert_eq!(queries[3]["answers_may_differ"], true);
        let sides = of_kind(&objects, "side");
        assert_eq!(sides.len(), 1);
        assert!(
            sides[0]["queries_per_second"]["median"]
                .as_f64()
                .is_some_and(|rate| rate > 0.0)
        );
    }
}

#[test]
fn work_that_is_shared_is_counted() {
    let folder = folder();
    let query = fs::read_to_string(folder.path().join("queries/q1.sql")).expect("was written");
    // One client: what a run has made is there for the next, whatever the scheduler does.
    fs::write(folder.path().join("six.sql"), format!("{query};\n").repeat(6)).expect("written");
    let taken = |share: &str| {
        let set = format!("corun.share_work={share}");
        let run = run(
            folder.path(),
            &["1", "--rounds", "1", "-f", "six.sql", "--set", &set, "--json"],
        );
        let objects = objects(&run);
        of_kind(&objects, "query")
            .iter()
            .map(|query| query["shared_kept"].as_u64().expect("a coordinator says so"))
            .sum::<u64>()
    };
    let kept = taken("on");
    assert!((1..=5).contains(&kept), "{kept}");
    assert_eq!(taken("off"), 0);
}

#[test]
fn sides_run_beside_it_in_each_round() {
    let folder = folder();
    let compare = ["2", "--compare", "--rounds", "2", "-f", "queries"];
    let objects = objects(&run(folder.path(), &[&compare[..], &["--json"]].concat()));
    let sides: Vec<&str> = of_kind(&objects, "side")
        .iter()
        .filter_map(|side| side["side"].as_str())
        .collect();
    assert_eq!(sides, ["subject", "again", "off", "one_after_the_other", "stock"]);
    let comparisons = of_kind(&objects, "comparison");
    assert_eq!(comparisons.len(), 3);
    for comparison in comparisons {
        assert_eq!(comparison["verdict"], "too_few_rounds", "{comparison}");
        assert!(
            comparison["times"]["median"]
                .as_f64()
                .is_some_and(|times| times > 0.0)
        );
    }
    let stock = objects
        .iter()
        .find(|object| object["kind"] == "query" && object["side"] == "stock");
    assert_eq!(stock.map(|stock| &stock["n"]), Some(&4.into()));
    let text = run(folder.path(), &compare);
    assert_eq!((text.code, text.err.as_str()), (0, ""), "{text:?}");
    assert!(
        text.says("2 clients, policy auto, 2 rounds of 4 queries each, seed 1"),
        "{text:?}"
    );
    for words in [
        "q2:1",
        "stock DataFusion",
        "one after the other",
        "not compared",
        "what noise does",
    ] {
        assert!(text.says(words), "{words}: {text:?}");
    }
    let last = text
        .out
        .trim_end()
        .rsplit("\n\n")
        .next()
        .unwrap_or_default()
        .replace('\n', " ");
    assert!(
        last.contains(" queries/s, ") && last.contains("2 rounds are too few to tell"),
        "{text:?}"
    );
}

#[test]
fn statements_before_run_once_and_limits_hold() {
    let folder = folder();
    fs::write(folder.path().join("q.sql"), "select sum(n) from few").expect("written");
    let run = |more: &[&str]| {
        let with = ["2", "--rounds", "1", "--compare", "--json", "-f", "q.sql"];
        run(folder.path(), &[&with[..], more].concat())
    };
    let ran = run(&[
        "-c",
        "create table few as select o_id as n from orders where o_id < 10",
        "--memory-limit",
        "1GiB",
    ]);
    let objects = objects(&ran);
    assert_eq!(of_kind(&objects, "run")[0]["memory_limit_bytes"], 1 << 30);
    check_error(&run(&[]), 1, "q.sql: table \"few\" does not exist", "");
    let distinct = "select count(*) from (select distinct o_id, o_price from orders)";
    fs::write(folder.path().join("q.sql"), distinct).expect("written");
    check_error(
        &run(&["--memory-limit", "64KiB"]),
        1,
        "q.sql: out of memory for this query",
        "raise the memory limit",
    );
}

#[test]
fn what_clients_cannot_run_is_told_with_its_place() {
    let folder = folder();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("written");
    file("bad.sql", "select 1;\n\nselect o_idd from orders;\n");
    file("ddl.sql", "select 1; drop table orders");
    file("random.sql", "select random() as x");
    file("empty.sql", "-- nothing\n");
    let failed = |arguments: &[&str], code: i32, primary: &str, more: &str| {
        check_error(&run(folder.path(), arguments), code, primary, more);
    };
    failed(
        &["2", "-f", "bad.sql"],
        1,
        "bad.sql, statement 2 (line 3): column \"o_idd\" does not exist",
        "did you mean \"o_id\"?",
    );
    failed(
        &["2", "-f", "ddl.sql"],
        1,
        "ddl.sql, statement 2 (line 1): clients run queries only",
        "-c runs",
    );
    failed(
        &["2", "-f", "random.sql", "--rounds", "1"],
        1,
        "clients got different answers",
        "random.sql",
    );
    failed(&["2", "-f", "empty.sql"], 1, "there is no query in empty.sql", "");
    failed(&["2", "-f", "missing.sql"], 1, "cannot read missing.sql", "");
    failed(&["2"], 2, "--file", "");
    failed(&["0", "-f", "queries"], 2, "must be 1 or more", "");
    failed(&["1001", "-f", "queries"], 2, "must be at most 1000", "");
    failed(
        &["2", "-f", "queries", "--policy", "none"],
        2,
        "is none of fifo",
        "",
    );
    failed(&["2", "-f", "queries", "--stock"], 2, "--stock", "--compare");
    failed(&["2", "-f", "queries", "--format", "csv"], 2, "no CSV", "--json");
    failed(
        &["2", "-f", "queries", "--rounds", "1", "--seconds", "1"],
        2,
        "--rounds",
        "",
    );
}

#[test]
fn ctrl_c_prints_what_there_is() {
    let folder = folder();
    let mut terminal = Terminal::start(
        (80, 24),
        folder.path(),
        &[],
        "sql data --clients 2 --seconds 600 -f queries -v",
    );
    terminal.wait_for("round 2 has ended");
    terminal.type_keys("\u{3}");
    let shown = terminal.wait_for("error: interrupted in round");
    assert!(shown.contains("q2:1") && shown.contains("queries/s"), "{shown:?}");
    let lines = shown.lines().map(|line| line.trim_end().chars().count());
    assert!(lines.max() <= Some(80), "{shown:?}");
    assert_eq!(terminal.end(), Some(1));
}
