//! What a client does when all goes well: plans, applies, assigns, reports and clears, beside other tools.

use corun_model::cache::partition::{BandwidthUnit, Class, DefaultShare, WayMask, Wishes};
use corun_model::units::Ways;
use corun_resctrl::twin::{CacheSpec, Event, Spec, Twin};
use corun_resctrl::{Assigned, ClassState, Cleared, Who};

use super::{assert_nothing_left, busy, client, others, plan, wishes};

fn schemata(twin: &Twin, class: Class) -> String {
    twin.peek(&format!("{}/schemata", class.group()))
        .expect("a group")
        .replace(' ', "")
}

#[test]
fn capabilities_are_read_as_the_kernel_shows_them() {
    let (twin, ..) = busy();
    twin.shell("runc-2/schemata", "L3:0=f;1=f\n").unwrap();
    for others in ["", "runc-1/"] {
        twin.shell(&format!("{others}schemata"), "L3:0=7f0;1=7f0\n")
            .unwrap();
    }
    twin.shell("runc-2/mode", "exclusive\n").unwrap();
    let capabilities = client(&twin).capabilities().unwrap();
    let cache = &capabilities.caches[0];
    assert_eq!(
        (cache.name.as_str(), cache.level, cache.full),
        ("L3", 3, WayMask(0x7ff))
    );
    assert_eq!(
        (cache.ways_min, cache.sparse, cache.hardware),
        (Ways(1), false, WayMask(0x600))
    );
    assert_eq!(
        cache
            .domains
            .iter()
            .map(|d| (d.id, d.closed.0))
            .collect::<Vec<_>>(),
        [(0, 0xf), (1, 0xf)]
    );
    let bandwidth = capabilities.bandwidth.as_ref().unwrap();
    assert_eq!(
        (bandwidth.unit, bandwidth.minimum, bandwidth.step),
        (BandwidthUnit::Percent, 10, 10)
    );
    assert_eq!((capabilities.classes, capabilities.monitors), (8, Some(32)));
    assert_eq!(capabilities.root.monitor_groups, 1);
    let names: Vec<&str> = capabilities
        .groups
        .iter()
        .map(|group| group.name.as_str())
        .collect();
    assert_eq!(names, ["runc-1", "runc-2"]);

    let mut spec = Spec::xeon();
    spec.bandwidth.as_mut().unwrap().unit = BandwidthUnit::Megabytes;
    spec.caches[0].code_and_data = true;
    let capabilities = client(&Twin::new(spec)).capabilities().unwrap();
    assert_eq!(capabilities.bandwidth.unwrap().unit, BandwidthUnit::Megabytes);
    assert_eq!(capabilities.caches.len(), 2);
    let epyc = client(&Twin::new(Spec::epyc())).capabilities().unwrap();
    assert!(epyc.caches[0].sparse && epyc.monitors == Some(64));
    assert_eq!(epyc.bandwidth.unwrap().unit, BandwidthUnit::NonLinear);
    assert_eq!(
        client(&Twin::new(Spec::haswell()))
            .capabilities()
            .unwrap()
            .monitors,
        None
    );
}

#[test]
fn apply_report_and_clear() {
    let (twin, ..) = busy();
    let client = client(&twin);
    let before = others(&twin);
    let plan = client
        .plan(&Wishes {
            weak_bandwidth_percent: Some(45),
            ..wishes(2)
        })
        .unwrap();
    assert_eq!(client.clear().unwrap(), Cleared::default());
    let steps: Vec<String> = client
        .steps(&plan)
        .unwrap()
        .iter()
        .map(|step| step.to_string())
        .collect();
    assert_eq!(
        steps,
        [
            "mkdir /sys/fs/resctrl/corun-weak",
            "printf 'L3:0=3;1=3\\nMB:0=50;1=50\\n' > /sys/fs/resctrl/corun-weak/schemata",
            "mkdir /sys/fs/resctrl/corun-default",
            "printf 'L3:0=7fc;1=7fc\\nMB:0=100;1=100\\n' > /sys/fs/resctrl/corun-default/schemata",
        ]
    );
    assert!(
        client.status().unwrap().classes.is_empty(),
        "steps change nothing"
    );
    client.apply(&plan).unwrap();
    assert_eq!(schemata(&twin, Class::Weak), "MB:0=50;1=50\nL3:0=3;1=3\n");
    assert_eq!(
        schemata(&twin, Class::Default),
        "MB:0=100;1=100\nL3:0=7fc;1=7fc\n"
    );

    let status = client.status().unwrap();
    assert!(!status.unfinished);
    assert_eq!(status.foreign, ["runc-1", "runc-2"]);
    let states: Vec<(Class, ClassState)> = status.classes.iter().map(|c| (c.class, c.state)).collect();
    assert_eq!(
        states,
        [
            (Class::Weak, ClassState::Planned),
            (Class::Default, ClassState::Planned)
        ]
    );

    let process = twin.fork(1);
    client.assign(Class::Weak, Who::Process(process)).unwrap();
    assert_eq!(client.status().unwrap().classes[0].tasks, 1);
    assert_eq!(twin.group_of(process).unwrap(), "corun-weak");
    let cleared = client.clear().unwrap();
    assert_eq!(
        cleared,
        Cleared {
            removed: vec![Class::Default, Class::Weak],
            tasks_returned: 1,
            left: vec![]
        }
    );
    assert_nothing_left(&twin);
    twin.exit(process);
    assert_eq!(others(&twin), before);
    assert_eq!(
        client.clear().unwrap(),
        Cleared::default(),
        "clearing twice is fine"
    );
}

#[test]
fn another_plan_changes_masks_in_place() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    client.apply(&plan(&twin, 2)).unwrap();
    let task = twin.fork(1);
    client.assign(Class::Default, Who::Thread(task)).unwrap();
    let other = client
        .plan(&Wishes {
            domains: Some(vec![1]),
            default: DefaultShare::All,
            ..wishes(4)
        })
        .unwrap();
    assert!(
        client
            .steps(&other)
            .unwrap()
            .iter()
            .all(|step| step.to_string().starts_with("printf"))
    );
    client.apply(&other).unwrap();
    assert_eq!(schemata(&twin, Class::Weak), "MB:0=100;1=100\nL3:0=7ff;1=f\n");
    assert_eq!(
        schemata(&twin, Class::Default),
        "MB:0=100;1=100\nL3:0=7ff;1=7ff\n"
    );
    assert_eq!(twin.group_of(task).unwrap(), "corun-default");
    client.apply(&other).unwrap();
    client.clear().unwrap();
    assert_nothing_left(&twin);
}

#[test]
fn every_kind_of_machine_takes_its_plan() {
    let mut split = Spec::xeon();
    split.caches[0].code_and_data = true;
    let mut inner = Spec::haswell();
    inner.caches[0].level = 2;
    inner.caches[0].domains = vec![0, 1, 2, 3];
    let mut many = Spec::epyc();
    // More domains than one write has room for.
    many.caches[0].domains = (0..700).map(|id| id * 3).collect();
    many.caches.push(CacheSpec {
        level: 2,
        ..many.caches[0].clone()
    });
    for spec in [Spec::xeon(), Spec::epyc(), Spec::haswell(), split, inner, many] {
        let twin = Twin::new(spec);
        let client = client(&twin);
        for default in [DefaultShare::Rest, DefaultShare::All] {
            client
                .apply(&client.plan(&Wishes { default, ..wishes(2) }).unwrap())
                .unwrap();
            let status = client.status().unwrap();
            assert!(
                status
                    .classes
                    .iter()
                    .all(|class| class.state == ClassState::Planned)
            );
            twin.check();
        }
        let task = twin.fork(1);
        assert_eq!(client.assign(Class::Weak, Who::Thread(task)).unwrap().moved, 1);
        client.clear().unwrap();
        assert_nothing_left(&twin);
    }
}

#[test]
fn threads_and_children_come_along() {
    for spec in [Spec::xeon(), Spec::haswell()] {
        let twin = Twin::new(spec);
        let client = client(&twin);
        client.apply(&plan(&twin, 2)).unwrap();
        let process = twin.fork(1);
        let thread = twin.thread(process);
        let child = twin.fork(thread);
        let grandchild = twin.fork(child);
        let bystander = twin.fork(1);

        let assigned = client.assign(Class::Weak, Who::Process(process)).unwrap();
        assert_eq!((assigned.moved, assigned.already, assigned.settled), (2, 0, true));
        let group = |task| twin.group_of(task).unwrap();
        assert_eq!([group(thread), group(child)], ["corun-weak", ""]);
        let assigned = client.assign(Class::Weak, Who::Tree(process)).unwrap();
        assert_eq!((assigned.moved, assigned.already), (2, 2));
        assert_eq!([group(grandchild), group(bystander)], ["corun-weak", ""]);
        // What a task starts afterwards is in its class, and one thread can leave alone.
        let later = twin.thread(grandchild);
        assert_eq!(group(later), "corun-weak");
        assert_eq!(
            client.assign(Class::Default, Who::Thread(later)).unwrap().moved,
            1
        );
        assert_eq!([group(later), group(grandchild)], ["corun-default", "corun-weak"]);
        client.clear().unwrap();
        assert_eq!([group(later), group(grandchild)], ["", ""]);
        twin.check();
    }
}

#[test]
fn tasks_of_other_tools_stay_where_they_are() {
    for proc_groups in [true, false] {
        let mut spec = Spec::xeon();
        spec.proc_groups = proc_groups;
        let twin = Twin::new(spec);
        let client = client(&twin);
        let process = twin.fork(1);
        let threads = [twin.thread(process), twin.thread(process), twin.thread(process)];
        for group in ["runc-1", "runc-1/mon_groups/m", "mon_groups/watch"] {
            twin.mkdir(group).unwrap();
        }
        twin.shell("runc-1/tasks", &format!("{},{}\n", threads[0], threads[1]))
            .unwrap();
        twin.shell("runc-1/mon_groups/m/tasks", &format!("{}\n", threads[1]))
            .unwrap();
        twin.shell("mon_groups/watch/tasks", &format!("{}\n", threads[2]))
            .unwrap();
        let before = others(&twin);
        client.apply(&plan(&twin, 2)).unwrap();
        let assigned = client.assign(Class::Weak, Who::Tree(process)).unwrap();
        assert_eq!(
            assigned,
            Assigned {
                moved: 1,
                foreign: vec![
                    (threads[0], "runc-1".to_owned()),
                    (threads[1], "runc-1/mon_groups/m".to_owned()),
                    (threads[2], "mon_groups/watch".to_owned()),
                ],
                settled: true,
                ..Assigned::default()
            }
        );
        assert_eq!(others(&twin), before);
        // Somebody may watch tasks of corun's classes; they are in the class all the same.
        twin.mkdir("corun-weak/mon_groups/m").unwrap();
        twin.shell("corun-weak/mon_groups/m/tasks", &format!("{process}\n"))
            .unwrap();
        assert_eq!(
            client.assign(Class::Weak, Who::Thread(process)).unwrap().already,
            1
        );
        client.clear().unwrap();
        assert_eq!(others(&twin), before);
        assert_nothing_left(&twin);
    }
}

#[test]
fn tasks_that_come_and_go_meanwhile() {
    // Whenever during the call a task ends, starts a thread or forks: all that is left in the end is in the class.
    for proc_groups in [true, false] {
        for happening in 0..3 {
            for at in 0..60 {
                let mut spec = Spec::xeon();
                spec.proc_groups = proc_groups;
                let twin = Twin::new(spec);
                let client = client(&twin);
                client.apply(&plan(&twin, 2)).unwrap();
                let process = twin.fork(1);
                let thread = twin.thread(process);
                let event = [Event::Exit(thread), Event::Thread(thread), Event::Fork(thread)][happening];
                let calls = twin.calls();
                twin.before_call(at, event);
                let assigned = client.assign(Class::Weak, Who::Tree(process)).unwrap();
                assert!(assigned.settled);
                if calls + at < twin.calls() {
                    assert_eq!(twin.tasks().len(), [2, 4, 4][happening], "the event came to pass");
                }
                twin.calm();
                // A fork as the very last thing is seen by the child's inheritance, not by listing.
                let ours = twin.tasks().into_iter().filter(|task| *task != 1);
                for task in ours {
                    assert_eq!(
                        twin.group_of(task).unwrap(),
                        "corun-weak",
                        "task {task}, call {at}"
                    );
                }
                twin.check();
            }
        }
    }
}

#[test]
fn tasks_that_start_without_end_are_reported() {
    let twin = Twin::new(Spec::xeon());
    let client = client(&twin);
    client.apply(&plan(&twin, 2)).unwrap();
    let process = twin.fork(1);
    for call in 0..2000 {
        twin.before_call(call, Event::Thread(process));
    }
    let assigned = client.assign(Class::Weak, Who::Process(process)).unwrap();
    assert!(!assigned.settled && assigned.moved > 0);
}
