//! `corun-lab autosteps` on programs that have something to choose from: points compiled in, entries that can be patched.

use crate::client::{autosteps, client, number, of_kind, profile, rows};
use crate::program::corun_in;
use crate::words;

#[test]
fn several_operations_choose_among_compiled_in_points_for_one_profile() {
    let folder = client(&["-DPOINTS"]);
    let both = words("--function index_fetch --function index_scan --skip 1");
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
    let source = include_str!("client.c");
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
