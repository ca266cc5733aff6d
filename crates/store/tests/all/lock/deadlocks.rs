//! Circles of waits: each is found, one party gives way, the right one, and nobody else.

use crate::lock::support::{Client, FOR_EVER, Pending, Random, Remote, World, patient, until};
use corun_store::lock::{Got, LockError, LockOptions, TableMode};
use corun_store::park::{Park, ThreadPark};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What party `at` holds and its predecessor wants.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    RowX,
    RowS,
    TableX,
    TableIx,
    Interval,
}

const KINDS: [Kind; 5] = [
    Kind::RowX,
    Kind::RowS,
    Kind::TableX,
    Kind::TableIx,
    Kind::Interval,
];

fn take(client: &mut Client, kind: Kind, at: u32) {
    match kind {
        Kind::RowX => client.x(at).map(drop).unwrap(),
        Kind::RowS => client.s(at).map(drop).unwrap(),
        Kind::TableX => drop(client.table(at as usize, TableMode::X).unwrap()),
        Kind::TableIx => drop(client.table(at as usize, TableMode::IX).unwrap()),
        Kind::Interval => client.range(at as usize, 10, 20),
    }
}

/// Wants what does not go with what [`take`] took.
fn want(client: &mut Client, kind: Kind, at: u32) -> Result<(), LockError> {
    match kind {
        Kind::RowX => client.s(at).map(drop),
        Kind::RowS => client.x(at).map(drop),
        Kind::TableX => client.table(at as usize, TableMode::IS).map(drop),
        Kind::TableIx => client.table(at as usize, TableMode::S).map(drop),
        Kind::Interval => client.pass(at as usize, 15),
    }
}

/// Party i holds thing i, wants thing i + 1, and has `extra[i]` locks more. Returns who gave way.
fn circle(kinds: &[Kind], extra: &[u32]) -> usize {
    let world = World::new(patient());
    let parties: Vec<_> = kinds.iter().map(|_| Remote::new(&world)).collect();
    let count = parties.len();
    for (at, party) in parties.iter().enumerate() {
        let (kind, extra) = (kinds[at], extra[at]);
        party.run(move |client| {
            take(client, kind, at as u32);
            client.all_x((0..extra).map(|more| 100 + 50 * at as u32 + more));
        });
    }
    let mut pending: Vec<Option<Pending<_>>> = Vec::new();
    for (at, party) in parties.iter().enumerate() {
        let next = (at + 1) % count;
        let kind = kinds[next];
        pending.push(Some(party.start(move |client| {
            let wanted = want(client, kind, next as u32);
            // Who gives way ends; whoever got it ends later, and so lets its predecessor go on.
            client.end();
            wanted
        })));
        if at + 1 < count {
            world.until_waiting(at as u32 + 1);
        }
    }
    let results: Vec<_> = pending
        .iter_mut()
        .map(|pending| pending.take().unwrap().get())
        .collect();
    let victims: Vec<_> = (0..count).filter(|at| results[*at].is_err()).collect();
    assert_eq!(victims.len(), 1, "{results:?}");
    let victim = victims[0];
    let Err(LockError::Deadlock { parties: named, .. }) = &results[victim] else {
        panic!("{results:?}")
    };
    assert_eq!(named.len(), count);
    assert_eq!(world.locks.counts().deadlocks, 1);
    drop(parties);
    world.assert_free();
    victim
}

#[test]
fn circles_of_every_size_over_everything() {
    for kind in KINDS {
        for count in 2..=8 {
            circle(&vec![kind; count], &vec![0; count]);
        }
    }
}

#[test]
fn circles_over_mixtures() {
    let mut random = Random::seeded(0xDEAD_10CC);
    for _ in 0..40 {
        let count = 2 + random.below(7) as usize;
        let kinds: Vec<_> = (0..count).map(|_| KINDS[random.below(5) as usize]).collect();
        circle(&kinds, &vec![0; count]);
    }
}

#[test]
fn the_one_with_the_fewest_locks_gives_way_and_of_equals_the_youngest() {
    for fewest in 0..4 {
        let mut extra = [3; 4];
        extra[fewest] = 1;
        assert_eq!(circle(&[Kind::RowX; 4], &extra), fewest);
    }
    // They wait in the order of their numbers, so the last is the youngest.
    assert_eq!(circle(&[Kind::RowX; 4], &[2; 4]), 3);
    assert_eq!(circle(&[Kind::RowX; 4], &[2, 1, 1, 2]), 2);
}

/// The detector would not run for a day.
fn no_detector() -> LockOptions {
    LockOptions {
        detect_after: Duration::from_secs(24 * 3600),
        timeout: FOR_EVER,
        ..LockOptions::default()
    }
}

#[test]
fn two_upgrades_of_one_thing_are_found_at_once() {
    for table in [false, true] {
        let world = World::new(no_detector());
        let (a, b) = (Remote::new(&world), Remote::new(&world));
        let first = move |client: &mut Client| match table {
            true => client.table(1, TableMode::IX).map(drop),
            false => client.s(1).map(drop),
        };
        let more = move |client: &mut Client| match table {
            true => client.table(1, TableMode::S).map(drop),
            false => client.x(1).map(drop),
        };
        a.run(first).unwrap();
        b.run(first).unwrap();
        let a_got = a.start(more);
        world.until_waiting(1);
        let b_got = b.run(more);
        // Both hold one lock; b has waited last.
        assert!(matches!(b_got, Err(LockError::Deadlock { .. })), "{b_got:?}");
        b.end();
        assert_eq!(a_got.get(), Ok(()));
        drop((a, b));
        world.assert_free();
    }
}

#[test]
fn a_wait_behind_another_request_counts() {
    let world = World::new(patient());
    let (a, b, c) = (Remote::new(&world), Remote::new(&world), Remote::new(&world));
    a.run(|a| a.s(1)).unwrap();
    a.run(|a| a.all_x(20..30));
    b.run(|b| b.all_x(30..40));
    c.run(|c| c.x(3)).unwrap();
    let b_got = b.start(|b| b.x(1));
    world.until_waiting(1);
    // It goes with a, but b is ahead.
    let c_got = c.start(|c| c.s(1));
    world.until_waiting(2);
    let a_got = a.start(|a| a.x(3));
    let c_got = c_got.get();
    let Err(LockError::Deadlock { parties, .. }) = &c_got else {
        panic!("{c_got:?}")
    };
    assert_eq!(parties.len(), 3);
    c.end();
    a_got.get().unwrap();
    a.end();
    b_got.get().unwrap();
    drop((a, b, c));
    world.assert_free();
}

#[test]
fn a_reader_waits_for_an_insert_and_the_inserter_for_the_reader() {
    let world = World::new(patient());
    let (reader, inserter) = (Remote::new(&world), Remote::new(&world));
    reader.run(|reader| reader.range(0, 0, 100));
    inserter.run(|inserter| inserter.x(5)).unwrap();
    let passed = inserter.start(|inserter| inserter.pass(0, 50));
    world.until_waiting(1);
    let read = reader.start(|reader| reader.s(5).map(drop));
    let victim_is_reader = read.get().is_err();
    // Equal locks, and the reader waited last.
    assert!(victim_is_reader);
    reader.end();
    assert_eq!(passed.get(), Ok(()));
    drop((reader, inserter));
    world.assert_free();
}

#[test]
fn a_reader_that_came_after_the_entry_is_not_waited_for() {
    let world = World::new(patient());
    let (first, inserter, second) = (Remote::new(&world), Remote::new(&world), Remote::new(&world));
    first.run(|first| first.range(0, 0, 100));
    inserter.run(|inserter| inserter.x(5)).unwrap();
    let passed = inserter.start(|inserter| inserter.pass(0, 50));
    world.until_waiting(1);
    second.run(|second| second.range(0, 40, 60));
    let read = second.start(|second| second.s(5));
    world.until_waiting(2);
    first.end();
    assert_eq!(passed.get(), Ok(()));
    inserter.end();
    assert!(read.get().is_ok());
    assert_eq!(world.locks.counts().deadlocks, 0);
    drop((first, inserter, second));
    world.assert_free();
}

/// Waits as a thread does, and counts how often it is asked to.
struct Counting {
    thread: Arc<dyn Park>,
    parks: AtomicU32,
}

impl Counting {
    fn here() -> Arc<Counting> {
        Arc::new(Counting {
            thread: ThreadPark::current(),
            parks: AtomicU32::new(0),
        })
    }

    fn count(&self) -> u32 {
        self.parks.load(Ordering::Relaxed)
    }
}

impl Park for Counting {
    fn park(&self, deadline: Option<Instant>) {
        self.parks.fetch_add(1, Ordering::Relaxed);
        self.thread.park(deadline);
    }

    fn unpark(&self) {
        self.thread.unpark();
    }
}

#[test]
fn long_waits_without_a_circle_are_left_alone() {
    let world = World::new(LockOptions {
        detect_after: Duration::from_micros(200),
        ..patient()
    });
    let clients: Vec<_> = (0..8).map(|_| Remote::new(&world)).collect();
    let mut parks = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let counting = client.run(move |client| {
            client.x(at as u32).unwrap();
            client.s(99).unwrap();
            let counting = Counting::here();
            client.holder.set_park(counting.clone());
            counting
        });
        parks.push(counting);
    }
    let mut pending = Vec::new();
    for (at, client) in clients.iter().enumerate().skip(1) {
        pending.push(client.start(move |client| {
            let got = client.x(at as u32 - 1);
            client.end();
            got
        }));
    }
    world.until_waiting(7);
    // Who parks again has looked at the graph. The first client waits for nobody.
    until(|| parks[1..].iter().all(|park| park.count() > 8));
    assert_eq!(
        (world.locks.counts().waiting, world.locks.counts().deadlocks),
        (7, 0)
    );
    clients[0].end();
    pending
        .into_iter()
        .for_each(|pending| assert_eq!(pending.get(), Ok(Got::New)));
    drop(clients);
    world.assert_free();
}

#[test]
fn two_circles_through_one_row_are_both_broken() {
    let world: Arc<World> = World::new(patient());
    let clients: Vec<_> = (0..3).map(|_| Remote::new(&world)).collect();
    // 1 and 2 read row 0, and 0 holds what both want; then 0 wants row 0.
    clients[0].run(|client| client.all_x((50..60).chain([1, 2])));
    clients[1].run(|client| client.s(0)).unwrap();
    clients[2].run(|client| client.s(0)).unwrap();
    let pending: Vec<_> = [1_u32, 2]
        .map(|at| {
            clients[at as usize].start(move |client| {
                let got = client.x(at);
                client.end();
                got
            })
        })
        .into();
    world.until_waiting(2);
    assert!(clients[0].run(|client| client.x(0)).is_ok());
    for pending in pending {
        assert!(matches!(pending.get(), Err(LockError::Deadlock { .. })));
    }
    drop(clients);
    world.assert_free();
}

#[test]
fn a_circle_through_a_crowd() {
    let world = World::new(patient());
    let mut a = world.here();
    a.all_x((100..200).chain([0]));
    let crowd: Vec<_> = (0..40).map(|_| Remote::new(&world)).collect();
    crowd[25].run(|client| client.all_x([1]));
    let mut pending = Vec::new();
    for (at, client) in crowd.iter().enumerate() {
        // Writers and readers; the one in the circle writes.
        pending.push(client.start(move |client| {
            let got = if at % 5 == 3 { client.s(0) } else { client.x(0) };
            client.end();
            got.map(|_| ())
        }));
        world.until_waiting(at as u32 + 1);
    }
    a.x(1).unwrap();
    // Only now do the others get what they wait for.
    assert_eq!(world.locks.counts().deadlocks, 1);
    a.end();
    for (at, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.get().is_err(), at == 25);
    }
    drop(crowd);
    world.assert_free();
}
