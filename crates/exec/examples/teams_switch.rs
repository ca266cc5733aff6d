//! Prints what a CTX point costs that is off, on but on a plain thread, and on in a team; beside it the same turns with the switch
//! of corosensei; and what a team gains on reads of memory that miss every cache.
//!
//! ```text
//! cargo run --release -p corun-exec --example teams_switch [-- MEGABYTES]
//! ```
//!
//! Nanoseconds of CPU time, the best of several runs on this machine.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use corosensei::stack::{Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult};
use corun_exec::teams::{Operation, Scheduler, TeamOptions, operation, set_points};
use corun_exec::{HugeBuf, ctx};

/// Turns of each member; few, so that some runs are not disturbed.
const ROUNDS: u64 = 5_000;
/// Runs of a measurement; with less than 64 MiB one, which shows no more than that the program works.
const RUNS: u32 = 200;

/// CPU seconds this thread has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local that outlives the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the CPU clock of a thread is always there");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Nanoseconds a step, best of `runs` that each say how many steps they made.
fn best_ns(runs: u32, mut run: impl FnMut() -> u64) -> f64 {
    let times = (0..runs).map(|_| {
        let start = cpu_seconds();
        let steps = run();
        (cpu_seconds() - start) * 1e9 / steps as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

/// The least work around a switch.
fn spin(rounds: u64, point: impl Fn()) -> u64 {
    let mut sum = 0;
    for round in 0..rounds {
        sum ^= black_box(round);
        point();
    }
    sum
}

/// Switches of a team whose members do nothing else.
fn team_ns(runs: u32, members: u64, float: bool) -> f64 {
    let options = TeamOptions {
        team_size_max: 64,
        float,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options).expect("Linux on x86-64 or aarch64");
    best_ns(runs, || {
        let results = scheduler.scope(|scope| {
            for _ in 0..members {
                scope.spawn("switches", || {
                    operation(Operation(0));
                    spin(ROUNDS, || ctx!())
                });
            }
        });
        assert!(results.iter().all(Result::is_ok));
        ROUNDS * members
    })
}

/// Points passed by a member that is in no team.
fn stray_ns(runs: u32) -> f64 {
    let mut scheduler = Scheduler::new(TeamOptions::default()).expect("Linux on x86-64 or aarch64");
    best_ns(runs, || {
        let results = scheduler.scope(|scope| scope.spawn("stray", || spin(10 * ROUNDS, || ctx!())));
        assert!(results.iter().all(Result::is_ok));
        10 * ROUNDS
    })
}

/// Operations without anything in them.
fn operation_ns(runs: u32, members: u64) -> f64 {
    let mut scheduler = Scheduler::new(TeamOptions::default()).expect("Linux on x86-64 or aarch64");
    best_ns(runs, || {
        let results = scheduler.scope(|scope| {
            for _ in 0..members {
                scope.spawn("operations", || {
                    for round in 0..ROUNDS {
                        operation(Operation((round % 3) as u16));
                    }
                });
            }
        });
        assert!(results.iter().all(Result::is_ok));
        ROUNDS * members
    })
}

/// A stack for corosensei.
struct PlainStack(Vec<u8>);

impl PlainStack {
    const BYTES: usize = 64 << 10;

    fn new() -> PlainStack {
        // What the allocator puts before a block spreads the tops a little.
        PlainStack(vec![0; Self::BYTES])
    }
}

// SAFETY: the memory is large enough. It has no guard page: what runs on it here is the loop of `spin`.
unsafe impl Stack for PlainStack {
    fn base(&self) -> StackPointer {
        let end = self.0.as_ptr() as usize + Self::BYTES;
        StackPointer::new(end & !15).expect("not null")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new((self.0.as_ptr() as usize).next_multiple_of(16)).expect("not null")
    }
}

/// The same turns through corosensei, which goes back to a caller each time: two of its switches a turn.
fn corosensei_ns(runs: u32, members: u64) -> f64 {
    best_ns(runs, || {
        let mut coroutines: Vec<_> = (0..members)
            .map(|_| {
                Coroutine::with_stack(PlainStack::new(), |yielder, ()| {
                    spin(ROUNDS, || yielder.suspend(()))
                })
            })
            .collect();
        let mut left = members;
        while left > 0 {
            for coroutine in &mut coroutines {
                if let CoroutineResult::Return(_) = coroutine.resume(()) {
                    left -= 1;
                }
            }
        }
        ROUNDS * members
    })
}

/// Nanoseconds a lookup that follows eight random lines, each only known when the one before is there.
fn chase_ns(lines: &[[u64; 8]], members: u64, on: bool) -> f64 {
    const LOOKUPS: u64 = 40_000;
    set_points(|_| on);
    let options = TeamOptions {
        team_size_max: 64,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options).expect("Linux on x86-64 or aarch64");
    let mut seed = 1_u64;
    best_ns(9, || {
        let results = scheduler.scope(|scope| {
            for _ in 0..members {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let mut at = seed;
                scope.spawn("chases", move || {
                    operation(Operation(0));
                    for _ in 0..LOOKUPS / members {
                        for _ in 0..8 {
                            let line = &lines[(at >> 20) as usize % lines.len()];
                            ctx!(prefetch = std::ptr::from_ref(line));
                            at = at
                                .wrapping_mul(6364136223846793005)
                                .wrapping_add(line[0])
                                .wrapping_add(1442695040888963407);
                        }
                    }
                    at
                });
            }
        });
        assert!(results.iter().all(Result::is_ok));
        LOOKUPS / members * members
    })
}

fn main() {
    let argument = std::env::args().nth(1);
    let megabytes: usize = argument.map_or(512, |text| text.parse().expect("megabytes"));
    let runs = if megabytes < 64 { 1 } else { RUNS };
    if let Err(error) = Scheduler::new(TeamOptions::default()) {
        println!("{error}");
        return;
    }
    // Warm up the clock of the processor.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(200) {
        black_box(spin(1000, || ()));
    }
    println!(
        "a loop without a point       {:6.2} ns",
        best_ns(runs, || {
            black_box(spin(ROUNDS, || ()));
            ROUNDS
        })
    );
    set_points(|_| false);
    println!(
        "a point that is off          {:6.2} ns",
        best_ns(runs, || {
            black_box(spin(ROUNDS, || ctx!()));
            ROUNDS
        })
    );
    set_points(|_| true);
    println!("the same in a stray           {:5.2} ns", stray_ns(runs));
    for members in [1, 2, 4, 10, 16, 32, 64] {
        println!(
            "a turn, {members:2} members: ctx {:6.2} ns, with float {:6.2} ns, corosensei {:6.2} ns; an operation {:6.2} ns",
            team_ns(runs, members, false),
            team_ns(runs, members, true),
            corosensei_ns(runs, members),
            operation_ns(runs, members),
        );
    }
    let lines = HugeBuf::<u64>::zeroed(megabytes << 17).expect("memory");
    let (lines, _) = lines.as_chunks::<8>();
    let serial = chase_ns(lines, 1, false);
    for members in [1, 2, 4, 8, 16, 32] {
        let team = chase_ns(lines, members, true);
        println!(
            "8 random lines of {megabytes} MiB: serial {serial:6.0} ns, {members:2} members {team:6.0} ns, {:.2} times as fast",
            serial / team
        );
    }
}
