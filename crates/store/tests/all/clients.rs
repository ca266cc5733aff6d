//! How the clients of a test run: each on a thread of its own, or as user-level threads that take turns on few.
//!
//! On user-level threads every CTX point there is is on, whatever a profile would choose: clients change places wherever they
//! can. What it is not: a check. The tests' own assertions are the same for both.

use std::panic::resume_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use corun_exec::teams::{self, Lost, Scheduler, TeamOptions};

/// How they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Each on an operating-system thread.
    Threads,
    /// On so many of those, in teams of at most so many.
    Members { threads: usize, team: usize },
}

/// Clients of two workers.
pub const MEMBERS: Clients = Clients::Members { threads: 2, team: 16 };

/// For unoptimised code with deep calls, as tests have.
const STACK_BYTES: usize = 1 << 20;

impl Clients {
    /// Runs clients by number, and `meanwhile` on the calling thread. Returns what the clients do, in order; a panic of one goes
    /// on here.
    pub fn run<R: Send>(
        self,
        count: usize,
        client: impl Fn(usize) -> R + Sync,
        meanwhile: impl FnOnce(),
    ) -> Vec<R> {
        let client = &client;
        std::thread::scope(|scope| {
            let threads: Vec<_> = match self {
                Clients::Threads => (0..count)
                    .map(|number| scope.spawn(move || vec![client(number)]))
                    .collect(),
                Clients::Members { threads, team } => (0..threads.min(count))
                    .map(|thread| {
                        let numbers: Vec<usize> = (thread..count).step_by(threads).collect();
                        scope.spawn(move || members(&numbers, team, client))
                    })
                    .collect(),
            };
            meanwhile();
            let mut each: Vec<_> = threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|panic| resume_unwind(panic))
                        .into_iter()
                })
                .collect();
            let width = each.len();
            (0..count)
                .map(|number| each[number % width].next().expect("every client has an answer"))
                .collect()
        })
    }
}

/// Runs clients as user-level threads of the calling one.
fn members<R>(numbers: &[usize], team: usize, client: impl Fn(usize) -> R) -> Vec<R> {
    static POINTS: Once = Once::new();
    POINTS.call_once(|| teams::set_points(|_| true));
    let options = TeamOptions {
        team_size_max: team,
        stack_bytes: STACK_BYTES,
        ..TeamOptions::default()
    };
    let mut scheduler = Scheduler::new(options).expect("a scheduler for this thread");
    let client = &client;
    let ended = scheduler.scope(|scope| {
        for &number in numbers {
            scope.spawn(format!("client {number}"), move || client(number));
        }
    });
    let answer = |ended| match ended {
        Ok(answer) => answer,
        Err(Lost::Panicked(panic)) => resume_unwind(panic),
        Err(lost) => panic!("{lost:?}"),
    };
    ended.into_iter().map(answer).collect()
}

/// Runs the same test three times over, as user-level threads of one thread that change places within it.
pub fn as_members(test: impl Fn() + Sync) {
    let one = Clients::Members { threads: 1, team: 3 };
    one.run(3, |_| test(), || ());
}

/// Makes of tests of one client tests of three on user-level threads.
#[macro_export]
macro_rules! on_teams {
    ($($test:ident),+ $(,)?) => {
        mod on_teams {
            $(
                #[test]
                fn $test() {
                    $crate::clients::as_members(super::$test);
                }
            )+
        }
    };
}

/// Lets clients go on when all have come, on whatever they run.
pub struct Gate(AtomicUsize);

impl Gate {
    pub fn new(clients: usize) -> Gate {
        Gate(AtomicUsize::new(clients))
    }

    pub fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) > 0 {
            teams::yield_now();
        }
    }
}
