//! Each rule of the kernel the twin keeps; `corun_resctrl::twin` names the function or section of each.

use corun_model::cache::partition::BandwidthUnit;
use corun_resctrl::Files;
use corun_resctrl::twin::{CacheSpec, ROOT, Spec, Twin};
use libc::{
    E2BIG, EACCES, EBUSY, EEXIST, EINVAL, EISDIR, ENAMETOOLONG, ENODEV, ENOENT, ENOSPC, ENOTDIR, EPERM, ESRCH,
};

use super::{refused, status};

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().expect("a number")
}

fn schemata(twin: &Twin, group: &str) -> String {
    twin.peek(&format!("{group}/schemata"))
        .expect("a group")
        .replace(' ', "")
}

#[test]
fn the_tree_is_the_kernels() {
    let twin = Twin::new(Spec::xeon());
    let (folders, files) = twin.entries("").unwrap();
    assert_eq!(folders, ["mon_groups", "info"]);
    assert_eq!(files, ["mode", "schemata", "tasks"]);
    assert_eq!(twin.entries("info").unwrap().0, ["MB", "L3", "L3_MON"]);
    let info = |path: &str| twin.peek(&format!("info/{path}")).unwrap();
    assert_eq!(info("L3/cbm_mask"), "7ff\n");
    assert_eq!(info("L3/min_cbm_bits"), "1\n");
    assert_eq!(info("L3/shareable_bits"), "600\n");
    assert_eq!(info("L3/sparse_masks"), "0\n");
    assert_eq!(info("L3/num_closids"), "16\n");
    assert_eq!(info("MB/num_closids"), "8\n");
    assert_eq!(info("MB/min_bandwidth"), "10\n");
    assert_eq!(info("L3_MON/num_rmids"), "32\n");
    assert_eq!(status(&twin), "ok\n");
    // Names are padded, with room for `CODE` and `DATA`.
    assert_eq!(
        twin.peek("schemata").unwrap(),
        "    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n"
    );
    assert_eq!(twin.peek("mode").unwrap(), "shareable\n");
    assert_eq!(twin.peek("tasks").unwrap(), "1\n");
    assert_eq!(errno(twin.peek("nothing")), ENOENT);
    assert_eq!(errno(twin.peek("info")), EISDIR);
    assert_eq!(errno(twin.entries("tasks")), ENOTDIR);
    assert_eq!(errno(twin.entries("nothing")), ENOENT);
}

#[test]
fn text_of_schemata() {
    let twin = Twin::new(Spec::xeon());
    twin.mkdir("p").unwrap();
    let write = |text: &str| refused(&twin, twin.shell("p/schemata", text));
    let invalid = |status: &str| (EINVAL, format!("{status}\n"));
    assert_eq!(write("L3:0=zz\n"), invalid("Non-hex character in the mask zz"));
    // Without a newline the kernel does not even clear the last text.
    assert_eq!(write("L3:0=3"), invalid("Non-hex character in the mask zz"));
    assert_eq!(write(""), invalid("Non-hex character in the mask zz"));
    assert_eq!(write("L3\n"), invalid("Missing ':'"));
    assert_eq!(write("\n"), invalid("Missing ':'"));
    assert_eq!(write("L3:\n"), invalid("Missing 'L3' value"));
    assert_eq!(
        write("L9:0=3\n"),
        invalid("Unknown or unsupported resource name 'L9'")
    );
    assert_eq!(write("L3:0\n"), invalid("Missing '=' or non-numeric domain"));
    assert_eq!(write("L3:x=3\n"), invalid("Missing '=' or non-numeric domain"));
    assert_eq!(write("L3:0=3;0=3\n"), invalid("Duplicate domain 0"));
    // An unknown domain is refused without a word.
    assert_eq!(write("L3:2=3\n"), (EINVAL, "ok\n".to_owned()));
    assert_eq!(write(&format!("L3:0=3{}\n", " ".repeat(4096))).0, E2BIG);
    // All or nothing.
    assert_eq!(write("L3:0=3\nMB:0=50\nL3:1=0\n"), invalid("Mask out of range"));
    assert_eq!(schemata(&twin, "p"), "MB:0=100;1=100\nL3:0=7ff;1=7ff\n");
    // What is not named stays; `0x` and an empty end are fine.
    twin.shell("p/schemata", "L3:1=0x3;\n").unwrap();
    assert_eq!(schemata(&twin, "p"), "MB:0=100;1=100\nL3:0=7ff;1=3\n");
    assert_eq!(status(&twin), "ok\n");
}

#[test]
fn masks() {
    let twin = Twin::new(Spec::haswell());
    let write = |mask: &str| refused(&twin, twin.shell("schemata", &format!("L3:0={mask}\n"))).1;
    assert_eq!(write("0"), "Mask out of range\n");
    assert_eq!(write("100000"), "Mask out of range\n");
    assert_eq!(write("ff0ff"), "The mask ff0ff has non-consecutive 1-bits\n");
    assert_eq!(write("1"), "Need at least 2 bits in the mask\n");
    twin.shell("schemata", "L3:0=ffff0\n").unwrap();

    let sparse = Twin::new(Spec::epyc());
    sparse.shell("schemata", "L3:4=f0f1\n").unwrap();
    assert_eq!(
        schemata(&sparse, ""),
        "MB:0=2048;1=2048;4=2048;9=2048\nL3:0=ffff;1=ffff;4=f0f1;9=ffff\n"
    );
    assert_eq!(refused(&sparse, sparse.shell("schemata", "L3:2=1\n")).1, "ok\n");

    let mut spec = Spec::epyc();
    spec.caches[0].ways_min = 2;
    let first_run_counts = Twin::new(spec);
    let (_, status) = refused(&first_run_counts, first_run_counts.shell("schemata", "L3:0=f1\n"));
    assert_eq!(status, "Need at least 2 bits in the mask\n");
    first_run_counts.shell("schemata", "L3:0=13\n").unwrap();
}

#[test]
fn bandwidth() {
    let twin = Twin::new(Spec::xeon());
    twin.shell("schemata", "MB:0=41;1=10\n").unwrap();
    assert_eq!(schemata(&twin, ""), "MB:0=50;1=10\nL3:0=7ff;1=7ff\n");
    let write = |text: &str| refused(&twin, twin.shell("schemata", text)).1;
    assert_eq!(write("MB:0=9\n"), "MB value 9 out of range [10,100]\n");
    assert_eq!(write("MB:0=101\n"), "MB value 101 out of range [10,100]\n");
    assert_eq!(write("MB:0=a\n"), "Invalid MB value a\n");

    // With the software controller a bad line does not take back the good ones before it.
    let mut spec = Spec::xeon();
    spec.bandwidth.as_mut().unwrap().unit = BandwidthUnit::Megabytes;
    let controlled = Twin::new(spec);
    assert!(schemata(&controlled, "").starts_with("MB:0=4294967295;"));
    assert_eq!(
        refused(&controlled, controlled.shell("schemata", "MB:0=700\nL3:0=0\n")).0,
        EINVAL
    );
    assert_eq!(
        schemata(&controlled, ""),
        "MB:0=700;1=4294967295\nL3:0=7ff;1=7ff\n"
    );
}

#[test]
fn classes_are_the_fewest_of_any_resource() {
    let twin = Twin::new(Spec::xeon());
    for group in 0..7 {
        twin.mkdir(&format!("p{group}")).unwrap();
    }
    assert_eq!(
        refused(&twin, twin.mkdir("p7")),
        (ENOSPC, "Out of CLOSIDs\n".to_owned())
    );
    twin.rmdir("p3").unwrap();
    twin.mkdir("p7").unwrap();
    twin.check();
}

#[test]
fn code_and_data_halve_the_classes() {
    let mut spec = Spec::xeon();
    spec.caches[0].code_and_data = true;
    spec.caches[0].classes = 8;
    let twin = Twin::new(spec);
    assert_eq!(twin.peek("info/L3CODE/num_closids").unwrap(), "4\n");
    assert_eq!(
        twin.peek("schemata").unwrap(),
        "    MB:0=100;1=100\nL3DATA:0=7ff;1=7ff\nL3CODE:0=7ff;1=7ff\n"
    );
    for group in ["a", "b", "c"] {
        twin.mkdir(group).unwrap();
    }
    assert_eq!(refused(&twin, twin.mkdir("d")).1, "Out of CLOSIDs\n");
    twin.shell("a/schemata", "L3CODE:0=7\nL3DATA:0=70\n").unwrap();
    // Data and code of one cache use the same ways.
    for group in ["", "b/", "c/"] {
        twin.shell(
            &format!("{group}schemata"),
            "L3CODE:0=700;1=700\nL3DATA:0=700;1=700\n",
        )
        .unwrap();
    }
    twin.shell("a/schemata", "L3CODE:1=7\nL3DATA:1=70\n").unwrap();
    twin.shell("a/mode", "exclusive\n").unwrap();
    assert_eq!(
        refused(&twin, twin.shell("b/schemata", "L3DATA:0=7\n")).1,
        "Overlaps with exclusive group\n"
    );
    assert_eq!(
        refused(&twin, twin.shell("b/schemata", "L3CODE:0=70\n")).1,
        "Overlaps with exclusive group\n"
    );
}

#[test]
fn monitoring_ids_run_out_and_linger() {
    let mut spec = Spec::xeon();
    (spec.monitors, spec.limbo) = (Some(4), true);
    let twin = Twin::new(spec);
    twin.mkdir("p").unwrap();
    twin.mkdir("p/mon_groups/m").unwrap();
    twin.mkdir("mon_groups/m").unwrap();
    assert_eq!(
        refused(&twin, twin.mkdir("q")),
        (ENOSPC, "Out of RMIDs\n".to_owned())
    );
    assert_eq!(
        refused(&twin, twin.mkdir("mon_groups/n")),
        (ENOSPC, "Out of RMIDs\n".to_owned())
    );
    // The group takes its monitoring group along; both ids still label cache lines.
    twin.rmdir("p").unwrap();
    assert_eq!(
        refused(&twin, twin.mkdir("q")),
        (EBUSY, "Out of RMIDs\n".to_owned())
    );
    twin.age_monitors();
    twin.mkdir("q").unwrap();
    twin.check();
}

#[test]
fn exclusive_groups_share_no_way_and_may_take_all() {
    let twin = Twin::new(Spec::xeon());
    twin.mkdir("p").unwrap();
    twin.shell("p/schemata", "L3:0=ff;1=ff\n").unwrap();
    assert_eq!(refused(&twin, twin.shell("p/mode", "exclusive")).0, EINVAL);
    assert_eq!(
        refused(&twin, twin.shell("p/mode", "exclusive\n")),
        (EINVAL, "Schemata overlaps\n".to_owned())
    );
    assert_eq!(
        refused(&twin, twin.shell("p/mode", "locked\n")).1,
        "Unknown or unsupported mode\n"
    );
    twin.shell("schemata", "L3:0=700;1=700\n").unwrap();
    twin.shell("p/mode", "exclusive\n").unwrap();
    assert_eq!(twin.peek("p/mode").unwrap(), "exclusive\n");
    // Highest way first: shared with devices, shared, exclusive.
    assert_eq!(
        twin.peek("info/L3/bit_usage").unwrap(),
        "0=XXSEEEEEEEE;1=XXSEEEEEEEE\n"
    );
    assert_eq!(
        refused(&twin, twin.shell("schemata", "L3:0=7ff\n")).1,
        "Overlaps with exclusive group\n"
    );
    assert_eq!(
        refused(&twin, twin.shell("p/schemata", "L3:0=1ff\n")).1,
        "Overlaps with other group\n"
    );
    // A new group starts with what is shareable.
    twin.mkdir("q").unwrap();
    assert_eq!(schemata(&twin, "q"), "MB:0=100;1=100\nL3:0=700;1=700\n");
    twin.shell("p/mode", "shareable\n").unwrap();
    twin.check();

    // The first run of what is left has to be long enough.
    let early = Twin::new(Spec::haswell());
    early.mkdir("p").unwrap();
    early.shell("schemata", "L3:0=c0000\n").unwrap();
    early.shell("p/schemata", "L3:0=3fffe\n").unwrap();
    early.shell("p/mode", "exclusive\n").unwrap();
    assert_eq!(
        refused(&early, early.mkdir("q")),
        (ENOSPC, "No space on L3:0\n".to_owned())
    );
    early.check();
}

#[test]
fn where_groups_may_be_made_and_removed() {
    let twin = Twin::new(Spec::xeon());
    twin.mkdir("p").unwrap();
    for (path, expected) in [
        ("p", EEXIST),
        ("info", EEXIST),
        ("schemata", EEXIST),
        ("p/q", EPERM),
        ("info/q", ENODEV),
        ("mon_groups/mon_groups", EPERM),
        ("nothing/q", ENOENT),
        ("a\nb", EINVAL),
    ] {
        assert_eq!(errno(twin.mkdir(path)), expected, "{path}");
    }
    assert_eq!(errno(twin.mkdir(&"x".repeat(256))), ENAMETOOLONG);
    for (path, expected) in [
        ("", EBUSY),
        ("info", EPERM),
        ("info/L3", EPERM),
        ("mon_groups", EPERM),
        ("p/mon_groups", EPERM),
        ("p/tasks", ENOTDIR),
        ("q", ENOENT),
    ] {
        assert_eq!(errno(twin.rmdir(path)), expected, "{path}");
    }
    let unmonitored = Twin::new(Spec::haswell());
    unmonitored.mkdir("p").unwrap();
    assert_eq!(errno(unmonitored.mkdir("p/mon_groups")), EPERM);
    // Removing does not touch the status text.
    assert_eq!(
        refused(&twin, twin.shell("tasks", "77\n")).1,
        "No task 77\nError while processing task 77\n"
    );
    twin.rmdir("p").unwrap();
    assert_eq!(status(&twin), "No task 77\nError while processing task 77\n");
    assert_eq!(errno(twin.shell("info/last_cmd_status", "ok\n")), EACCES);
    assert_eq!(errno(twin.shell("nothing", "1\n")), ENOENT);
}

#[test]
fn tasks_move_inherit_and_return() {
    let twin = Twin::new(Spec::xeon());
    for group in ["p", "q", "p/mon_groups/m"] {
        twin.mkdir(group).unwrap();
    }
    let parent = twin.fork(1);
    twin.shell("p/tasks", &format!("{parent}\n")).unwrap();
    let (child, thread) = (twin.fork(parent), twin.thread(parent));
    let group = |task| twin.group_of(task).unwrap();
    assert_eq!([group(parent), group(child), group(thread)], ["p", "p", "p"]);
    // A monitoring group takes tasks of its own group only; another group takes them out of it.
    twin.shell("p/mon_groups/m/tasks", &format!("{child}\n")).unwrap();
    assert_eq!(group(child), "p/mon_groups/m");
    assert_eq!(
        twin.peek("p/tasks").unwrap(),
        format!("{parent}\n{child}\n{thread}\n")
    );
    let (number, text) = refused(&twin, twin.shell("p/mon_groups/m/tasks", "1\n"));
    assert_eq!(
        (number, text.lines().next()),
        (EINVAL, Some("Can't move task to different control group"))
    );
    let grandchild = twin.fork(child);
    assert_eq!(group(grandchild), "p/mon_groups/m");
    twin.rmdir("p/mon_groups/m").unwrap();
    assert_eq!(group(grandchild), "p");
    twin.shell("q/tasks", &format!("{grandchild}\n")).unwrap();
    twin.rmdir("p").unwrap();
    assert_eq!([group(parent), group(child), group(grandchild)], ["", "", "q"]);
    // With its first thread a process ends.
    twin.exit(parent);
    assert_eq!(twin.group_of(thread), None);
    assert_eq!(
        refused(&twin, twin.shell("q/tasks", &format!("{thread}\n"))).0,
        ESRCH
    );
    twin.check();
}

#[test]
fn ids_in_tasks() {
    let twin = Twin::new(Spec::xeon());
    twin.mkdir("p").unwrap();
    let (a, b) = (twin.fork(1), twin.fork(1));
    twin.shell("p/tasks", &format!("{a:#x}")).unwrap();
    twin.shell("p/tasks", "\n").unwrap();
    // Up to the first failure.
    let (number, text) = refused(&twin, twin.shell("p/tasks", &format!("{b}, 99,1\n")));
    assert_eq!(
        (number, text.as_str()),
        (ESRCH, "No task 99\nError while processing task 99\n")
    );
    assert_eq!(twin.peek("p/tasks").unwrap(), format!("{a}\n{b}\n"));
    assert_eq!(
        refused(&twin, twin.shell("p/tasks", "-4\n")).1,
        "Invalid pid -4\n"
    );
    assert_eq!(
        refused(&twin, twin.shell("p/tasks", "x\n")).1,
        "Task list parsing error pid x\n"
    );
    twin.shell("p/tasks", "0\n").unwrap();
    assert_eq!(twin.group_of(1).unwrap(), "p");

    let old = Twin::new(Spec::haswell());
    old.mkdir("p").unwrap();
    let a = old.fork(1);
    assert_eq!(
        refused(&old, old.shell("p/tasks", &format!("1,{a}\n"))),
        (EINVAL, "ok\n".to_owned())
    );
    old.shell("p/tasks", &format!("{a}\n")).unwrap();
}

#[test]
fn proc_names_groups() {
    let twin = Twin::new(Spec::xeon());
    let groups = |task: u32| {
        twin.read(format!("/proc/{task}/task/{task}/cpu_resctrl_groups").as_ref())
            .unwrap()
    };
    assert_eq!(groups(1), "res:/\nmon:\n");
    twin.mkdir("p").unwrap();
    twin.mkdir("p/mon_groups/m").unwrap();
    twin.shell("p/tasks", "1\n").unwrap();
    assert_eq!(groups(1), "res:p\nmon:\n");
    twin.shell("p/mon_groups/m/tasks", "1\n").unwrap();
    assert_eq!(groups(1), "res:p\nmon:m\n");
    twin.unmount();
    assert_eq!(groups(1), "res:\nmon:\n");
    assert_eq!(twin.entries("").unwrap(), (vec![], vec![]));
    assert_eq!(errno(twin.mkdir("q")), EPERM);
    twin.mount();
    assert!(twin.groups().is_empty());
    assert_eq!(groups(1), "res:/\nmon:\n");
}

#[test]
fn machines_that_only_monitor_have_no_groups_to_control() {
    let mut spec = Spec::xeon();
    (spec.caches, spec.bandwidth) = (vec![], None);
    let twin = Twin::new(spec);
    assert_eq!(errno(twin.mkdir("p")), EPERM);
    twin.mkdir("mon_groups/m").unwrap();
    assert_eq!(errno(twin.peek("schemata")), ENOENT);
    twin.check();
}

#[test]
fn locks_are_shared_or_exclusive() {
    let twin = Twin::new(Spec::xeon());
    let lock = |exclusive| twin.try_lock(ROOT.as_ref(), exclusive).expect("the root folder");
    let reader = lock(false).expect("free");
    let second = lock(false).expect("readers share");
    assert!(lock(true).is_none());
    drop((reader, second));
    let writer = lock(true).expect("free again");
    assert!(lock(false).is_none());
    // The end of a process releases its locks, and a late drop takes nobody else's.
    twin.restart();
    let next = lock(true).expect("free again");
    drop(writer);
    assert!(lock(false).is_none());
    drop(next);
}

#[test]
fn two_kinds_of_caches() {
    let mut spec = Spec::xeon();
    spec.caches.push(CacheSpec {
        level: 2,
        ways: 8,
        hardware: 0,
        domains: vec![0, 4, 8],
        ..spec.caches[0].clone()
    });
    let twin = Twin::new(spec);
    assert_eq!(
        schemata(&twin, ""),
        "MB:0=100;1=100\nL2:0=ff;4=ff;8=ff\nL3:0=7ff;1=7ff\n"
    );
    // A cache that goes offline is gone from all lines.
    twin.offline(4);
    assert_eq!(
        schemata(&twin, ""),
        "MB:0=100;1=100\nL2:0=ff;8=ff\nL3:0=7ff;1=7ff\n"
    );
}
