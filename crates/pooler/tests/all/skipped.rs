//! What a test could not do for want of a program or a right. `scripts/test-summary` counts these lines.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{Write, stderr};

use crate::common::postgres::version;

/// Whether the servers are older than the major version that brought `feature`: then the test is skipped.
pub fn lacks(feature: &str, since: u32) -> bool {
    let older = version() < since;
    if older {
        skipped(format!("PostgreSQL {} has no {feature}", version()));
    }
    older
}

/// Whether the servers are newer than the last major version whose rules a test knows: then it is skipped.
pub fn outdated(rules: &str, last: u32) -> bool {
    let newer = version() > last;
    if newer {
        skipped(format!("PostgreSQL {} has other rules of {rules}", version()));
    }
    newer
}

/// Says of the running test, by the name of its thread, that it was skipped: in the file that `CORUN_SKIPPED` names, otherwise on standard
/// error, past the harness, which keeps what passing tests print.
pub fn skipped(reason: impl Display) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("{} {name}: {reason}\n", env!("CARGO_PKG_NAME"));
    match std::env::var_os("CORUN_SKIPPED") {
        Some(path) => OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes())),
        None => stderr().write_all(format!("skipped: {line}").as_bytes()),
    }
    .expect("a skipped test is counted");
}
