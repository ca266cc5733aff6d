//! Hardware counters of the machine the tests run on, which may have none: then the reason must be a documented one.

use corun_machine::counters::{Counters, CountersError, Event, open, try_open};

/// Counts while adding numbers, so that there are instructions to count.
fn counted(events: &[Event]) -> Result<Vec<Option<u64>>, CountersError> {
    let mut counters = open(events)?;
    assert_eq!(counters.events(), events);
    counters.start()?;
    let sum: u64 = (0..100_000u64).map(std::hint::black_box).sum();
    let counts = counters.stop()?;
    assert_eq!(sum, 4_999_950_000);
    Ok(events.iter().map(|event| counts.get(*event)).collect())
}

#[test]
fn the_running_machine_counts_or_says_why_not() {
    match (try_open(), counted(&[Event::Cycles, Event::Instructions])) {
        (Ok(()), Ok(counts)) => assert!(
            counts.iter().all(|count| count.is_some_and(|n| n > 100_000)),
            "{counts:?}"
        ),
        // Another profiler may hold the counters; nothing else stands in the way of a machine that counts cycles.
        (Ok(()), Err(error)) => assert!(matches!(error, CountersError::NeverCounted { .. }), "{error:?}"),
        (Err(_), Err(error)) => {
            let documented = matches!(
                error,
                CountersError::NoCounters
                    | CountersError::NoPerfEvents
                    | CountersError::Paranoid { .. }
                    | CountersError::Forbidden { .. }
            );
            assert!(documented, "{error:?}");
            assert!(error.detail().is_some() && error.hint().is_some(), "{error:?}");
        }
        (Err(reason), Ok(counts)) => panic!("no cycle counter ({reason}), yet {counts:?}"),
    }
}

#[test]
fn what_stands_in_the_way_of_everything_is_named_for_every_event() {
    let Err(reason) = counted(&[Event::Cycles]) else {
        return;
    };
    if try_open().is_ok() {
        return;
    }
    for event in [
        Event::LlcMisses,
        Event::L2Misses,
        Event::L1dMisses,
        Event::MemoryOrderMachineClears,
        Event::Instructions,
        Event::BranchMisses,
    ] {
        assert_eq!(counted(&[event]), Err(reason.clone()), "{event}");
    }
    assert_eq!(counted(&[]), Err(reason));
}
