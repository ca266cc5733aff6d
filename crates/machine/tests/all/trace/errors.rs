//! What stands in the way of a trace is said clearly, and leaves nothing behind.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corun_machine::trace::{ProgramEnd, Target, TraceError, TraceOptions, Tracer};

use crate::trace::fixture::{compiled, compiled_as, fails, function_options, options, run};

#[test]
fn programs_that_are_none() {
    let start =
        |program: &std::path::Path| fails(Tracer::start(Command::new(program), options(Target::Marked)));
    let missing = std::path::Path::new("/nonexistent/program");
    assert_eq!(
        start(missing),
        TraceError::NoSuchProgram {
            path: missing.to_owned()
        }
    );
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    std::fs::copy("/bin/true", &text).expect("copied");
    run("chmod", &["-x", text.to_str().expect("a plain path")]);
    let error = start(&text);
    assert!(
        matches!(&error, TraceError::CannotStart { reason, .. } if reason.contains("ermission")),
        "{error:?}"
    );
    for (bytes, word) in [("#!/bin/sh", "a script"), ("nothing to run", "not an ELF")] {
        std::fs::write(&text, bytes).expect("written");
        run("chmod", &["+x", text.to_str().expect("a plain path")]);
        let error = start(&text);
        assert!(
            matches!(&error, TraceError::NotX86_64 { found, .. } if found.contains(word)),
            "{error:?}"
        );
    }

    let narrow = compiled_as(
        "s",
        "",
        &[
            "-m32",
            "-nostdlib",
            "-static",
            "-x",
            "assembler",
            "/dev/null",
            "-Wl,--entry=0",
            "-Wl,--defsym=main=0",
        ],
    );
    let error = start(&narrow.path);
    assert!(matches!(error, TraceError::NotX86_64 { .. }), "{error:?}");
}

#[test]
fn a_stripped_program_has_no_names() {
    let program = compiled(
        "NOINLINE int work(int n) { return n; } int main(void) { return work(0); }",
        &["-s"],
    );
    let error = fails(program.call_of("work"));
    assert!(
        matches!(&error, TraceError::Stripped { symbol, .. } if symbol == "work"),
        "{error:?}"
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("debug symbols")));
}

#[test]
fn a_program_without_markers() {
    let program = compiled("int main(void) { return 0; }", &[]);
    let error = fails(Tracer::start(program.command(), options(Target::Marked)));
    assert!(
        matches!(&error, TraceError::NoMarker { edge: "begins", .. }),
        "{error:?}"
    );
    let program = compiled("int main(void) { BEGIN; return 0; }", &[]);
    let error = fails(Tracer::start(program.command(), options(Target::Marked)));
    assert!(
        matches!(&error, TraceError::NoMarker { edge: "ends", .. }),
        "{error:?}"
    );
}

#[test]
fn programs_that_end_inside_the_operation() {
    let ending = |statement: &str| {
        let program = compiled(
            &format!(
                "#include <pthread.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n
                 static void *end(void *n) {{ usleep(20000); _exit(9); }}
                 NOINLINE void *work(void *n) {{ {statement}; return n; }}
                 int main(void) {{
                    pthread_t thread;
                    pthread_create(&thread, 0, work, 0);
                    pthread_join(thread, 0);
                    return 3;
                 }}"
            ),
            &["-pthread"],
        );
        fails(program.call_of("work"))
    };
    let inside = |error: &TraceError| match error {
        TraceError::EndedInside { end, instructions } if *instructions > 0 => Some(*end),
        _ => None,
    };
    for (statement, end) in [
        ("exit(4)", ProgramEnd::Exited(4)),
        ("_exit(5)", ProgramEnd::Exited(5)),
        ("abort()", ProgramEnd::Killed(libc::SIGABRT)),
        ("kill(getpid(), SIGKILL)", ProgramEnd::Killed(libc::SIGKILL)),
        ("*(volatile int *)8 = 1", ProgramEnd::Killed(libc::SIGSEGV)),
        // Another thread ends the program.
        (
            "pthread_t t; pthread_create(&t, 0, end, 0); pthread_join(t, 0)",
            ProgramEnd::Exited(9),
        ),
    ] {
        let error = ending(statement);
        assert_eq!(inside(&error), Some(end), "{statement}: {error:?}");
    }
    let error = ending("syscall(60, 0)");
    assert!(matches!(error, TraceError::ThreadEnded { .. }), "{error:?}");
    let error = ending("execl(\"/bin/true\", \"true\", (char *)0)");
    assert!(matches!(error, TraceError::Replaced { .. }), "{error:?}");
}

#[test]
fn an_operation_that_is_never_reached() {
    let program = compiled(
        "NOINLINE int work(int n) { return n; } int main(int c, char **v) { if (c > 1) work(c); return c == 1 ? 8 : 0; }",
        &[],
    );
    let reached = |error: &TraceError| match error {
        TraceError::NotReached { end, seen, warm } => Some((*end, *seen, *warm)),
        _ => None,
    };
    let error = fails(program.call_of("work"));
    assert_eq!(reached(&error), Some((ProgramEnd::Exited(8), 0, 0)), "{error:?}");
    let mut command = program.command();
    command.arg("once");
    let wanted = TraceOptions {
        warm: 1,
        ..function_options("work")
    };
    let error = fails(Tracer::start(command, wanted));
    assert_eq!(reached(&error), Some((ProgramEnd::Exited(0), 1, 1)), "{error:?}");
}

#[test]
fn bounds_are_kept() {
    let program = compiled(
        "#include <unistd.h>\nNOINLINE int work(int n) { while (n) __asm__ volatile(\"\"); return n; }
         NOINLINE void wait(void) { pause(); } int main(int c, char **v) { if (c > 1) wait(); return work(1); }",
        &[],
    );
    let wanted = TraceOptions {
        instructions_max: 5_000,
        ..function_options("work")
    };
    assert_eq!(
        fails(Tracer::start(program.command(), wanted)),
        TraceError::TooLong {
            instructions_max: 5_000
        }
    );

    // Time is up inside of a system call, inside of a loop, and before the operation.
    for (function, argument, is_inside) in [
        ("wait", Some("wait"), true),
        ("work", None, true),
        ("work", Some("wait"), false),
    ] {
        let mut command = program.command();
        command.args(argument);
        let wanted = TraceOptions {
            time_max: Some(Duration::from_millis(300)),
            ..function_options(function)
        };
        let error = fails(Tracer::start(command, wanted));
        assert!(
            matches!(&error, TraceError::TimedOut { inside, .. } if inside.is_some() == is_inside),
            "{function}: {error:?}"
        );
    }

    let stop = Arc::new(AtomicBool::new(false));
    let wanted = TraceOptions {
        stop: Some(Arc::clone(&stop)),
        ..function_options("work")
    };
    let mut command = program.command();
    command.arg("wait");
    let asker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(fails(Tracer::start(command, wanted)), TraceError::Interrupted);
    asker.join().expect("joined");
}

#[test]
fn processes_that_may_not_be_traced() {
    assert_eq!(
        fails(Tracer::attach(u32::MAX >> 1, options(Target::Marked))),
        TraceError::NoSuchProcess { pid: u32::MAX >> 1 }
    );
    // One that has ended, while nobody asked how.
    let mut ended = Command::new("true").spawn().expect("started");
    let pid = ended.id();
    while !std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .expect("not reaped")
        .contains(") Z")
    {
        std::thread::yield_now();
    }
    assert_eq!(
        fails(Tracer::attach(pid, options(Target::Marked))),
        TraceError::NoSuchProcess { pid }
    );
    ended.wait().expect("reaped");

    let program = compiled(
        "#include <unistd.h>\nint main(void) { BEGIN; END; char byte; return read(0, &byte, 1); }",
        &[],
    );
    let mut command = program.command();
    let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
    let id = child.id();
    let first = Tracer::attach(id, options(Target::Marked)).expect("attached");
    let second = std::thread::spawn(move || fails(Tracer::attach(id, options(Target::Marked))));
    let error = second.join().expect("joined");
    assert!(
        matches!(&error, TraceError::NotPermitted { reason, .. } if reason.contains("traces it already")),
        "{error:?}"
    );
    drop(first);

    // Another user's: this thread becomes nobody (the system call changes the calling thread alone). Without the right to do so,
    // the process with number 1 is another user's.
    let error = std::thread::spawn(move || {
        const NOBODY: libc::uid_t = 65_534;
        // SAFETY: numbers only.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) } == 0;
        fails(Tracer::attach(
            if changed { id } else { 1 },
            options(Target::Marked),
        ))
    })
    .join()
    .expect("joined");
    let TraceError::NotPermitted { reason, hint, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(
        reason.contains("runs as user 0") && hint.contains("CAP_SYS_PTRACE"),
        "{error:?}"
    );

    drop(child.stdin.take());
    assert_eq!(
        child.wait().expect("waited").code(),
        Some(0),
        "unharmed by all of it"
    );
}

#[test]
fn a_sandbox_that_forbids_ptrace() {
    let program = compiled("int main(void) { BEGIN; END; return 0; }", &[]);
    let mut command = program.command();
    // Load the number of the system call; ptrace gives EPERM, any other is allowed.
    let filter = [
        libc::sock_filter {
            code: 0x20,
            jt: 0,
            jf: 0,
            k: 0,
        },
        libc::sock_filter {
            code: 0x15,
            jt: 0,
            jf: 1,
            k: libc::SYS_ptrace as u32,
        },
        libc::sock_filter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: 0x0005_0000 | libc::EPERM as u32,
        },
        libc::sock_filter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k: 0x7fff_0000,
        },
    ];
    // SAFETY: two system calls between fork and exec, with a filter that lives as long as the closure.
    unsafe {
        command.pre_exec(move || {
            let program = libc::sock_fprog {
                len: filter.len() as u16,
                filter: filter.as_ptr().cast_mut(),
            };
            let done = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const program) == 0;
            if done {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    let error = fails(Tracer::start(command, options(Target::Marked)));
    assert!(matches!(&error, TraceError::NotPermitted { .. }), "{error:?}");
    assert!(error.hint().is_some());
}
