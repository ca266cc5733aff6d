//! `corun-lab characterize` on a server that runs, and runs that do not come to their end: interrupted, killed, without their server. What was
//! known stays, the server is left as it was found.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Run, check_error, corun};
use crate::words;
use lab_postgres::characterize::server::Server;
use lab_postgres::fixture::cluster::Programs;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);

fn server() -> Server {
    Server::start(&Programs::find().expect("PostgreSQL")).expect("a server")
}

/// Arguments of a run on `server` whose workload is `more`.
fn arguments<'a>(server: &'a Server, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["characterize", "--dsn", &server.conninfo, "--rows", "20000"];
    all.extend(words("--without interference --concurrency 1,2 --repetitions"));
    all.extend(more);
    all.extend(["--out", out.to_str().expect("a name")]);
    all
}

fn cases(out: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(out.join("rows.jsonl")).expect("rows are kept");
    let case = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        row["case"].as_str().expect("a case").to_owned()
    };
    text.lines().map(case).collect()
}

/// Whether DBmbench's tables are in the server.
fn has_tables(server: &Server) -> bool {
    let count = server.one("select count(*) from pg_namespace where nspname = 'corun_characterize'");
    count.expect("an answer") == "1"
}

/// A run that is under way: its workload has begun.
fn begun(server: &Server, out: &Path) -> Child {
    // So many turns that it does not end by itself while it is looked at.
    let arguments = arguments(server, out, &["10000", "--workload", "uss", "--load"]);
    // A shell may have started us where Ctrl-C is ignored, and that is inherited.
    let mut child = Command::new("env")
        .args(["--default-signal=INT,TERM"])
        .arg(crate::PROGRAM)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Its EXPLAIN comes before, when no row is known yet.
        let asking = server.one("select count(*) from pg_stat_activity where query ilike '%distinct%t1%' and query not ilike '%explain (%' and pid <> pg_backend_pid()");
        if asking.expect("an answer") != "0" {
            return child;
        }
        if let Some(ended) = child.try_wait().expect("a child") {
            panic!(
                "it ended before its workload began: {ended} {:?}",
                child.wait_with_output()
            );
        }
        assert!(Instant::now() < deadline, "its workload never began");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().expect("it ends");
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn tables_in_a_running_server_have_to_be_allowed_and_are_gone_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    let refused = corun(&arguments(
        &server,
        &folder.path().join("a"),
        &["1", "--workload", "utpcc"],
    ));
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("--load"), "{refused:?}");
    let out = folder.path().join("b");
    let run = corun(&arguments(&server, &out, &["1", "--workload", "utpcc", "--load"]));
    assert_eq!(run.code, 0, "{run:?}");
    assert!(cases(&out).iter().any(|case| case == "speedup"));
    // In the table of plans: advice may name the workload or not, as it was measured.
    assert!(run.out.contains("uTPC-C"), "{run:?}");
    assert!(!has_tables(&server));
}

#[test]
fn an_interrupted_run_keeps_its_rows_and_leaves_the_server_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    for name in ["INT", "TERM"] {
        let out = folder.path().join(name);
        let child = begun(&server, &out);
        signal(&child, name);
        let run = ended(child);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(
            run.err.contains("broke off") && !run.err.contains("panicked"),
            "{run:?}"
        );
        assert!(cases(&out).iter().any(|case| case == "plan"), "{name}");
        assert!(out.join("report.html").exists());
        assert!(!has_tables(&server), "{name}");
    }
}

#[test]
fn a_killed_run_leaves_rows_that_can_be_read_and_says_what_else_it_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    let out = folder.path().join("a");
    let mut child = begun(&server, &out);
    signal(&child, "KILL");
    child.wait().expect("it is dead");
    assert!(cases(&out).iter().any(|case| case == "plan"));
    // Nobody took the tables away, and the next run does not know whose they are: it says what to do.
    assert!(has_tables(&server));
    let again = |out: &Path| corun(&arguments(&server, out, &["1", "--workload", "utpcc", "--load"]));
    let refused = again(&folder.path().join("b"));
    assert_eq!(refused.code, 1, "{refused:?}");
    let what = "drop schema corun_characterize cascade";
    assert!(refused.err.contains(what), "{refused:?}");
    server.ask(what).expect("it is dropped");
    let run = again(&folder.path().join("c"));
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_server_that_dies_is_an_error_and_what_was_known_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    let out = folder.path().join("a");
    let child = begun(&server, &out);
    let postmaster = server.postmaster.clone().expect("it is here");
    let killed = Command::new("kill")
        .args(["-s", "QUIT", &postmaster.to_string()])
        .status();
    assert!(killed.expect("kill runs").success());
    let run = ended(child);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains("error: ") && !run.err.contains("panicked"),
        "{run:?}"
    );
    assert!(cases(&out).iter().any(|case| case == "plan"));
    assert!(out.join("report.html").exists());
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    let wrong = format!("{} dbname=no_such_shop", server.conninfo);
    let run = corun(&[
        "characterize",
        "--dsn",
        &wrong,
        "--out",
        folder.path().to_str().expect("a name"),
    ]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("no_such_shop"), "{run:?}");
    let word = corun(&["characterize", "--dsn", "hots=here"]);
    assert!(word.code != 0 && word.err.contains("hots"), "{word:?}");
    check_error(&corun(&["characterize", "--seconds", "0"]), 2, "", "");
}

#[test]
fn wrong_input_is_refused_before_an_earlier_run_is_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    let (earlier, fresh) = (folder.path().join("earlier"), folder.path().join("fresh"));
    std::fs::create_dir(&earlier).expect("a folder");
    let files = ["rows.jsonl", "report.html"].map(|name| earlier.join(name));
    for file in &files {
        std::fs::write(file, "an earlier run's").expect("written");
    }
    let empty = folder.path().join("empty.sql");
    std::fs::write(&empty, " ").expect("written");
    let (empty, missing) = (empty.to_str().expect("a name"), "/no/such/file.sql");
    for out in [&earlier, &fresh] {
        for (dsn, more) in [
            (server.conninfo.as_str(), vec!["--sql", missing]),
            (server.conninfo.as_str(), vec!["--sql", empty]),
            (server.conninfo.as_str(), vec!["--workload", "uss"]),
            ("host=/no/such/folder", vec!["--workload", "uss", "--load"]),
        ] {
            let out = out.to_str().expect("a name");
            let run = corun(&[&["characterize", "--dsn", dsn, "--out", out], &more[..]].concat());
            assert!(run.code != 0 && run.err.contains("error: "), "{run:?}");
            assert!(!run.err.contains("report"), "{run:?}");
        }
        let run = corun(&[
            "characterize",
            "--attach",
            "2147483647",
            "--out",
            out.to_str().expect("a name"),
        ]);
        assert!(run.code != 0 && run.err.contains("2147483647"), "{run:?}");
    }
    for file in &files {
        assert_eq!(std::fs::read_to_string(file).expect("there"), "an earlier run's");
    }
    assert_eq!(std::fs::read_dir(&earlier).expect("there").count(), files.len());
    assert!(!fresh.exists());
}

#[test]
fn a_missing_grant_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server();
    server.ask("create role \"some one\" login").expect("a role");
    let dsn = format!("{} user='some one'", server.conninfo);
    let sql = folder.path().join("own.sql");
    std::fs::write(&sql, "select 1;").expect("written");
    let out = folder.path().join("out");
    let common = [
        "characterize",
        "--dsn",
        &dsn,
        "--out",
        out.to_str().expect("a name"),
    ];
    let refused = corun(&[&common[..], &["--workload", "uss", "--load"]].concat());
    let grant = "to \"some one\"";
    assert!(
        refused.code == 1 && refused.err.contains("grant create on database") && refused.err.contains(grant),
        "{refused:?}"
    );
    let sql = sql.to_str().expect("a name");
    let few = [
        "--sql",
        sql,
        "--concurrency",
        "1",
        "--repetitions",
        "1",
        "--without",
        "interference",
    ];
    let run = corun(&[&common[..], &few[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.says("grant pg_read_all_settings") && run.out.contains(grant),
        "{run:?}"
    );
}
