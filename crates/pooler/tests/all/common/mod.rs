//! What the tests of the proxy share: real PostgreSQL servers in folders of their own ([`postgres`]), a client that speaks the
//! protocol byte by byte ([`raw`]), what stands between the two ([`target`], or in a process of its own [`process`]), all three for one
//! database ([`fixture`]), waiting for a state ([`wait`]), and generators of statements and of pipelines.
//!
//! Nothing here uses code of the crate under test to read or write messages: an error there must not hide itself.
#![allow(dead_code)] // Each test program uses another part.
#![allow(clippy::print_stderr)] // A test that failed shows the logs.

pub mod cases;
pub mod child;
pub mod configuration;
pub mod driver;
pub mod fixture;
pub mod log;
pub mod message;
pub mod pipeline;
pub mod pooler;
pub mod postgres;
pub mod process;
pub mod random;
pub mod raw;
pub mod replicated;
pub mod scram;
pub mod shapes;
pub mod statements;
pub mod target;
pub mod wait;

/// A number from the environment, for longer runs than the usual ones.
pub fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")),
        Err(_) => otherwise,
    }
}

/// Asserts that a text contains another.
#[track_caller]
pub fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in\n{text}");
}
