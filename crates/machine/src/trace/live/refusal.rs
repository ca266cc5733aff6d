//! Why the system does not let a process be traced, and what would help.

use std::fs;

use crate::trace::TraceError;

/// A line of `/proc/WHO/status`.
pub(super) fn status(who: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{who}/status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

/// The effective user of a process or thread.
fn user(who: &str) -> Option<String> {
    status(who, "Uid")?.split_whitespace().nth(1).map(str::to_owned)
}

/// An error that says why process `pid` may not be attached to.
pub(super) fn attach(pid: u32) -> TraceError {
    let what = format!("process {pid}");
    let who = pid.to_string();
    if let Some(tracer) = status(&who, "TracerPid").filter(|tracer| tracer != "0") {
        return TraceError::NotPermitted {
            what,
            reason: format!("process {tracer} traces it already, and only one may"),
            hint: "end that debugger or tracer first".to_owned(),
        };
    }
    if status(&who, "State").is_some_and(|state| state.starts_with('Z')) {
        // It has ended, and its parent has not asked how.
        return TraceError::NoSuchProcess { pid };
    }
    let mine = user("thread-self");
    let its = user(&who);
    if let (Some(mine), Some(its)) = (&mine, &its)
        && mine != its
        && mine != "0"
    {
        return TraceError::NotPermitted {
            what,
            reason: format!("it runs as user {its}, this program as user {mine}"),
            hint: "run as that user, as root, or with the capability CAP_SYS_PTRACE".to_owned(),
        };
    }
    general(what)
}

/// An error that says why a program this one starts may not be traced.
pub(super) fn start(program: &str) -> TraceError {
    general(program.to_owned())
}

fn general(what: String) -> TraceError {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let (reason, hint) = match scope.trim() {
        "1" => (
            "kernel.yama.ptrace_scope is 1: only a process's parent may trace it",
            "let corun start the program, or as root: sysctl kernel.yama.ptrace_scope=0",
        ),
        "2" => (
            "kernel.yama.ptrace_scope is 2: only the administrator may trace",
            "run as root or with CAP_SYS_PTRACE, or as root: sysctl kernel.yama.ptrace_scope=0",
        ),
        "3" => (
            "kernel.yama.ptrace_scope is 3: nobody may trace until the machine restarts",
            "remove the setting (sysctl.d) and restart the machine",
        ),
        _ if status("thread-self", "Seccomp").is_some_and(|mode| mode == "2") => (
            "a seccomp filter of this program's container or sandbox forbids ptrace",
            "allow it: docker run --cap-add=SYS_PTRACE --security-opt seccomp=unconfined",
        ),
        _ => (
            "the system forbids it, by a security module or a process that may not be looked into",
            "run as root or with the capability CAP_SYS_PTRACE",
        ),
    };
    TraceError::NotPermitted {
        what,
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    }
}
