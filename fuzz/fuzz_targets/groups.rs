//! Groups rows whose keys and values come from bytes, in several threads' parts, and compares the groups with an ordinary map.
//!
//! The first bytes choose the words of a key, functions, bytes of a table, partitions, seed, rows of a batch, which rows have no key or
//! no value, how many keys are numbered, and what is done between batches; the rest are keys, spread so that few and many groups are
//! reached, and values.
#![no_main]

use std::collections::HashMap;

use corun_exec::groups::{Argument, Fold, Layout, LocalGroups, Options, Partitioned, Values, merge};
use corun_exec::{Codes, Validity};
use libfuzzer_sys::fuzz_target;

/// Reads single bytes, then 0 for ever.
struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl Bytes<'_> {
    fn next(&mut self) -> u64 {
        self.0.next().copied().map_or(0, u64::from)
    }
}

/// The states of a group, two words each; the functions of one word leave the second 0.
type States = Vec<[u64; 2]>;

fn fold_into(fold: Fold, state: &mut [u64; 2], value: i64) {
    let wide = (u128::from(state[1]) << 64 | u128::from(state[0])) as i128;
    let code = value as u64 ^ 1 << 63;
    match fold {
        Fold::Count => state[0] += 1,
        Fold::SumI64 => state[0] = state[0].wrapping_add(value as u64),
        Fold::Min => state[0] = state[0].min(code),
        Fold::Max => state[0] = state[0].max(code),
        _ => {
            let sum = wide.wrapping_add(i128::from(value)) as u128;
            *state = [sum as u64, (sum >> 64) as u64];
        }
    }
}

fn states_of(layout: &Layout, record: &[u64]) -> States {
    let folds = layout.folds().iter().enumerate();
    let state = |(number, fold): (usize, &Fold)| {
        let words = &record[layout.offset(number)..];
        [words[0], if fold.words() == 2 { words[1] } else { 0 }]
    };
    folds.map(state).collect()
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Bytes(data.iter());
    let key_words = bytes.next() as usize % 3 + 1;
    let chosen = bytes.next();
    let all = [
        Fold::Count,
        Fold::SumI64,
        Fold::Min,
        Fold::Max,
        Fold::SumI128,
        Fold::Skipped,
    ];
    let folds: Vec<Fold> = (0..6)
        .filter(|bit| chosen >> bit & 1 == 1)
        .map(|bit| all[bit])
        .collect();
    let layout = Layout::new(key_words, folds);
    let options = Options {
        table_bytes: (bytes.next() as usize) << 4,
        partition_bits: bytes.next() as u32 % 9,
        seed: bytes.next(),
    };
    let batch_rows = bytes.next() as usize * 4 + 1;
    let (nulls, missing) = (bytes.next(), bytes.next());
    let family = bytes.next();
    let numbers_max = bytes.next() as usize * 16;
    let mut actions = bytes.next();

    let rest = bytes.0.as_slice();
    let number = |row: usize| u64::from(rest[row * 3]) | u64::from(rest[row * 3 + 1]) << 8;
    let rows = rest.len() / 3;
    let key = |row: usize, word: usize| match family % 4 {
        0 => number(row) % 7 + word as u64,
        1 => number(row) << (16 * word),
        2 => number(row).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> word,
        _ => row as u64 * (word as u64 + 1),
    };
    let value = |row: usize| i64::from(rest[row * 3 + 2] as i8).wrapping_mul(1 << (family % 60));
    // Bits of rows by position in their batch.
    let mask = |pattern: u64| -> Vec<u8> {
        (0..batch_rows / 8 + 1)
            .map(|byte| (pattern.rotate_left(byte as u32) | pattern) as u8)
            .collect()
    };
    let (key_mask, value_mask) = (mask(nulls), mask(missing));
    let has = |mask: &[u8], pattern: u64, row: usize| pattern == 0 || mask[row / 8] >> (row % 8) & 1 == 1;

    let mut expected = HashMap::<Option<Vec<u64>>, States>::new();
    let mut locals: Vec<LocalGroups> = (0..2)
        .map(|_| {
            let mut local = LocalGroups::new(layout.clone(), &options).expect("a small table");
            local.number(numbers_max).expect("few numbers");
            local
        })
        .collect();
    let mut numbered = vec![Some(HashMap::<Option<Vec<u64>>, u32>::new()); 2];
    let mut parts: Vec<Partitioned> = Vec::new();
    for (number, start) in (0..rows).step_by(batch_rows).enumerate() {
        let range = start..rows.min(start + batch_rows);
        let columns: Vec<Vec<u64>> = (0..key_words)
            .map(|word| range.clone().map(|row| key(row, word)).collect())
            .collect();
        let values: Vec<i64> = range.clone().map(value).collect();
        let codes: Vec<u64> = values.iter().map(|value| *value as u64).collect();
        for (place, row) in range.clone().enumerate() {
            let has_key = has(&key_mask, nulls, place);
            let group = has_key.then(|| columns.iter().map(|column| column[place]).collect());
            let states = expected
                .entry(group)
                .or_insert_with(|| states_of(&layout, layout.initial()));
            let counts = has(&value_mask, missing, place);
            for (fold, state) in layout.folds().iter().zip(states) {
                match fold {
                    Fold::Skipped => state[0] += u64::from(!counts),
                    fold if counts => fold_into(*fold, state, value(row)),
                    _ => {}
                }
            }
        }
        let keys: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
        let valid = (nulls != 0).then(|| Validity::new(&key_mask, 0, range.len()));
        let arguments: Vec<Argument<'_>> = layout
            .folds()
            .iter()
            .map(|fold| Argument {
                values: match fold {
                    Fold::Count | Fold::Skipped => Values::None,
                    Fold::Min | Fold::Max => Values::Codes(Codes::U64 {
                        values: &codes,
                        bias: 1 << 63,
                    }),
                    _ => Values::I64(&values),
                },
                valid: (missing != 0).then(|| Validity::new(&value_mask, 0, range.len())),
            })
            .collect();
        let local = &mut locals[number % 2];
        let numbers = numbered[number % 2].as_mut().and_then(|known| {
            let number_of = |place: usize| {
                let has_key = has(&key_mask, nulls, place);
                let key = has_key.then(|| columns.iter().map(|column| column[place]).collect());
                let next = known.len() as u32;
                *known.entry(key).or_insert(next)
            };
            let numbers: Vec<u32> = (0..range.len()).map(number_of).collect();
            (known.len() <= numbers_max).then_some(numbers)
        });
        let is_folded = numbers.is_some_and(|numbers| {
            let unknown: Vec<usize> = local.find(&numbers).map(|row| row as usize).collect();
            let columns: Vec<Vec<u64>> = columns
                .iter()
                .map(|column| unknown.iter().map(|row| column[*row]).collect())
                .collect();
            let keys: Vec<&[u64]> = columns.iter().map(Vec::as_slice).collect();
            let mut mask = vec![0; unknown.len().div_ceil(8)];
            for (place, row) in unknown.iter().enumerate() {
                mask[place / 8] |= u8::from(has(&key_mask, nulls, *row)) << (place % 8);
            }
            let valid = Some(Validity::new(&mask, 0, unknown.len()));
            let had_room = local.introduce(&keys, valid).expect("small records");
            if had_room {
                local.fold(&arguments);
            }
            had_room
        });
        if !is_folded {
            numbered[number % 2] = None;
            local.push(&keys, valid, &arguments).expect("small records");
        }
        match actions % 4 {
            1 => drop(local.reduce().expect("small records")),
            2 => parts.push(local.take().expect("small records")),
            _ => {}
        }
        actions = actions.rotate_right(2) ^ number as u64;
    }
    parts.extend(
        locals
            .into_iter()
            .map(|local| local.finish().expect("small records")),
    );

    let mut found = HashMap::<Option<Vec<u64>>, States>::new();
    let null_groups = parts.iter().filter_map(Partitioned::null_group);
    let null = null_groups.map(<[u64]>::to_vec).reduce(|mut all, more| {
        layout.combine(&mut all, &more);
        all
    });
    if let Some(null) = null {
        found.insert(None, states_of(&layout, &null));
    }
    for partition in 0..1 << options.partition_bits {
        let chunks: Vec<Vec<u64>> = parts.iter_mut().flat_map(|part| part.take(partition)).collect();
        let groups = merge(&layout, chunks, &options).expect("small groups");
        for group in 0..groups.len() {
            let record = groups.records(group..group + 1);
            let twice = found.insert(Some(record[..key_words].to_vec()), states_of(&layout, record));
            assert!(twice.is_none(), "a group in two pieces");
        }
    }
    assert_eq!(found, expected);
});
