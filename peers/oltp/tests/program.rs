//! `oltp-peers` as its parent sees it: lines in, lines out, exit codes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn program(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oltp-peers"));
    command
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(arguments: &str) -> Output {
    program(arguments).output().unwrap()
}

#[test]
fn rounds_are_run_when_asked_for() {
    let mut child = program(
        "sqlite tpcc --divisor 100 --clients 4 --workers 2 --warmup 0 --seconds 0.2 --durability async",
    )
    .spawn()
    .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let loaded = next();
    assert_eq!(loaded["event"], "loaded");
    assert_eq!(loaded["workload"], "tpcc standard");
    assert_eq!(loaded["durability"], "async");
    assert!(
        loaded["memory_bytes"].as_u64() > Some(0) && loaded["load_s"].as_f64() > Some(0.0),
        "{loaded}"
    );
    for round in 1..=2 {
        writeln!(input, "go").unwrap();
        let outcome = next();
        assert_eq!(
            (&outcome["event"], &outcome["round"]),
            (&"outcome".into(), &round.into())
        );
        for number in ["tps", "new_orders_per_min", "p50_us", "p99_us"] {
            assert!(outcome[number].as_f64() > Some(0.0), "{number}: {outcome}");
        }
        assert_eq!(outcome["retried"], 0);
        assert!(outcome["kinds"].as_array().is_some_and(|kinds| !kinds.is_empty()));
    }
    drop(input);
    assert_eq!(
        next(),
        serde_json::json!({"event": "checked", "ok": true, "failed": []})
    );
    assert!(child.wait().unwrap().success());
}

#[test]
fn every_engine_of_the_list_runs() {
    let list = run("list");
    assert!(list.status.success());
    let text = String::from_utf8(list.stdout).unwrap();
    let engines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert!(engines.len() >= 2);
    for (engine, version) in engines {
        assert!(
            version.starts_with(|first: char| first.is_ascii_digit()),
            "{engine} {version}"
        );
        let output = run(&format!(
            "{engine} ycsb --mix f --records 100 --rounds 1 --warmup 0 --seconds 0.05"
        ));
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let events: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = events
            .iter()
            .map(|event| event["event"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["loaded", "outcome", "checked"]);
        assert_eq!(events[0]["version"], version);
    }
}

#[test]
fn errors_are_one_line_and_a_code() {
    for (arguments, code, says) in [
        ("", 2, "Usage"),
        ("oracle tpcc", 2, "oracle"),
        ("sqlite tpcc --mix everything", 2, "everything"),
        ("sqlite ycsb --mix g", 2, "`g`"),
        ("sqlite tpcc --clients 0", 2, "at least 1"),
        ("sqlite tpcc --seconds=-1", 2, "--seconds"),
        ("sqlite tpcc --warehouses 0", 2, "--warehouses"),
        (
            "redb ycsb --records 10 --folder /proc/nowhere",
            1,
            "/proc/nowhere",
        ),
        ("sqlite ycsb --records 10 --cpus 60000 --rounds 1", 1, "60000"),
    ] {
        let output = run(arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
        assert!(stderr.contains(says), "{arguments}: {stderr}");
        assert!(code == 2 || stderr.lines().count() == 1, "{arguments}: {stderr}");
    }
    let mut child = program("sqlite ycsb --records 10").spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"stop\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("`stop`"));
}

#[test]
fn engines_are_compared_with_the_oracle() {
    for arguments in [
        "sqlite tpcc --divisor 100 --compare 50",
        "redb ycsb --mix f --records 100 --compare 50",
    ] {
        let output = run(arguments);
        assert!(output.status.success(), "{output:?}");
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected =
            serde_json::json!({"event": "compared", "ok": true, "transactions": 50, "difference": null});
        assert_eq!(line, expected);
    }
    assert_eq!(run("redb ycsb --compare 50 --rounds 1").status.code(), Some(2));
}
