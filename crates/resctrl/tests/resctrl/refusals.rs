//! What a client says when it cannot: each error with its line, detail and hint.

use corun_model::cache::partition::Class;
use corun_resctrl::twin::{ROOT, Spec, Twin};
use corun_resctrl::{ClassState, Client, Files, ResctrlError, Settings, SystemFiles, Who};
use libc::{EACCES, EINVAL, EIO, EPERM};

use super::{assert_nothing_left, busy, client, others, plan, text, wishes};

#[test]
fn a_machine_without_resctrl() {
    let tree = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    };
    let settings = Settings {
        root: tree.path().join("sys/fs/resctrl"),
        proc: tree.path().join("proc"),
        journal: tree.path().join("run/partition.json"),
        ..Settings::default()
    };
    let client = Client::new(SystemFiles, settings.clone());
    let root = settings.root.display();
    write("proc/filesystems", "nodev\tsysfs");
    write("proc/cpuinfo", "flags\t: fpu avx2");
    assert_eq!(
        text(&client.plan(&wishes(2)).unwrap_err()),
        "cache partitioning is unavailable on this machine\n\
         detail: the CPU shows no cache allocation (flags cat_l3, cat_l2); a hypervisor may hide it\n\
         hint: rely on co-scheduling and streaming; `corun topology` shows what is there"
    );
    write("proc/cpuinfo", "flags\t: fpu cat_l3 mba");
    let error = client.status().unwrap_err();
    assert_eq!(
        error.detail().unwrap(),
        "the CPU has it (cat_l3, mba), but the kernel is built without CONFIG_X86_CPU_RESCTRL"
    );
    write("proc/filesystems", "nodev\tresctrl");
    std::fs::create_dir_all(&settings.root).unwrap();
    assert_eq!(
        text(&client.capabilities().unwrap_err()),
        format!(
            "resctrl is not mounted at {root}\n\
             detail: the kernel has resctrl, but nobody mounted it\n\
             hint: as root: mount -t resctrl resctrl {root}"
        )
    );
    write("proc/mounts", "resctrl /mnt/rdt resctrl rw 0 0");
    assert_eq!(
        text(&client.assign(Class::Weak, Who::Thread(1)).unwrap_err()),
        format!(
            "resctrl is not mounted at {root}\n\
             detail: resctrl is mounted at /mnt/rdt\n\
             hint: use /mnt/rdt as the root folder"
        )
    );
    assert!(matches!(client.clear(), Err(ResctrlError::NotMounted { .. })));
}

#[test]
fn this_machine_has_it_or_says_why_not() {
    let client = Client::of_this_machine();
    match client.capabilities() {
        Ok(capabilities) => assert!(!capabilities.caches.is_empty() || capabilities.monitors.is_some()),
        Err(error) => {
            assert!(
                matches!(
                    error,
                    ResctrlError::Unavailable { .. } | ResctrlError::NotMounted { .. }
                ),
                "{error:?}"
            );
            assert!(text(&error).lines().count() == 3);
        }
    }
}

#[test]
fn a_machine_that_can_only_monitor() {
    let mut spec = Spec::xeon();
    (spec.caches, spec.bandwidth) = (vec![], None);
    let client = client(&Twin::new(spec));
    assert_eq!(
        text(&client.plan(&wishes(2)).unwrap_err()),
        "no cache of this machine can be partitioned\n\
         detail: resctrl lists no resource with masks of ways: this CPU can only monitor\n\
         hint: rely on co-scheduling and streaming instead of partitions"
    );
    assert!(client.status().unwrap().classes.is_empty());
}

#[test]
fn unmounting_leaves_only_the_journal() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    client.apply(&plan(&twin, 2)).unwrap();
    twin.unmount();
    assert!(matches!(client.status(), Err(ResctrlError::NotMounted { .. })));
    assert!(client.clear().unwrap().removed.is_empty());
    assert_nothing_left(&twin);
    assert!(matches!(client.clear(), Err(ResctrlError::NotMounted { .. })));

    // Mounted anew before anybody cleared: the groups are missing, and applying makes them again.
    twin.mount();
    client.apply(&plan(&twin, 2)).unwrap();
    twin.unmount();
    twin.mount();
    let states = client
        .status()
        .unwrap()
        .classes
        .into_iter()
        .map(|class| class.state);
    assert_eq!(states.collect::<Vec<_>>(), [ClassState::Missing; 2]);
    let error = client.assign(Class::Weak, Who::Thread(1)).unwrap_err();
    assert_eq!(
        text(&error),
        "the cache is not partitioned: there is no complete group /sys/fs/resctrl/corun-weak\n\
         hint: apply a plan first"
    );
    client.apply(&plan(&twin, 3)).unwrap();
    client.assign(Class::Weak, Who::Thread(1)).unwrap();
    client.clear().unwrap();
    assert_nothing_left(&twin);
}

#[test]
fn groups_of_the_name_that_corun_did_not_make() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    let plan = plan(&twin, 2);
    twin.mkdir("corun-default").unwrap();
    let error = client.apply(&plan).unwrap_err();
    assert_eq!(
        text(&error),
        "there is already a group /sys/fs/resctrl/corun-default\n\
         detail: the group has corun's name, but no journal says that corun made it\n\
         hint: if nobody needs it, as root: rmdir /sys/fs/resctrl/corun-default"
    );
    assert_eq!(client.steps(&plan).unwrap_err(), error);
    assert_eq!(client.status().unwrap().classes[0].state, ClassState::Foreign);
    assert_eq!(client.clear().unwrap().left, [Class::Default]);
    assert_eq!(twin.groups().len(), 1, "it is still there, and nothing else is");
    assert_eq!(twin.effects(), 0);
}

#[test]
fn somebody_holds_the_lock() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    let plan = plan(&twin, 2);
    let lock = twin.try_lock(ROOT.as_ref(), false).unwrap().unwrap();
    client.capabilities().expect("readers share");
    assert_eq!(
        text(&client.apply(&plan).unwrap_err()),
        "another tool holds the lock on /sys/fs/resctrl\n\
         detail: another process held the lock for 0 ms or more\n\
         hint: try again when it is done; `lslocks` names it"
    );
    drop(lock);
    // A client that waits gets it once it is free.
    let lock = twin.try_lock(ROOT.as_ref(), true).unwrap().unwrap();
    let patient = Client::new(
        twin.clone(),
        Settings {
            lock_wait: std::time::Duration::from_secs(60),
            ..twin.settings()
        },
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| patient.apply(&plan));
        while twin.calls() < 20 {
            std::thread::yield_now();
        }
        assert!(twin.groups().is_empty());
        drop(lock);
        waiting.join().expect("no panic").expect("applied");
    });
}

#[test]
fn the_causes_of_enospc_are_told_apart() {
    let wanted = |change: fn(&mut Spec), occupy: fn(&Twin)| {
        let mut spec = Spec::xeon();
        change(&mut spec);
        let twin = Twin::new(spec);
        // Others come between the plan and its application.
        let plan = plan(&twin, 2);
        occupy(&twin);
        let before = others(&twin);
        let error = client(&twin).apply(&plan).unwrap_err();
        assert_nothing_left(&twin);
        assert_eq!(others(&twin), before);
        text(&error)
    };
    assert_eq!(
        wanted(|spec| spec.caches[0].classes = 3, |twin| twin.mkdir("x").unwrap()),
        "no class of service is left for another group\n\
         detail: the kernel says: Out of CLOSIDs\n\
         hint: end a tool that holds a group, or remove its group"
    );
    assert_eq!(
        wanted(
            |spec| spec.monitors = Some(3),
            |twin| twin.mkdir("mon_groups/x").unwrap()
        ),
        "no monitoring id is left for another group\n\
         detail: the kernel says: Out of RMIDs\n\
         hint: remove monitoring groups nobody reads (rmdir)"
    );
    let occupy = |twin: &Twin| {
        twin.mkdir("x").unwrap();
        twin.shell("x/schemata", "L3:0=1fe;1=1\n").unwrap();
        twin.shell("schemata", "L3:0=600;1=600\n").unwrap();
        twin.shell("x/mode", "exclusive\n").unwrap();
    };
    let early = |spec: &mut Spec| spec.caches[0].ways_min = 1;
    // Ways remain, but not the ones planned.
    assert!(wanted(early, occupy).contains("Overlaps with exclusive group"));
    let limbo = |spec: &mut Spec| (spec.monitors, spec.limbo) = (Some(3), true);
    let occupy = |twin: &Twin| {
        twin.mkdir("mon_groups/x").unwrap();
        twin.rmdir("mon_groups/x").unwrap();
    };
    assert!(wanted(limbo, occupy).starts_with("no monitoring id can be used again yet\n"));

    let twin = Twin::new(Spec::haswell());
    let planned = plan(&twin, 2);
    twin.mkdir("x").unwrap();
    twin.shell("schemata", "L3:0=c0000\n").unwrap();
    twin.shell("x/schemata", "L3:0=3fffe\n").unwrap();
    twin.shell("x/mode", "exclusive\n").unwrap();
    assert_eq!(
        text(&client(&twin).apply(&planned).unwrap_err()),
        "no ways are left for another group\n\
         detail: the kernel says: No space on L3:0\n\
         hint: end the tool that holds ways exclusively (mode `exclusive` in its group)"
    );
    assert_nothing_left(&twin);
}

#[test]
fn values_the_kernel_refuses_or_shows_otherwise() {
    let (twin, ..) = busy();
    let before = plan(&twin, 2);
    twin.offline(1);
    assert_eq!(
        text(&client(&twin).apply(&before).unwrap_err()),
        "the kernel refused `L3:0=3;1=3 MB:0=100;1=100`\n\
         detail: /sys/fs/resctrl/corun-weak/schemata: the kernel gave no reason; a cache may have gone offline\n\
         hint: make a new plan: the machine changed since this one"
    );
    assert_nothing_left(&twin);
    client(&twin).apply(&plan(&twin, 2)).unwrap();

    // Bandwidth the kernel rounds, from a plan for another machine.
    let mut fine = Spec::xeon();
    fine.bandwidth.as_mut().unwrap().step = 1;
    let wishes = corun_model::cache::partition::Wishes {
        weak_bandwidth_percent: Some(33),
        ..wishes(2)
    };
    let other = client(&Twin::new(fine)).plan(&wishes).unwrap();
    let twin = Twin::new(Spec::xeon());
    let error = client(&twin).apply(&other).unwrap_err();
    assert_eq!(
        text(&error),
        "/sys/fs/resctrl/corun-weak/schemata does not show what was written\n\
         detail: wrote `L3:0=3;1=3 MB:0=33;1=33`, found `MB:0=40;1=40 L3:0=3;1=3`\n\
         hint: please report this with the kernel's version"
    );
    assert_nothing_left(&twin);
}

#[test]
fn a_failure_at_any_step_leaves_things_as_they_were() {
    // Nothing before, or an older plan that then has to be there again.
    for older in [None, Some(2)] {
        let fresh = || {
            let (twin, ..) = busy();
            if let Some(ways) = older {
                client(&twin).apply(&plan(&twin, ways)).unwrap();
                client(&twin).assign(Class::Weak, Who::Thread(1)).unwrap();
            }
            twin
        };
        let measured = fresh();
        let start = measured.effects();
        client(&measured).apply(&plan(&measured, 4)).unwrap();
        let effects = measured.effects() - start;
        assert!(effects >= 8, "{effects}");
        for step in 0..effects {
            for errno in [EINVAL, EACCES, EIO] {
                let twin = fresh();
                let planned = plan(&twin, 4);
                let (before, status) = (others(&twin), client(&twin).status().unwrap());
                twin.fail(step, errno);
                let error = client(&twin).apply(&planned).unwrap_err();
                assert!(!matches!(error, ResctrlError::Undo { .. }), "{error:?}");
                text(&error);
                assert_eq!(others(&twin), before, "step {step}");
                assert_eq!(client(&twin).status().unwrap(), status, "step {step}");
                if older.is_none() {
                    assert!(!twin.groups().iter().any(|group| group.starts_with("corun-")));
                }
                client(&twin).apply(&planned).expect("the next one works");
                client(&twin).clear().unwrap();
                assert_nothing_left(&twin);
            }
        }
    }
}

#[test]
fn a_failure_while_undoing_names_both_and_can_be_cleared() {
    let twin = Twin::new(Spec::xeon());
    let planned = plan(&twin, 2);
    // The journal takes three effects, then the group, its schemata and the next group; then the undoing begins.
    twin.fail(5, EINVAL);
    twin.fail(6, EIO);
    let error = client(&twin).apply(&planned).unwrap_err();
    assert!(matches!(error, ResctrlError::Undo { .. }), "{error:?}");
    assert!(
        text(&error).ends_with("hint: when the cause is gone: clear"),
        "{}",
        text(&error)
    );
    let status = client(&twin).status().unwrap();
    assert!(status.unfinished);
    let error = client(&twin).assign(Class::Weak, Who::Thread(1)).unwrap_err();
    assert!(
        matches!(error, ResctrlError::NotApplied { .. }),
        "no task enters an unfinished partition: {error:?}"
    );
    client(&twin).clear().unwrap();
    assert_nothing_left(&twin);
}

#[test]
fn tasks_that_cannot_be_moved() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    client.apply(&plan(&twin, 2)).unwrap();
    assert_eq!(
        text(&client.assign(Class::Weak, Who::Tree(77)).unwrap_err()),
        "there is no task 77\nhint: it may have ended; give a living process or thread"
    );
    for who in [Who::Thread(77), Who::Process(77)] {
        assert_eq!(
            client.assign(Class::Weak, who).unwrap_err(),
            ResctrlError::NoSuchTask { task: 77 }
        );
    }
    twin.fail(0, EPERM);
    let error = client.assign(Class::Weak, Who::Thread(1)).unwrap_err();
    assert_eq!(
        text(&error),
        "cannot write /sys/fs/resctrl/corun-weak/tasks: permission denied\n\
         detail: Operation not permitted (os error 1)\n\
         hint: run as root"
    );
    twin.shell("corun-weak/schemata", "L3:0=7ff\n").unwrap();
    assert_eq!(
        text(&client.assign(Class::Weak, Who::Thread(1)).unwrap_err()),
        "somebody changed /sys/fs/resctrl/corun-weak/schemata\n\
         detail: planned `L3:0=3;1=3 MB:0=100;1=100`, found `L3:0=7ff;1=3 MB:0=100;1=100`\n\
         hint: apply a plan again, or clear"
    );
    assert_eq!(client.status().unwrap().classes[0].state, ClassState::Changed);
    client.apply(&plan(&twin, 2)).unwrap();
    assert_eq!(client.status().unwrap().classes[0].state, ClassState::Planned);
}

#[test]
fn journals_that_make_no_sense_remove_nothing() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    client.apply(&plan(&twin, 2)).unwrap();
    let path = twin.settings().journal;
    let good = twin.file(&path).unwrap();
    for bad in [
        String::new(),
        "{}".to_owned(),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("/sys/fs/resctrl", "/elsewhere"),
        good.replace("\"weak\"", "\"../runc-1\""),
        good.replace("L3:0=3", "L3:0=zz"),
    ] {
        twin.set_file(&path, &bad);
        let error = client.clear().unwrap_err();
        assert!(matches!(error, ResctrlError::Journal { .. }), "{bad}");
        assert!(text(&error).contains("as root: rmdir corun's groups"));
        assert!(client.status().is_err() && client.apply(&plan(&twin, 2)).is_err());
        assert_eq!(twin.groups().len(), 2);
    }
    twin.set_file(&path, &good);
    client.clear().unwrap();
    assert_nothing_left(&twin);
}
