//! Every path through the unsafe code once, on data small enough for Miri: `make miri` runs this file, and so does
//! every `cargo test`. Breadth and size are the property tests' job, inside the crate.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use corun_exec::{
    BuildOptions, Chunk, Codes, HugeBuf, JoinTable, Kind, Pairs, ProbeCursor, ScopedThreads, Serial,
    Validity, Visited, Workers, gather,
};
use corun_model::cache::reuse::Reuse;

/// Build rows of each code, in order.
fn oracle(codes: &[u64], valid: impl Fn(usize) -> bool) -> HashMap<u64, Vec<u32>> {
    let mut rows: HashMap<u64, Vec<u32>> = HashMap::new();
    for (row, &code) in codes.iter().enumerate().filter(|(row, _)| valid(*row)) {
        rows.entry(code).or_default().push(row as u32);
    }
    rows
}

fn build(codes: &[u64], valid: Option<&[u8]>, options: &BuildOptions, workers: &dyn Workers) -> JoinTable {
    // Two chunks, the second beginning inside a byte of the bitmap.
    let half = codes.len() / 2;
    let chunk = |from: usize, to: usize| Chunk {
        codes: Codes::U64 {
            values: &codes[from..to],
            bias: 0,
        },
        valid: valid.map(|bytes| Validity::new(bytes, from, to - from)),
        first_row: from as u32,
    };
    let chunks = [chunk(0, half), chunk(half, codes.len())];
    JoinTable::build(&chunks, options, workers, &AtomicBool::new(false)).expect("memory for a small table")
}

/// Probes with `limit` pairs a call and compares all three ways to ask with the oracle.
fn check(
    table: &JoinTable,
    expected: &HashMap<u64, Vec<u32>>,
    probes: &[u64],
    build_rows: usize,
    limit: usize,
) {
    let codes = Codes::U64 {
        values: probes,
        bias: 0,
    };
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let mut found = Vec::new();
    loop {
        let finished = table.probe(&codes, None, None, &mut cursor, limit, &mut pairs);
        assert!(pairs.len() <= limit);
        found.extend(pairs.probe.iter().copied().zip(pairs.build.iter().copied()));
        if finished {
            break;
        }
    }
    let none = Vec::new();
    let partners = |code: &u64| expected.get(code).unwrap_or(&none);
    let wanted: Vec<(u32, u32)> = (0_u32..)
        .zip(probes)
        .flat_map(|(row, code)| partners(code).iter().map(move |&build_row| (row, build_row)))
        .collect();
    assert_eq!(found, wanted);

    // Every other row, twice.
    let selection: Vec<u32> = (0..probes.len() as u32)
        .step_by(2)
        .flat_map(|row| [row, row])
        .collect();
    let mut matched = Vec::new();
    table.matches(&codes, None, Some(&selection), &mut matched);
    let has_partner = |row: &u32| !partners(&probes[*row as usize]).is_empty();
    assert_eq!(
        matched,
        selection.into_iter().filter(has_partner).collect::<Vec<u32>>()
    );

    let visited = Visited::new(build_rows);
    table.mark(&codes, None, None, &visited);
    let mut marked = Vec::new();
    visited.select(0..build_rows, true, &mut marked);
    let mut all: Vec<u32> = wanted.iter().map(|&(_, build_row)| build_row).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(marked, all);
}

#[test]
fn every_kind_finds_what_a_hash_map_finds() {
    // A multiple of 7 would make the shuffle below repeat numbers.
    let rows: u64 = if cfg!(miri) { 48 } else { 180 };
    // Codes close together, within 32 bits, and anywhere; one in three occurs three times.
    for (stretch, kind) in [
        (1, Kind::Dense),
        (5_000_011, Kind::Buckets32),
        (u64::MAX / 400, Kind::Buckets64),
    ] {
        for repeated in [false, true] {
            let number = |row: u64| {
                if repeated && row.is_multiple_of(3) {
                    row % 9
                } else {
                    row
                }
            };
            let codes: Vec<u64> = (0..rows)
                .map(|row| 7 + number(row * 7 % rows) * stretch)
                .collect();
            let bitmap: Vec<u8> = (0..23_u8).map(|byte| byte.wrapping_mul(37) | 5).collect();
            for valid in [None, Some(bitmap.as_slice())] {
                let is_valid = |row: usize| valid.is_none_or(|bytes| bytes[row / 8] >> (row % 8) & 1 == 1);
                let options = BuildOptions {
                    l2_bytes: 1 << 14,
                    force: Some(kind),
                    // With and without prefetching, and of both kinds.
                    prefetch_from_bytes: if valid.is_some() { 0 } else { usize::MAX },
                    ..BuildOptions::default()
                };
                let mut table = build(&codes, valid, &options, &Serial);
                table.set_reuse(if repeated { Reuse::Once } else { Reuse::Keep });
                assert_eq!(table.kind(), kind);
                let expected = oracle(&codes, is_valid);
                assert_eq!(table.distinct_keys(), expected.len());
                let mut probes = codes.clone();
                probes.extend([0, 6, u64::MAX, 7 + (rows - 1) * stretch + 1]);
                for limit in [1, 10_000] {
                    check(&table, &expected, &probes, codes.len(), limit);
                }
            }
        }
    }
}

#[test]
fn narrow_codes_with_a_bias_are_the_same_codes() {
    let keys: Vec<u32> = [-3_i32, 0, 5, -3, i32::MIN, i32::MAX]
        .map(|key| key as u32)
        .to_vec();
    let chunk = Chunk {
        codes: Codes::U32 {
            values: &keys,
            bias: 1 << 31,
        },
        valid: None,
        first_row: 0,
    };
    let table = JoinTable::build(
        &[chunk],
        &BuildOptions::default(),
        &Serial,
        &AtomicBool::new(false),
    )
    .expect("memory for a small table");
    assert_eq!(table.code_bounds(), Some((0, u64::from(u32::MAX))));
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let probes = Codes::U32 {
        values: &keys[3..],
        bias: 1 << 31,
    };
    assert!(table.probe(&probes, None, None, &mut cursor, 100, &mut pairs));
    assert_eq!((pairs.build, pairs.probe), (vec![0, 3, 4, 5], vec![0, 0, 1, 2]));
}

#[test]
fn builds_by_partitions_and_threads_agree() {
    // Just past the size from which builds are partitioned; sparse codes, every 16th of them twice.
    let rows: u64 = if cfg!(miri) { 300 } else { 100_200 };
    let codes: Vec<u64> = (0..rows)
        .map(|row| (row - row % 16 / 15).wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .collect();
    let options = BuildOptions {
        l2_bytes: 1 << 20,
        ..BuildOptions::default()
    };
    let table = build(&codes, None, &options, &ScopedThreads(2));
    assert_eq!(table.kind(), Kind::Buckets64);
    assert_eq!((table.rows(), table.is_unique()), (rows as usize, false));
    let expected = oracle(&codes, |_| true);
    let probes: Vec<u64> = codes
        .iter()
        .copied()
        .step_by(if cfg!(miri) { 1 } else { 997 })
        .chain([1, 2, 3])
        .collect();
    check(&table, &expected, &probes, rows as usize, 64);
}

#[test]
fn payload_is_gathered_and_marks_of_two_threads_are_kept() {
    let source: Vec<u64> = (0..500).map(|row| row * row).collect();
    let rows: Vec<u32> = (0..700).map(|row| row * 13 % 500).collect();
    let expected: Vec<u64> = rows.iter().map(|&row| source[row as usize]).collect();
    let mut out = vec![99; 3];
    gather(&source, &rows, Reuse::Keep, &mut out);
    assert_eq!(out, expected);
    let far = HugeBuf::<u64>::zeroed(1 << 17).expect("memory for a column");
    gather(&far, &rows, Reuse::Once, &mut out);
    assert!(out.len() == rows.len() && out.iter().all(|&value| value == 0));

    let visited = Visited::new(1_000);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let visited = &visited;
            scope.spawn(move || {
                (0..1_000)
                    .skip(thread)
                    .step_by(2)
                    .for_each(|row| visited.mark(row))
            });
        }
    });
    assert_eq!(visited.count(), 1_000);
}

#[test]
fn large_buffers_are_zeroed_and_aligned() {
    let small = HugeBuf::<u32>::zeroed(5).expect("memory");
    assert_eq!((&small[..], small.as_ptr() as usize % 64), ([0; 5].as_slice(), 0));
    let large = HugeBuf::<u64>::zeroed(600_000).expect("memory");
    assert_eq!(
        (large.len(), large[599_999], large.as_ptr() as usize % 64),
        (600_000, 0, 0)
    );
    assert!(HugeBuf::<u64>::zeroed(usize::MAX / 4).is_err());
}
