//! Whatever the program does while it is traced (signals, threads, forks), it does as if nobody looked, and goes on afterwards.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use corun_machine::trace::{After, Target, TraceOptions, TraceSource, Tracer};

use crate::trace::fixture::{Kept, Program, compiled, function_options, next, options};

/// Traces one call of a function and lets the program run to its end.
fn exit_code_after(program: &Program, options: TraceOptions) -> (Option<i32>, Kept) {
    let mut tracer = Tracer::start(program.command(), options).expect("started");
    let (_, kept) = next(&mut tracer);
    let mut child = tracer.finish(After::LetRun).expect("still there");
    (child.wait().expect("waited").code(), kept)
}

#[test]
fn signals_reach_the_program() {
    let program = compiled(
        r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        static volatile int count; static char *page;
        static void handler(int s) { count += s == SIGSEGV ? (mprotect(page, 4096, 3), 10) : 1; }
        NOINLINE void work(int trap) {
            if (trap) __asm__ volatile("int3");
            raise(SIGUSR1); page[5] = 1; raise(SIGUSR2); raise(SIGWINCH);
        }
        int main(void) {
            signal(SIGUSR1, handler); signal(SIGSEGV, handler); signal(SIGTRAP, handler); signal(SIGUSR2, SIG_IGN);
            page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            work(1); work(0);
            return count;
        }
        "#,
        &[],
    );
    let plain = program.command().status().expect("ran").code();
    assert_eq!(plain, Some(10 + 3));
    let (code, kept) = exit_code_after(&program, function_options("work"));
    assert_eq!(code, plain);
    assert!(
        kept.ran.len() > 50,
        "handlers are part of the operation: {}",
        kept.ran.len()
    );
}

#[test]
fn flags_that_are_stored_and_loaded_do_not_keep_the_step() {
    let program = compiled(
        r#"
        NOINLINE long work(void) { long flags; __asm__ volatile("pushfq\n popfq\n pushfq\n pop %0" : "=r"(flags) :: "memory", "cc"); return flags; }
        int main(void) { long flags = work(); for (volatile int i = 0; i < 100; i++); return flags & 0x100 ? 1 : 6; }
        "#,
        &[],
    );
    assert_eq!(exit_code_after(&program, function_options("work")).0, Some(6));
}

#[test]
fn forked_processes_run_free_of_breakpoints() {
    let program = compiled(
        r#"
        #include <spawn.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        NOINLINE int work(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
        NOINLINE int fork_and_work(void) {
            int status, pid = fork();
            if (pid == 0) _exit(work(work(1)) == 3 ? 5 : 6);
            waitpid(pid, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
        }
        NOINLINE int spawn(void) {
            char *arguments[] = {"sh", "-c", "exit 2", 0};
            int status, pid;
            if (posix_spawn(&pid, "/bin/sh", 0, 0, arguments, environ)) return 200;
            waitpid(pid, &status, 0);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
        }
        NOINLINE int all(void) { return fork_and_work() + spawn(); }
        int main(void) {
            int before = fork_and_work() + spawn(), inside = all(), n = 0;
            for (int i = 0; i < 20; i++) n = work(n);
            return before * 10 + inside;
        }
        "#,
        &[],
    );
    let plain = program.command().status().expect("ran").code();
    assert_eq!(plain, Some(77));
    // Forks on the way to the operation (with breakpoints planted), and inside of it.
    assert_eq!(exit_code_after(&program, function_options("all")).0, plain);
    let late = TraceOptions {
        warm: 10,
        ..function_options("work")
    };
    assert_eq!(exit_code_after(&program, late).0, plain);
}

/// Eight threads that work until the standard input ends; it exits with 0 if all of them did it right.
const SERVER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile int done; static long counts[8]; static pthread_mutex_t latch = PTHREAD_MUTEX_INITIALIZER; static long total;
NOINLINE long operation(long n) {
    long sum = 0;
    for (long i = 1; i <= 50; i++) sum += i * n;
    pthread_mutex_lock(&latch); total++; pthread_mutex_unlock(&latch);
    return sum;
}
static void *thread(void *number) {
    long n = (long)number;
    while (!done) {
        BEGIN; long sum = operation(n); END;
        if (sum != 1275 * n) _exit(50);
        counts[n]++;
    }
    return 0;
}
int main(void) {
    pthread_t threads[8]; char byte; long sum = 0;
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], 0, thread, (void *)i);
    puts("ready"); fflush(stdout);
    while (read(0, &byte, 1) > 0) { puts("alive"); fflush(stdout); }
    done = 1;
    for (int i = 0; i < 8; i++) { pthread_join(threads[i], 0); sum += counts[i]; }
    unsigned char *code = (unsigned char *)operation;
    return sum != total ? 51 : code[0] == 0xcc ? 52 : 0;
}
"#;

/// A server that runs, and what it says.
struct Server {
    child: Child,
    says: BufReader<std::process::ChildStdout>,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let says = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self { child, says };
        server.expect("ready");
        server
    }

    fn expect(&mut self, line: &str) {
        let mut said = String::new();
        self.says.read_line(&mut said).expect("readable");
        assert_eq!(said.trim_end(), line);
    }

    /// Checks that it still answers, and ends well.
    fn check(mut self) {
        let mut input = self.child.stdin.take().expect("piped");
        input.write_all(b"?").expect("it reads");
        self.expect("alive");
        drop(input);
        assert_eq!(self.child.wait().expect("waited").code(), Some(0));
    }
}

#[test]
fn attaching_to_a_busy_server_leaves_it_as_it_was() {
    let program = compiled(SERVER, &["-pthread"]);
    for target in [Target::Marked, Target::Function("operation".to_owned())] {
        for stop_others in [false, true] {
            let server = Server::start(&mut program.command());
            let wanted = TraceOptions {
                warm: 100,
                operations: 3,
                stop_others,
                ..options(target.clone())
            };
            let mut tracer = Tracer::attach(server.child.id(), wanted).expect("attached");
            for _ in 0..3 {
                let (operation, kept) = next(&mut tracer);
                kept.check_continuous();
                assert!(operation.instructions > 150);
            }
            assert_eq!(tracer.next_operation(&mut Kept::default()), Ok(None));
            drop(tracer);
            server.check();
        }
    }
}

#[test]
fn letting_go_at_any_moment_leaves_it_as_it_was() {
    let program = compiled(SERVER, &["-pthread"]);
    let server = Server::start(&mut program.command());
    for operations_max in [1, 20, 90] {
        let wanted = TraceOptions {
            // Ends in the middle of an operation.
            instructions_max: operations_max,
            ..options(Target::Marked)
        };
        let mut tracer = Tracer::attach(server.child.id(), wanted).expect("attached");
        tracer.next_operation(&mut Kept::default()).expect_err("too long");
    }
    // Without any operation.
    drop(Tracer::attach(server.child.id(), options(Target::Marked)).expect("attached"));
    server.check();
}

#[test]
fn letting_go_while_threads_come_to_breakpoints_leaves_it_as_it_was() {
    let program = compiled(SERVER, &["-pthread"]);
    let server = Server::start(&mut program.command());
    for round in 0..400 {
        let wanted = TraceOptions {
            warm: 3 + round % 7,
            instructions_max: 1 + round % 3,
            ..options(Target::Marked)
        };
        let mut tracer = Tracer::attach(server.child.id(), wanted).expect("attached");
        tracer.next_operation(&mut Kept::default()).expect_err("too long");
    }
    server.check();
}

#[test]
fn a_program_started_here_with_threads() {
    let program = compiled(SERVER, &["-pthread"]);
    let mut command = program.command();
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let wanted = TraceOptions {
        warm: 30,
        operations: 2,
        ..options(Target::Marked)
    };
    let mut tracer = Tracer::start(command, wanted).expect("started");
    let input = tracer.child().expect("a child").stdin.take();
    next(&mut tracer);
    next(&mut tracer);
    let mut child = tracer.finish(After::LetRun).expect("still there");
    drop(input);
    assert_eq!(child.wait().expect("waited").code(), Some(0));
}

#[test]
fn a_program_started_here_ends_with_its_tracer() {
    let program = compiled(SERVER, &["-pthread"]);
    let mut command = program.command();
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut tracer = Tracer::start(command, options(Target::Marked)).expect("started");
    let id = tracer.child().expect("a child").id();
    next(&mut tracer);
    drop(tracer);
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "reaped");
}

#[test]
fn the_operation_may_be_in_a_program_that_another_becomes() {
    let program = compiled(
        "NOINLINE int work(int n) { return n + 3; } int main(void) { return work(1); }",
        &[],
    );
    let mut command = Command::new("/bin/sh");
    // A shell has no such function, so the target must be one every program here has: markers would do, an address would not.
    command.arg("-c").arg("exec \"$0\"").arg(&program.path);
    let error = Tracer::start(command, function_options("work"))
        .map(drop)
        .expect_err("not in the shell");
    assert!(error.to_string().contains("work"), "{error}");
}
