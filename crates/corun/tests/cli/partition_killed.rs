//! `corun partition` killed after every single operation on the kernel's twin: the next `clear`, or the next `apply`, puts
//! everything right.
//!
//! Steps of writing the journal happen beside the mount; kills between those are tested in the machine crate, in memory.
//! Where nothing can be mounted these tests say so and pass.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::partitioned::{assert_nothing_left, busy, of_kind, others, place, rows, run};
use crate::twin_mount::Mounted;

/// Longest a command on the twin may take; each is meant to take milliseconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What is running when it is killed.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Apply,
    ApplyAgain,
    Assign,
    Clear,
}

/// Starts `corun partition` without waiting for it.
fn start(mounted: &Mounted, words: &[&str]) -> Child {
    Command::new(crate::PROGRAM)
        .arg("partition")
        .args(words)
        .args(place(mounted))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts")
}

/// Lets the program run until it has done so many operations, and kills it between the last of them and its answer: for
/// the program, in the middle of a system call it never returns from. False if it came to its end before that.
fn kill_after(mounted: &Mounted, words: &[&str], operations: u64) -> bool {
    mounted.gate.stop_after(operations);
    let mut child = start(mounted, words);
    let began = Instant::now();
    let killed = loop {
        if mounted.gate.stopped(Duration::from_millis(1)) {
            child.kill().expect("SIGKILL reaches our child");
            break true;
        }
        if child.try_wait().expect("our child").is_some() {
            break false;
        }
        assert!(
            began.elapsed() < TIME_LIMIT,
            "{words:?} hangs after {operations} operations"
        );
    };
    mounted.gate.release();
    let status = child.wait().expect("our child");
    assert_eq!(status.success(), !killed, "{words:?} {operations}: {status}");
    killed
}

fn clear_recovers_from(doing: Doing) {
    let mut kills = 0;
    for operations in 1.. {
        let Some((mounted, _)) = busy() else { return };
        let twin = &mounted.twin;
        let process = twin.fork(1);
        twin.thread(process);
        twin.fork(process);
        let tree = process.to_string();
        if !matches!(doing, Doing::Apply) {
            assert_eq!(run(&mounted, &["apply"]).code, 0);
            assert_eq!(
                run(&mounted, &["assign", "--class", "default", "--tid", &tree]).code,
                0
            );
        }
        let untouched = others(twin);
        let words: &[&str] = match doing {
            Doing::Apply => &["apply", "--weak-ways", "2"],
            Doing::ApplyAgain => &["apply", "--weak-ways", "4"],
            Doing::Assign => &["assign", "--class", "weak", "--tree", &tree],
            Doing::Clear => &["clear"],
        };
        let killed = kill_after(&mounted, words, operations);
        assert_eq!(others(twin), untouched, "{doing:?} {operations}");
        // Every other time another `apply` comes first: that must work too.
        if operations % 2 == 0 {
            let applied = rows(&mounted, &["apply", "--weak-ways", "3"]);
            let classes = of_kind(&applied, "class");
            assert!(classes.len() == 2 && classes.iter().all(|class| class["state"] == "planned"));
        }
        let cleared = run(&mounted, &["clear"]);
        assert_eq!(
            (cleared.code, cleared.err.as_str()),
            (0, ""),
            "{doing:?} {operations}"
        );
        assert_nothing_left(&mounted);
        assert_eq!(others(twin), untouched, "{doing:?} {operations}");
        if !killed {
            break;
        }
        kills += 1;
    }
    let least = match doing {
        Doing::Apply | Doing::ApplyAgain => 20,
        Doing::Assign => 10,
        Doing::Clear => 5,
    };
    assert!(kills >= least, "{doing:?} was killed {kills} times only");
}

#[test]
fn clear_recovers_from_killing_apply_after_any_operation() {
    clear_recovers_from(Doing::Apply);
}

#[test]
fn clear_recovers_from_killing_another_apply_after_any_operation() {
    clear_recovers_from(Doing::ApplyAgain);
}

#[test]
fn clear_recovers_from_killing_assign_after_any_operation() {
    clear_recovers_from(Doing::Assign);
}

#[test]
fn clear_recovers_from_killing_clear_after_any_operation() {
    clear_recovers_from(Doing::Clear);
}
