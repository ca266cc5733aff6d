//! `corun-lab autosteps` and the programs it meets: with threads, running already, holding latches; and what is said of those that cannot be
//! traced.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::client::{Server, autosteps, client, number, of_kind, rows};
use crate::program::{check_error, corun_in};
use crate::words;

#[test]
fn points_inside_a_latch_are_warned_of_and_can_be_denied() {
    let folder = client(&["-DLATCHED", "-DPOINTS"]);
    let fetch = ["--function", "index_fetch"];
    let run = autosteps(&folder, &[&fetch[..], &["--", "./client"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let warnings: Vec<&str> = run
        .err
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    assert!(
        warnings
            .iter()
            .any(|line| line.contains("the point at find_leaf (client.c:")
                && line.contains("is inside a latch once in index_fetch")),
        "{run:?}"
    );
    let denied = autosteps(
        &folder,
        &[&fetch[..], &["--deny-latched", "--json", "--", "./client"]].concat(),
    );
    assert_eq!(denied.code, 1, "{denied:?}");
    check_error(&denied, 1, "inside a latch", "--deny-latched");
    // Where no latch is held nothing is denied.
    let free = client(&["-DPOINTS"]);
    let run = autosteps(
        &free,
        &[&fetch[..], &["--deny-latched", "--", "./client"]].concat(),
    );
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn latches_can_be_other_functions() {
    let folder = client(&["-DPOINTS"]);
    let fetch = words("--function index_fetch --latch take_lock,answer --deny-latched -- ./client");
    let run = autosteps(&folder, &fetch);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("read_row"), "{run:?}");
}

#[test]
fn threads_are_no_obstacle() {
    let folder = client(&["-DTHREADS"]);
    let rows = rows(&autosteps(
        &folder,
        &words("--function index_fetch --skip 100 --json -- ./client"),
    ));
    let alone = client(&[]);
    let expected = self::rows(&autosteps(
        &alone,
        &["--function", "index_fetch", "--json", "--", "./client"],
    ));
    assert_eq!(
        of_kind(&rows, "operation")[0]["instructions"],
        of_kind(&expected, "operation")[0]["instructions"]
    );
}

#[test]
fn a_running_program_is_attached_to_and_goes_on() {
    let folder = client(&["-DENDLESS"]);
    let mut server = Server::start(&folder);
    let pid = server.0.id().to_string();
    let rows = rows(&autosteps(
        &folder,
        &["--function", "index_fetch", "--attach", &pid, "--json"],
    ));
    assert!(number(of_kind(&rows, "operation")[0], "instructions") > 5000.0);
    assert!(server.0.try_wait().expect("asked").is_none(), "it runs on");
    let never = autosteps(
        &folder,
        &["--function", "never", "--attach", &pid, "--timeout", "0.3"],
    );
    check_error(&never, 1, "did not end within 0.3 s", "allow more time");
    assert!(server.0.try_wait().expect("asked").is_none(), "it runs on");
    let again = autosteps(&folder, &["--function", "index_scan", "--attach", &pid]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(server.0.try_wait().expect("asked").is_none(), "it runs on");
}

#[test]
fn programs_that_cannot_be_traced_are_explained() {
    let folder = client(&[]);
    let fetch = |more: &[&str]| autosteps(&folder, &[&["--function", "index_fetch"], more].concat());
    check_error(
        &fetch(&["--", "./nothing"]),
        1,
        "there is no program ./nothing",
        "",
    );
    check_error(
        &fetch(&["--skip", "1000", "--", "./client"]),
        1,
        "before the operation began",
        "20 occurrences",
    );
    check_error(
        &fetch(&["--instructions-max", "100", "--", "./client"]),
        1,
        "100 instructions",
        "",
    );
    check_error(&fetch(&["--attach", "2147483647"]), 1, "there is no process", "");
    let missing = autosteps(&folder, &["--function", "index_fetsch", "--", "./client"]);
    check_error(&missing, 1, "there is no function `index_fetsch`", "index_fetch");
    let unmarked = autosteps(&folder, &["--marked", "--", "./client"]);
    check_error(&unmarked, 1, "no marker instruction", "name a function");
    let sites = fetch(&["--sites", "--", "./client"]);
    check_error(&sites, 1, "no CTX points compiled in", "--sites");
    let stripped = client(&["-s"]);
    let run = autosteps(&stripped, &["--function", "index_fetch", "--", "./client"]);
    check_error(&run, 1, "has no symbols", "strip");
    let exits = client(&["-DEXITS"]);
    let run = autosteps(
        &exits,
        &["--function", "index_fetch", "--skip", "2", "--", "./client"],
    );
    check_error(
        &run,
        1,
        "exited with code 7 inside the operation",
        "choose an operation that returns",
    );
}

#[test]
fn points_of_source_lines_are_no_profile() {
    let folder = client(&[]);
    let run = autosteps(
        &folder,
        &words("--function index_fetch --profile points.txt -- ./client"),
    );
    check_error(&run, 1, "nothing to put into a profile", "ctx!()");
    assert!(
        run.out.contains("client.c:"),
        "the lines are printed all the same: {run:?}"
    );
    assert!(!folder.path().join("points.txt").exists());
}

#[test]
fn a_program_that_somebody_traces_already_is_refused_with_the_reason() {
    let folder = client(&["-DENDLESS"]);
    let server = Server::start(&folder);
    let pid = server.0.id().to_string();
    // The first waits for a function that never runs.
    let mut first = Command::new(crate::PROGRAM)
        .args(["autosteps", "--function", "never", "--attach", &pid])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("corun runs");
    let status = PathBuf::from(format!("/proc/{pid}/status"));
    let traced = || {
        std::fs::read_to_string(&status)
            .expect("alive")
            .contains(&format!("TracerPid:\t{}", first.id()))
    };
    for _ in 0..12_000 {
        if traced() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(traced());
    let second = autosteps(&folder, &["--function", "index_fetch", "--attach", &pid]);
    check_error(&second, 1, "no permission to trace", "traces it already");
    // Asked to stop, the first leaves the program as it was.
    let stopped = Command::new("kill")
        .args(["-INT", &first.id().to_string()])
        .status()
        .expect("kill runs");
    assert!(stopped.success());
    let status = first.wait().expect("it ends");
    assert_eq!(status.code(), Some(1));
    let run = autosteps(&folder, &["--function", "index_fetch", "--attach", &pid]);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let run = |arguments: &[&str]| corun_in(folder.path(), &[&["autosteps"], arguments].concat(), "");
    let fetch = ["--function", "f", "--", "./client"];
    for (arguments, primary) in [
        (&["--l1i", "32k/7/64"][..], "its size is no whole number of sets"),
        (&["--l1i", "32k"], "it has not three parts"),
        (&["--knee", "200"], "is no knee"),
        (&["--knee", "200,0"], "is no knee"),
        (&["--members", "1"], "is no number from 2 to 1000"),
        (&["--latch", "lock"], "is not two functions"),
        (&["--timeout", "0"], "must be above 0"),
        (&["--sites", "--lines"], "cannot be used with"),
        (&["--marked"], "cannot be used with"),
        (&["--knee", "1,1", "--calls-max", "1"], "cannot be used with"),
        (&["--trace", "t"], "cannot be used with"),
    ] {
        let run = run(&[arguments, &fetch].concat());
        check_error(&run, 2, primary, "");
    }
    check_error(&run(&["--function", "f"]), 2, "no program to trace", "--attach");
    check_error(&run(&["--", "./client"]), 2, "no operation to trace", "--marked");
    let two = words("--function f --function g --trace-out t -- ./client");
    check_error(&run(&two), 2, "--trace-out keeps one operation", "");
}
