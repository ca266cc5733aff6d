//! A client killed after any of its effects: the next one clears what it left.

use corun_model::cache::partition::Class;
use corun_resctrl::twin::Twin;
use corun_resctrl::{ClassState, Who};

use super::{assert_nothing_left, busy, client, others, plan};

/// What a client may be doing when it is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    Apply,
    ApplyAgain,
    Assign,
    Clear,
}

/// A machine just before that.
fn before(doing: Doing) -> (Twin, u32) {
    let (twin, ..) = busy();
    let process = twin.fork(1);
    twin.thread(process);
    twin.fork(process);
    if doing != Doing::Apply {
        client(&twin).apply(&plan(&twin, 2)).unwrap();
        client(&twin)
            .assign(Class::Default, Who::Thread(process))
            .unwrap();
    }
    (twin, process)
}

fn run(twin: &Twin, process: u32, doing: Doing) -> bool {
    let client = client(twin);
    match doing {
        Doing::Apply | Doing::ApplyAgain => client
            .plan(&super::wishes(4))
            .and_then(|plan| client.apply(&plan))
            .is_ok(),
        Doing::Assign => client.assign(Class::Weak, Who::Tree(process)).is_ok(),
        Doing::Clear => client.clear().is_ok(),
    }
}

#[test]
fn clear_recovers_from_a_kill_after_any_effect() {
    for doing in [Doing::Apply, Doing::ApplyAgain, Doing::Assign, Doing::Clear] {
        let mut kills = 0;
        for effects in 0.. {
            let (twin, process) = before(doing);
            let untouched = others(&twin);
            twin.crash_after(effects);
            let finished = run(&twin, process, doing);
            let killed = twin.restart();
            assert_eq!(finished, !killed, "{doing:?} {effects}");
            twin.check();
            assert_eq!(others(&twin), untouched, "{doing:?} {effects}");
            // No task is ever in a group whose schemata are not as planned.
            let status = client(&twin).status().unwrap();
            for class in &status.classes {
                assert!(class.tasks == 0 || doing == Doing::ApplyAgain || class.state == ClassState::Planned);
            }
            client(&twin).clear().unwrap();
            assert_nothing_left(&twin);
            assert_eq!(others(&twin), untouched, "{doing:?} {effects}");
            if finished {
                break;
            }
            kills += 1;
        }
        let least = match doing {
            Doing::Apply => 10,
            Doing::ApplyAgain => 8,
            Doing::Assign => 3,
            Doing::Clear => 3,
        };
        assert!(kills >= least, "{doing:?} had {kills} effects only");
    }
}

#[test]
fn clear_recovers_from_being_killed_itself_time_and_again() {
    for doing in [Doing::Apply, Doing::ApplyAgain] {
        for effects in 0..12 {
            let (twin, process) = before(doing);
            let untouched = others(&twin);
            twin.crash_after(effects);
            run(&twin, process, doing);
            twin.restart();
            // Each life gets one effect done; there are at most as many lives as things to remove.
            let mut lives = 0;
            loop {
                twin.crash_after(1);
                let cleared = client(&twin).clear();
                twin.restart();
                lives += 1;
                if cleared.is_ok() {
                    break;
                }
                assert!(lives < 6, "{doing:?} {effects}");
            }
            assert_nothing_left(&twin);
            assert_eq!(others(&twin), untouched);
        }
    }
}

#[test]
fn apply_recovers_too() {
    for doing in [Doing::Apply, Doing::ApplyAgain, Doing::Clear] {
        for effects in 0..14 {
            let (twin, process) = before(doing);
            let untouched = others(&twin);
            twin.crash_after(effects);
            run(&twin, process, doing);
            twin.restart();
            let client = client(&twin);
            client.apply(&client.plan(&super::wishes(3)).unwrap()).unwrap();
            let status = client.status().unwrap();
            assert!(!status.unfinished && status.classes.len() == 2);
            assert!(
                status
                    .classes
                    .iter()
                    .all(|class| class.state == ClassState::Planned)
            );
            assert_eq!(others(&twin), untouched, "{doing:?} {effects}");
            client.clear().unwrap();
            assert_nothing_left(&twin);
        }
    }
}
