//! Recorded traces play what was recorded; damaged ones give errors.

use corun_machine::trace::{Recorded, Recorder, TraceError, TraceOptions, TraceSource, Tracer};
use proptest::prelude::*;

use crate::trace::fixture::{Kept, compiled, function_options, next};

/// A recorded file of two operations, and what a sink heard of them.
fn file() -> (Vec<u8>, [Kept; 2]) {
    let program = compiled(
        "#include <string.h>\nchar to[64], from[64]; NOINLINE int work(int n) { LATCH_ENTER; memcpy(to, from, n); LATCH_LEAVE; return n; }
         int main(void) { return work(5) + work(9); }",
        &[],
    );
    let wanted = TraceOptions {
        operations: 2,
        ..function_options("work")
    };
    let mut tracer = Tracer::start(program.command(), wanted).expect("started");
    let mut recorder = Recorder::new(1 << 20);
    let mut heard = [Kept::default(), Kept::default()];
    for kept in &mut heard {
        recorder
            .record(&mut tracer, Some(kept))
            .expect("traced")
            .expect("there");
    }
    let bytes = recorder.finish(&tracer);
    let played = Recorded::new(bytes.clone()).expect("a recorded trace");
    assert_eq!(played.modules(), tracer.modules());
    (bytes, heard)
}

fn all(source: &mut Recorded) -> Result<u64, TraceError> {
    let mut instructions = 0;
    while let Some(operation) = source.next_operation(&mut Kept::default())? {
        instructions += operation.instructions;
    }
    Ok(instructions)
}

#[test]
fn a_recorded_trace_plays_what_was_traced() {
    let (bytes, heard) = file();
    let mut recorded = Recorded::new(bytes.clone()).expect("a recorded trace");
    for kept in &heard {
        let (_, played) = next(&mut recorded);
        assert_eq!((&played.ran, &played.others), (&kept.ran, &kept.others));
    }
    assert_eq!(recorded.next_operation(&mut Kept::default()), Ok(None));
    let instructions: usize = heard.iter().map(|kept| kept.ran.len()).sum();
    assert!(bytes.len() < 12 * instructions + 2_000, "{} bytes", bytes.len());

    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    std::fs::write(&path, &bytes).expect("written");
    assert_eq!(
        all(&mut Recorded::open(&path).expect("opened")),
        Ok(instructions as u64)
    );
    assert!(Recorded::open(&folder.path().join("missing")).is_err());
}

#[test]
fn a_recorder_is_bounded() {
    let (bytes, heard) = file();
    let mut source = Recorded::new(bytes).expect("a recorded trace");
    let mut recorder = Recorder::new(100);
    assert_eq!(
        recorder.record(&mut source, None),
        Err(TraceError::RecordingTooLarge { bytes_max: 100 })
    );
    assert!(heard[0].ran.len() > 50);
    let mut empty = Recorded::new(recorder.finish(&source)).expect("a recorded trace");
    assert_eq!(all(&mut empty), Ok(0), "nothing of it is left");
}

#[test]
fn a_file_cut_short_is_an_error_unless_between_operations() {
    let (bytes, _) = file();
    let whole = all(&mut Recorded::new(bytes.clone()).expect("whole")).expect("played");
    let mut fine = 0;
    for length in 0..bytes.len() {
        match Recorded::new(bytes[..length].to_vec()).and_then(|mut cut| all(&mut cut)) {
            Ok(played) => {
                fine += 1;
                assert!(played < whole);
            }
            Err(error) => assert!(matches!(error, TraceError::Recording { .. }), "{error:?}"),
        }
    }
    // Before the first, and between the two.
    assert_eq!(fine, 2);
}

#[test]
fn damaged_files_never_crash() {
    let (bytes, _) = file();
    proptest!(|(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8))| {
        let mut damaged = bytes.clone();
        for (at, byte) in changes {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        let played = Recorded::new(damaged).and_then(|mut source| all(&mut source));
        if let Err(error) = played {
            prop_assert!(matches!(error, TraceError::Recording { .. }), "{:?}", error);
        }
    });
}
