//! [`run`]: a join index whose helper reads the index itself instead of a work-ahead set (paper 000, appendix).
//!
//! ```text
//!   pairs   ... done │ main ▶ ... │◀─────────── window ───────────┤ ...
//!                    │            ▲ some pairs ahead              ▲ the helper begins here and goes backward
//!                    published position
//! ```
//!
//! The paper's negative experiment: it saves copying references to a set, but the helper must look now and then where the
//! main thread is, and distance, window and how often it looks have to be tuned. The main thread runs the plain join; as
//! with a set, no answer depends on the helper.
//!
//! What it is not: a mode. It works for this operator only, because only here all references are known beforehand.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::join_index::{JoinIndex, NO_ROW};
use super::rows::RowSink;
use crate::stage::{Place, Quiet, Reference, Staged, Thread, load_line};

/// What the helper has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Pairs between the main thread and the window, so that what the helper loads is not used before it arrives.
    pub ahead: usize,
    /// Pairs in the window, at least 1.
    pub pairs: usize,
    /// The main thread publishes its position, and the helper looks at it, once in this many pairs; at least 1.
    pub check_every: usize,
}

/// A window that holds nothing, or whose position is never looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a window holds at least one pair and is checked at least once in some number of pairs")]
pub struct EmptyWindow;

/// Joins all pairs on the calling thread while a helper loads the rows of later ones. Returns the pairs it loaded for.
///
/// # Errors
/// [`EmptyWindow`], before anything ran.
pub fn run<'a, const OUTER: bool>(
    join: &JoinIndex<'a, OUTER>,
    output: &mut RowSink<'a>,
    window: Window,
    place: &dyn Place,
) -> Result<u64, EmptyWindow> {
    if window.pairs == 0 || window.check_every == 0 {
        return Err(EmptyWindow);
    }
    let total = join.tuples();
    let position = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (position, done) = (&position, &done);
        let helper = scope.spawn(move || {
            place.place(Thread::Helper(0));
            help(join, window, position, done)
        });
        // Also when a panic unwinds: the scope would wait for the helper for ever.
        let _end = EndHelper(done);
        let mut next = 0;
        while next < total {
            let end = total.min(next.saturating_add(window.check_every));
            for pair in next..end {
                join.plain(pair, output, &mut Quiet);
            }
            next = end;
            position.store(next, Ordering::Relaxed);
        }
        done.store(true, Ordering::Relaxed);
        Ok(helper.join().unwrap_or(0))
    })
}

/// Tells the helper to end when it goes out of scope.
struct EndHelper<'d>(&'d AtomicBool);

impl Drop for EndHelper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Loads window after window, each from its end to its beginning, until the index or the main thread has ended.
fn help<const OUTER: bool>(
    join: &JoinIndex<'_, OUTER>,
    window: Window,
    position: &AtomicUsize,
    done: &AtomicBool,
) -> u64 {
    let total = join.pairs.len();
    let mut loaded = 0;
    // Pairs below it have been loaded for.
    let mut next = 0;
    while !done.load(Ordering::Relaxed) {
        let main = position.load(Ordering::Relaxed);
        let start = main.saturating_add(window.ahead);
        if next >= total || start >= total {
            break;
        }
        // The last window is loaded: wait until the main thread comes near it.
        if next > start.saturating_add(window.pairs) {
            std::hint::spin_loop();
            continue;
        }
        let first = next.max(start);
        let end = total.min(first.saturating_add(window.pairs));
        for (count, pair) in join.pairs[first..end].iter().rev().enumerate() {
            if count % window.check_every == 0 && position.load(Ordering::Relaxed) >= end {
                // Overtaken: what is left of this window comes too late.
                break;
            }
            load_line(Reference::to(&join.left[pair.outer as usize]));
            if !(OUTER && pair.inner == NO_ROW) {
                load_line(Reference::to(&join.right[pair.inner as usize]));
            }
            loaded += 1;
        }
        next = end;
    }
    loaded
}
