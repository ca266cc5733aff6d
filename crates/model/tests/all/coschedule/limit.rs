//! CPUs that queries leave to others.

use super::{config, query, scheduler};
use corun_model::cache::coschedule::{Admission, PolicyName, QueryId, Scheduler};
use corun_model::cache::locality::Footprint;
use corun_model::units::Bytes;

fn arrive(scheduler: &mut Scheduler, now_ns: u64, id: u64) -> Admission {
    let query = query(scheduler, id, Footprint::Streams);
    scheduler.arrive(now_ns, query).expect("room")
}

/// Names of those that `dispatch` starts, and on how many CPUs.
fn started(scheduler: &mut Scheduler) -> Vec<(u64, usize)> {
    let starts = scheduler.dispatch();
    starts
        .iter()
        .map(|start| (start.id.0, start.cpus.len()))
        .collect()
}

#[test]
fn queries_beyond_the_limit_wait_and_start_when_it_is_gone() {
    let mut config = config(PolicyName::Fifo, 4);
    config.widen = true;
    let mut scheduler = scheduler(config);
    scheduler.limit(Some(2));
    for id in 1..=4 {
        arrive(&mut scheduler, 0, id);
    }
    assert_eq!(started(&mut scheduler), [(1, 1), (2, 1)]);
    scheduler.finish(10, QueryId(1)).expect("it runs");
    assert_eq!(started(&mut scheduler), [(3, 1)]);
    // A lower one takes nothing from those that run, and whoever waits gets a CPU once they hold less.
    scheduler.limit(Some(0));
    scheduler.finish(20, QueryId(2)).expect("it runs");
    assert_eq!(started(&mut scheduler), []);
    scheduler.finish(30, QueryId(3)).expect("it runs");
    assert_eq!(started(&mut scheduler), [(4, 1)]);
    arrive(&mut scheduler, 30, 5);
    assert_eq!(started(&mut scheduler), []);
    scheduler.limit(None);
    assert_eq!(started(&mut scheduler), [(5, 1)]);
}

#[test]
fn nobody_gets_more_cpus_than_the_limit() {
    let mut config = config(PolicyName::Fifo, 2);
    config.widen = true;
    let mut scheduler = scheduler(config);
    assert!(scheduler.may_widen(2));
    scheduler.limit(Some(1));
    assert!(!scheduler.may_widen(2));
    arrive(&mut scheduler, 0, 1);
    assert_eq!(started(&mut scheduler), [(1, 1)]);
    scheduler.finish(10, QueryId(1)).expect("it runs");
    scheduler.limit(None);
    arrive(&mut scheduler, 20, 2);
    assert_eq!(started(&mut scheduler), [(2, 2)]);
}

#[test]
fn nobody_is_let_through_beside_the_limit() {
    let mut config = config(PolicyName::Auto, 2);
    config.widen = true;
    let mut scheduler = scheduler(config);
    let small = Footprint::Tables(Bytes::kib(64));
    let free = query(&scheduler, 1, small);
    assert_eq!(scheduler.arrive(0, free), Ok(Admission::Free));
    scheduler.leave(0, QueryId(1)).expect("it is known");
    scheduler.limit(Some(1));
    let waits = query(&scheduler, 2, small);
    let admission = scheduler.arrive(0, waits).expect("room");
    assert!(matches!(admission, Admission::Queued { .. }), "{admission:?}");
}
