//! Operations that end as they should: what is said of them.

use corun_machine::trace::{After, OperationEnd, Target, TraceOptions, TraceSource, Tracer};
use corun_model::teams::instructions::Flow;

use crate::trace::fixture::{Kept, Other, compiled, function_options, next, options};

/// A loop of known length: 1 + 3 * n + 1 instructions.
const LOOP: &str = r#"
long known(long n);
__asm__(".globl known\n.type known, @function\nknown:\n xor %eax,%eax\n1: add %rdi,%rax\n dec %rdi\n jne 1b\n ret\n.size known, .-known");
int main(void) {
    for (int i = 0; i < 5; i++) { BEGIN; known(100 + i); END; }
    return 7;
}
"#;

#[test]
fn a_known_loop_has_the_known_length() {
    for flags in [
        &["-pie", "-fPIE"][..],
        &["-no-pie", "-fno-pie"],
        &["-static"],
        &["-static-pie", "-fPIE"],
    ] {
        let program = compiled(LOOP, flags);
        let mut tracer = program.call_of("known").expect("started");
        let (operation, kept) = next(&mut tracer);
        assert_eq!(
            (operation.instructions, operation.end),
            (302, OperationEnd::Returned),
            "{flags:?}"
        );
        kept.check_continuous();
        assert!(matches!(kept.ran[301].flow, Flow::Return { .. }));
        let taken = |flow: &Flow| matches!(flow, Flow::Conditional { taken: true, .. });
        assert_eq!(kept.ran.iter().filter(|ran| taken(&ran.flow)).count(), 99);
        assert_eq!(tracer.next_operation(&mut Kept::default()), Ok(None));
        let mut child = tracer.finish(After::LetRun).expect("still there");
        assert_eq!(
            child.wait().expect("waited").code(),
            Some(7),
            "it ran on unharmed"
        );
    }
}

#[test]
fn the_wanted_occurrences_are_traced() {
    let program = compiled(LOOP, &[]);
    let wanted = TraceOptions {
        warm: 2,
        operations: 2,
        ..options(Target::Marked)
    };
    let mut tracer = Tracer::start(program.command(), wanted).expect("started");
    let lengths = [next(&mut tracer), next(&mut tracer)].map(|(operation, kept)| {
        assert_eq!(operation.end, OperationEnd::Marked);
        kept.check_continuous();
        assert_eq!(kept.others.len(), 2, "{:?}", kept.others);
        operation.instructions
    });
    // The third and the fourth call: the loop, and the few instructions that make the call.
    assert_eq!(lengths[1] - lengths[0], 3);
    assert!((308..315).contains(&lengths[0]), "{lengths:?}");
    let mut child = tracer.finish(After::LetRun).expect("still there");
    assert_eq!(child.wait().expect("waited").code(), Some(7));

    // The same by address, as a debugger would show it; every entry counts.
    let mut by_name = Tracer::start(
        program.command(),
        TraceOptions {
            warm: 4,
            ..function_options("known")
        },
    )
    .expect("started");
    let (operation, kept) = next(&mut by_name);
    assert_eq!(operation.instructions, 302 + 4 * 3);
    let linked = kept.ran[0].address - by_name.modules()[0].bias;
    let mut by_address = program.call_of(&format!("{linked:#x}")).expect("started");
    assert_eq!(next(&mut by_address).0.instructions, 302);
}

#[test]
fn recursion_and_tail_calls_end_with_the_outermost_frame() {
    let program = compiled(
        r#"
        NOINLINE long sum(long n) { if (n == 0) return 0; return n + sum(n - 1); }
        NOINLINE long last(long n) { return n * 2; }
        NOINLINE long tail(long n);
        __asm__(".globl tail\n.type tail,@function\ntail:\n inc %rdi\n jmp last\n.size tail,.-tail");
        int main(void) { return sum(10) == 55 && tail(4) == 10 ? 3 : 4; }
        "#,
        &[],
    );
    let mut tracer = program.call_of("sum").expect("started");
    let (operation, kept) = next(&mut tracer);
    kept.check_continuous();
    let returns = |kept: &Kept| {
        kept.ran
            .iter()
            .filter(|ran| matches!(ran.flow, Flow::Return { .. }))
            .count()
    };
    assert_eq!((operation.end, returns(&kept)), (OperationEnd::Returned, 11));

    let mut tracer = program.call_of("tail").expect("started");
    let (operation, kept) = next(&mut tracer);
    assert_eq!((operation.end, returns(&kept)), (OperationEnd::Returned, 1));
    assert!(matches!(kept.ran[1].flow, Flow::Jump { .. }));
    assert!(kept.ran.len() > 3, "the function jumped to belongs to it");
    let mut child = tracer.finish(After::LetRun).expect("still there");
    assert_eq!(child.wait().expect("waited").code(), Some(3));
}

#[test]
fn a_long_jump_out_of_the_function_ends_it() {
    let program = compiled(
        r#"
        #include <setjmp.h>
        static jmp_buf place;
        NOINLINE void deep(int n) { if (n == 0) longjmp(place, 1); deep(n - 1); __asm__ volatile("" ::: "memory"); }
        int main(void) { if (setjmp(place) == 0) { deep(5); return 1; } return 9; }
        "#,
        &[],
    );
    let mut tracer = program.call_of("deep").expect("started");
    let (operation, kept) = next(&mut tracer);
    assert_eq!(operation.end, OperationEnd::Unwound);
    assert!(matches!(
        kept.ran.last().map(|ran| ran.flow),
        Some(Flow::IndirectJump { .. })
    ));
    let mut child = tracer.finish(After::LetRun).expect("still there");
    assert_eq!(child.wait().expect("waited").code(), Some(9));
}

#[test]
fn data_accesses_are_those_the_program_makes() {
    let program = compiled(
        r#"
        #include <stdio.h>
        #include <stdlib.h>
        long from[64], to[64];
        void copy(void *to, void *from, long n);
        __asm__(".globl copy\n.type copy,@function\ncopy:\n mov %rdx,%rcx\n rep movsb\n mov %fs:0,%rax\n ret\n.size copy,.-copy");
        int main(void) {
            printf("%p %p\n", (void *)from, (void *)to); fflush(stdout);
            from[1] = 77; copy(to, from, 24); return to[1];
        }
        "#,
        &[],
    );
    let mut command = program.command();
    command.stdout(std::process::Stdio::piped());
    let mut tracer = Tracer::start(command, function_options("copy")).expect("started");
    let (operation, kept) = next(&mut tracer);
    // One step a byte.
    assert_eq!(operation.instructions, 1 + 24 + 1 + 1);
    let mut child = tracer.finish(After::LetRun).expect("still there");
    let mut text = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().expect("piped"), &mut text).expect("read");
    let places: Vec<u64> = text
        .split_whitespace()
        .map(|place| u64::from_str_radix(place.trim_start_matches("0x"), 16).expect("an address"))
        .collect();
    for (number, ran) in kept.ran[1..25].iter().enumerate() {
        let mut accesses: Vec<_> = ran
            .accesses
            .iter()
            .map(|access| (access.write, access.address, access.bytes))
            .collect();
        accesses.sort_unstable();
        let byte = number as u64;
        assert_eq!(
            accesses,
            [(false, places[0] + byte, 1), (true, places[1] + byte, 1)]
        );
    }
    assert_eq!(kept.ran[25].accesses[0].bytes, 8, "the thread's own memory");
    assert_eq!(child.wait().expect("waited").code(), Some(77));
}

#[test]
fn latches_are_reported_from_entry_of_lock_to_return_of_unlock() {
    let program = compiled(
        r#"
        #include <pthread.h>
        pthread_mutex_t latch = PTHREAD_MUTEX_INITIALIZER;
        long value;
        NOINLINE void change(void) {
            pthread_mutex_lock(&latch); value++; pthread_mutex_unlock(&latch);
            LATCH_ENTER; value++; LATCH_LEAVE;
        }
        int main(void) { change(); return value; }
        "#,
        &["-pthread"],
    );
    let mut tracer = program.call_of("change").expect("started");
    let (_, kept) = next(&mut tracer);
    let latches: Vec<(usize, Other)> = kept
        .others
        .iter()
        .copied()
        .filter(|(_, other)| !matches!(other, Other::Begin | Other::End))
        .collect();
    let kinds: Vec<Other> = latches.iter().map(|(_, other)| *other).collect();
    let (enter, leave) = (Other::LatchEnter, Other::LatchLeave);
    assert_eq!(kinds, [enter, leave, enter, leave]);
    // Entered where the lock function begins: the instruction before led there.
    let led = |at: usize| match kept.ran[at].flow {
        Flow::Call { target } | Flow::IndirectCall { target } | Flow::IndirectJump { target } => target,
        Flow::Jump { target } => target,
        other => panic!("{other:?}"),
    };
    assert_eq!(led(latches[0].0 - 1), kept.ran[latches[0].0].address);
    assert!(matches!(kept.ran[latches[1].0 - 1].flow, Flow::Return { .. }));
    // From marker to marker: the first is inside, the second has been passed.
    assert_eq!(kept.ran[latches[2].0].bytes, 8);
    assert_eq!(kept.ran[latches[3].0 - 1].bytes, 8);
}

#[test]
fn ctx_points_are_found_in_their_section() {
    let program = compiled(
        r#"
        struct point { char on, prefetches; unsigned line, column; const char *file; unsigned long length; };
        __attribute__((section("corun_ctx"), used)) volatile struct point first = {0, 0, 5, 1, "a.rs", 4};
        __attribute__((section("corun_ctx"), used)) volatile struct point second = {0, 1, 6, 9, "b/c.rs", 6};
        long value;
        NOINLINE long work(long n) {
            for (long i = 0; i < n; i++) { value++; if (second.on) value = 0; }
            return second.prefetches;
        }
        int main(void) { return work(3); }
        "#,
        &["-pie", "-fPIE"],
    );
    let mut tracer = program.call_of("work").expect("started");
    let (_, kept) = next(&mut tracer);
    let mut points: Vec<(String, bool)> = tracer
        .ctx_points()
        .iter()
        .map(|point| (point.site.to_string(), point.prefetches))
        .collect();
    // In whichever order the compiler laid them out.
    points.sort_unstable();
    assert_eq!(
        points,
        [("a.rs:5:1".to_owned(), false), ("b/c.rs:6:9".to_owned(), true)]
    );
    let second = tracer
        .ctx_points()
        .iter()
        .find(|point| point.prefetches)
        .expect("it is there")
        .address;
    let passed: Vec<&(usize, Other)> = kept
        .others
        .iter()
        .filter(|(_, other)| matches!(other, Other::Ctx(_)))
        .collect();
    assert_eq!(passed.len(), 3, "reading another field is no passing");
    for (at, other) in passed {
        assert_eq!(*other, Other::Ctx(second));
        assert!(
            kept.ran[*at]
                .accesses
                .iter()
                .any(|access| access.address == second)
        );
    }
}
