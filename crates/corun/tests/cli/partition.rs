//! `corun partition` as a process: on this machine, on one without resctrl, and on the kernel's twin behind a FUSE mount.
//!
//! Where nothing can be mounted the tests on the twin say so and pass; its rules are tested in the machine crate without.

use std::collections::BTreeMap;
use std::fs;

use crate::partitioned::{assert_nothing_left, busy, of_kind, others, parse, rows, run};
use crate::program::{check_error, corun};
use serde_json::json;

#[test]
fn this_machine_has_it_or_says_what_corun_does_instead() {
    let status = corun(&["partition", "status", "--json"]);
    assert_eq!(status.code, 0, "{status:?}");
    let rows = parse(&status.out);
    assert_eq!(
        (&rows[0]["kind"], &rows[0]["command"]),
        (&json!("partition"), &json!("status"))
    );
    if rows[0]["state"] == "available" {
        return;
    }
    assert_eq!(
        (&rows[0]["label"], &rows[0]["instead"], rows.len()),
        (
            &json!("unavailable"),
            &json!("non-temporal streaming and co-scheduling"),
            1
        )
    );
    for command in ["plan", "status", "clear"] {
        let run = corun(&["partition", command]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
        assert!(run.out.starts_with("no resctrl: "), "{run:?}");
        assert!(
            run.out
                .contains("\ninstead: non-temporal streaming and co-scheduling\n"),
            "{run:?}"
        );
    }
    let more = "instead: non-temporal streaming and co-scheduling";
    for words in [&["apply"][..], &["assign", "--class", "weak", "--pid", "1"]] {
        let run = corun(&[&["partition"], words].concat());
        assert_eq!(run.code, 1);
        assert!(run.err.starts_with("error: "), "{run:?}");
        check_error(&run, 1, "", more);
    }
}

#[test]
fn a_kernel_that_has_it_unmounted_says_how_to_mount_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let proc = folder.path().join("proc");
    fs::create_dir(&proc).expect("a folder");
    fs::write(proc.join("filesystems"), "nodev\tresctrl\n").expect("written");
    let root = folder.path().join("resctrl");
    let place = [
        format!("--root={}", root.display()),
        format!("--proc={}", proc.display()),
        format!("--journal={}", folder.path().join("journal").display()),
    ];
    let run = |command| corun(&["partition", command, &place[0], &place[1], &place[2]]);
    let hint = format!("hint: as root: mount -t resctrl resctrl {}", root.display());
    let plan = run("plan");
    assert_eq!(
        (plan.code, plan.out.lines().last()),
        (0, Some(hint.as_str())),
        "{plan:?}"
    );
    assert!(plan.out.contains("nobody mounted it (unavailable)"), "{plan:?}");
    check_error(&run("apply"), 1, "resctrl is not mounted at", &hint);
}

#[test]
fn wrong_arguments() {
    for (words, primary, more) in [
        (&["plan", "--weak-ways", "0"][..], "'0' for '--weak-ways <N>'", ""),
        (&["plan", "--level", "1"], "'1' for '--level <LEVEL>'", ""),
        (&["plan", "--default", "most"], "'most'", "rest, all"),
        (
            &["apply", "--domains", "a"],
            "is not a list of ids such as 0,2-3",
            "",
        ),
        (&["apply", "--domains", ""], "names no cache", ""),
        (&["apply", "--weak-bandwidth", "101"], "'101'", ""),
        (&["assign", "--class", "weak"], "--tid <ID>", "usage: "),
        (
            &["assign", "--class", "none", "--pid", "1"],
            "'none'",
            "weak, default",
        ),
        (
            &["clear", "--weak-ways", "2"],
            "unexpected argument '--weak-ways'",
            "",
        ),
    ] {
        check_error(&corun(&[&["partition"], words].concat()), 2, primary, more);
    }
    for command in ["plan", "apply", "status", "clear", "assign"] {
        let help = corun(&["partition", command, "--help"]);
        assert!(help.code == 0 && help.out.contains("Examples:"), "{help:?}");
    }
}

#[test]
fn a_partition_from_plan_to_clear() {
    let Some((mounted, contained)) = busy() else {
        return;
    };
    let twin = &mounted.twin;
    let untouched = others(twin);
    let plan = run(&mounted, &["plan", "--weak-ways", "2"]);
    let root = mounted.settings().root;
    let root = root.to_str().expect("text").trim_end_matches('/');
    assert_eq!(
        plan.out,
        format!(
            "class          resource  domains  may fill\n\
             -------------  --------  -------  -----------------\n\
             corun-weak     L3        0-1      2 ways (mask 3)\n\
             corun-weak     MB        0-1      100\n\
             corun-default  L3        0-1      9 ways (mask 7fc)\n\
             corun-default  MB        0-1      100\n\
             \n\
             why\n\
             \x20 corun-weak: L3: 2 of 11 ways (mask 3) in domains 0,1: enough for data that is read once\n\
             \x20 corun-default: L3: 9 of 11 ways (mask 7fc) in domains 0,1: the rest, which weak queries cannot fill\n\
             \x20 L3 is the outermost cache that can be partitioned here\n\
             \x20 tasks nobody moved stay in the root group, which keeps its ways and shares them\n\
             \x20 groups of other tools keep their ways, which may be the same: runc-1\n\
             \n\
             writes (a dry run: nothing was changed)\n\
             \x20 mkdir {root}/corun-weak\n\
             \x20 printf 'L3:0=3;1=3\\nMB:0=100;1=100\\n' > {root}/corun-weak/schemata\n\
             \x20 mkdir {root}/corun-default\n\
             \x20 printf 'L3:0=7fc;1=7fc\\nMB:0=100;1=100\\n' > {root}/corun-default/schemata\n"
        )
    );
    assert_eq!(others(twin), untouched);
    let empty = run(&mounted, &["status"]);
    assert!(empty.out.starts_with("the cache is not partitioned"), "{empty:?}");
    assert!(empty.out.ends_with("left alone: runc-1\n"), "{empty:?}");

    // Two of eleven is also the default.
    let applied = rows(&mounted, &["apply"]);
    let classes = of_kind(&applied, "class");
    assert_eq!(classes.len(), 2);
    assert!(
        classes
            .iter()
            .all(|class| class["state"] == "planned" && class["tasks"] == 0)
    );
    let value = of_kind(&applied, "value")
        .into_iter()
        .find(|row| row["class"] == "default" && row["resource"] == "L3" && row["domain"] == 1);
    assert_eq!(
        value.expect("a row for each value"),
        &json!({
            "kind": "value", "class": "default", "group": "corun-default", "resource": "L3", "domain": 1,
            "mask": "7fc", "ways": 9, "value": null,
        })
    );
    assert_eq!(
        twin.peek("corun-weak/schemata").expect("there"),
        "    MB:0=100;1=100\n    L3:0=3;1=3\n"
    );

    // Applied again: only the masks change.
    let again = rows(
        &mounted,
        &[
            "plan",
            "--weak-ways",
            "4",
            "--default",
            "all",
            "--weak-bandwidth",
            "45",
        ],
    );
    let steps = of_kind(&again, "step");
    assert_eq!(steps.len(), 2);
    assert!(steps.iter().all(|step| step["action"] == "write"));
    assert_eq!(steps[0]["text"], "L3:0=f;1=f\nMB:0=50;1=50\n");

    let process = twin.fork(1);
    twin.thread(process);
    let assigned = rows(
        &mounted,
        &["assign", "--class", "weak", "--pid", &process.to_string()],
    );
    assert_eq!(
        assigned[1],
        json!({
            "kind": "assigned", "class": "weak", "moved": 2, "already": 0, "vanished": 0, "settled": true, "foreign": [],
        })
    );
    let foreign = run(
        &mounted,
        &["assign", "--class", "weak", "--tid", &contained.to_string()],
    );
    assert!(
        foreign.code == 0
            && foreign
                .out
                .contains(&format!("task {contained} stays in another tool's group, runc-1")),
        "{foreign:?}"
    );

    // Somebody else changes a mask.
    twin.shell("corun-weak/schemata", "L3:0=7ff\n").expect("taken");
    let drifted = run(&mounted, &["status"]);
    assert!(
        drifted.code == 0
            && drifted
                .out
                .contains("corun-weak     CHANGED     L3        0        11 ways (mask 7ff)      2\n")
            && drifted
                .out
                .contains("corun-weak was planned as L3:0=3;1=3 MB:0=100;1=100\n")
            && drifted.out.contains("`corun partition apply` puts this right"),
        "{}",
        drifted.out
    );
    check_error(
        &run(&mounted, &["assign", "--class", "weak", "--tid", "1"]),
        1,
        "somebody changed",
        "apply a plan again, or clear",
    );
    assert_eq!(run(&mounted, &["apply"]).code, 0);

    let cleared = run(&mounted, &["clear"]);
    assert_eq!(
        (cleared.code, cleared.out.as_str()),
        (
            0,
            "removed corun-default, corun-weak; tasks given back to the root group: 2\n"
        )
    );
    assert_nothing_left(&mounted);
    let left: BTreeMap<_, _> = others(twin)
        .into_iter()
        .filter(|(key, _)| untouched.contains_key(key))
        .collect();
    assert_eq!(left, untouched);
    assert_eq!(run(&mounted, &["clear"]).out, "nothing to clear\n");
}

#[test]
fn what_cannot_be_had_says_why_and_changes_nothing() {
    let Some((mounted, _)) = busy() else { return };
    let untouched = others(&mounted.twin);
    for command in ["plan", "apply"] {
        check_error(
            &run(&mounted, &[command, "--weak-ways", "11"]),
            1,
            "11 ways of L3 are too many",
            "ask for 10 or less",
        );
        check_error(
            &run(&mounted, &[command, "--level", "2"]),
            1,
            "the L2 cache",
            "it can partition L3",
        );
        check_error(
            &run(&mounted, &[command, "--domains", "0,7"]),
            1,
            "no cache domain 7",
            "domains 0,1",
        );
        check_error(
            &run(&mounted, &[command, "--weak-bandwidth", "5"]),
            1,
            "5 % of the memory",
            "10 to 100",
        );
    }
    mounted.twin.mkdir("corun-weak").expect("a group");
    check_error(&run(&mounted, &["apply"]), 1, "there is already a group", "rmdir");
    let cleared = run(&mounted, &["clear"]);
    assert!(
        cleared.code == 0 && cleared.out.contains("left corun-weak"),
        "{cleared:?}"
    );
    assert_eq!(others(&mounted.twin), untouched);
}

#[test]
fn a_journal_of_another_mount_is_not_used() {
    let Some((first, _)) = busy() else { return };
    let Some((second, _)) = busy() else { return };
    assert_eq!(run(&first, &["apply"]).code, 0);
    let journal = format!("--journal={}", first.settings().journal.display());
    let root = format!("--root={}", second.settings().root.display());
    let run = corun(&["partition", "clear", &journal, &root]);
    check_error(&run, 1, "the journal", "the journal is about");
    assert!(first.twin.groups().contains("corun-weak") && first.settings().journal.exists());
}
