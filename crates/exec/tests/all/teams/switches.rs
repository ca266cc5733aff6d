//! CTX points, latches, modes, stacks.

use std::cell::{Cell, RefCell};

use corun_exec::ctx;
use corun_exec::teams::{
    Operation, Scheduler, TeamError, TeamOptions, TeamsMode, control, is_member, latch, operation, split,
    stack_left, yield_now,
};

use super::{all, scheduler, team};

/// Runs members that write down each step, with `between` after it.
fn log(scheduler: &mut Scheduler, members: &str, steps: u32, between: impl Fn(char, u32)) -> String {
    let log = RefCell::new(String::new());
    scheduler.scope(|scope| {
        for name in members.chars() {
            let (log, between) = (&log, &between);
            scope.spawn(name, move || {
                operation(Operation(3));
                for step in 0..steps {
                    log.borrow_mut().push_str(&format!("{name}{step} "));
                    between(name, step);
                }
            });
        }
    });
    log.into_inner()
}

#[test]
fn members_of_a_team_take_turns_at_ctx_points() {
    let turns = log(&mut team(), "abc", 3, |_, _| ctx!());
    assert_eq!(turns, "a0 b0 c0 a1 b1 c1 a2 b2 c2 ");
    let row = 1_u64;
    let turns = log(&mut team(), "ab", 2, |_, _| ctx!(prefetch = &raw const row));
    assert_eq!(turns, "a0 b0 a1 b1 ");
}

#[test]
fn results_come_in_the_order_of_spawning_and_a_scheduler_serves_again() {
    let mut scheduler = team();
    for round in 0..3 {
        let results = scheduler.scope(|scope| {
            for number in 0..5 {
                scope.spawn("one", move || {
                    // The later ones end first.
                    for _ in number..5 {
                        operation(Operation(0));
                    }
                    number + round
                });
            }
        });
        assert_eq!(all(results), (round..round + 5).collect::<Vec<_>>());
    }
    assert!(
        scheduler
            .scope(|_: &corun_exec::teams::Scope<'_, '_, ()>| ())
            .is_empty()
    );
}

#[test]
fn three_hundred_members_spawn_others_and_all_return() {
    let sum = Cell::new(0_u64);
    let results = team().scope(|scope| {
        for number in 0..300_u64 {
            let sum = &sum;
            scope.spawn(format!("{number}"), move || {
                for step in 0..20_u16 {
                    operation(Operation(step % 7));
                    ctx!();
                    sum.set(sum.get() + 1);
                }
                if number % 3 == 0 {
                    scope.spawn("child", move || {
                        operation(Operation(2));
                        ctx!();
                        sum.set(sum.get() + 1000);
                        number + 10_000
                    });
                }
                number
            });
        }
    });
    let results = all(results);
    assert_eq!(results.len(), 400);
    assert_eq!(results[..300], (0..300).collect::<Vec<_>>());
    let mut children: Vec<u64> = results[300..].to_vec();
    children.sort_unstable();
    assert_eq!(
        children,
        (0..300)
            .step_by(3)
            .map(|number| number + 10_000)
            .collect::<Vec<_>>()
    );
    assert_eq!(sum.get(), 300 * 20 + 100 * 1000);
}

#[test]
fn in_a_latch_nobody_switches() {
    let turns = log(&mut team(), "ab", 4, |_, step| {
        if step < 2 {
            let _latch = latch();
            ctx!();
            operation(Operation(9));
            yield_now();
        } else {
            ctx!();
        }
    });
    assert_eq!(turns, "a0 a1 a2 b0 b1 b2 a3 b3 ");
}

#[test]
fn a_latch_that_is_never_left_does_not_outlive_its_member() {
    let turns = log(&mut team(), "abc", 3, |name, _| {
        if name == 'a' {
            std::mem::forget(latch());
        }
        ctx!();
    });
    assert_eq!(turns, "a0 a1 a2 b0 c0 b1 c1 b2 c2 ");
}

#[test]
fn ctx_can_be_switched_off_and_on_by_a_member() {
    let mut scheduler = scheduler(TeamOptions {
        ctx: false,
        ..Default::default()
    });
    let turns = log(&mut scheduler, "ab", 2, |_, _| ctx!());
    assert_eq!(turns, "a0 a1 b0 b1 ");
    let turns = log(&mut scheduler, "ab", 4, |_, step| {
        control().expect("a member").set_ctx(step % 2 == 1);
        ctx!();
    });
    assert_eq!(turns, "a0 a1 b0 b1 a2 a3 b2 b3 ");
}

#[test]
fn a_stray_passes_ctx_points_until_its_next_operation() {
    let turns = log(&mut team(), "abc", 3, |name, step| {
        if name == 'a' && step == 0 {
            yield_now();
        }
        ctx!();
    });
    // b and c go on as a team; a runs alone once they have ended.
    assert_eq!(turns, "a0 b0 c0 b1 c1 b2 c2 a1 a2 ");
}

#[test]
fn in_serial_mode_a_member_goes_on_until_it_yields() {
    let mut scheduler = team();
    scheduler.set_mode(TeamsMode::Serial);
    let turns = log(&mut scheduler, "ab", 4, |_, step| {
        ctx!();
        operation(Operation(step as u16));
        if step == 1 {
            yield_now();
        }
    });
    assert_eq!(turns, "a0 a1 b0 b1 a2 a3 b2 b3 ");
    assert_eq!(scheduler.mode(), TeamsMode::Serial);
    // Nobody who never yields keeps the others away for ever.
    let stop = Cell::new(false);
    let results = scheduler.scope(|scope| {
        let stop = &stop;
        scope.spawn("greedy", move || {
            let mut operations = 0_u64;
            while !stop.get() {
                operation(Operation(0));
                operations += 1;
            }
            operations
        });
        scope.spawn("late", move || {
            stop.set(true);
            0
        });
    });
    assert!(all(results)[0] <= 5000);
}

#[test]
fn modes_change_while_members_are_in_a_team() {
    let turns = log(&mut team(), "abc", 4, |name, step| {
        if (name, step) == ('b', 0) {
            control().expect("a member").set_mode(TeamsMode::Serial);
        }
        ctx!();
        operation(Operation(1));
    });
    // From b's first point on everybody goes on to the end, those of its team in their turn.
    assert_eq!(turns, "a0 b0 b1 b2 b3 c0 c1 c2 c3 a1 a2 a3 ");
    let turns = log(&mut team(), "abc", 3, |name, step| {
        let control = control().expect("a member");
        match (name, step) {
            ('b', 0) => control.set_mode(TeamsMode::Serial),
            ('b', 1) => control.set_mode(TeamsMode::Teams),
            _ => (),
        }
        ctx!();
        operation(Operation(1));
    });
    // b turns teams on again and is first in the list; the others end their operation and follow.
    assert_eq!(turns, "a0 b0 b1 c0 b2 a1 c1 a2 c2 ");
}

/// What is left of the stack below a frame of 10 KB.
#[inline(never)]
fn deeper() -> usize {
    let room = std::hint::black_box([0_u8; 10_000]);
    let left = stack_left().expect("a member");
    std::hint::black_box(&room);
    left
}

#[test]
fn a_member_knows_what_is_left_of_its_stack() {
    assert_eq!(stack_left(), None);
    assert!(!is_member());
    assert!(control().is_none());
    let mut scheduler = scheduler(TeamOptions {
        stack_bytes: 128 << 10,
        ..Default::default()
    });
    let left = scheduler.scope(|scope| {
        scope.spawn("deep", || {
            assert!(is_member());
            let outer = stack_left().expect("a member");
            let inner = deeper();
            (outer, inner)
        });
    });
    let (outer, inner) = all(left)[0];
    // Whole pages, and at least what was asked for less this frame.
    assert!((127 << 10..137 << 10).contains(&outer), "{outer}");
    assert!((10_000..20_000).contains(&(outer - inner)), "{outer} {inner}");
}

#[test]
fn operations_are_split_as_the_scheduler_is_told() {
    assert!(!split(Operation(5)));
    let mut scheduler = team();
    scheduler.set_split(vec![5]);
    let answers = scheduler.scope(|scope| {
        scope.spawn("one", || (split(Operation(5)), split(Operation(6))));
    });
    assert_eq!(all(answers), [(true, false)]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let refused = |options| Scheduler::new(options).err().expect("an error");
    let error = refused(TeamOptions {
        team_size_max: 0,
        ..Default::default()
    });
    assert!(matches!(error, TeamError::TeamSize), "{error}");
    let error = refused(TeamOptions {
        stack_bytes: 1000,
        ..Default::default()
    });
    assert_eq!(
        error.to_string(),
        "stacks of 1000 bytes are too small; at least 32768 are needed"
    );
}

#[test]
fn a_stack_that_cannot_be_had_loses_its_member_only() {
    let mut scheduler = scheduler(TeamOptions {
        stack_bytes: 1 << 60,
        ..Default::default()
    });
    let results = scheduler.scope(|scope| scope.spawn("huge", || ()));
    assert!(
        matches!(results[..], [Err(corun_exec::teams::Lost::Stack(_))]),
        "{results:?}"
    );
}

/// The rounding mode of the vector unit.
#[cfg(target_arch = "x86_64")]
fn rounding() -> u32 {
    let mut word = 0_u32;
    // SAFETY: stores the control word to a local.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
    word >> 13 & 3
}

#[cfg(target_arch = "x86_64")]
fn set_rounding(mode: u32) {
    let word = 0x1f80 | mode << 13;
    // SAFETY: a valid control word; the test restores the default.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
}

#[cfg(target_arch = "aarch64")]
fn rounding() -> u32 {
    let word: u64;
    // SAFETY: reads the control word.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) word, options(nomem, nostack)) };
    (word >> 22 & 3) as u32
}

#[cfg(target_arch = "aarch64")]
fn set_rounding(mode: u32) {
    // SAFETY: a valid control word; the test restores the default.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) u64::from(mode) << 22, options(nomem, nostack)) };
}

#[test]
fn with_float_each_member_has_its_own_control_words() {
    for float in [true, false] {
        let mut scheduler = scheduler(TeamOptions {
            float,
            ..Default::default()
        });
        let seen = scheduler.scope(|scope| {
            for mode in 1..4 {
                scope.spawn("rounding", move || {
                    operation(Operation(0));
                    set_rounding(mode);
                    let product = std::hint::black_box(3.5) * f64::from(mode);
                    ctx!();
                    let mut seen = vec![rounding()];
                    operation(Operation(1));
                    ctx!();
                    seen.push(rounding());
                    set_rounding(0);
                    assert_eq!(product, 3.5 * f64::from(mode));
                    seen
                });
            }
        });
        let seen = all(seen);
        set_rounding(0);
        if float {
            assert_eq!(seen, [[1, 1], [2, 2], [3, 3]]);
        } else {
            assert_eq!(seen[0], [3, 3]);
        }
    }
}

#[test]
fn a_member_may_run_a_scheduler_of_its_own() {
    let turns = RefCell::new(String::new());
    let mut outer = team();
    outer.scope(|scope| {
        for name in ["x", "y"] {
            let turns = &turns;
            scope.spawn(name, move || {
                operation(Operation(0));
                let inner = log(&mut team(), "ab", 2, |_, _| ctx!());
                turns.borrow_mut().push_str(&format!("{name}: {inner}"));
                ctx!();
                turns.borrow_mut().push_str(&format!("{name} "));
            });
        }
    });
    assert_eq!(turns.into_inner(), "x: a0 b0 a1 b1 y: a0 b0 a1 b1 x y ");
}

#[test]
fn a_setup_that_panics_lets_nobody_begin() {
    let mut scheduler = team();
    let ran = Cell::new(false);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        scheduler.scope(|scope| {
            scope.spawn("never", || ran.set(true));
            std::panic::resume_unwind(Box::new("setup"));
        })
    }));
    assert_eq!(
        *outcome
            .expect_err("it panicked")
            .downcast::<&str>()
            .expect("a text"),
        "setup"
    );
    assert!(!ran.get() && !is_member());
    assert_eq!(all(scheduler.scope(|scope| scope.spawn("again", || 7))), [7]);
}
