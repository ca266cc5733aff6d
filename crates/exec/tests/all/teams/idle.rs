//! A host waits in the scheduler's place, and is asked while members are busy.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use corun_exec::teams::{self, Idle, Token, yield_now};

use super::{all, team};

/// What comes to the host.
enum Event {
    /// Somebody woke a member.
    Woken,
    /// For this member.
    For(Token),
}

/// Waits as it is told to.
fn next(idle: Idle, events: &Receiver<Event>) -> Option<Event> {
    match idle {
        Idle::Poll => events.try_recv().ok(),
        Idle::Wait(None) => events.recv().ok(),
        Idle::Wait(Some(deadline)) => {
            let left = deadline.saturating_duration_since(Instant::now());
            events.recv_timeout(left).ok()
        }
    }
}

#[test]
fn the_host_hears_of_members_that_other_threads_wake() {
    let (send, events) = mpsc::channel();
    let (tokens, parked) = mpsc::channel::<Token>();
    let waker = std::thread::spawn(move || parked.into_iter().for_each(|member| member.unpark()));
    let mut scheduler = team();
    let woken = Cell::new(0);
    all(scheduler.scope(|scope| {
        let wake = send.clone();
        scope.on_idle(
            move || wake.send(Event::Woken).unwrap_or_default(),
            |idle| {
                if next(idle, &events).is_some() {
                    woken.set(woken.get() + 1);
                }
            },
        );
        for _ in 0..3 {
            let tokens = tokens.clone();
            scope.spawn("client", move || {
                for _ in 0..100 {
                    tokens.send(Token::current().unwrap()).unwrap();
                    teams::park(None);
                }
            });
        }
    }));
    drop(tokens);
    waker.join().unwrap();
    // Some wakes may come before the park, or find the host at work.
    assert!(woken.get() <= 300);
}

#[test]
fn the_host_wakes_members_itself_and_alarms_ring() {
    let (send, events) = mpsc::channel();
    let mut scheduler = team();
    let waits = RefCell::new(Vec::new());
    all(scheduler.scope(|scope| {
        scope.on_idle(
            || (),
            |idle| {
                waits.borrow_mut().push(idle);
                if let Some(Event::For(member)) = next(idle, &events) {
                    member.unpark();
                }
            },
        );
        scope.spawn("client", || {
            send.send(Event::For(Token::current().unwrap())).unwrap();
            teams::park(None);
            // Nobody wakes it from this.
            let deadline = Instant::now() + Duration::from_millis(2);
            while Instant::now() < deadline {
                teams::park(Some(deadline));
            }
        });
    }));
    let waits = waits.take();
    assert!(
        waits.iter().any(|idle| matches!(idle, Idle::Wait(Some(_)))),
        "{waits:?}"
    );
}

#[test]
fn the_host_is_asked_while_members_are_busy_and_may_spawn() {
    let mut scheduler = team();
    let (polls, stop) = (Cell::new(0), Cell::new(false));
    let results = all(scheduler.scope(|scope| {
        scope.on_idle(
            || (),
            |idle| {
                assert_eq!(idle, Idle::Poll);
                polls.set(polls.get() + 1);
                if polls.get() == 3 {
                    scope.spawn("late", || 2);
                    stop.set(true);
                }
            },
        );
        scope.spawn("busy", || {
            while !stop.get() {
                yield_now();
            }
            1
        });
    }));
    assert_eq!(results, [1, 2]);
}

#[test]
fn a_host_that_panics_is_not_asked_again_and_members_go_on() {
    let mut scheduler = team();
    let (asked, ended) = (Cell::new(0), Cell::new(false));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        scheduler.scope(|scope| {
            scope.on_idle(
                || (),
                |_| {
                    asked.set(asked.get() + 1);
                    panic!("the host's");
                },
            );
            scope.spawn("client", || {
                let deadline = Instant::now() + Duration::from_millis(2);
                while Instant::now() < deadline {
                    teams::park(Some(deadline));
                }
                ended.set(true);
            });
        })
    }));
    let payload = outcome.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"the host's"));
    assert_eq!((asked.get(), ended.get()), (1, true));
    // The next scope has no host.
    all(scheduler.scope(|scope| scope.spawn("client", || teams::park(Some(Instant::now())))));
}
