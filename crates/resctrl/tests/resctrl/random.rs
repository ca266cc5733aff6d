//! Random doings of corun, of other tools, of tasks and of fate: what must hold holds after each.

use corun_model::cache::partition::{Class, DefaultShare, Wishes};
use corun_resctrl::twin::{Spec, Twin};
use corun_resctrl::{ClassState, ResctrlError, Who};
use proptest::prelude::*;

use super::{assert_nothing_left, client, others, wishes};

#[derive(Clone, Debug)]
enum Doing {
    Apply { ways: u32, all: bool },
    Assign { class: bool, task: usize, who: u8 },
    Clear,
    Status,
    Make(u8),
    Remove(u8),
    Masks { group: u8, first: u32, ways: u32 },
    Mode { group: u8, exclusive: bool },
    Take { group: u8, task: usize },
    Monitor { group: u8 },
    Watch { group: u8, task: usize },
    Fork(usize),
    Thread(usize),
    Exit(usize),
    Age,
    CrashAfter(u64),
    Fail { effects: u64, errno: i32 },
    Remount,
}

fn doing() -> impl Strategy<Value = Doing> {
    let group = || 0u8..4;
    let task = || 0usize..12;
    prop_oneof![
        4 => (1u32..8, any::<bool>()).prop_map(|(ways, all)| Doing::Apply { ways, all }),
        4 => (any::<bool>(), task(), 0u8..3).prop_map(|(class, task, who)| Doing::Assign { class, task, who }),
        2 => Just(Doing::Clear),
        1 => Just(Doing::Status),
        2 => group().prop_map(Doing::Make),
        1 => group().prop_map(Doing::Remove),
        2 => (group(), 0u32..11, 1u32..6).prop_map(|(group, first, ways)| Doing::Masks { group, first, ways }),
        1 => (group(), any::<bool>()).prop_map(|(group, exclusive)| Doing::Mode { group, exclusive }),
        2 => (group(), task()).prop_map(|(group, task)| Doing::Take { group, task }),
        1 => group().prop_map(|group| Doing::Monitor { group }),
        1 => (group(), task()).prop_map(|(group, task)| Doing::Watch { group, task }),
        2 => task().prop_map(Doing::Fork),
        2 => task().prop_map(Doing::Thread),
        1 => task().prop_map(Doing::Exit),
        1 => Just(Doing::Age),
        2 => (0u64..16).prop_map(Doing::CrashAfter),
        1 => (0u64..10, prop_oneof![Just(libc::EINVAL), Just(libc::EIO), Just(libc::ENOSPC)])
            .prop_map(|(effects, errno)| Doing::Fail { effects, errno }),
        1 => Just(Doing::Remount),
    ]
}

fn spec(kind: u8) -> Spec {
    let mut spec = [Spec::xeon(), Spec::epyc(), Spec::haswell(), Spec::xeon()][kind as usize].clone();
    if kind == 3 {
        // Ids are short and linger, code and data apart.
        (spec.monitors, spec.limbo) = (Some(6), true);
        spec.caches[0].code_and_data = true;
        spec.caches[0].classes = 8;
    }
    spec
}

/// Another tool at work; it may be refused.
fn other_tool(twin: &Twin, doing: &Doing) {
    let name = |group: u8| {
        if group == 0 {
            String::new()
        } else {
            format!("runc-{group}")
        }
    };
    let task = |at: usize| {
        let tasks: Vec<u32> = twin.tasks().into_iter().collect();
        tasks[at % tasks.len()]
    };
    // What another tool is refused is its own affair.
    let _ = match *doing {
        Doing::Make(group) => twin.mkdir(&name(group.max(1))),
        Doing::Remove(group) => twin.rmdir(&name(group.max(1))),
        Doing::Masks { group, first, ways } => {
            let mask = (((1u64 << ways) - 1) << first) & 0x7ff;
            let lines = twin.peek("schemata").unwrap_or_default();
            let caches = lines.lines().filter(|line| line.trim_start().starts_with('L'));
            let text: String = caches
                .filter_map(|line| Some(format!("{}:0={mask:x}\n", line.split_once(':')?.0)))
                .collect();
            twin.shell(&format!("{}/schemata", name(group)), &text)
        }
        Doing::Mode { group, exclusive } => {
            let mode = if exclusive { "exclusive\n" } else { "shareable\n" };
            twin.shell(&format!("{}/mode", name(group)), mode)
        }
        Doing::Take { group, task: at } => {
            twin.shell(&format!("{}/tasks", name(group)), &format!("{}\n", task(at)))
        }
        Doing::Monitor { group } => twin.mkdir(&format!("{}/mon_groups/m", name(group))),
        Doing::Watch { group, task: at } => twin.shell(
            &format!("{}/mon_groups/m/tasks", name(group)),
            &format!("{}\n", task(at)),
        ),
        Doing::Fork(at) => {
            twin.fork(task(at));
            return;
        }
        Doing::Thread(at) => {
            twin.thread(task(at));
            return;
        }
        Doing::Exit(at) => {
            let task = task(at);
            if task != 1 {
                twin.exit(task);
            }
            return;
        }
        Doing::Age => return twin.age_monitors(),
        Doing::CrashAfter(effects) => return twin.crash_after(effects),
        Doing::Fail { effects, errno } => return twin.fail(effects, errno),
        Doing::Remount => {
            twin.unmount();
            return twin.mount();
        }
        _ => unreachable!("a doing of corun's"),
    };
}

/// corun at work.
fn corun(twin: &Twin, doing: &Doing) -> Result<(), ResctrlError> {
    let client = client(twin);
    match *doing {
        Doing::Apply { ways, all } => {
            let default = if all {
                DefaultShare::All
            } else {
                DefaultShare::Rest
            };
            let plan = client.plan(&Wishes {
                default,
                ..wishes(ways)
            })?;
            client.apply(&plan)?;
            for class in client.status()?.classes {
                assert_eq!(class.state, ClassState::Planned, "{class:?}");
            }
            Ok(())
        }
        Doing::Assign { class, task, who } => {
            let tasks: Vec<u32> = twin.tasks().into_iter().collect();
            let task = tasks[task % tasks.len()];
            let class = if class { Class::Weak } else { Class::Default };
            let who = [Who::Thread(task), Who::Process(task), Who::Tree(task)][who as usize];
            let assigned = client.assign(class, who)?;
            assert!(assigned.settled);
            let group = twin.group_of(task).unwrap();
            let foreign = assigned.foreign.iter().any(|(left, _)| *left == task);
            assert!(foreign || group == class.group(), "task {task} is in `{group}`");
            Ok(())
        }
        Doing::Clear => {
            let cleared = client.clear()?;
            assert!(cleared.left.is_empty());
            assert_nothing_left(twin);
            Ok(())
        }
        _ => client.status().map(drop),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_others_are_untouched_and_all_can_be_cleared(
        kind in 0u8..4,
        doings in proptest::collection::vec(doing(), 1..40),
    ) {
        let twin = Twin::new(spec(kind));
        for doing in &doings {
            match doing {
                Doing::Apply { .. } | Doing::Assign { .. } | Doing::Clear | Doing::Status => {
                    let before = others(&twin);
                    let _ = corun(&twin, doing);
                    prop_assert_eq!(others(&twin), before, "{:?}", doing);
                    // Death is noticed, and a new client comes; without one, doom stays armed for the next doing.
                    twin.restart();
                }
                _ => other_tool(&twin, doing),
            }
            twin.check();
        }
        twin.calm();
        let before = others(&twin);
        let cleared = client(&twin).clear().expect("nothing stands in the way");
        prop_assert!(cleared.left.is_empty());
        assert_nothing_left(&twin);
        prop_assert_eq!(others(&twin), before);
    }
}
