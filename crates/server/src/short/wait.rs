//! Whether the calling thread may block or plan: an event loop's thread polls short statements itself, and has other clients to look after.
//!
//! ```text
//!   event loop ─► on_event_loop(poll) ─► Ready: no other thread was woken
//!                      │     └► Pending: it waits for something (a commit), and is polled here again
//!                      │ off_event_loop().await: Pending, and it leaves
//!                      └► the same future goes on as a task of the runtime, where it may do as it likes
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

thread_local! {
    static ON_EVENT_LOOP: Cell<bool> = const { Cell::new(false) };
    static LEAVES: Cell<bool> = const { Cell::new(false) };
}

/// Sets the mark back, whatever happens.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        ON_EVENT_LOOP.set(self.0);
    }
}

/// Runs what must not block. Also returns whether it has to go on elsewhere.
pub(crate) fn on_event_loop<R>(work: impl FnOnce() -> R) -> (R, bool) {
    let _mark = Mark(ON_EVENT_LOOP.replace(true));
    LEAVES.set(false);
    let done = work();
    (done, LEAVES.take())
}

/// Whether the caller may wait for others, and use its thread for long.
pub(crate) fn may_block() -> bool {
    !ON_EVENT_LOOP.get()
}

/// Returns on a thread that may block. Nobody is woken: the event loop hands it over at once.
pub(crate) async fn off_event_loop() {
    poll_fn(|_| match may_block() {
        true => Poll::Ready(()),
        false => {
            LEAVES.set(true);
            Poll::Pending
        }
    })
    .await;
}

/// What `work` returns, unless `end` is there before. Most work is done at once, and then nobody has to listen for its end.
pub(crate) async fn unless<T>(work: impl Future<Output = T>, end: impl Future<Output = T>) -> T {
    let (mut work, mut end) = (pin!(work), pin!(end));
    let mut listens = false;
    poll_fn(|context| {
        if !std::mem::replace(&mut listens, true) {
            return match work.as_mut().poll(context) {
                Poll::Pending => end.as_mut().poll(context),
                done => done,
            };
        }
        match end.as_mut().poll(context) {
            Poll::Pending => work.as_mut().poll(context),
            ended => ended,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn work_ends_before_its_time_where_it_has_to() {
        let never = || std::future::pending::<u8>();
        assert_eq!(unless(async { 1 }, async { 2 }).now_or_never(), Some(1));
        assert_eq!(unless(never(), async { 2 }).now_or_never(), Some(2));
        assert_eq!(unless(never(), never()).now_or_never(), None);
    }

    #[test]
    fn a_future_leaves_the_event_loop_before_it_goes_on() {
        assert_eq!(on_event_loop(|| 5), (5, false));
        let mut future = Box::pin(off_event_loop());
        assert!(may_block());
        let polled = on_event_loop(|| (may_block(), (&mut future).now_or_never()));
        assert_eq!(polled, ((false, None), true));
        assert!(may_block());
        assert_eq!(future.now_or_never(), Some(()));
        let panicked = std::panic::catch_unwind(|| on_event_loop(|| panic!("on purpose")));
        assert!(
            panicked.is_err() && may_block(),
            "the mark is taken away by a panic, too"
        );
    }
}
