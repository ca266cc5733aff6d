//! `corun autosteps`: points, misses, profiles, the lint, and what is said of programs that cannot be traced. Traced are C programs made
//! of `autosteps/client.c` here and now.

mod program;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use model::steps::CtxProfile;
use program::{Run, check_error, corun_in};
use serde_json::Value;
use tempfile::TempDir;

/// The cache of these tests, whatever the machine's is. A stage of the client is 12 KiB.
const L1I: [&str; 2] = ["--l1i", "32k/8/64"];

/// A folder with the client in it, compiled with these flags.
fn client(flags: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/autosteps/client.c");
    let done = Command::new("cc")
        .args(["-g", "-O1"])
        .args(flags)
        .arg("-o")
        .arg(folder.path().join("client"))
        .arg(source)
        .arg("-lpthread")
        .status()
        .expect("cc runs");
    assert!(done.success(), "{flags:?}");
    folder
}

/// Runs `corun autosteps`; what the client prints goes to stderr and is left out.
fn autosteps(folder: &TempDir, arguments: &[&str]) -> Run {
    let mut run = corun_in(folder.path(), &[&["autosteps"], &L1I[..], arguments].concat(), "");
    let lines = run
        .err
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("sum "));
    run.err = lines.collect();
    run
}

fn rows(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{run:?}");
    let rows = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    rows.collect()
}

fn of_kind<'a>(rows: &'a [Value], kind: &str) -> Vec<&'a Value> {
    rows.iter().filter(|row| row["kind"] == kind).collect()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

fn profile(folder: &TempDir, name: &str) -> CtxProfile {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("a profile");
    text.parse().expect("a profile that can be read")
}

#[test]
fn points_are_source_lines_and_a_team_misses_less() {
    let folder = client(&[]);
    let fetch = ["--function", "index_fetch", "--skip", "2"];
    let rows = rows(&autosteps(
        &folder,
        &[&fetch[..], &["--json", "--", "./client"]].concat(),
    ));
    let operation = of_kind(&rows, "operation")[0];
    assert_eq!(operation["operation"], "index_fetch");
    // Four stages of 12 KiB in a cache of 32 KiB: nothing is left of one when it comes round again.
    let footprint = number(operation, "footprint_bytes");
    assert!((48.0..52.0).contains(&(footprint / 1024.0)), "{operation}");
    assert_eq!(
        number(operation, "cold_misses"),
        number(operation, "footprint_lines")
    );
    assert!(
        number(operation, "warm_misses") >= 0.9 * number(operation, "cold_misses"),
        "{operation}"
    );
    assert!(number(operation, "reduction_percent") >= 90.0, "{operation}");
    assert!((1.0..=3.0).contains(&number(operation, "points")), "{operation}");
    assert_eq!(operation["calls"], operation["points"]);
    let team = of_kind(&rows, "team")[0];
    assert_eq!(team["members"], 10);
    assert!(number(team, "reduction_percent") >= 75.0, "{team}");
    let points = of_kind(&rows, "point");
    assert_eq!(points.len() as f64, number(operation, "points"));
    for point in points {
        assert!(
            point["file"]
                .as_str()
                .is_some_and(|file| file.ends_with("client.c")),
            "{point}"
        );
        let stages = ["find_leaf", "take_lock", "read_row", "answer"];
        assert!(
            stages.contains(&point["function"].as_str().expect("a function")),
            "{point}"
        );
        assert!(point["line"].as_u64().is_some_and(|line| line > 50), "{point}");
        assert_eq!(point["calls"]["index_fetch"], 1);
    }
}

#[test]
fn tables_name_the_cache_the_points_and_the_course() {
    let folder = client(&[]);
    let arguments = [
        "--function",
        "index_fetch",
        "--sweep",
        "--knee",
        "100,2",
        "--",
        "./client",
    ];
    let run = autosteps(&folder, &arguments);
    assert_eq!(run.code, 0, "{run:?}");
    for words in [
        "L1-I: 32 KiB, 8 ways, lines of 64 B (as given); knee: 100 instructions wide, 2 evictions high",
        "misses are simulated",
        "CTX point before",
        "client.c:",
        "each further member",
        "index_fetch, misses as they add up:",
        "index_fetch, other knees (original: ",
        "* 100,2",
        "400,8",
    ] {
        assert!(run.out.contains(words), "{words}: {}", run.out);
    }
    // This machine's cache is named where none is given.
    let run = corun_in(
        folder.path(),
        &["autosteps", "--function", "index_fetch", "--", "./client"],
        "",
    );
    if run.code == 0 {
        assert!(run.out.contains("this machine's; --l1i sets another"), "{run:?}");
    } else {
        check_error(&run, 2, "does not say what its L1 instruction cache is", "--l1i");
    }
}

#[test]
fn calls_can_be_limited_instead_of_a_knee_given() {
    let folder = client(&[]);
    let limited = |calls: &str| {
        let arguments = [
            "--function",
            "index_fetch",
            "--calls-max",
            calls,
            "--json",
            "--",
            "./client",
        ];
        autosteps(&folder, &arguments)
    };
    let rows = rows(&limited("3"));
    assert!(
        (1.0..=3.0).contains(&number(of_kind(&rows, "operation")[0], "calls")),
        "{rows:?}"
    );
    assert!(
        number(of_kind(&rows, "team")[0], "reduction_percent") >= 80.0,
        "{rows:?}"
    );
    // A cache as small as this wants many.
    let tiny = [
        "autosteps",
        "--l1i",
        "1k/2/64",
        "--function",
        "index_fetch",
        "--calls-max",
        "1",
        "--",
        "./client",
    ];
    check_error(
        &corun_in(folder.path(), &tiny, ""),
        1,
        "no knee makes do with 1 calls",
        "allow at least",
    );
}

#[test]
fn a_cache_that_holds_the_code_needs_no_point() {
    let folder = client(&[]);
    let arguments = [
        "autosteps",
        "--l1i",
        "64k/16/64",
        "--function",
        "index_fetch",
        "--",
        "./client",
    ];
    let run = corun_in(folder.path(), &arguments, "");
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(run.out.contains("no CTX point is needed"), "{run:?}");
}

#[test]
fn marked_operations_are_those_between_the_markers() {
    let folder = client(&["-DMARKED"]);
    let traced = |arguments: &[&str]| {
        let rows = rows(&autosteps(
            &folder,
            &[arguments, &["--skip", "1", "--json", "--", "./client"]].concat(),
        ));
        number(of_kind(&rows, "operation")[0], "instructions")
    };
    let (function, marked) = (traced(&["--function", "index_fetch"]), traced(&["--marked"]));
    // Markers are outside the call.
    assert!(
        marked > function && marked < function + 20.0,
        "{function} {marked}"
    );
}

#[test]
fn several_operations_choose_among_compiled_in_points_for_one_profile() {
    let folder = client(&["-DPOINTS"]);
    let both = [
        "--function",
        "index_fetch",
        "--function",
        "index_scan",
        "--skip",
        "1",
    ];
    let run = autosteps(
        &folder,
        &[
            &both[..],
            &["--json", "--profile", "points.txt", "--", "./client"],
        ]
        .concat(),
    );
    let rows = rows(&run);
    assert_eq!(of_kind(&rows, "cache")[0]["choice"], "sites");
    let operations = of_kind(&rows, "operation");
    let names: Vec<&str> = operations
        .iter()
        .filter_map(|row| row["operation"].as_str())
        .collect();
    assert_eq!(names, ["index_fetch", "index_scan"]);
    assert!(number(operations[0], "reduction_percent") >= 90.0, "{rows:?}");
    let profile = profile(&folder, "points.txt");
    assert_eq!(
        (profile.l1i.to_string(), profile.knee.to_string()),
        ("32k/8/64".to_owned(), "200,4".to_owned())
    );
    assert!(profile.entries.is_empty());
    let points = of_kind(&rows, "point");
    assert_eq!(profile.sites.len(), points.len());
    assert!((1..=4).contains(&points.len()), "{points:?}");
    let source = include_str!("autosteps/client.c");
    for site in &profile.sites {
        assert_eq!((site.file.as_str(), site.column), ("client.c", 5));
        let line = source.lines().nth(site.line as usize - 1).expect("a line");
        assert!(line.trim_start().starts_with("CTX("), "{site}: {line}");
    }
    // Each operation's calls are counted with the points of both.
    for (operation, name) in operations.iter().zip(&names) {
        let calls: u64 = points
            .iter()
            .filter_map(|point| point["calls"][name].as_u64())
            .sum();
        assert_eq!(number(operation, "calls"), calls as f64);
    }
}

#[test]
fn points_that_prefetch_stay_on_where_that_is_asked() {
    let folder = client(&["-DPOINTS"]);
    let fetch = ["--function", "index_fetch", "--l1i", "64k/16/64"];
    for (more, sites) in [(&[][..], 0), (&["--prefetch-points"][..], 1)] {
        let rest = ["--profile", "p", "--", "./client"];
        let run = corun_in(
            folder.path(),
            &[&["autosteps"], &fetch[..], more, &rest].concat(),
            "",
        );
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(profile(&folder, "p").sites.len(), sites, "{run:?}");
    }
}

#[test]
fn programs_with_patchable_entries_get_entries() {
    for flags in [
        &["-fpatchable-function-entry=5"][..],
        &["-fpatchable-function-entry=5", "-no-pie"],
    ] {
        let folder = client(flags);
        let rest = ["--json", "--profile", "points.txt", "--", "./client"];
        let rows = rows(&autosteps(
            &folder,
            &[&["--function", "index_fetch"], &rest[..]].concat(),
        ));
        assert_eq!(of_kind(&rows, "cache")[0]["choice"], "entries");
        assert!(
            number(of_kind(&rows, "operation")[0], "reduction_percent") >= 90.0,
            "{rows:?}"
        );
        let profile = profile(&folder, "points.txt");
        assert!(
            profile.sites.is_empty() && (1..=4).contains(&profile.entries.len()),
            "{profile}"
        );
        for entry in &profile.entries {
            assert!(
                ["find_leaf", "take_lock", "read_row", "answer"].contains(&entry.as_str()),
                "{profile}"
            );
        }
    }
    // Without them entries are chosen where that is asked.
    let folder = client(&[]);
    let asked = ["--entries", "--profile", "points.txt", "--", "./client"];
    let run = autosteps(&folder, &[&["--function", "index_fetch"], &asked[..]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(!profile(&folder, "points.txt").entries.is_empty());
}

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
    let fetch = [
        "--function",
        "index_fetch",
        "--latch",
        "take_lock,answer",
        "--deny-latched",
        "--",
        "./client",
    ];
    let run = autosteps(&folder, &fetch);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("read_row"), "{run:?}");
}

#[test]
fn a_kept_trace_says_the_same_without_the_program() {
    let folder = client(&[]);
    let live = autosteps(
        &folder,
        &[
            "--function",
            "index_fetch",
            "--trace-out",
            "kept.trace",
            "--json",
            "--",
            "./client",
        ],
    );
    let kept = autosteps(&folder, &["--trace", "kept.trace", "--json"]);
    let numbers = |run: &Run| {
        let rows = rows(run);
        let operation = of_kind(&rows, "operation")[0].clone();
        let keys = [
            "instructions",
            "cold_misses",
            "warm_misses",
            "non_leading_misses",
            "calls",
        ];
        keys.map(|key| number(&operation, key))
    };
    assert_eq!(numbers(&live), numbers(&kept));
    let lines = |run: &Run| {
        let rows = rows(run);
        let points: Vec<Value> = of_kind(&rows, "point")
            .iter()
            .map(|point| point["line"].clone())
            .collect();
        points
    };
    assert_eq!(lines(&live), lines(&kept));
    let smaller = corun_in(
        folder.path(),
        &[
            "autosteps",
            "--trace",
            "kept.trace",
            "--l1i",
            "16k/4/32",
            "--json",
        ],
        "",
    );
    assert!(numbers(&smaller)[1] > numbers(&live)[1]);
    std::fs::write(folder.path().join("broken"), b"no trace").expect("written");
    check_error(
        &autosteps(&folder, &["--trace", "broken"]),
        1,
        "recorded trace",
        "record",
    );
    check_error(&autosteps(&folder, &["--trace", "missing"]), 1, "missing", "");
}

#[test]
fn the_report_is_a_page_of_its_own() {
    let folder = client(&[]);
    let run = autosteps(
        &folder,
        &[
            "--function",
            "index_fetch",
            "--report",
            "steps.html",
            "--",
            "./client",
        ],
    );
    assert_eq!(run.code, 0, "{run:?}");
    let html = std::fs::read_to_string(folder.path().join("steps.html")).expect("a report");
    assert_eq!(html.matches("<svg").count(), 4);
    for words in [
        "misses as they add up",
        "calls against misses, by knee",
        "client.c:",
        "simulated",
    ] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    let nowhere = autosteps(
        &folder,
        &[
            "--function",
            "index_fetch",
            "--report",
            "no/such/folder.html",
            "--",
            "./client",
        ],
    );
    check_error(&nowhere, 1, "cannot write the report", "");
}

/// A client that runs until it is dropped.
struct Server(Child);

impl Server {
    fn start(folder: &TempDir) -> Server {
        let child = Command::new(folder.path().join("client"))
            .stdout(Stdio::null())
            .spawn()
            .expect("the client runs");
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn threads_are_no_obstacle() {
    let folder = client(&["-DTHREADS"]);
    let rows = rows(&autosteps(
        &folder,
        &[
            "--function",
            "index_fetch",
            "--skip",
            "100",
            "--json",
            "--",
            "./client",
        ],
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
        &[
            "--function",
            "index_fetch",
            "--profile",
            "points.txt",
            "--",
            "./client",
        ],
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
    let mut first = Command::new(env!("CARGO_BIN_EXE_corun"))
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
    for _ in 0..2000 {
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
    let two = [
        "--function",
        "f",
        "--function",
        "g",
        "--trace-out",
        "t",
        "--",
        "./client",
    ];
    check_error(&run(&two), 2, "--trace-out keeps one operation", "");
}
