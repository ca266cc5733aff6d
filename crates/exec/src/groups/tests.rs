//! Groups against a naive oracle: an ordinary map from keys to lists of rows.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::layout::{state_of, words_of};
use super::{Argument, Fold, Groups, Layout, LocalGroups, Options, Partitioned, Values, merge};
use crate::codes::{Codes, Validity};
use crate::table::hash::Mixer;

/// Numbers that only look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn wide(&mut self) -> i128 {
        words_to_i128(self.next(), self.next())
    }
}

fn words_to_i128(low: u64, high: u64) -> i128 {
    (u128::from(high) << 64 | u128::from(low)) as i128
}

/// A bitmap that begins inside a byte.
struct Bitmap {
    bytes: Vec<u8>,
    offset: usize,
    rows: usize,
}

impl Bitmap {
    fn random(rows: usize, numbers: &mut Numbers) -> Bitmap {
        let offset = numbers.below(11) as usize;
        let density = numbers.below(3);
        let bytes = (0..(offset + rows).div_ceil(8))
            .map(|_| match density {
                0 => numbers.next() as u8,
                1 => (numbers.next() & numbers.next() & numbers.next()) as u8,
                _ => (numbers.next() | numbers.next() | numbers.next()) as u8,
            })
            .collect();
        Bitmap { bytes, offset, rows }
    }

    fn validity(&self) -> Validity<'_> {
        Validity::new(&self.bytes, self.offset, self.rows)
    }
}

/// One function's argument.
enum Column {
    None,
    I32(Vec<i32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    U32(Vec<u32>, u32),
    U64(Vec<u64>, u64),
}

impl Column {
    fn random(fold: Fold, rows: usize, numbers: &mut Numbers) -> Column {
        let kind = numbers.below(3);
        match (fold, kind) {
            // Nobody looks at it.
            (Fold::Count | Fold::Skipped, 0) => Column::F64(vec![0.0; 3]),
            (Fold::Count | Fold::Skipped, _) => Column::None,
            (Fold::SumI64, 0) | (Fold::SumI128, 0) => {
                Column::I32((0..rows).map(|_| numbers.next() as i32).collect())
            }
            (Fold::SumI64, _) | (Fold::SumI128, 1) => {
                Column::I64((0..rows).map(|_| numbers.next() as i64).collect())
            }
            // Sums of these are exact in any order.
            (Fold::SumF64, _) => Column::F64((0..rows).map(|_| numbers.below(1000) as f64 - 500.0).collect()),
            (Fold::SumI128, _) | (Fold::MinI128 | Fold::MaxI128, _) => {
                Column::I128((0..rows).map(|_| numbers.wide()).collect())
            }
            (Fold::Min | Fold::Max, 0) => {
                Column::U32((0..rows).map(|_| numbers.next() as u32).collect(), 1 << 31)
            }
            (Fold::Min | Fold::Max, _) => Column::U64((0..rows).map(|_| numbers.next()).collect(), 1 << 63),
        }
    }

    fn values(&self) -> Values<'_> {
        match self {
            Column::None => Values::None,
            Column::I32(values) => Values::I32(values),
            Column::I64(values) => Values::I64(values),
            Column::F64(values) => Values::F64(values),
            Column::I128(values) => Values::I128(values),
            &Column::U32(ref values, bias) => Values::Codes(Codes::U32 { values, bias }),
            &Column::U64(ref values, bias) => Values::Codes(Codes::U64 { values, bias }),
        }
    }

    /// The value of a row as a number; those of floats are whole.
    fn number(&self, row: usize) -> i128 {
        match self {
            Column::None => 0,
            Column::I32(values) => i128::from(values[row]),
            Column::I64(values) => i128::from(values[row]),
            Column::F64(values) => values.get(row).map_or(0, |&value| value as i128),
            Column::I128(values) => values[row],
            Column::U32(values, bias) => i128::from(values[row] ^ bias),
            Column::U64(values, bias) => i128::from(values[row] ^ bias),
        }
    }
}

struct Batch {
    keys: Vec<Vec<u64>>,
    valid: Option<Bitmap>,
    arguments: Vec<(Column, Option<Bitmap>)>,
}

impl Batch {
    fn random(
        layout: &Layout,
        rows: usize,
        key: &mut dyn FnMut(&mut Numbers) -> Vec<u64>,
        numbers: &mut Numbers,
    ) -> Batch {
        let mut keys = vec![Vec::new(); layout.key_words()];
        for _ in 0..rows {
            for (column, word) in keys.iter_mut().zip(key(numbers)) {
                column.push(word);
            }
        }
        let valid = (numbers.below(2) == 0).then(|| Bitmap::random(rows, numbers));
        let arguments = layout
            .folds()
            .iter()
            .map(|&fold| {
                let mask = (numbers.below(2) == 0).then(|| Bitmap::random(rows, numbers));
                (Column::random(fold, rows, numbers), mask)
            })
            .collect();
        Batch {
            keys,
            valid,
            arguments,
        }
    }

    fn arguments(&self) -> Vec<Argument<'_>> {
        let arguments = self.arguments.iter();
        arguments
            .map(|(column, mask)| Argument {
                values: column.values(),
                valid: mask.as_ref().map(Bitmap::validity),
            })
            .collect()
    }

    fn push_to(&self, local: &mut LocalGroups) {
        let keys: Vec<&[u64]> = self.keys.iter().map(Vec::as_slice).collect();
        let valid = self.valid.as_ref().map(Bitmap::validity);
        local.push(&keys, valid, &self.arguments()).unwrap();
    }

    /// Folds the rows by the numbers of their keys. `false`, and the rows are for [`Batch::push_to`], where the table has no room.
    fn fold_into(&self, local: &mut LocalGroups, numbers: &[u32]) -> bool {
        let unknown: Vec<u32> = local.find(numbers).collect();
        let of_rows =
            |word: &Vec<u64>| -> Vec<u64> { unknown.iter().map(|&row| word[row as usize]).collect() };
        let keys: Vec<Vec<u64>> = self.keys.iter().map(of_rows).collect();
        let keys: Vec<&[u64]> = keys.iter().map(Vec::as_slice).collect();
        let valid = self.valid.as_ref().map(|valid| {
            let mut of_unknown = vec![0; unknown.len().div_ceil(8)];
            for (number, &row) in unknown.iter().enumerate() {
                of_unknown[number / 8] |= u8::from(valid.validity().is_valid(row as usize)) << (number % 8);
            }
            of_unknown
        });
        let valid = valid.as_ref().map(|bytes| Validity::new(bytes, 0, unknown.len()));
        let had_room = local.introduce(&keys, valid).unwrap();
        if had_room {
            local.fold(&self.arguments());
        }
        had_room
    }

    fn key(&self, row: usize) -> Option<Vec<u64>> {
        let valid = self
            .valid
            .as_ref()
            .is_none_or(|valid| valid.validity().is_valid(row));
        valid.then(|| self.keys.iter().map(|word| word[row]).collect())
    }
}

type States = BTreeMap<Option<Vec<u64>>, Vec<i128>>;

/// The states of all groups, each as a number.
fn oracle(layout: &Layout, batches: &[Batch]) -> States {
    let mut rows = BTreeMap::<Option<Vec<u64>>, Vec<(&Batch, usize)>>::new();
    for batch in batches {
        for row in 0..batch.keys[0].len() {
            rows.entry(batch.key(row)).or_default().push((batch, row));
        }
    }
    rows.into_iter()
        .map(|(key, rows)| {
            let states = layout.folds().iter().enumerate().map(|(number, fold)| {
                let values = rows.iter().filter_map(|&(batch, row)| {
                    let (column, mask) = &batch.arguments[number];
                    let counts = mask.as_ref().is_none_or(|mask| mask.validity().is_valid(row));
                    counts.then(|| column.number(row))
                });
                match fold {
                    Fold::Count => values.count() as i128,
                    Fold::Skipped => (rows.len() - values.count()) as i128,
                    Fold::SumI64 => i128::from(values.fold(0, i128::wrapping_add) as u64),
                    Fold::SumF64 => values.sum(),
                    Fold::SumI128 => values.fold(0, i128::wrapping_add),
                    Fold::Min => values.min().unwrap_or(i128::from(u64::MAX)),
                    Fold::Max => values.max().unwrap_or(0),
                    Fold::MinI128 => values.min().unwrap_or(i128::MAX),
                    Fold::MaxI128 => values.max().unwrap_or(i128::MIN),
                }
            });
            (key, states.collect())
        })
        .collect()
}

fn number_of(fold: Fold, words: &[u64]) -> i128 {
    match fold {
        Fold::SumF64 => f64::from_bits(words[0]) as i128,
        _ if fold.words() == 2 => state_of([words[0], words[1]]),
        _ => i128::from(words[0]),
    }
}

fn states_of(layout: &Layout, record: &[u64]) -> Vec<i128> {
    let folds = layout.folds().iter().enumerate();
    folds
        .map(|(number, &fold)| number_of(fold, &record[layout.offset(number)..]))
        .collect()
}

/// The states of merged groups, read by column.
fn columns_of(layout: &Layout, groups: &Groups) -> Vec<(Vec<u64>, Vec<i128>)> {
    let all = 0..groups.len();
    let keys: Vec<Vec<u64>> = (0..layout.key_words())
        .map(|word| groups.key_word(word, all.clone()).collect())
        .collect();
    let states: Vec<Vec<i128>> = layout
        .folds()
        .iter()
        .enumerate()
        .map(|(number, &fold)| match fold.words() {
            1 => groups
                .state(number, all.clone())
                .map(|word| number_of(fold, &[word]))
                .collect(),
            _ => groups.state_i128(number, all.clone()).collect(),
        })
        .collect();
    all.map(|group| {
        let key = keys.iter().map(|word| word[group]).collect();
        (key, states.iter().map(|state| state[group]).collect())
    })
    .collect()
}

/// What several threads have, merged. Returns also how often a partition was split.
fn merge_all(
    layout: &Layout,
    mut parts: Vec<Partitioned>,
    options: &Options,
    owned: bool,
) -> (States, usize) {
    let mut states = States::new();
    let mut splits = 0;
    let null_groups = parts.iter().filter_map(Partitioned::null_group);
    let null = null_groups.map(<[u64]>::to_vec).reduce(|mut all, more| {
        layout.combine(&mut all, &more);
        all
    });
    if let Some(null) = null {
        states.insert(None, states_of(layout, &null));
    }
    for partition in 0..1 << options.partition_bits {
        let groups = if owned {
            let chunks: Vec<Vec<u64>> = parts.iter_mut().flat_map(|part| part.take(partition)).collect();
            merge(layout, chunks, options).unwrap()
        } else {
            merge(
                layout,
                parts.iter().flat_map(|part| part.records(partition)),
                options,
            )
            .unwrap()
        };
        splits += groups.splits();
        assert!(groups.bytes() >= groups.records(0..groups.len()).len() * 8);
        for (key, group) in columns_of(layout, &groups) {
            assert!(states.insert(Some(key), group).is_none(), "a group in two pieces");
        }
    }
    if owned {
        assert!(parts.iter().all(|part| part.is_empty() && part.bytes() == 0));
    }
    (states, splits)
}

/// Pushes with a check of what was announced to be allocated.
fn push_checked(batch: &Batch, local: &mut LocalGroups) {
    let limit = local.bytes() + local.bytes_for(batch.keys[0].len());
    batch.push_to(local);
    assert!(
        local.bytes() <= limit,
        "{} bytes, {limit} announced",
        local.bytes()
    );
}

/// The numbers of keys, in the order they come up, and how many there may be.
struct KeyNumbers {
    numbers: BTreeMap<Option<Vec<u64>>, u32>,
    most: usize,
}

impl KeyNumbers {
    /// Pushes by numbers while the keys are so few that all have one, checking what was announced to be allocated.
    fn push(&mut self, batch: &Batch, local: &mut LocalGroups) {
        let limit = local.bytes() + local.bytes_for(batch.keys[0].len());
        let mut numbers = Vec::new();
        for row in 0..batch.keys[0].len() {
            let next = self.numbers.len() as u32;
            numbers.push(*self.numbers.entry(batch.key(row)).or_insert(next));
        }
        if self.numbers.len() <= self.most && batch.fold_into(local, &numbers) {
            assert!(
                local.bytes() <= limit,
                "{} bytes, {limit} announced",
                local.bytes()
            );
        } else {
            self.most = 0;
            push_checked(batch, local);
        }
    }
}

fn reduce_checked(local: &mut LocalGroups) {
    let (records, limit) = (local.record_bytes(), local.bytes() + local.bytes_to_reduce());
    let halved = local.reduce().unwrap();
    assert!(local.bytes() <= limit);
    assert!(
        !halved || 2 * local.record_bytes() <= records || records == 0,
        "{records}"
    );
}

fn take_checked(local: &mut LocalGroups) -> Partitioned {
    let limit = local.bytes() + local.bytes_for(0);
    let taken = local.take().unwrap();
    assert!(local.bytes() + taken.bytes() <= limit);
    taken
}

fn fold() -> impl Strategy<Value = Fold> {
    prop::sample::select(vec![
        Fold::Count,
        Fold::Skipped,
        Fold::SumI64,
        Fold::SumF64,
        Fold::SumI128,
        Fold::Min,
        Fold::Max,
        Fold::MinI128,
        Fold::MaxI128,
    ])
}

fn options() -> impl Strategy<Value = Options> {
    (
        prop::sample::select(vec![0_usize, 500, 3000, 100_000]),
        0..=8_u32,
        any::<u64>(),
    )
        .prop_map(|(table_bytes, partition_bits, seed)| Options {
            table_bytes,
            partition_bits,
            seed,
        })
}

/// Keys of different families, `distinct` of them or fewer; half of the families have runs of about eight rows with one key.
fn key(family: u8, words: usize, distinct: u64) -> impl FnMut(&mut Numbers) -> Vec<u64> {
    let mut last = 0;
    move |numbers| {
        let goes_on = family >= 128 && numbers.below(8) > 0;
        let number = if goes_on { last } else { numbers.below(distinct) };
        last = number;
        (0..words as u64)
            .map(|word| match family % 5 {
                0 => number,
                1 => number << 40,
                2 => u64::MAX - number,
                3 => (number + word).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                // Only one of the words differs from zero.
                _ if word == number % words as u64 => number,
                _ => 0,
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn groups_equal_the_oracle(
        key_words in 1_usize..=8,
        folds in prop::collection::vec(fold(), 0..5),
        options in options(),
        family in any::<u8>(),
        distinct in prop::sample::select(vec![1_u64, 10, 200, 1_000_000]),
        threads in prop::collection::vec(prop::collection::vec(0_usize..1500, 0..4), 1..3),
        take_after in 0_usize..4,
        reduce_after in 0_usize..4,
        owned in any::<bool>(),
        numbers_max in prop::sample::select(vec![0_usize, 5, 300, 5000]),
        seed in any::<u64>(),
    ) {
        let layout = Layout::new(key_words, folds);
        let mut numbers = Numbers(seed);
        let mut key = key(family, key_words, distinct);
        let (mut batches, mut parts) = (Vec::new(), Vec::new());
        for lengths in threads {
            let mut local = LocalGroups::new(layout.clone(), &options).unwrap();
            local.number(numbers_max).unwrap();
            let mut key_numbers = KeyNumbers { numbers: BTreeMap::new(), most: numbers_max };
            for (number, &rows) in lengths.iter().enumerate() {
                let batch = Batch::random(&layout, rows, &mut key, &mut numbers);
                key_numbers.push(&batch, &mut local);
                batches.push(batch);
                if number == reduce_after {
                    reduce_checked(&mut local);
                }
                if number == take_after {
                    parts.push(take_checked(&mut local));
                }
            }
            prop_assert_eq!(local.rows(), lengths.iter().sum::<usize>() as u64);
            parts.push(local.finish().unwrap());
        }
        let (states, _) = merge_all(&layout, parts, &options, owned);
        prop_assert_eq!(states, oracle(&layout, &batches));
    }
}

const LAYOUT_FOLDS: [Fold; 3] = [Fold::SumI64, Fold::Count, Fold::MinI128];

pub(super) fn options_of(table_bytes: usize, partition_bits: u32) -> Options {
    Options {
        table_bytes,
        partition_bits,
        seed: 11,
    }
}

/// Checks one thread's batches; returns how often its table was emptied while rows came, the rows that passed by, and
/// splits.
fn run(
    layout: &Layout,
    options: &Options,
    lengths: &[usize],
    key: &mut dyn FnMut(&mut Numbers) -> Vec<u64>,
) -> (u64, u64, usize) {
    let mut numbers = Numbers(5);
    let mut local = LocalGroups::new(layout.clone(), options).unwrap();
    let batches: Vec<Batch> = lengths
        .iter()
        .map(|&rows| Batch::random(layout, rows, key, &mut numbers))
        .collect();
    for batch in &batches {
        push_checked(batch, &mut local);
    }
    let (emptied, bypassed) = (local.emptied, local.bypassed_rows());
    let (states, splits) = merge_all(layout, vec![local.finish().unwrap()], options, true);
    assert_eq!(states, oracle(layout, &batches));
    (emptied, bypassed, splits)
}

#[test]
fn few_groups_stay_in_the_table() {
    let layout = Layout::new(1, LAYOUT_FOLDS.to_vec());
    let took = run(
        &layout,
        &options_of(64 << 10, 4),
        &[5000, 0, 1, 3000],
        &mut key(3, 1, 300),
    );
    assert_eq!(took, (0, 0, 0));
}

#[test]
fn a_table_that_reduces_is_emptied() {
    let layout = Layout::new(2, LAYOUT_FOLDS.to_vec());
    let mut numbers = 0;
    // Each hundred rows have twenty keys five times, but never one after the other.
    let mut key = |_: &mut Numbers| {
        numbers += 1;
        vec![numbers / 100 * 20 + numbers % 20, 7]
    };
    let (emptied, bypassed, _) = run(&layout, &options_of(3000, 4), &[30_000, 3000], &mut key);
    assert!(
        emptied > 10 && bypassed == 0,
        "{emptied} emptied, {bypassed} passed by"
    );
}

#[test]
fn runs_of_one_key_pass_by_the_table_as_a_record_each() {
    let layout = Layout::new(2, LAYOUT_FOLDS.to_vec());
    let mut numbers = 0;
    let mut key = |_: &mut Numbers| {
        numbers += 1;
        vec![numbers / 5, 7]
    };
    let options = options_of(3000, 4);
    let (emptied, bypassed, _) = run(&layout, &options, &[30_000, 3000], &mut key);
    assert!((1..10).contains(&emptied), "{emptied} emptied");
    assert!(bypassed > 25_000, "{bypassed} passed by");
}

#[test]
fn a_table_that_has_seen_most_groups_grows_beyond_its_budget() {
    let layout = Layout::new(1, LAYOUT_FOLDS.to_vec());
    let options = options_of(30_000, 4);
    assert_eq!(options.groups_of(&layout, options.table_bytes), 576);
    let took = run(&layout, &options, &[20_000], &mut key(3, 1, 1500));
    assert_eq!(took, (0, 0, 0));
}

#[test]
fn rows_pass_by_a_table_that_does_not_reduce_until_it_does() {
    let layout = Layout::new(1, LAYOUT_FOLDS.to_vec());
    let mut row = 0;
    let mut key = |numbers: &mut Numbers| {
        row += 1;
        vec![if row < 20_000 { numbers.next() } else { row % 7 }]
    };
    let (emptied, bypassed, _) = run(&layout, &options_of(2000, 3), &[9000, 100, 21_000], &mut key);
    assert!(
        emptied >= 2 && bypassed > 10_000 && bypassed < 22_000,
        "{emptied} emptied, {bypassed} passed by"
    );
}

#[test]
fn records_of_few_groups_are_reduced_and_those_of_many_stay() {
    let layout = Layout::new(1, LAYOUT_FOLDS.to_vec());
    for (distinct, reduced) in [(3000, true), (u64::MAX, false)] {
        let options = options_of(1000, 8);
        let (mut numbers, mut key) = (Numbers(5), key(3, 1, distinct));
        let mut local = LocalGroups::new(layout.clone(), &options).unwrap();
        let batches = [40_000, 40_000].map(|rows| Batch::random(&layout, rows, &mut key, &mut numbers));
        batches[0].push_to(&mut local);
        let before = local.record_bytes();
        assert_eq!(local.reduce().unwrap(), reduced);
        assert_eq!(local.record_bytes() < before / 8, reduced);
        batches[1].push_to(&mut local);
        let (states, _) = merge_all(&layout, vec![local.finish().unwrap()], &options, true);
        assert_eq!(states, oracle(&layout, &batches));
    }
}

#[test]
fn large_partitions_are_split_repeatedly() {
    for folds in [vec![], LAYOUT_FOLDS.to_vec()] {
        let layout = Layout::new(1, folds);
        let (_, _, splits) = run(&layout, &options_of(0, 0), &[30_000], &mut |numbers| {
            vec![numbers.next()]
        });
        assert!(splits > 20, "{splits} splits");
    }
}

#[test]
fn one_group_is_never_split() {
    let layout = Layout::new(3, LAYOUT_FOLDS.to_vec());
    let took = run(&layout, &options_of(0, 2), &[100_000], &mut |_| {
        vec![0, u64::MAX, 0]
    });
    assert_eq!(took, (0, 0, 0));
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let layout = Layout::new(2, LAYOUT_FOLDS.to_vec());
    let options = options_of(0, 1);
    let mixer = Mixer::new(options.seed, 0);
    let mut key = |numbers: &mut Numbers| {
        let first = numbers.below(700);
        vec![first, mixer.mix(first) ^ 99]
    };
    let (_, bypassed, splits) = run(&layout, &options, &[4000], &mut key);
    assert!(bypassed > 0 && splits == 5, "{splits} splits");
}

#[test]
fn no_rows_are_no_groups() {
    for bits in [0, 8] {
        let layout = Layout::new(1, vec![Fold::Count]);
        let mut local = LocalGroups::new(layout.clone(), &options_of(0, bits)).unwrap();
        let count = Argument {
            values: Values::None,
            valid: None,
        };
        local.push(&[&[]], None, &[count]).unwrap();
        let parts = local.finish().unwrap();
        assert_eq!(
            (parts.partitions(), parts.len(), parts.null_group()),
            (1 << bits, 0, None)
        );
        assert!(
            merge(&layout, parts.records(0), &options_of(0, bits))
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn floats_are_added_in_row_order() {
    let layout = Layout::new(1, vec![Fold::SumF64]);
    let values: Vec<f64> = (0..3000).map(|row| 0.1 + f64::from(row)).collect();
    let keys: Vec<u64> = (0..3000).map(|row| row % 2).collect();
    let valid: Vec<u8> = vec![0b0101_0101; 375];
    let options = options_of(1000, 0);
    let mut local = LocalGroups::new(layout.clone(), &options).unwrap();
    let sum = Argument {
        values: Values::F64(&values),
        valid: None,
    };
    local
        .push(&[&keys], Some(Validity::new(&valid, 0, 3000)), &[sum])
        .unwrap();
    let parts = local.finish().unwrap();
    let expected = |first: usize| {
        values
            .iter()
            .skip(first)
            .step_by(2)
            .fold(0.0, |sum, value| sum + value)
    };
    assert_eq!(
        parts.null_group().map(|group| f64::from_bits(group[1])),
        Some(expected(1))
    );
    let groups = merge(&layout, parts.records(0), &options).unwrap();
    assert_eq!(
        groups.state(0, 0..1).map(f64::from_bits).collect::<Vec<_>>(),
        [expected(0)]
    );
}

#[test]
fn two_words_make_a_state() {
    for state in [0, 1, -1, i128::MIN, i128::MAX, 1 << 64, -(1 << 64)] {
        assert_eq!(state_of(words_of(state)), state);
    }
    assert_eq!(words_of(1), [1, 0]);
}

#[test]
#[should_panic(expected = "does not take")]
fn arguments_of_the_wrong_type_are_refused() {
    let layout = Layout::new(1, vec![Fold::SumF64]);
    let mut local = LocalGroups::new(layout, &options_of(0, 0)).unwrap();
    let sum = Argument {
        values: Values::I64(&[1]),
        valid: None,
    };
    let _ = local.push(&[&[1]], None, &[sum]);
}
