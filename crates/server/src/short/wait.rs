//! Whether the calling thread may block or plan: an event loop's thread polls short statements itself, and has other clients to look after.
//!
//! ```text
//!   event loop ─► on_event_loop(poll once) ─► Ready: no other thread was woken
//!                          │ off_event_loop().await: Pending
//!                          └► the same future goes on as a task of the runtime, where it may do as it likes
//! ```

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;

thread_local! {
    static ON_EVENT_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// Sets the mark back, whatever happens.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        ON_EVENT_LOOP.set(self.0);
    }
}

/// Runs what must not block.
pub(crate) fn on_event_loop<R>(work: impl FnOnce() -> R) -> R {
    let _mark = Mark(ON_EVENT_LOOP.replace(true));
    work()
}

/// Whether the caller may wait for others, and use its thread for long.
pub(crate) fn may_block() -> bool {
    !ON_EVENT_LOOP.get()
}

/// Returns on a thread that may block.
pub(crate) async fn off_event_loop() {
    poll_fn(|context| match may_block() {
        true => Poll::Ready(()),
        false => {
            // Whoever polls next does so at once.
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_future_leaves_the_event_loop_before_it_goes_on() {
        let mut future = Box::pin(off_event_loop());
        assert!(may_block());
        assert_eq!(
            on_event_loop(|| (may_block(), (&mut future).now_or_never())),
            (false, None)
        );
        assert!(may_block());
        assert_eq!(future.now_or_never(), Some(()));
        let panicked = std::panic::catch_unwind(|| on_event_loop(|| panic!("on purpose")));
        assert!(
            panicked.is_err() && may_block(),
            "the mark is taken away by a panic, too"
        );
    }
}
