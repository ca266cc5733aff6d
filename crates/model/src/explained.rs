//! Errors in the three parts that a person reads: one primary line, a detail, a hint.

use std::error::Error;

/// An error that knows its three parts.
pub trait Explained: Error + Send + Sync + 'static {
    /// The first line: what failed and where.
    fn primary(&self) -> String {
        self.to_string()
    }

    /// The second line, if there is one: what exactly happened.
    fn detail(&self) -> Option<String> {
        None
    }

    /// What to do about it, if that is known.
    fn hint(&self) -> Option<String> {
        None
    }

    /// Whether the caller asked for something impossible (exit code 2) rather than something failing (1).
    fn is_usage(&self) -> bool {
        false
    }
}
