//! Panics where nobody expects them, and members that are lost with something still going on: nothing of a scope outlives it.

use std::cell::Cell;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corun_exec::teams::{Lost, Operation, blocking, is_member, operation, stack_left};

use super::{all, team};

/// Panics when it is dropped.
struct Bomb<'a>(&'a Cell<u32>);

impl Drop for Bomb<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
        if !std::thread::panicking() {
            resume_unwind(Box::new("dropped"));
        }
    }
}

/// Uses stack until so many bytes are left, then calls.
fn down_to(bytes: usize, then: &dyn Fn()) {
    let frame = black_box([0_u8; 256]);
    if stack_left().is_some_and(|left| left <= bytes) {
        then();
    } else {
        down_to(bytes, then);
    }
    black_box(frame);
}

#[test]
fn members_that_never_began_are_gone_though_their_work_panics_when_dropped() {
    let (dropped, ran) = (Cell::new(0), Cell::new(0));
    let mut scheduler = team();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        scheduler.scope(|scope| {
            for _ in 0..3 {
                let (bomb, ran) = (Bomb(&dropped), &ran);
                scope.spawn("never", move || {
                    let _bomb = bomb;
                    ran.set(ran.get() + 1);
                });
            }
            resume_unwind(Box::new("setup"));
        });
    }));
    let payload = outcome.expect_err("setup panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"setup"));
    assert_eq!((dropped.get(), ran.get()), (3, 0));
    assert_eq!(
        all(scheduler.scope(|scope| scope.spawn("next", || operation(Operation(0))))),
        [()]
    );
    assert_eq!(ran.get(), 0, "work of a scope that is over ran");
    assert!(!is_member());
}

#[test]
fn a_panic_of_who_hears_of_losses_passes_once_all_members_have_ended() {
    let ended = Cell::new(0);
    let mut scheduler = team();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        scheduler.scope(|scope| {
            scope.on_lost(|_, _| resume_unwind(Box::new("heard")));
            for number in 0..4 {
                let ended = &ended;
                scope.spawn("one", move || {
                    operation(Operation(0));
                    if number == 1 {
                        down_to(0, &|| ());
                    }
                    operation(Operation(1));
                    ended.set(ended.get() + 1);
                });
            }
        });
    }));
    let payload = outcome.expect_err("who hears panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"heard"));
    assert_eq!(ended.get(), 3);
    assert_eq!(all(scheduler.scope(|scope| scope.spawn("next", || 1))), [1]);
    assert_eq!(ended.get(), 3);
}

#[test]
fn a_scope_whose_hearer_panics_when_dropped_gives_its_member_back() {
    let dropped = Cell::new(0);
    let ended = team().scope(|scope| {
        for _ in 0..2 {
            scope.spawn("outer", || {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    team().scope(|scope| {
                        let bomb = Bomb(&dropped);
                        scope.on_lost(move |_, _| _ = &bomb);
                        scope.spawn("inner", || operation(Operation(0)));
                    });
                }));
                let payload = outcome.expect_err("what it has panics when dropped");
                assert_eq!(payload.downcast_ref::<&str>(), Some(&"dropped"));
                assert!(is_member());
                operation(Operation(1));
            });
        }
    });
    assert_eq!(all(ended).len(), 2);
    assert_eq!(dropped.get(), 2);
}

#[test]
fn no_helper_works_for_a_member_that_is_lost() {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let results = team().scope(|scope| {
        // Once with a helper that is there already.
        scope.spawn("first", || blocking(|| ()));
        let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
        scope.spawn("deep", move || {
            down_to(6 << 10, &|| {
                blocking(|| {
                    begun.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            });
        });
    });
    let ended = ended.load(Ordering::SeqCst);
    assert!(matches!(results[..], [Ok(()), Err(Lost::Overflowed { .. })]));
    // What the work borrows may be gone from here on.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(begun.load(Ordering::SeqCst), ended);
}
