//! Bytes become chains of records, a mode and its parameters; every mode gives the oracle's answers in order, timed or traced.
#![no_main]

#[path = "../../crates/exec/tests/all/chains.rs"]
mod chains;

use chains::{Answers, Chains, Memory, check_share};
use corun_exec::stage::traced::trace;
use corun_exec::stage::{HelperKind, Options, WorkAheadBudget, run};
use libfuzzer_sys::fuzz_target;
use corun_model::operators::mode::{Direction, Hiding, Mode, Schedule, Staging, Threads, WorkAhead};
use corun_model::operators::trace::Event;

fuzz_target!(|data: &[u8]| {
    let Some((&[threads, hiding, size, more, helper, stages], lengths)) = data.split_first_chunk() else {
        return;
    };
    let threads = match threads % 4 {
        0 => Threads::One,
        1 => Threads::TwoIndependent,
        _ => Threads::BiThreaded(2 + threads / 4 % 3),
    };
    let schedule = |schedule| Hiding::Prefetch {
        schedule,
        distance: u16::from(size) + 1,
    };
    let (staging, hiding) = match hiding % 6 {
        0 => (Staging::Plain, Hiding::None),
        1 => (Staging::Staged, Hiding::None),
        2 => (Staging::Staged, schedule(Schedule::Group)),
        3 => (Staging::Staged, schedule(Schedule::Pipeline)),
        4 => (Staging::Staged, schedule(Schedule::Amac)),
        _ => {
            let set = WorkAhead {
                lines: u32::from(size) + 1,
                direction: [Direction::Forward, Direction::Backward][usize::from(more % 2)],
                spin: more / 2 % 2 == 0,
            };
            (Staging::Staged, Hiding::WorkAhead(set))
        }
    };
    let mode = Mode {
        threads,
        staging,
        hiding,
    };
    let helper = match helper % 3 {
        0 => HelperKind::Loads,
        1 => HelperKind::SkipsDuplicates,
        _ => HelperKind::EndsAfter(u64::from(helper / 3)),
    };
    let budget = WorkAheadBudget::new(usize::from(more) * 4);
    let lengths: Vec<u8> = lengths.iter().map(|length| length % 16).collect();
    let (first, second) = lengths.split_at(lengths.len() / 2);
    let memories = [first, second].map(|lengths| Memory::new(lengths, 0, 2));
    let operators = [&memories[0], &memories[1]].map(|memory| Chains::<1, 3> {
        stages: usize::from(stages),
        ..Chains::over(memory)
    });
    let operators = [&operators[0], &operators[1]];
    let operators = &operators[..mode.inputs()];
    let check = |outputs: &[Answers]| {
        for (worker, output) in outputs.iter().enumerate() {
            let memory = &memories[if mode.inputs() == 2 { worker } else { 0 }];
            check_share(memory, mode, worker, output);
        }
    };

    let options = Options {
        helper,
        budget: Some(&budget),
        ..Options::default()
    };
    let mut outputs = vec![Answers::new(); mode.workers()];
    run(mode, operators, &mut outputs, &options).expect("a mode that exists");
    check(&outputs);
    let mut outputs = vec![Answers::new(); mode.workers()];
    let looks = usize::from(more % 4);
    trace(mode, operators, &mut outputs, looks, &mut |_: Event| {}).expect("a mode that exists");
    check(&outputs);
});
