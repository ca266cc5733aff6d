//! Many threads on few things: all end, sums are right, and it is the detector that ends deadlocks, not the clock.

use crate::lock::support::{Client, Guarded, Random, World, patient};
use corun_store::lock::{LockError, LockOptions, TableMode};
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 16;
const ROWS: u32 = 8;
/// Committed transactions of each thread.
const EACH: u64 = 400;

fn again(error: &LockError) -> bool {
    match error {
        LockError::Deadlock { parties, .. } => {
            assert!(parties.len() >= 2);
            true
        }
        _ => false,
    }
}

/// Runs `transaction` until it gets all its locks, `EACH` times on each of `THREADS` threads. It does its work in the end,
/// when it has them all.
fn storm(
    world: &std::sync::Arc<World>,
    transaction: impl Fn(&mut Client, &mut Random) -> Result<(), LockError> + Sync,
) {
    let aborts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (world, transaction, aborts) = (world, &transaction, &aborts);
            scope.spawn(move || {
                let mut random = Random::seeded(thread + 1);
                let mut client = world.here();
                for _ in 0..EACH {
                    loop {
                        let done = transaction(&mut client, &mut random);
                        client.end();
                        match done {
                            Ok(()) => break,
                            Err(error) if again(&error) => drop(aborts.fetch_add(1, Ordering::Relaxed)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let counts = world.locks.counts();
    assert_eq!(
        (counts.deadlocks, counts.timeouts),
        (aborts.load(Ordering::Relaxed), 0)
    );
    assert!(counts.deadlocks > 0, "a storm without deadlocks tests nothing");
    world.assert_free();
}

#[test]
fn transfers_in_random_order() {
    let world = World::new(patient());
    let accounts: [Guarded; ROWS as usize] = Default::default();
    accounts.iter().for_each(|account| account.set(1000));
    storm(&world, |client, random| {
        let (from, to) = (random.below(ROWS.into()) as u32, random.below(ROWS.into()) as u32);
        client.x(from)?;
        std::thread::yield_now();
        client.x(to)?;
        let (from, to) = (&accounts[from as usize], &accounts[to as usize]);
        let amount = from.get().min(random.below(10));
        from.set(from.get() - amount);
        to.set(to.get() + amount);
        Ok(())
    });
    assert_eq!(
        accounts.iter().map(Guarded::get).sum::<u64>(),
        1000 * u64::from(ROWS)
    );
}

#[test]
fn readers_that_upgrade() {
    let world = World::new(patient());
    let counters: [Guarded; ROWS as usize] = Default::default();
    storm(&world, |client, random| {
        let row = random.below(3) as u32;
        client.s(row)?;
        let before = counters[row as usize].get();
        std::thread::yield_now();
        client.x(row)?;
        assert_eq!(
            counters[row as usize].get(),
            before,
            "somebody wrote what we had read"
        );
        counters[row as usize].set(before + 1);
        Ok(())
    });
    assert_eq!(counters.iter().map(Guarded::get).sum::<u64>(), THREADS * EACH);
}

#[test]
fn rows_tables_and_intervals_together() {
    let world = World::new(LockOptions {
        detect_after: std::time::Duration::from_micros(500),
        ..patient()
    });
    let rows: [Guarded; ROWS as usize] = Default::default();
    let writes = AtomicU64::new(0);
    storm(&world, |client, random| {
        let mut written = Vec::new();
        for _ in 0..3 {
            std::thread::yield_now();
            let row = random.below(ROWS.into()) as u32;
            match random.below(8) {
                0 => {
                    // Reads the whole table: no row locks.
                    client.table(0, TableMode::S)?;
                    rows.iter().for_each(|row| assert!(row.get() < u64::MAX));
                }
                1 => {
                    client.table(0, TableMode::SIX)?;
                    client.x(row)?;
                    written.push(row);
                }
                2 | 3 => {
                    client.table(0, TableMode::IS)?;
                    client.range(0, u64::from(row), u64::from(row) + 2);
                    client.s(row)?;
                }
                _ => {
                    client.table(0, TableMode::IX)?;
                    client.x(row)?;
                    client.pass(0, random.below(ROWS.into()))?;
                    written.push(row);
                }
            }
        }
        for row in &written {
            let row = &rows[*row as usize];
            row.set(row.get() + 1);
        }
        writes.fetch_add(written.len() as u64, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(
        rows.iter().map(Guarded::get).sum::<u64>(),
        writes.load(Ordering::Relaxed)
    );
}
