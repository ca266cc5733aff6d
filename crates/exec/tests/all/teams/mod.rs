//! Teams as their users see them. The sanitizers' runs leave this module out by its name.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]

mod ends;
mod idle;
mod lists;
mod lost;
mod parks;
mod programs;
mod repeats;
mod switches;
mod tree;

use corun_exec::teams::{Lost, Scheduler, TeamOptions, set_points};

/// A scheduler, and every CTX point on.
fn scheduler(options: TeamOptions) -> Scheduler {
    // Before the first scheduler, which would choose otherwise while another test runs.
    set_points(|_| true);
    Scheduler::new(options).expect("Linux on x86-64 or aarch64")
}

/// One with the default options.
fn team() -> Scheduler {
    scheduler(TeamOptions::default())
}

/// What members returned that all ended well.
fn all<R>(results: Vec<Result<R, Lost>>) -> Vec<R> {
    results
        .into_iter()
        .map(|result| result.expect("a member that returned"))
        .collect()
}
