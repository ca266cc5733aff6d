//! Indexes a column with a CSB+-tree: loads it, asks for one key, a range and a batch of keys.
//!
//! ```text
//! cargo run --release -p corun-exec --example index_a_column [-- ROWS]
//! ```
//!
//! The column is the price of each row, in any order and with duplicates. Every answer is compared with a scan.
//! Times are wall clock on this machine, one run each, and say little; `corun-lab bench memory-latency` measures.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::time::Instant;

use corun_exec::csb::CsbTree;
use corun_exec::operators::{NO_ROW, lookup_batch};
use corun_model::operators::mode::{Hiding, Schedule};

/// Keys a batch: what an operator has at hand at once.
const BATCH_KEYS: usize = 8192;

/// Numbers that look random.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// Prints how long a piece of work over `items` took and gives its result back.
fn timed<R>(name: &str, items: usize, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    let ns = start.elapsed().as_secs_f64() * 1e9 / items.max(1) as f64;
    println!("{name:<36} {ns:>8.1} ns each");
    result
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u32 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let prices: Vec<f64> = (0..u64::from(rows))
        .map(|row| (scrambled(row) % (u64::from(rows) * 2)) as f64 / 100.0)
        .collect();
    println!("{rows} rows; measured here");

    // A tree is loaded from sorted columns: row numbers in the order of their keys, equal keys in the order of rows.
    let mut rids: Vec<u32> = (0..rows).collect();
    rids.sort_by(|&a, &b| prices[a as usize].total_cmp(&prices[b as usize]).then(a.cmp(&b)));
    let keys: Vec<f64> = rids.iter().map(|&rid| prices[rid as usize]).collect();
    let tree: CsbTree<f64> = timed("bulk load", keys.len(), || CsbTree::bulk_load(&keys, &rids, 1.0))?;
    println!(
        "{} inner levels, {:.1} bytes a row",
        tree.height(),
        tree.bytes() as f64 / f64::from(rows.max(1))
    );

    // A range, in the order of the keys.
    let (low, high) = (f64::from(rows) * 0.005, f64::from(rows) * 0.006);
    let in_range = timed("range", 1, || tree.range(low..high).count());
    let scanned = prices.iter().filter(|&&price| (low..high).contains(&price));
    assert_eq!(in_range, scanned.count(), "the range has other rows than a scan");
    println!("{in_range} rows between {low} and {high}");

    // Many keys: one after the other, and in batches whose lookups wait for memory together. Some are not there.
    let wanted: Vec<f64> = (0..u64::from(rows))
        .map(|lookup| (scrambled(!lookup) % (u64::from(rows) * 2)) as f64 / 100.0)
        .collect();
    let one_by_one: Vec<u32> = timed("get", wanted.len(), || {
        wanted
            .iter()
            .map(|&key| tree.get(key).unwrap_or(NO_ROW))
            .collect()
    });
    let group = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 32,
    };
    let mut found = vec![NO_ROW; wanted.len()];
    timed("lookup_batch, group of 32", wanted.len(), || {
        wanted
            .chunks(BATCH_KEYS)
            .zip(found.chunks_mut(BATCH_KEYS))
            .try_for_each(|(keys, rids)| lookup_batch(&tree, keys, rids, group))
    })?;
    assert_eq!(found, one_by_one, "a batch finds other rows");
    for (&key, &rid) in wanted.iter().zip(&found) {
        let first = keys.partition_point(|&other| other < key);
        let expected = (keys.get(first) == Some(&key)).then(|| rids[first]);
        assert_eq!(expected.unwrap_or(NO_ROW), rid, "the price {key}");
    }
    Ok(())
}
