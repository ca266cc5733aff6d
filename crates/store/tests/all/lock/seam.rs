//! The seam through which holders wait: what stands behind it may return without reason, run others meanwhile, or unwind.

use crate::lock::support::{FOR_EVER, Remote, World, patient, row};
use corun_store::lock::{Got, Holder, LockError, LockOptions, RowMode, TableMode};
use corun_store::park::{Park, ThreadPark};
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Never waits.
#[derive(Default)]
struct Restless(AtomicU64);

impl Park for Restless {
    fn park(&self, _: Option<Instant>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::yield_now();
    }

    fn unpark(&self) {}
}

#[test]
fn returns_without_reason_do_no_harm() {
    let world = World::new(patient());
    let blocker = Remote::new(&world);
    let restless = Arc::new(Restless::default());
    let mut a = world.here();
    a.holder.set_park(restless.clone());

    blocker.run(|blocker| (blocker.x(1).unwrap(), blocker.table(1, TableMode::X).unwrap()));
    a.holder.set_timeout(Duration::from_millis(20));
    assert!(matches!(a.x(1), Err(LockError::Timeout { waited, .. }) if waited >= Duration::from_millis(20)));
    assert!(matches!(a.table(1, TableMode::S), Err(LockError::Timeout { .. })));
    let parks = restless.0.load(Ordering::Relaxed);
    assert!(parks > 0);

    a.holder.set_timeout(FOR_EVER);
    let freed = blocker.start(|blocker| {
        blocker.world.until_waiting(1);
        blocker.end();
    });
    assert_eq!(a.x(1), Ok(Got::New));
    freed.get();
    a.end();
    drop(blocker);
    world.assert_free();
}

/// Writes down every call, and waits as a thread does.
struct Recorder {
    thread: Arc<dyn Park>,
    deadlines: Mutex<Vec<Option<Instant>>>,
    unparks: AtomicU64,
}

impl Recorder {
    fn here() -> Arc<Recorder> {
        Arc::new(Recorder {
            thread: ThreadPark::current(),
            deadlines: Mutex::default(),
            unparks: AtomicU64::new(0),
        })
    }
}

impl Park for Recorder {
    fn park(&self, deadline: Option<Instant>) {
        self.deadlines.lock().push(deadline);
        self.thread.park(deadline);
    }

    fn unpark(&self) {
        self.unparks.fetch_add(1, Ordering::Relaxed);
        self.thread.unpark();
    }
}

#[test]
fn only_who_waits_parks_and_never_beyond_its_deadline() {
    let timeout = Duration::from_millis(30);
    let world = World::new(LockOptions {
        timeout,
        ..LockOptions::default()
    });
    let recorder = Recorder::here();
    let mut a = world.here();
    a.holder.set_park(recorder.clone());
    for rid in 0..100 {
        a.row(rid, if rid % 2 == 0 { RowMode::S } else { RowMode::X })
            .unwrap();
    }
    a.table(1, TableMode::SIX).unwrap();
    a.range(0, 0, 10);
    a.pass(0, 5).unwrap();
    let blocker = Remote::new(&world);
    blocker.run(|blocker| blocker.x(500)).unwrap();
    assert_eq!(a.try_row(500, RowMode::S), None);
    assert!(recorder.deadlines.lock().is_empty() && recorder.unparks.load(Ordering::Relaxed) == 0);

    let before = Instant::now();
    assert!(matches!(a.s(500), Err(LockError::Timeout { .. })));
    let after = Instant::now();
    {
        let deadlines = recorder.deadlines.lock();
        assert!(!deadlines.is_empty());
        assert!(
            deadlines
                .iter()
                .all(|deadline| deadline.is_some_and(|deadline| deadline <= after + timeout))
        );
        assert!(after - before >= timeout);
    }
    assert_eq!(
        recorder.unparks.load(Ordering::Relaxed),
        0,
        "nobody granted anything"
    );

    // A grant unparks once.
    a.holder.set_timeout(FOR_EVER);
    let freed = blocker.start(|blocker| {
        blocker.world.until_waiting(1);
        blocker.end();
    });
    a.s(500).unwrap();
    freed.get();
    assert_eq!(recorder.unparks.load(Ordering::Relaxed), 1);
    a.end();
    drop(blocker);
    world.assert_free();
}

type Todo = Box<dyn FnOnce(&World) + Send>;

/// As a scheduler of user-level threads: while one holder parks, others run on the same thread.
struct Scheduler {
    world: Arc<World>,
    todo: Mutex<Option<Todo>>,
}

impl Park for Scheduler {
    fn park(&self, _: Option<Instant>) {
        let next = self.todo.lock().take();
        if let Some(next) = next {
            next(&self.world);
        }
    }

    fn unpark(&self) {}
}

type Wish = fn(&mut Holder, &World) -> Result<(), LockError>;

#[test]
fn holders_take_turns_on_one_thread() {
    let wishes: [Wish; 3] = [
        |a, world| a.row(row(1), world.word(row(1)), RowMode::S).map(drop),
        |a, world| a.table(&world.tables[1], TableMode::IS).map(drop),
        |a, world| a.pass(&world.ranges[0], &crate::lock::support::key(5)),
    ];
    for wish in wishes {
        let world = World::new(LockOptions {
            detect_after: Duration::ZERO,
            ..patient()
        });
        let mut b = world.here();
        b.x(1).unwrap();
        b.table(1, TableMode::X).unwrap();
        b.range(0, 0, 10);
        let scheduler = Arc::new(Scheduler {
            world: Arc::clone(&world),
            todo: Mutex::default(),
        });
        let mut a = world.locks.begin(scheduler.clone()).unwrap();
        // While a waits, b uses all that a stands in a queue of, another waits there in vain, and b lets go.
        *scheduler.todo.lock() = Some(Box::new(move |world: &World| {
            assert_eq!(world.locks.counts().waiting, 1);
            assert_eq!(b.try_row(1, RowMode::X), Some(Got::Held));
            b.table(1, TableMode::S).unwrap();
            b.range(0, 20, 30);
            let mut third = world.locks.begin(ThreadPark::current()).unwrap();
            third.set_timeout(Duration::from_millis(3));
            assert!(third.row(row(1), world.word(row(1)), RowMode::X).is_err());
            assert!(third.table(&world.tables[1], TableMode::IX).is_err());
            assert!(
                third
                    .pass(&world.ranges[0], &crate::lock::support::key(5))
                    .is_err()
            );
            b.end();
        }));
        wish(&mut a, &world).unwrap();
        assert!(scheduler.todo.lock().is_none(), "it had to wait");
        a.release_all(|name| world.word(name));
        world.assert_free();
    }
}

/// Unwinds the first time, perhaps after the lock was granted.
struct Unwinding {
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    thread: Arc<dyn Park>,
}

impl Park for Unwinding {
    fn park(&self, deadline: Option<Instant>) {
        let before = self.before.lock().take();
        match before {
            Some(before) => {
                before();
                std::panic::resume_unwind(Box::new("cancelled"));
            }
            None => self.thread.park(deadline),
        }
    }

    fn unpark(&self) {
        self.thread.unpark();
    }
}

#[test]
fn a_client_that_unwinds_while_it_waits_leaves_the_queue_and_keeps_what_it_has() {
    let wishes: [Wish; 4] = [
        |a, world| a.row(row(1), world.word(row(1)), RowMode::X).map(drop),
        |a, world| a.row(row(2), world.word(row(2)), RowMode::X).map(drop),
        |a, world| a.table(&world.tables[1], TableMode::S).map(drop),
        |a, world| a.pass(&world.ranges[0], &crate::lock::support::key(5)),
    ];
    for (at, wish) in wishes.into_iter().enumerate() {
        for granted_meanwhile in [false, true] {
            let world = World::new(patient());
            let blocker = Arc::new(Mutex::new(world.here()));
            {
                let mut b = blocker.lock();
                b.x(1).unwrap();
                b.s(2).unwrap();
                b.table(1, TableMode::IX).unwrap();
                b.range(0, 0, 10);
            }
            let before: Box<dyn FnOnce() + Send> = {
                let blocker = Arc::clone(&blocker);
                Box::new(move || {
                    if granted_meanwhile {
                        blocker.lock().end();
                    }
                })
            };
            let park = Unwinding {
                before: Mutex::new(Some(before)),
                thread: ThreadPark::current(),
            };
            let mut a = world.locks.begin(Arc::new(park)).unwrap();
            a.row(row(7), world.word(row(7)), RowMode::X).unwrap();
            a.row(row(2), world.word(row(2)), RowMode::S).unwrap();
            let held = a.held();
            let unwound = catch_unwind(AssertUnwindSafe(|| wish(&mut a, &world)));
            assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&"cancelled"));
            assert_eq!(world.locks.counts().waiting, 0);
            // What was granted meanwhile is on the books; an upgrade and the right to insert are no locks more.
            assert_eq!(
                a.held(),
                held + usize::from(granted_meanwhile && (at == 0 || at == 2))
            );
            let mut c = world.here();
            assert_eq!(c.try_row(7, RowMode::S), None, "it is not over before it says so");
            blocker.lock().end();
            a.release_all(|name| world.word(name));
            assert_eq!(
                (c.x(1), c.x(2), c.x(7)),
                (Ok(Got::New), Ok(Got::New), Ok(Got::New))
            );
            assert_eq!(c.table(1, TableMode::X), Ok(Got::New));
            c.end();
            world.assert_free();
        }
    }
}
