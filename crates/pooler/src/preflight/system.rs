//! What this machine gives: descriptors, io_uring.

use std::fs;

use corun_net::reactor::Uring;

use super::Line;
use super::judge;
use crate::config::{AutoCount, Io};
use crate::core::ConfigFiles;

/// How many event loops the proxy would have here.
pub(super) fn event_loops(files: &ConfigFiles) -> usize {
    match files.config.corun.event_loops {
        AutoCount::Auto => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        AutoCount::Count(count) => count as usize,
    }
}

/// Looks at this machine. `servers`: connections to all servers.
pub(super) fn check(files: &ConfigFiles, servers: u64, tell: &mut dyn FnMut(Line)) {
    let clients = u64::from(files.config.proxy.max_client_conn);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    tell(judge::descriptors(judge::files(&limits), clients, servers));
    let wanted = files.config.corun.io == Io::IoUring;
    tell(match Uring::new() {
        Ok(_) => Line::ok("io_uring", "here", "io_uring can be used"),
        Err(error) => {
            let text = format!("io_uring cannot be used: {error}");
            if wanted {
                Line::fail("io_uring", "here", text).hint("Set io = \"auto\", or allow io_uring: sysctl kernel.io_uring_disabled, the container's seccomp rules.")
            } else {
                Line::ok("io_uring", "here", text).hint("Nothing is lost: epoll is used.")
            }
        }
    });
}
