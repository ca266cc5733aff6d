//! The same twin of the kernel behind a real mount (FUSE): the client's system calls against the kernel's rules.
//!
//! Where FUSE is missing, or mounting is not allowed, the tests are skipped: every rule is also tested without.

use std::fs;
use std::io;

use crate::twin_mount::Mounted;
use corun_model::cache::partition::{Class, DefaultShare, Wishes};
use corun_model::units::Ways;
use corun_resctrl::twin::Spec;
use corun_resctrl::{ClassState, Client, Files, ResctrlError, SystemFiles, Who};

fn client(mounted: &Mounted) -> Client<SystemFiles> {
    Client::new(SystemFiles, mounted.settings())
}

fn wishes(ways: u32) -> Wishes {
    Wishes {
        weak_ways: Ways(ways),
        default: DefaultShare::Rest,
        level: None,
        domains: None,
        weak_bandwidth_percent: None,
    }
}

#[test]
fn error_numbers_reach_the_caller() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let number = |result: io::Result<()>| result.expect_err("refused").raw_os_error();
    let write = |path: &str, text: &str| fs::write(mounted.path(path), text);
    fs::create_dir(mounted.path("p")).expect("a group");
    assert_eq!(number(fs::create_dir(mounted.path("p"))), Some(libc::EEXIST));
    assert_eq!(number(fs::create_dir(mounted.path("p/q"))), Some(libc::EPERM));
    assert_eq!(number(write("p/schemata", "L3:0=3")), Some(libc::EINVAL));
    assert_eq!(number(write("p/schemata", "L3:0=5\n")), Some(libc::EINVAL));
    assert_eq!(
        fs::read_to_string(mounted.path("info/last_cmd_status")).unwrap(),
        "The mask 5 has non-consecutive 1-bits\n"
    );
    assert_eq!(
        number(write("p/schemata", &format!("L3:0=3{}\n", " ".repeat(4096)))),
        Some(libc::E2BIG)
    );
    assert_eq!(number(write("p/tasks", "99\n")), Some(libc::ESRCH));
    write("p/schemata", "L3:0=3\n").expect("taken");
    assert_eq!(
        fs::read_to_string(mounted.path("p/schemata")).unwrap(),
        "    MB:0=100;1=100\n    L3:0=3;1=7ff\n"
    );
    for group in 0..6 {
        fs::create_dir(mounted.path(&format!("q{group}"))).expect("a group");
    }
    assert_eq!(number(fs::create_dir(mounted.path("q7"))), Some(libc::ENOSPC));
    fs::remove_dir(mounted.path("p")).expect("removed with all its files");
    assert_eq!(number(fs::remove_dir(mounted.path("info"))), Some(libc::EPERM));
    mounted.twin.check();
}

#[test]
fn the_client_works_through_system_calls() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let (client, twin) = (client(&mounted), &mounted.twin);
    let process = twin.fork(1);
    let thread = twin.thread(process);
    let plan = client.plan(&wishes(2)).expect("a plan");
    client.apply(&plan).expect("applied");
    let assigned = client.assign(Class::Weak, Who::Tree(process)).expect("assigned");
    assert_eq!((assigned.moved, assigned.settled), (2, true));
    assert_eq!(twin.group_of(thread).as_deref(), Some("corun-weak"));
    let status = client.status().expect("readable");
    assert!(
        status
            .classes
            .iter()
            .all(|class| class.state == ClassState::Planned)
    );
    let lock = SystemFiles
        .try_lock(&mounted.path(""), true)
        .expect("a folder")
        .expect("free");
    assert!(matches!(client.clear(), Err(ResctrlError::Locked { .. })));
    drop(lock);
    let cleared = client.clear().expect("cleared");
    assert_eq!((cleared.removed.len(), cleared.tasks_returned), (2, 2));
    assert!(twin.groups().is_empty());
}

#[test]
fn a_killed_client_is_cleared_by_the_next() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let (client, twin) = (client(&mounted), &mounted.twin);
    let plan = client.plan(&wishes(2)).expect("a plan");
    // Two groups with one write each.
    for effects in 0..4 {
        twin.crash_after(effects);
        client.apply(&plan).expect_err("killed");
        assert!(twin.restart());
        client.clear().expect("cleared");
        assert!(twin.groups().is_empty());
    }
    client.apply(&plan).expect("applied");
    client.clear().expect("cleared");
}
