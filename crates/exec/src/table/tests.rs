//! The table against a naive oracle: an ordinary map from codes to lists of rows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use corun_model::cache::reuse::Reuse;
use proptest::prelude::*;

use super::{
    BuildError, BuildOptions, JoinTable, KeysExpected, Kind, Pairs, ProbeCursor, build, bytes_expected,
    bytes_max, matches_bytes,
};
use crate::codes::{Chunk, Codes, Validity};
use crate::isa::{InstructionSet, Isa};
use crate::visited::Visited;
use crate::workers::{ScopedThreads, Serial, Workers};

/// Wider ones than the processor has are the widest it has.
const INSTRUCTIONS: [InstructionSet; 3] = [
    InstructionSet::Portable,
    InstructionSet::Avx2,
    InstructionSet::Avx512,
];

/// Keys with NULLs, as one column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) codes: Vec<u64>,
    pub(super) valid: Option<Vec<bool>>,
}

impl Column {
    pub(super) fn all_valid(codes: Vec<u64>) -> Column {
        Column { codes, valid: None }
    }

    fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }

    /// The validity as a bitmap that begins `offset` bits into its bytes.
    fn bitmap(&self, offset: usize) -> Option<Vec<u8>> {
        let valid = self.valid.as_ref()?;
        let mut bytes = vec![0xa5_u8; (offset + valid.len()).div_ceil(8)];
        for (row, &valid) in valid.iter().enumerate() {
            let bit = offset + row;
            bytes[bit / 8] = bytes[bit / 8] & !(1 << (bit % 8)) | u8::from(valid) << (bit % 8);
        }
        Some(bytes)
    }

    fn oracle(&self) -> HashMap<u64, Vec<u32>> {
        let mut map = HashMap::<u64, Vec<u32>>::new();
        for (row, &code) in self.codes.iter().enumerate() {
            if self.is_valid(row) {
                map.entry(code).or_default().push(row as u32);
            }
        }
        map
    }
}

/// Builds from chunks of at most `chunk_rows` rows whose bitmaps begin at different bits; `bias` is put on and taken off.
pub(super) fn table_of(
    column: &Column,
    chunk_rows: usize,
    bias: u64,
    options: &BuildOptions,
    workers: &dyn Workers,
) -> Result<JoinTable, BuildError> {
    let biased: Vec<u64> = column.codes.iter().map(|code| code ^ bias).collect();
    let rows = column.codes.len();
    let starts: Vec<usize> = (0..rows).step_by(chunk_rows).collect();
    let bitmaps: Vec<Option<Vec<u8>>> = starts
        .iter()
        .map(|&start| {
            let end = rows.min(start + chunk_rows);
            let valid = column.valid.as_ref().map(|valid| valid[start..end].to_vec());
            Column {
                codes: Vec::new(),
                valid,
            }
            .bitmap(start % 11)
        })
        .collect();
    let chunks: Vec<Chunk<'_>> = starts
        .iter()
        .zip(&bitmaps)
        .map(|(&start, bitmap)| {
            let values = &biased[start..rows.min(start + chunk_rows)];
            let valid = bitmap
                .as_ref()
                .map(|bytes| Validity::new(bytes, start % 11, values.len()));
            Chunk {
                codes: Codes::U64 { values, bias },
                valid,
                first_row: start as u32,
            }
        })
        .collect();
    build::build(&chunks, options, workers, &AtomicBool::new(false))
}

/// Probes with every way there is and compares with the oracle.
fn check(table: &JoinTable, build: &Column, probe: &Column, selection: Option<&[u32]>, limit: usize) {
    let oracle = build.oracle();
    assert_eq!(table.rows(), oracle.values().map(Vec::len).sum::<usize>());
    assert_eq!(table.distinct_keys(), oracle.len());
    assert_eq!(table.is_unique(), oracle.values().all(|rows| rows.len() == 1));
    let bounds = oracle
        .keys()
        .min()
        .zip(oracle.keys().max())
        .map(|(&min, &max)| (min, max));
    assert_eq!(table.code_bounds(), bounds);

    let mut expected = Pairs::default();
    let mut expected_rows = Vec::new();
    let mut expected_marked = vec![false; build.codes.len()];
    let rows: Vec<u32> = selection.map_or((0..probe.codes.len() as u32).collect(), <[u32]>::to_vec);
    for row in rows {
        if !probe.is_valid(row as usize) {
            continue;
        }
        for &partner in oracle.get(&probe.codes[row as usize]).into_iter().flatten() {
            expected.build.push(partner);
            expected.probe.push(row);
            expected_marked[partner as usize] = true;
            if expected_rows.last() != Some(&row) {
                expected_rows.push(row);
            }
        }
    }

    let bitmap = probe.bitmap(5);
    let valid = bitmap
        .as_ref()
        .map(|bytes| Validity::new(bytes, 5, probe.codes.len()));
    let biased: Vec<u64> = probe.codes.iter().map(|code| code ^ 3 << 60).collect();
    let narrow: Vec<u32> = probe.codes.iter().map(|&code| code as u32 ^ 9).collect();
    let mut ways = vec![Codes::U64 {
        values: &biased,
        bias: 3 << 60,
    }];
    if probe.codes.iter().all(|&code| code <= u64::from(u32::MAX)) {
        ways.push(Codes::U32 {
            values: &narrow,
            bias: 9,
        });
    }
    for codes in ways {
        let (mut cursor, mut pairs, mut all) = (ProbeCursor::default(), Pairs::default(), Pairs::default());
        loop {
            let finished = table.probe(&codes, valid, selection, &mut cursor, limit, &mut pairs);
            assert!(pairs.len() <= limit && pairs.build.len() == pairs.probe.len());
            assert!(finished || !pairs.is_empty(), "a call without progress");
            all.build.extend(&pairs.build);
            all.probe.extend(&pairs.probe);
            if finished {
                break;
            }
        }
        assert_eq!(all, expected);
        cursor.reset();
        assert!(table.probe(
            &codes,
            valid,
            selection,
            &mut cursor,
            expected.len() + 1,
            &mut pairs
        ));
        assert_eq!(pairs, expected);

        let mut matches = vec![7];
        table.matches(&codes, valid, selection, &mut matches);
        // A selection may name a row twice; neighbours that are equal count once above.
        matches.dedup();
        assert_eq!(matches, expected_rows);

        let visited = Visited::new(build.codes.len());
        table.mark(&codes, valid, selection, &visited);
        let marked: Vec<bool> = (0..build.codes.len())
            .map(|row| visited.is_marked(row as u32))
            .collect();
        assert_eq!(marked, expected_marked);
    }
}

/// Families of codes that are hard on hash tables or on range checks.
fn code(family: u8, number: u64) -> u64 {
    match family % 8 {
        0 => number % 50,
        1 => (number % 4096) << 32,
        2 => (number % 3000) << 52,
        3 => u64::MAX - number % 100,
        4 => number % 1000 + (u64::from(u32::MAX) - 500),
        5 => [0, u64::MAX, 1 << 63, 1 << 32, 1 << 31, u64::from(u32::MAX)][number as usize % 6],
        6 => number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        _ => 1_000_000 + number % 100_000,
    }
}

fn column(rows: usize) -> impl Strategy<Value = Column> {
    let codes = prop::collection::vec((any::<u8>(), any::<u64>()), 0..rows);
    (codes, any::<u8>(), any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(codes, family, mixed, with_nulls, null_bits)| {
            let valid = with_nulls.then(|| {
                (0..codes.len())
                    .map(|row| null_bits >> (row * 7 % 64) & 1 == 1)
                    .collect()
            });
            let codes = codes
                .into_iter()
                .map(|(own, number)| code(if mixed { own } else { family }, number))
                .collect();
            Column { codes, valid }
        },
    )
}

fn forces() -> [Option<Kind>; 4] {
    [
        None,
        Some(Kind::Dense),
        Some(Kind::Buckets32),
        Some(Kind::Buckets64),
    ]
}

/// [`forces`] that take a reasonable amount of memory.
fn forces_for(column: &Column) -> Vec<Option<Kind>> {
    let oracle = column.oracle();
    let range = oracle
        .keys()
        .max()
        .zip(oracle.keys().min())
        .map_or(0, |(max, min)| max - min);
    forces()
        .into_iter()
        .filter(|&force| force != Some(Kind::Dense) || range < 1 << 22)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn small_tables_equal_the_oracle(
        build in column(400),
        probe in column(1500),
        common in any::<bool>(),
        chunk_rows in 1_usize..500,
        limit in 1_usize..200,
        selection in prop::option::of(prop::collection::vec(any::<prop::sample::Index>(), 0..100)),
        bias in any::<u64>(),
        seed in any::<u64>(),
        far in any::<bool>(),
        once in any::<bool>(),
    ) {
        let mut probe = probe;
        if common && !build.codes.is_empty() {
            for (row, code) in probe.codes.iter_mut().enumerate() {
                if row % 3 != 0 {
                    *code = build.codes[row * 31 % build.codes.len()];
                }
            }
        }
        let selection: Option<Vec<u32>> = selection
            .filter(|_| !probe.codes.is_empty())
            .map(|places| places.iter().map(|place| place.index(probe.codes.len()) as u32).collect());
        for force in forces_for(&build) {
            for instructions in INSTRUCTIONS {
                let options = BuildOptions { force, seed, instructions, ..BuildOptions::default() };
                let mut table = table_of(&build, chunk_rows, bias, &options, &Serial).unwrap();
                table.prefetch_from_bytes = if far { 0 } else { usize::MAX };
                table.set_reuse(if once { Reuse::Once } else { Reuse::Keep });
                check(&table, &build, &probe, selection.as_deref(), limit);
                table.prepare_matches(true, &options).unwrap();
                check(&table, &build, &probe, selection.as_deref(), limit);
            }
        }
    }
}

/// Numbers that look random.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// Tables large enough for partitions and threads: unique, few and many duplicates, regular and random keys.
#[test]
fn large_tables_equal_the_oracle() {
    type Keys = fn(u64) -> u64;
    let families: [(&str, usize, Keys); 8] = [
        ("random", 150_000, scrambled),
        ("consecutive", 150_000, |row| row),
        ("shuffled", 1 << 17, |row| row.wrapping_mul(77_777) % (1 << 17)),
        ("multiples of 2^32", 150_000, |row| row << 32),
        ("four each", 150_000, |row| scrambled(row / 4)),
        ("four each, apart, 32 bits", 160_000, |row| {
            scrambled(row % 40_000) >> 33
        }),
        ("all equal", 120_000, |_| u64::MAX),
        ("one frequent", 150_000, |row| {
            if row % 3 == 0 { 5 } else { scrambled(row) }
        }),
    ];
    for (name, rows, key) in families {
        let mut build = Column::all_valid((0..rows as u64).map(key).collect());
        if name == "one frequent" {
            build.valid = Some((0..rows).map(|row| row % 7 != 3).collect());
        }
        let probes = if name == "all equal" || name == "one frequent" {
            40
        } else {
            5000
        };
        let probe: Vec<u64> = (0..probes)
            .map(|row| {
                if row % 2 == 0 {
                    key(row * 29)
                } else {
                    scrambled(row)
                }
            })
            .collect();
        let probe = Column::all_valid(probe);
        let kinds: &[Option<Kind>] = if name == "consecutive" || name == "shuffled" {
            &forces()
        } else {
            &forces()[2..]
        };
        for &force in kinds {
            for (threads, chunk_rows) in [(1, rows), (2, 8192), (7, 1001)] {
                // A small cache makes many partitions.
                let options = BuildOptions {
                    force,
                    l2_bytes: 256 << 10,
                    ..BuildOptions::default()
                };
                let mut table = table_of(&build, chunk_rows, 0, &options, &ScopedThreads(threads)).unwrap();
                table.set_reuse(if threads == 2 { Reuse::Once } else { Reuse::Keep });
                check(&table, &build, &probe, None, 10_000);
                assert!(table.bytes() <= bytes_max(rows, threads, &options), "{name}");
            }
        }
    }
}

#[test]
fn tables_take_the_bytes_that_were_expected() {
    let options = BuildOptions {
        l2_bytes: 256 << 10,
        ..BuildOptions::default()
    };
    let every = |step: u64, rows: u64| (0..rows).map(|row| row * step).collect::<Vec<u64>>();
    let repeated = |keys: u64, rows: u64| (0..rows).map(|row| scrambled(row % keys)).collect::<Vec<u64>>();
    // As a build knows it after its survey, and what it makes of it.
    let cases: [(&str, Vec<u64>, Kind); 9] = [
        ("no rows", Vec::new(), Kind::Dense),
        ("one row", vec![7], Kind::Dense),
        ("dense", every(3, 20_000), Kind::Dense),
        ("narrow", every(1000, 10_000), Kind::Buckets32),
        ("narrow, estimated", every(1000, 150_000), Kind::Buckets32),
        ("wide", every(1 << 40, 10_000), Kind::Buckets64),
        ("four rows a key", repeated(5_000, 20_000), Kind::Buckets64),
        ("many rows a key", repeated(6_000, 120_000), Kind::Buckets64),
        (
            "few keys crowd partitions",
            repeated(50, 120_000),
            Kind::Buckets64,
        ),
    ];
    for (name, codes, kind) in cases {
        let distinct = codes.iter().collect::<std::collections::HashSet<_>>().len();
        let bounds = codes.iter().min().zip(codes.iter().max());
        let keys = KeysExpected {
            rows: codes.len(),
            distinct,
            bounds: bounds.map_or((0, 0), |(min, max)| (*min, *max)),
        };
        let build = Column::all_valid(codes);
        for threads in [1, 4] {
            let table = table_of(&build, 8192, 0, &options, &ScopedThreads(threads)).unwrap();
            assert_eq!(table.kind(), kind, "{name}");
            let (built, expected) = (
                table.bytes() as f64,
                bytes_expected(&keys, threads, &options) as f64,
            );
            assert!(
                (expected / built - 1.0).abs() < 0.12,
                "{name}: {expected} for {built}"
            );
        }
    }
}

#[test]
fn few_distinct_keys_make_a_small_table() {
    let build = Column::all_valid((0..200_000).map(|row| scrambled(row % 5)).collect());
    let table = table_of(&build, 8192, 0, &BuildOptions::default(), &Serial).unwrap();
    assert_eq!(table.kind(), Kind::Buckets64);
    assert!(
        table.index_bytes() < 64 << 10,
        "{} bytes for five keys",
        table.index_bytes()
    );
}

/// Codes that all hash near each other in the first attempts: the build must end, and answer right.
#[test]
fn crowded_partitions_are_built_by_the_last_attempt() {
    use super::hash::{Mixer, reduce};
    let options = BuildOptions::default();
    let mixers: Vec<Mixer> = (0..3).map(|attempt| Mixer::new(options.seed, attempt)).collect();
    let mut codes: Vec<u64> = Vec::new();
    for mixer in mixers {
        // Enough keys of one bucket among 4096 to pass the most lines allowed, whatever the number of lines.
        codes.extend(
            (0..)
                .map(scrambled)
                .filter(|&code| reduce(mixer.mix(code), 4096) == 77)
                .take(2000),
        );
    }
    let build = Column::all_valid(codes);
    let probe = Column::all_valid(build.codes.iter().map(|code| code ^ (code & 1)).collect());
    for instructions in INSTRUCTIONS {
        let options = BuildOptions {
            instructions,
            ..options
        };
        let table = table_of(&build, 999, 0, &options, &Serial).unwrap();
        assert_eq!(
            table.mixer.mix(1),
            Mixer::new(options.seed, 3).mix(1),
            "an earlier attempt was accepted"
        );
        check(&table, &build, &probe, None, 500);
    }
}

#[test]
fn no_rows_find_nothing() {
    let some = Column::all_valid(vec![0, 1, u64::MAX]);
    for build in [
        Column::all_valid(Vec::new()),
        Column {
            codes: vec![0, 1],
            valid: Some(vec![false, false]),
        },
    ] {
        for force in forces() {
            let options = BuildOptions {
                force,
                ..BuildOptions::default()
            };
            let table = table_of(&build, 10, 0, &options, &Serial).unwrap();
            check(&table, &build, &some, None, 1);
        }
    }
}

#[test]
fn cancelled_builds_say_so() {
    let values: Vec<u64> = (0..200_000).map(scrambled).collect();
    let chunk = Chunk {
        codes: Codes::U64 {
            values: &values,
            bias: 0,
        },
        valid: None,
        first_row: 0,
    };
    let cancel = AtomicBool::new(true);
    let result = JoinTable::build(&[chunk], &BuildOptions::default(), &ScopedThreads(2), &cancel);
    assert_eq!(result.err(), Some(BuildError::Cancelled));
}

/// Raises the flag when the n-th parallel pass begins.
struct CancelAt<'a> {
    passes_left: std::sync::atomic::AtomicUsize,
    cancel: &'a AtomicBool,
}

impl Workers for CancelAt<'_> {
    fn threads(&self) -> usize {
        2
    }

    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if self.passes_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            self.cancel.store(true, Ordering::Relaxed);
        }
        Serial.run(tasks, task);
    }
}

#[test]
fn builds_can_be_cancelled_in_every_pass() {
    let values: Vec<u64> = (0..200_000).map(|row| scrambled(row / 2)).collect();
    let chunk = Chunk {
        codes: Codes::U64 {
            values: &values,
            bias: 0,
        },
        valid: None,
        first_row: 0,
    };
    for force in [Kind::Buckets64, Kind::Dense] {
        let dense: Vec<u64> = (0..200_000_u64).map(|row| row * 77 % 150_001).collect();
        let chunk = match force {
            Kind::Dense => Chunk {
                codes: Codes::U64 {
                    values: &dense,
                    bias: 0,
                },
                ..chunk
            },
            _ => chunk,
        };
        let options = BuildOptions {
            l2_bytes: 256 << 10,
            force: Some(force),
            ..BuildOptions::default()
        };
        let mut cancelled = 0;
        for passes_left in 0..10 {
            let cancel = AtomicBool::new(false);
            let workers = CancelAt {
                passes_left: passes_left.into(),
                cancel: &cancel,
            };
            match JoinTable::build(&[chunk], &options, &workers, &cancel) {
                Err(BuildError::Cancelled) => cancelled += 1,
                Ok(table) => assert_eq!(table.rows(), 200_000),
                Err(other) => panic!("{other}"),
            }
        }
        assert!((4..=5).contains(&cancelled), "{cancelled} passes were cancelled");
    }
}

#[test]
fn row_numbers_beyond_31_bits_are_refused() {
    let values = [1_u64, 2];
    let build = |first_row| {
        let chunk = Chunk {
            codes: Codes::U64 {
                values: &values,
                bias: 0,
            },
            valid: None,
            first_row,
        };
        JoinTable::build(
            &[chunk],
            &BuildOptions::default(),
            &Serial,
            &AtomicBool::new(false),
        )
    };
    assert!(matches!(
        build(super::ROW_MAX),
        Err(BuildError::TooManyRows { .. })
    ));
    let table = build(super::ROW_MAX - 1).unwrap();
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let probe = Codes::U64 {
        values: &[2, 1],
        bias: 0,
    };
    assert!(table.probe(&probe, None, None, &mut cursor, 9, &mut pairs));
    assert_eq!(
        (pairs.build, pairs.probe),
        (vec![super::ROW_MAX, super::ROW_MAX - 1], vec![0, 1])
    );
}

#[test]
#[should_panic(expected = "selected probe row out of range")]
fn selections_beyond_the_batch_are_refused() {
    let build = Column::all_valid(vec![1]);
    let table = table_of(&build, 1, 0, &BuildOptions::default(), &Serial).unwrap();
    table.matches(
        &Codes::U64 {
            values: &[1],
            bias: 0,
        },
        None,
        Some(&[1]),
        &mut Vec::new(),
    );
}

/// Bits are made where they are little and pay, as many as announced; else the index goes on answering.
#[test]
fn matches_are_prepared_where_it_pays() {
    let prepared = |codes: Vec<u64>, asks, force| {
        let options = BuildOptions {
            force,
            ..BuildOptions::default()
        };
        let build = Column::all_valid(codes);
        let mut table = table_of(&build, 9, 0, &options, &Serial).unwrap();
        let before = table.bytes();
        table.prepare_matches(asks, &options).unwrap();
        check(&table, &build, &Column::all_valid((0..3000).collect()), None, 100);
        let keys = KeysExpected {
            rows: table.rows(),
            distinct: table.distinct_keys(),
            bounds: table.code_bounds().unwrap_or((0, u64::MAX)),
        };
        let bytes = table.bytes() - before;
        assert_eq!(bytes, matches_bytes(&keys, asks, &options));
        bytes
    };
    for force in [Some(Kind::Dense), Some(Kind::Buckets32)] {
        let close: Vec<u64> = (5..2000).collect();
        assert!(prepared(close.clone(), true, force) >= 2000 / 8);
        assert_eq!(
            prepared(close, false, force),
            0,
            "nobody asks, and the keys lie close"
        );
        assert!(prepared(vec![5, 900, 2000, 5], false, force) >= 2000 / 8);
        assert_eq!(
            prepared(vec![5, 1 << 20], true, force),
            0,
            "more than it may take"
        );
    }
    assert_eq!(
        prepared(vec![5, 900], true, Some(Kind::Buckets64)),
        0,
        "codes of 64 bits"
    );
    assert_eq!(prepared(vec![5, 900, u64::MAX], true, None), 0, "far apart");
    assert_eq!(prepared(Vec::new(), true, None), 0, "no rows");
}

#[test]
fn tables_are_probed_with_no_wider_instructions_than_allowed() {
    let column = Column::all_valid(vec![1, 2]);
    let isa = |instructions| {
        let options = BuildOptions {
            instructions,
            ..BuildOptions::default()
        };
        table_of(&column, 1, 0, &options, &Serial).unwrap().isa
    };
    assert_eq!(isa(InstructionSet::Portable), Isa::Portable);
    assert_eq!(isa(InstructionSet::default()), Isa::detect());
    let narrower = Isa::available().into_iter().take(2).next_back();
    assert_eq!(Some(isa(InstructionSet::Avx2)), narrower);
}
