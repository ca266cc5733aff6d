//! Members that end badly, alone.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use corun_exec::ctx;
use corun_exec::teams::{Lost, Operation, TeamOptions, Token, latch, operation, park, pinned, yield_now};

use super::{all, scheduler, team};

/// Tries everything that switches, while it unwinds.
struct SwitchesWhenDropped<'a>(&'a Cell<u32>);

impl Drop for SwitchesWhenDropped<'_> {
    fn drop(&mut self) {
        let before = self.0.get();
        ctx!();
        operation(Operation(1));
        yield_now();
        park(Some(Instant::now()));
        assert_eq!(corun_exec::teams::blocking(|| 3), 3);
        assert_eq!(self.0.get(), before, "another member ran");
    }
}

#[test]
fn a_panic_ends_its_member_only_and_does_not_switch() {
    let steps = Cell::new(0);
    let results = team().scope(|scope| {
        for number in 0..5 {
            let steps = &steps;
            scope.spawn("one", move || {
                operation(Operation(0));
                for step in 0..10 {
                    steps.set(steps.get() + 1);
                    ctx!();
                    if number == 2 && step == 4 {
                        let _switches = SwitchesWhenDropped(steps);
                        resume_unwind(Box::new("boom"));
                    }
                }
                // Panics that are caught harm nothing.
                assert!(catch_unwind(|| resume_unwind(Box::new(1))).is_err());
                ctx!();
                number
            });
        }
    });
    assert_eq!(steps.get(), 45);
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(returned) => assert_eq!((returned, number != 2), (number, true)),
            Err(Lost::Panicked(payload)) => {
                assert_eq!((payload.downcast_ref::<&str>(), number), (Some(&"boom"), 2));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Calls itself until nothing is left.
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX {
        0
    } else {
        deeper(depth + 1) + frame[63]
    }
}

#[test]
fn an_overflow_ends_its_member_only() {
    let mut scheduler = scheduler(TeamOptions {
        stack_bytes: 64 << 10,
        ..Default::default()
    });
    for _ in 0..3 {
        let results = scheduler.scope(|scope| {
            for number in 0..6_u64 {
                scope.spawn(format!("client {number}"), move || {
                    operation(Operation(0));
                    ctx!();
                    if number % 2 == 1 {
                        let _latch = (number == 3).then(latch);
                        return deeper(number);
                    }
                    for _ in 0..3 {
                        ctx!();
                        operation(Operation(1));
                    }
                    number
                });
            }
        });
        for (number, result) in (0..).zip(results) {
            match result {
                Ok(returned) => assert_eq!((returned, number % 2), (number, 0)),
                Err(Lost::Overflowed { message }) => {
                    assert_eq!(number % 2, 1);
                    let expected = format!(
                        "member \"client {number}\" used all of its stack and was ended; TeamOptions::stack_bytes is 65536: \
                         give its scheduler larger stacks"
                    );
                    assert_eq!(message, expected);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn too_little_stack_for_a_switch_is_an_overflow_too() {
    fn down_to(bytes: usize, then: &dyn Fn()) {
        let frame = black_box([0_u8; 256]);
        if corun_exec::teams::stack_left().is_some_and(|left| left < bytes) {
            then();
        } else {
            down_to(bytes, then);
        }
        black_box(&frame);
    }
    let results = team().scope(|scope| {
        scope.spawn("operation", || down_to(4096, &|| operation(Operation(0))));
        scope.spawn("yield", || down_to(4096, &yield_now));
        scope.spawn("park", || down_to(4096, &|| park(None)));
        scope.spawn("fine", || down_to(16384, &|| operation(Operation(0))));
    });
    for result in &results[..3] {
        assert!(matches!(result, Err(Lost::Overflowed { .. })), "{result:?}");
    }
    assert!(results[3].is_ok());
}

#[test]
fn what_an_overflowed_member_had_pinned_does_not_hold_up_the_epochs() {
    let freed = Arc::new(AtomicUsize::new(0));
    let mut scheduler = scheduler(TeamOptions {
        stack_bytes: 64 << 10,
        ..Default::default()
    });
    let results = scheduler.scope(|scope| {
        scope.spawn("lost", || pinned(|_| pinned(|_| deeper(0))));
    });
    assert!(matches!(results[..], [Err(Lost::Overflowed { .. })]));
    let counted = freed.clone();
    crossbeam_epoch::pin().defer(move || counted.fetch_add(1, Ordering::Relaxed));
    // Other tests pin too, so it may take a while.
    let deadline = Instant::now() + Duration::from_secs(60);
    while freed.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < deadline, "the epoch does not advance");
        crossbeam_epoch::pin().flush();
        std::thread::yield_now();
    }
}

#[test]
fn a_token_outlives_its_member() {
    let tokens = all(team().scope(|scope| {
        scope.spawn("short", || Token::current().expect("a member"));
    }));
    tokens[0].unpark();
    tokens[0].unpark();
    assert!(Token::current().is_none());
}

/// Runs one of the tests below, which do nothing by themselves, in a process of its own.
fn in_child(test: &str) -> (std::process::ExitStatus, String) {
    let program = std::env::current_exe().expect("a test knows where it is");
    let output = Command::new(program)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("TEAMS_CHILD", "1")
        .output()
        .expect("the test runs");
    (
        output.status,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn is_child() -> bool {
    std::env::var_os("TEAMS_CHILD").is_some()
}

#[test]
fn child_overflows_a_plain_thread() {
    if is_child() {
        let results = team().scope(|scope| scope.spawn("member", || 1));
        assert_eq!(all(results), [1]);
        deeper(0);
    }
}

#[test]
fn child_reads_a_wild_pointer_in_a_member() {
    if is_child() {
        team().scope(|scope| {
            scope.spawn("wild", || {
                let pointer = black_box(std::ptr::without_provenance::<u64>(4096));
                // SAFETY: none; the process is to end here.
                unsafe { pointer.read_volatile() }
            });
        });
    }
}

#[test]
fn child_panics_in_a_member() {
    if is_child() {
        let results = team().scope(|scope| {
            scope.spawn("panics", || {
                operation(Operation(0));
                panic!("with a backtrace");
            });
        });
        assert!(results.iter().all(|result: &Result<(), _>| result.is_err()));
    }
}

#[test]
fn other_faults_are_reported_as_before() {
    let (status, text) = in_child("teams::lost::child_overflows_a_plain_thread");
    assert!(!status.success());
    assert!(text.contains("has overflowed its stack"), "{text}");
    let (status, text) = in_child("teams::lost::child_reads_a_wild_pointer_in_a_member");
    assert!(!status.success());
    assert!(!text.contains("has overflowed its stack"), "{text}");
    let (status, text) = in_child("teams::lost::child_panics_in_a_member");
    assert!(status.success(), "{text}");
    assert!(text.contains("with a backtrace"), "{text}");
}
