//! Joins two slices: customers and their orders, first with the join table, then as an operator that runs in any mode.
//!
//! ```text
//! cargo run --release -p corun-exec --example join_two_slices [-- CUSTOMERS [ORDERS]]
//! ```
//!
//! The first join answers `select sum(amount * discount) from orders join customers on customer = key`: keys become codes,
//! the smaller side becomes the table, the larger one is probed batch by batch, and the discount of each match is gathered
//! by row number. The second join writes out whole rows with [`TableJoin`], which `corun_exec::stage::run` executes plain, staged,
//! and on two threads. Both are compared with a `HashMap`. Times are wall clock on this machine, one run each, and say little;
//! `corun-lab bench join` measures.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use corun_exec::operators::{OutputRow, Row, RowSink, RowTable, Stream, TableJoin};
use corun_exec::stage::{Options, run};
use corun_exec::{BuildOptions, Chunk, Codes, JoinTable, Pairs, ProbeCursor, ScopedThreads, gather};
use corun_model::cache::reuse::Reuse;
use corun_model::operators::mode::{Hiding, Mode, Schedule, Threads};

/// Probe rows at a time: enough that prefetching has something ahead of it, few enough that what comes out stays in the cache.
const BATCH_ROWS: usize = 8192;

/// Different numbers give different keys, far apart from each other: a multiplication by an odd number loses nothing.
fn key(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1)
}

/// Numbers that look random.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// Prints how long `work` took and gives its result back.
fn timed<R>(name: &str, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    println!("{name:<36} {:>8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

/// The sum over all matches, through a join table.
fn sum_through_table(keys: &[u32], discounts: &[u64], customers: &[u32], amounts: &[u64]) -> u64 {
    // A chunk is one batch of the build side; row numbers count on from chunk to chunk. Here there is one.
    let chunk = Chunk {
        codes: Codes::U32 {
            values: keys,
            bias: 0,
        },
        valid: None,
        first_row: 0,
    };
    // A host hands in its machine's cache sizes, its threads and its cancellation.
    let table = JoinTable::build(
        &[chunk],
        &BuildOptions::default(),
        &ScopedThreads(2),
        &AtomicBool::new(false),
    )
    .expect("memory for the table");

    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let mut found = Vec::new();
    let mut sum = 0;
    for (customers, amounts) in customers.chunks(BATCH_ROWS).zip(amounts.chunks(BATCH_ROWS)) {
        let codes = Codes::U32 {
            values: customers,
            bias: 0,
        };
        cursor.reset();
        // A batch with many matches a row comes back in pieces of at most BATCH_ROWS pairs.
        loop {
            let finished = table.probe(&codes, None, None, &mut cursor, BATCH_ROWS, &mut pairs);
            gather(discounts, &pairs.build, Reuse::Keep, &mut found);
            for (&order, &discount) in pairs.probe.iter().zip(&found) {
                sum += amounts[order as usize] * discount;
            }
            if finished {
                break;
            }
        }
    }
    sum
}

fn rows(keys: &[u32], values: &[u64]) -> Vec<Row> {
    let row = |(&key, &value): (&u32, &u64)| {
        let mut row = Row { key, ..Row::ZERO };
        row.payload[0] = value as u32;
        row
    };
    keys.iter().zip(values).map(row).collect()
}

fn sum_of(output: &[OutputRow]) -> u64 {
    let product = |row: &OutputRow| u64::from(row.left.payload[0]) * u64::from(row.right.payload[0]);
    output.iter().map(product).sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |otherwise: u32| {
        arguments
            .next()
            .map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (customers, orders) = (argument(300_000).max(1), argument(1_000_000));

    let keys: Vec<u32> = (0..customers).map(key).collect();
    let discounts: Vec<u64> = (0..u64::from(customers)).map(|row| row % 10).collect();
    // One order in four is of a customer who is not there.
    let ordered_by: Vec<u32> = (0..u64::from(orders))
        .map(|order| key((scrambled(order) % (u64::from(customers) * 4 / 3 + 1)) as u32))
        .collect();
    let amounts: Vec<u64> = (0..u64::from(orders))
        .map(|order| scrambled(!order) % 1000)
        .collect();

    println!("{customers} customers, {orders} orders; measured here");
    let (expected, matches) = timed("HashMap", || {
        let discount_of: HashMap<u32, u64> = keys.iter().copied().zip(discounts.iter().copied()).collect();
        let found = ordered_by
            .iter()
            .zip(&amounts)
            .filter_map(|(customer, amount)| Some(amount * discount_of.get(customer)?));
        found.fold((0, 0), |(sum, count), product| (sum + product, count + 1))
    });
    let sum = timed("JoinTable and gather", || {
        sum_through_table(&keys, &discounts, &ordered_by, &amounts)
    });
    assert_eq!(sum, expected, "the join table gives another answer");

    // The same join over whole rows of 64 bytes, as an operator that can be executed in any mode.
    let (build, probe) = (rows(&keys, &discounts), rows(&ordered_by, &amounts));
    let table = RowTable::build(
        &build,
        &BuildOptions::default(),
        &ScopedThreads(2),
        &AtomicBool::new(false),
    )
    .expect("memory for the table");
    let stream = Stream::clustered(probe.len()).expect("32-bit row numbers suffice");
    let join = TableJoin::new(&table, &probe, stream).expect("the stream is of these rows");
    let group = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 32,
    };
    let mut output = vec![OutputRow::default(); matches * 2];
    for mode in [
        Mode::PLAIN,
        Mode::staged(Threads::One, group),
        Mode::staged(Threads::BiThreaded(2), group),
    ] {
        // Each worker has its own output; either may get all matches.
        let (first, second) = output.split_at_mut(matches);
        let mut sinks = vec![RowSink::new(first), RowSink::new(second)];
        sinks.truncate(mode.workers());
        timed(&format!("TableJoin {mode}"), || {
            run(mode, &[&join], &mut sinks, &Options::default()).expect("a mode that exists")
        });
        let counts: Vec<usize> = sinks
            .iter()
            .map(|sink| sink.finish().expect("room for all matches"))
            .collect();
        drop(sinks);
        let parts = output.chunks(matches.max(1)).zip(&counts);
        let sum: u64 = parts.map(|(part, &count)| sum_of(&part[..count])).sum();
        assert_eq!(counts.iter().sum::<usize>(), matches, "{mode} loses matches");
        assert_eq!(sum, expected, "{mode} gives another answer");
    }
    println!("{matches} matches, sum {sum}, the same every time");
}
