//! Waiting for a state, with a limit that only a lost cause reaches.

use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

/// How long anything may take before a test calls it lost. Long, since a fresh and busy machine may stand still for half a minute.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How long a wait sleeps between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns what `look` finds as soon as it finds it; panics with its last error after [`PATIENCE`].
pub fn wait<T, E: Display>(look: impl FnMut() -> Result<T, E>) -> T {
    wait_at_most(PATIENCE, look)
}

/// The same with a limit of its own.
pub fn wait_at_most<T, E: Display>(limit: Duration, mut look: impl FnMut() -> Result<T, E>) -> T {
    let until = Instant::now() + limit;
    loop {
        match look() {
            Ok(found) => return found,
            Err(error) => assert!(Instant::now() < until, "after {limit:?}: {error}"),
        }
        std::thread::sleep(PAUSE);
    }
}

/// Waits until a condition holds; `lost` is what the panic says if it never does.
pub fn wait_until(lost: &str, mut condition: impl FnMut() -> bool) {
    wait(|| if condition() { Ok(()) } else { Err(lost) });
}

/// Waits until `find` returns this value; the panic says what it returned last.
pub fn wait_for<T: PartialEq + Debug>(expected: T, mut find: impl FnMut() -> T) {
    wait(|| match find() {
        found if found == expected => Ok(()),
        found => Err(format!("{found:#?}, not {expected:#?}")),
    });
}
