//! Builds and probes a join table from bytes and compares it with an ordinary map.
//!
//! The first bytes choose kind, chunking, threads, limit, bias, seed and whether rows can be NULL; the rest are keys, half
//! of them built, all of them probed. Keys are spread by one of several families, so that short inputs reach equal keys,
//! neighbours, multiples of 2^32 and both ends of the range.
#![no_main]

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use corun_exec::{
    BuildOptions, Chunk, Codes, JoinTable, Kind, Pairs, ProbeCursor, ScopedThreads, Serial, Validity,
    Visited, Workers,
};
use corun_model::cache::reuse::Reuse;
use libfuzzer_sys::fuzz_target;

/// Reads single bytes, then 0 for ever.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u64 {
        self.0.next().copied().map_or(0, u64::from)
    }
}

fn code(family: u64, number: u64) -> u64 {
    match family % 6 {
        0 => number,
        1 => number << 32,
        2 => u64::MAX - number,
        3 => (1 << 32) - 100 + number,
        4 => number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        _ => number / 16,
    }
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data.iter());
    let kind = [None, Some(Kind::Buckets32), Some(Kind::Buckets64), None][bytes.next() as usize % 4];
    let chunk_rows = bytes.next() as usize + 1;
    let serial = bytes.next() % 2 == 0;
    let limit = bytes.next() as usize + 1;
    let bias = bytes.next() << 56;
    let seed = bytes.next();
    let nulls = bytes.next();
    let family = bytes.next();
    let mixed = family >= 128;

    let rest = bytes.0.as_slice();
    let keys: Vec<u64> = rest
        .chunks(2)
        .enumerate()
        .map(|(row, pair)| {
            let number = u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 8;
            code(if mixed { row as u64 } else { family }, number)
        })
        .collect();
    let values: Vec<u64> = keys.iter().map(|key| key ^ bias).collect();
    let valid_bytes: Vec<u8> = (0..keys.len() / 8 + 2)
        .map(|byte| (nulls.rotate_left(byte as u32) | nulls) as u8)
        .collect();
    let validity =
        |offset: usize, rows: usize| (nulls != 0).then(|| Validity::new(&valid_bytes, offset, rows));
    let is_valid = |row: usize| nulls == 0 || valid_bytes[row / 8] >> (row % 8) & 1 == 1;

    let built = keys.len() / 2;
    let chunks: Vec<Chunk<'_>> = values[..built]
        .chunks(chunk_rows)
        .enumerate()
        .map(|(number, values)| Chunk {
            codes: Codes::U64 { values, bias },
            valid: validity(number * chunk_rows, values.len()),
            first_row: (number * chunk_rows) as u32,
        })
        .collect();
    let near = BuildOptions::default();
    let options = BuildOptions {
        force: kind,
        seed,
        // Small tables are probed with prefetching, too.
        prefetch_from_bytes: if seed % 2 == 0 { 0 } else { near.prefetch_from_bytes },
        ..near
    };
    let workers: &dyn Workers = if serial { &Serial } else { &ScopedThreads(2) };
    let mut table =
        JoinTable::build(&chunks, &options, workers, &AtomicBool::new(false)).expect("a small table");
    table.set_reuse(if seed % 4 < 2 { Reuse::Keep } else { Reuse::Once });

    let mut oracle = HashMap::<u64, Vec<u32>>::new();
    for row in (0..built).filter(|&row| is_valid(row)) {
        oracle.entry(keys[row]).or_default().push(row as u32);
    }
    assert_eq!(table.distinct_keys(), oracle.len());
    let mut expected = Pairs::default();
    let mut expected_rows = Vec::new();
    for row in (0..keys.len()).filter(|&row| is_valid(row)) {
        let partners = oracle.get(&keys[row]).map_or(&[][..], Vec::as_slice);
        // Equal keys would make quadratic work; the limit below cuts the comparison, not the check of its beginning.
        if expected.len() < 100_000 {
            expected.build.extend(partners);
            expected.probe.extend(partners.iter().map(|_| row as u32));
        }
        if !partners.is_empty() {
            expected_rows.push(row as u32);
        }
    }

    let codes = Codes::U64 {
        values: &values,
        bias,
    };
    let valid = validity(0, values.len());
    let (mut cursor, mut pairs, mut all) = (ProbeCursor::default(), Pairs::default(), Pairs::default());
    loop {
        let finished = table.probe(&codes, valid, None, &mut cursor, limit, &mut pairs);
        assert!(pairs.len() <= limit && (finished || !pairs.is_empty()));
        all.build.extend(&pairs.build);
        all.probe.extend(&pairs.probe);
        if finished || all.len() >= 100_000 {
            break;
        }
    }
    let compared = all.len().min(expected.len());
    assert!(compared == expected.len() || compared >= 100_000);
    assert_eq!(all.build[..compared], expected.build[..compared]);
    assert_eq!(all.probe[..compared], expected.probe[..compared]);

    let mut matches = Vec::new();
    table.matches(&codes, valid, None, &mut matches);
    assert_eq!(matches, expected_rows);
    let visited = Visited::new(built);
    table.mark(&codes, valid, None, &visited);
    assert_eq!(
        visited.count(),
        table.rows(),
        "every build row is probed with its own key"
    );
});
