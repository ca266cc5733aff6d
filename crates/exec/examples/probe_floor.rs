//! Prints what building, probing and gathering cost beside the floor: one independent random cache line.
//!
//! ```text
//! cargo run --release -p corun-exec --example probe_floor [-- ROWS,ROWS.. [THREADS]]
//! ```
//!
//! All numbers are nanoseconds of CPU time a row, the best of several runs on this machine, with answers checked. Quick to run and
//! meant for tuning constants; `corun-lab bench floor` and `corun-lab bench join` are what is published.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::hint::black_box;
use std::sync::atomic::AtomicBool;

use corun_exec::prefetch::prefetch_far;
use corun_exec::{
    BuildOptions, Chunk, Codes, HugeBuf, JoinTable, Kind, Pairs, ProbeCursor, ScopedThreads, Visited, gather,
};
use corun_model::cache::reuse::Reuse;

const BATCH_ROWS: usize = 8192;
/// Rows of one run. Runs take different rows, so that a large table does not stay in a cache between them.
const RUN_ROWS: usize = 1 << 18;
const RUNS: usize = 16;
const PROBE_ROWS: usize = RUN_ROWS * RUNS;

/// A bijective scramble: distinct inputs give distinct, random-looking outputs.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    mixed ^ mixed >> 33
}

/// CPU seconds this process has used: unlike the wall clock, not disturbed by other programs taking the core.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local that outlives the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the CPU clock of a process is always there");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// CPU nanoseconds a row, best of `runs`, which get their number: what disturbs a run only ever adds.
fn best_ns<R>(rows: usize, runs: usize, mut work: impl FnMut(usize) -> R) -> f64 {
    let times = (0..runs).map(|run| {
        let start = cpu_seconds();
        black_box(work(run));
        (cpu_seconds() - start) * 1e9 / rows as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

/// The floor: reads lines of `bytes` bytes at random, asked for 64 ahead; nothing else.
fn floor_ns(bytes: usize) -> f64 {
    const AHEAD: usize = 64;
    let words = HugeBuf::<u64>::zeroed(bytes.max(64) / 8).expect("memory for the floor");
    let lines = words.len() / 8;
    let places: Vec<u32> = (0..PROBE_ROWS as u64)
        .map(|row| (scrambled(row) % lines as u64 * 8) as u32)
        .collect();
    best_ns(RUN_ROWS, RUNS, |run| {
        let mut sum = 0;
        let places = &places[run * RUN_ROWS..][..RUN_ROWS];
        for (index, &place) in places.iter().enumerate() {
            let later = places.get(index + AHEAD).copied().unwrap_or(0);
            prefetch_far(&words[later as usize]);
            sum += words[place as usize];
        }
        assert_eq!(sum, 0);
    })
}

/// Probes in batches and returns the number of pairs and the sum of their build rows.
fn probe_all(table: &JoinTable, codes: &[u64]) -> (u64, u64) {
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let (mut count, mut sum) = (0, 0);
    for batch in codes.chunks(BATCH_ROWS) {
        cursor.reset();
        loop {
            let codes = Codes::U64 {
                values: batch,
                bias: 0,
            };
            let finished = table.probe(&codes, None, None, &mut cursor, BATCH_ROWS, &mut pairs);
            count += pairs.len() as u64;
            sum += pairs.build.iter().map(|&row| u64::from(row)).sum::<u64>();
            if finished {
                break;
            }
        }
    }
    (count, sum)
}

fn report(name: &str, rows: usize, copies: u64, threads: usize, key: impl Fn(u64) -> u64) {
    let distinct = rows as u64 / copies;
    let build: Vec<u64> = (0..rows as u64).map(|row| key(row % distinct)).collect();
    let chunks: Vec<Chunk<'_>> = build
        .chunks(BATCH_ROWS)
        .enumerate()
        .map(|(number, values)| Chunk {
            codes: Codes::U64 { values, bias: 0 },
            valid: None,
            first_row: (number * BATCH_ROWS) as u32,
        })
        .collect();
    let options = BuildOptions {
        l2_bytes: 2 << 20,
        llc_bytes: 32 << 20,
        ..BuildOptions::default()
    };
    let cancel = AtomicBool::new(false);
    let make = || JoinTable::build(&chunks, &options, &ScopedThreads(threads), &cancel).expect("a table");
    let build_ns = best_ns(rows, 7, |_| make());
    let table = make();

    let numbers: Vec<u64> = (0..PROBE_ROWS as u64)
        .map(|row| scrambled(row + 99) % distinct)
        .collect();
    let hits: Vec<u64> = numbers.iter().map(|&number| key(number)).collect();
    let misses: Vec<u64> = numbers.iter().map(|&number| key(number + (1 << 40))).collect();
    let list_sum = copies * (copies - 1) / 2 * distinct;
    let part = |run: usize| run * RUN_ROWS..(run + 1) * RUN_ROWS;
    let expected: Vec<(u64, u64)> = (0..RUNS)
        .map(|run| {
            let sum = numbers[part(run)]
                .iter()
                .map(|&number| number * copies + list_sum)
                .sum();
            (RUN_ROWS as u64 * copies, sum)
        })
        .collect();
    let hit_ns = best_ns(RUN_ROWS, RUNS, |run| {
        assert_eq!(probe_all(&table, &hits[part(run)]), expected[run])
    });
    let miss_ns = best_ns(RUN_ROWS, RUNS, |run| {
        assert_eq!(probe_all(&table, &misses[part(run)]), (0, 0))
    });
    let mut matching = Vec::new();
    let semi_ns = best_ns(RUN_ROWS, RUNS, |run| {
        for batch in hits[part(run)].chunks(BATCH_ROWS) {
            table.matches(
                &Codes::U64 {
                    values: batch,
                    bias: 0,
                },
                None,
                None,
                &mut matching,
            );
            assert_eq!(matching.len(), batch.len());
        }
    });
    let visited = Visited::new(rows);
    let mark_ns = best_ns(RUN_ROWS, RUNS, |run| {
        for batch in hits[part(run)].chunks(BATCH_ROWS) {
            table.mark(
                &Codes::U64 {
                    values: batch,
                    bias: 0,
                },
                None,
                None,
                &visited,
            );
        }
    });
    let payload = {
        let mut payload = HugeBuf::<u64>::zeroed(rows).expect("memory for the payload");
        payload
            .iter_mut()
            .enumerate()
            .for_each(|(row, value)| *value = row as u64 * 3);
        payload
    };
    let rows_found: Vec<u32> = numbers.iter().map(|&number| number as u32).collect();
    let mut gathered = Vec::new();
    let gather_ns = best_ns(RUN_ROWS, RUNS, |run| {
        for batch in rows_found[part(run)].chunks(BATCH_ROWS) {
            gather(&payload, batch, Reuse::Keep, &mut gathered);
            assert_eq!(gathered[0], u64::from(batch[0]) * 3);
        }
    });
    let kind = match table.kind() {
        Kind::Dense => "dense",
        Kind::Buckets32 => "buckets32",
        Kind::Buckets64 => "buckets64",
    };
    let floor = floor_ns(table.bytes());
    println!(
        "{name:<10} {rows:>9} {kind:<9} {:>7.1} {floor:>6.2} {build_ns:>6.2} {hit_ns:>6.2} {:>5.2} {miss_ns:>6.2} \
         {semi_ns:>6.2} {mark_ns:>6.2} {gather_ns:>7.2}",
        table.bytes() as f64 / rows as f64,
        hit_ns / floor
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let rows = arguments
        .next()
        .unwrap_or("10000,100000,1000000,16000000".to_owned());
    let threads = arguments
        .next()
        .map_or(1, |threads| threads.parse().expect("a number of threads"));
    println!("CPU ns a row, measured here, {threads} thread(s) building, 1 probing; bytes: a build row");
    println!(
        "keys            rows kind        bytes  floor  build  probe ratio   miss   semi   mark  gather"
    );
    for rows in rows
        .split(',')
        .map(|rows| rows.parse::<usize>().expect("a number of rows"))
    {
        report("sparse", rows, 1, threads, scrambled);
        report("sparse32", rows, 1, threads, |number| {
            number.wrapping_mul(0x9e37_79b1) & 0xffff_ffff | number >> 40 << 40
        });
        report("shuffled", rows, 1, threads, |number| {
            let rows = rows as u64;
            if number < rows {
                number * 7_368_787 % rows
            } else {
                number
            }
        });
        report("in order", rows, 1, threads, |number| number);
        report("four each", rows, 4, threads, scrambled);
    }
}
