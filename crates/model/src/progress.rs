//! How long-running work tells somebody that it moves; the program draws bars from it, tests ignore it.

/// Receives the steps of long work. Implementations must be cheap: `advance` may be called from inside a run, between
/// timed sections only.
pub trait Progress: Sync {
    /// A piece of work of `total` steps starts; it replaces the one before.
    fn begin(&self, what: &str, total: u64);
    /// `steps` more are done.
    fn advance(&self, steps: u64);
    /// A sentence worth keeping on the screen, such as how to get a missing peer.
    fn note(&self, text: &str);
    /// The current piece of work is over.
    fn end(&self);
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _steps: u64) {}
    fn note(&self, _text: &str) {}
    fn end(&self) {}
}
