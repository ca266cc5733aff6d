//! Operations that end as they should: what is said of them.

use machine::trace::{After, OperationEnd, Target, TraceOptions, TraceSource, Tracer};
use model::instructions::Flow;

use crate::fixture::{Other, compiled, next, options};

/// A loop of known length: 1 + 3 * n + 1 instructions.
const LOOP: &str = r#"
#include <stdlib.h>
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
        assert_eq!(
            tracer.next_operation(&mut crate::fixture::Kept::default()),
            Ok(None)
        );
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
    // mov, call, the loop.
    let lengths = [next(&mut tracer), next(&mut tracer)].map(|(operation, kept)| {
        assert_eq!(operation.end, OperationEnd::Marked);
        kept.check_continuous();
        assert_eq!(kept.others.len(), 2, "{:?}", kept.others);
        operation.instructions
    });
    assert_eq!(lengths[1] - lengths[0], 3);
    assert!((308..315).contains(&lengths[0]), "{lengths:?}");
    let mut child = tracer.finish(After::LetRun).expect("still there");
    assert_eq!(child.wait().expect("waited").code(), Some(7));
    let _ = Other::Begin;
}
