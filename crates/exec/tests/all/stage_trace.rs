//! Traced runs: who touched what, in an order that is the same every time.

use std::collections::{BTreeMap, BTreeSet};

use crate::chains::{Answers, Chains, Memory, check_share, kinds};
use corun_exec::stage::traced::trace;
use corun_model::operators::mode::{Direction, Hiding, Mode, Staging, Threads, WorkAhead};
use corun_model::operators::trace::{Access, Event, ThreadRole};

type Counted = BTreeMap<u64, usize>;

fn count(addresses: impl IntoIterator<Item = u64>) -> Counted {
    let mut counted = Counted::new();
    for address in addresses {
        *counted.entry(address).or_default() += 1;
    }
    counted
}

#[test]
fn traces_say_who_touched_what() {
    let lengths: Vec<u8> = (0..120_u32).map(|tuple| (tuple * 5 % 7) as u8).collect();
    let memory = Memory::new(&lengths, 0, 2);
    let operator = Chains::<1, 3>::over(&memory);
    for threads in [Threads::One, Threads::BiThreaded(2), Threads::BiThreaded(3)] {
        for mode in kinds(threads) {
            let traced = || {
                let mut events = Vec::new();
                let mut outputs = vec![Answers::new(); mode.workers()];
                trace(mode, &[&operator], &mut outputs, 2, &mut |event: Event| {
                    events.push(event)
                })
                .unwrap();
                (events, outputs)
            };
            let (events, outputs) = traced();
            assert_eq!(
                traced(),
                (events.clone(), outputs.clone()),
                "{mode}: the same every time"
            );
            for (worker, output) in outputs.iter().enumerate() {
                check_share(&memory, mode, worker, output);
                // A worker touches what its own tuples need, and asks ahead for exactly that.
                let of = |access| {
                    count(
                        events
                            .iter()
                            .filter(|event| {
                                event.role == ThreadRole::Worker(worker as u8) && event.access == access
                            })
                            .map(|event| event.address),
                    )
                };
                let tuples = (worker..lengths.len()).step_by(mode.workers());
                let expected: Vec<u64> = tuples.flat_map(|tuple| memory.addresses(tuple)).collect();
                assert_eq!(of(Access::Load), count(expected.iter().copied()), "{mode}");
                let asked = match mode.hiding {
                    Hiding::Prefetch { .. } => count(expected.iter().map(|address| address & !63)),
                    _ => Counted::new(),
                };
                assert_eq!(of(Access::Prefetch), asked, "{mode}");
                assert_eq!(of(Access::Store), Counted::new(), "{mode}");
            }
            // A helper loads what was posted, or one dummy line.
            let helped: Counted = count(
                events
                    .iter()
                    .filter(|event| event.role == ThreadRole::Helper)
                    .inspect(|event| assert_eq!((event.access, event.bytes), (Access::Load, 1)))
                    .map(|event| event.address),
            );
            let known = count((0..lengths.len()).flat_map(|tuple| memory.addresses(tuple)));
            let unknown = helped
                .keys()
                .filter(|address| !known.contains_key(address))
                .count();
            assert!(unknown <= 1, "{mode}: there is one dummy line");
            let helps = matches!(mode.hiding, Hiding::WorkAhead(_));
            assert_eq!(helped.len() > 1, helps, "{mode}");
            assert!(
                mode.staging == Staging::Staged || events.iter().all(|event| event.access == Access::Load)
            );
        }
    }
}

#[test]
fn a_traced_helper_that_is_fast_enough_comes_before_every_touch() {
    let memory = Memory::new(&[4; 100], 0, 0);
    let operator = Chains::<1, 1>::over(&memory);
    for direction in [Direction::Forward, Direction::Backward] {
        let hiding = Hiding::WorkAhead(WorkAhead {
            lines: 16,
            direction,
            spin: false,
        });
        let trace_with = |looks: usize| {
            let (mut loaded, mut late) = (BTreeSet::new(), 0);
            let mut events = |event: Event| match event.role {
                ThreadRole::Helper => _ = loaded.insert(event.address),
                ThreadRole::Worker(_) => late += usize::from(!loaded.contains(&event.address)),
            };
            let mode = Mode::staged(Threads::One, hiding);
            trace(mode, &[&operator], &mut [Answers::new()], looks, &mut events).unwrap();
            late
        };
        // A round for each post sees everything; no look sees nothing.
        assert_eq!((trace_with(16), trace_with(0)), (0, 400), "{direction:?}");
    }
}
