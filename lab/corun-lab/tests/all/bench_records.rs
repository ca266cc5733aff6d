//! Suites and cases are listed, a run goes on where it was ended, records are compared.

use std::fs;

use crate::program::corun_in;
use crate::words;

#[test]
fn suites_and_their_cases_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = corun_in(folder.path(), &["bench", "list", "--json"], "");
    assert_eq!(run.code, 0, "{run:?}");
    let suites: Vec<serde_json::Value> = json(&run.out);
    assert_eq!(suites.len(), 15);
    for suite in &suites {
        let name = suite["suite"].as_str().expect("a name");
        let cases = corun_in(folder.path(), &["bench", "list", name], "");
        assert_eq!(cases.code, 0, "{cases:?}");
        assert_eq!(
            Some(cases.out.lines().count() as u64),
            suite["cases"].as_u64(),
            "{cases:?}"
        );
        assert!(
            suite["cases"].as_u64() > Some(2) && suite["minutes"].as_u64() > Some(0),
            "{suite}"
        );
    }
    let some = corun_in(
        folder.path(),
        &["bench", "join", "--full", "--list", "--case", "zipf"],
        "",
    );
    assert!(
        some.out.lines().count() > 1 && some.out.lines().all(|case| case.contains("zipf")),
        "{some:?}"
    );
}

fn json(lines: &str) -> Vec<serde_json::Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_run_goes_on_where_it_was_ended_and_two_records_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let floor = |more: &[&str]| {
        let arguments = words("bench floor --quick --threads 1 --json --out records");
        let run = corun_in(folder.path(), &[&arguments, more].concat(), "");
        assert_eq!(run.code, 0, "{run:?}");
        (json(&run.out), run.err)
    };
    let all = corun_in(
        folder.path(),
        &["bench", "floor", "--quick", "--threads", "1", "--list"],
        "",
    );
    let all = all.out.lines().count();
    let (first, _) = floor(&["--case", "k_"]);
    assert!(!first.is_empty() && first.len() < all);
    let (rest, said) = floor(&["--resume"]);
    assert_eq!(first.len() + rest.len(), all, "{said}");
    assert!(
        said.contains(&format!("{} of {all} cases are recorded already", first.len())),
        "{said}"
    );
    assert!(floor(&["--resume"]).0.is_empty());
    // Other arguments are another run.
    let arguments = [
        "bench", "floor", "--quick", "--json", "--out", "records", "--resume",
    ];
    let other = corun_in(
        folder.path(),
        &[&arguments[..], &["--threads", "1", "--repetitions", "3"]].concat(),
        "",
    );
    assert_eq!(json(&other.out).len(), all, "{other:?}");

    let records = folder.path().join("records");
    let record = fs::read_dir(&records)
        .expect("records")
        .next()
        .expect("one")
        .expect("readable")
        .path();
    let record = record.to_str().expect("text");
    let same = corun_in(folder.path(), &["bench", "diff", record, record], "");
    assert_eq!(same.code, 0, "{same:?}");
    assert!(same.says(&format!("{all} figures are the same")), "{same:?}");
    let rows = fs::read_to_string(format!("{record}/floor.jsonl")).expect("rows");
    let twice = |row: &serde_json::Value| {
        let mut row = row.clone();
        for key in ["min", "median", "max"] {
            row[key] = (row[key].as_f64().expect("a number") * 100.0).into();
        }
        row.to_string()
    };
    let slower: Vec<String> = json(&rows).iter().map(twice).collect();
    fs::write(folder.path().join("slower.jsonl"), slower.join("\n")).expect("written");
    let changed = corun_in(
        folder.path(),
        &["bench", "diff", &format!("{record}/floor.jsonl"), "slower.jsonl"],
        "",
    );
    assert!(
        changed.says("Changed beyond the spreads") && changed.out.contains("ns_per_line"),
        "{changed:?}"
    );
    let shown = corun_in(
        folder.path(),
        &["bench", "report", &format!("{record}/floor.jsonl")],
        "",
    );
    assert!(
        shown.code == 0 && shown.says("Time for a random line"),
        "{shown:?}"
    );
    let page = ["bench", "report", "slower.jsonl", "--report", "floor.html"];
    let page = corun_in(folder.path(), &page, "");
    assert_eq!(page.code, 0, "{page:?}");
    assert!(
        fs::read_to_string(folder.path().join("floor.html"))
            .expect("a page")
            .contains("</svg>")
    );
    fs::write(folder.path().join("none.jsonl"), "").expect("written");
    let none = corun_in(folder.path(), &["bench", "report", "none.jsonl"], "");
    assert!(
        none.code == 2 && none.err.contains("there are no rows"),
        "{none:?}"
    );
    let missing = corun_in(folder.path(), &["bench", "diff", record, "nowhere"], "");
    assert!(
        missing.code == 1 && missing.err.contains("nowhere"),
        "{missing:?}"
    );
}
