//! Every operator in every mode against a naive join.

use crate::support;
use std::sync::atomic::AtomicBool;

use crate::support::{THREADS, modes, naive, results, rows, same, share};
use corun_exec::operators::{
    ColumnJoin, ColumnSink, ColumnTable, Columns, HashJoin, JoinIndex, NO_ROW, OperatorError, OutputFull,
    OutputRow, PaperTable, RidPair, Row, RowSink, RowTable, Stream, TableJoin, direct,
};
use corun_exec::stage::{Anywhere, Options, Staged, run, traced};
use corun_exec::{BuildOptions, Kind, Serial};
use corun_model::operators::mode::{Direction, Hiding, Mode, Schedule, Threads, WorkAhead};
use corun_model::operators::trace::{Access, Event};
use proptest::prelude::*;

const KINDS: [Option<Kind>; 4] = [
    None,
    Some(Kind::Dense),
    Some(Kind::Buckets32),
    Some(Kind::Buckets64),
];

fn all_modes() -> Vec<Mode> {
    modes(&[1, 2, 7, 32], &[1, 2, 5, 128, 200])
}

fn row_table(rows: &[Row], force: Option<Kind>) -> RowTable<'_> {
    let options = BuildOptions {
        force,
        ..BuildOptions::default()
    };
    RowTable::build(rows, &options, &Serial, &AtomicBool::new(false)).expect("a small table")
}

/// Keys of both sides and an order of probe rows.
#[derive(Clone, Debug)]
struct Relations {
    build: Vec<u32>,
    probe: Vec<u32>,
    order: Vec<u32>,
    buckets: usize,
}

impl Relations {
    fn stream(&self, clustered: bool) -> Stream<'_> {
        if clustered {
            Stream::clustered(self.probe.len())
        } else {
            Stream::unclustered(&self.order, self.probe.len())
        }
        .expect("RIDs are in range")
    }

    fn expected(&self, clustered: bool) -> Vec<(usize, RidPair)> {
        let all: Vec<u32> = (0..self.probe.len() as u32).collect();
        let order = if clustered { &all } else { &self.order };
        naive(&self.build, &self.probe, order)
    }
}

/// Few keys, so that there are duplicates and misses, at either end of the range; one bucket or more than rows.
fn relations() -> impl Strategy<Value = Relations> {
    let base = prop_oneof![Just(0_u32), Just(77), Just(u32::MAX - 40)];
    (base, 1_u32..=40).prop_flat_map(|(base, keys)| {
        let key = move || (0..keys).prop_map(move |key| base + key);
        let build = prop::collection::vec(key(), 0..60);
        let probe = prop::collection::vec(key(), 0..70);
        (build, probe, 1_usize..100).prop_flat_map(|(build, probe, buckets)| {
            let rids = if probe.is_empty() { 0..0 } else { 0..90 };
            let order = prop::collection::vec(0..probe.len().max(1) as u32, rids.start..rids.end.max(1));
            (Just(build), Just(probe), order, Just(buckets)).prop_map(|(build, probe, mut order, buckets)| {
                if probe.is_empty() {
                    order.clear();
                }
                Relations {
                    build,
                    probe,
                    order,
                    buckets,
                }
            })
        })
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    let threads = prop::sample::select(THREADS.to_vec());
    let schedule = prop::sample::select(support::SCHEDULES.to_vec());
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Backward)];
    let hiding = prop_oneof![
        1 => Just(Hiding::None),
        3 => (schedule, prop_oneof![1_u16..10, Just(32), Just(300)])
            .prop_map(|(schedule, distance)| Hiding::Prefetch { schedule, distance }),
        3 => (1_u32..=200, direction, any::<bool>())
            .prop_map(|(lines, direction, spin)| Hiding::WorkAhead(WorkAhead { lines, direction, spin })),
    ];
    let plain = THREADS.map(|threads| Mode {
        threads,
        ..Mode::PLAIN
    });
    prop_oneof![
        1 => prop::sample::select(plain.to_vec()),
        9 => (threads, hiding).prop_map(|(threads, hiding)| Mode::staged(threads, hiding)),
    ]
}

fn check_hash_join(relations: &Relations, clustered: bool, mode: Mode) {
    let (build, probe) = (rows(&relations.build, 1), rows(&relations.probe, 2));
    let table = PaperTable::build(&build, relations.buckets).expect("a small table");
    let join = HashJoin::new(&table, &probe, relations.stream(clustered)).expect("the stream fits");
    let expected = output_rows(&relations.expected(clustered), &probe, &build);
    let found = results!(join, mode, RowSink, OutputRow, expected.len());
    same(mode, &found, &expected);
}

fn check_table_join(relations: &Relations, clustered: bool, mode: Mode, kind: Option<Kind>) {
    let (build, probe) = (rows(&relations.build, 1), rows(&relations.probe, 2));
    let table = row_table(&build, kind);
    let join = TableJoin::new(&table, &probe, relations.stream(clustered)).expect("the stream fits");
    let expected = output_rows(&relations.expected(clustered), &probe, &build);
    let found = results!(join, mode, RowSink, OutputRow, expected.len());
    same(mode, &found, &expected);
}

fn output_rows(pairs: &[(usize, RidPair)], left: &[Row], right: &[Row]) -> Vec<(usize, OutputRow)> {
    let row = |pair: RidPair| OutputRow {
        left: left[pair.outer as usize],
        right: right.get(pair.inner as usize).copied().unwrap_or(Row::ZERO),
    };
    pairs.iter().map(|&(tuple, pair)| (tuple, row(pair))).collect()
}

fn check_column_join(relations: &Relations, clustered: bool, mode: Mode) {
    let attribute = |rows: usize, mark: u32| (0..rows as u32).map(|row| row ^ mark).collect::<Vec<u32>>();
    let (build_rows, probe_rows) = (relations.build.len(), relations.probe.len());
    let build = [attribute(build_rows, 1 << 20), attribute(build_rows, 1 << 21)];
    let probe = [attribute(probe_rows, 1 << 22), attribute(probe_rows, 1 << 23)];
    let table = ColumnTable::build(
        Columns::new(&relations.build, &build[0], &build[1]).expect("equal lengths"),
        relations.buckets,
    )
    .expect("a small table");
    let probe_columns = Columns::new(&relations.probe, &probe[0], &probe[1]).expect("equal lengths");
    let join = ColumnJoin::new(&table, probe_columns, relations.stream(clustered)).expect("the stream fits");
    let expected: Vec<(usize, [u32; 5])> = relations
        .expected(clustered)
        .iter()
        .map(|&(tuple, RidPair { outer, inner })| {
            let (outer, inner) = (outer as usize, inner as usize);
            let key = relations.probe[outer];
            (
                tuple,
                [
                    key,
                    probe[0][outer],
                    probe[1][outer],
                    build[0][inner],
                    build[1][inner],
                ],
            )
        })
        .collect();

    let operators = [join, join];
    let operators: Vec<&ColumnJoin<'_>> = operators.iter().take(mode.inputs()).collect();
    let mut memory = vec![std::array::from_fn::<_, 5, _>(|_| vec![0; expected.len()]); mode.workers()];
    let mut sinks: Vec<ColumnSink<'_>> = memory
        .iter_mut()
        .map(|columns| ColumnSink::new(columns.each_mut().map(Vec::as_mut_slice)))
        .collect();
    run(mode, &operators, &mut sinks, &Options::default()).expect("the mode is possible");
    let counts: Vec<usize> = sinks
        .iter()
        .map(|sink| sink.finish().expect("there is room"))
        .collect();
    drop(sinks);
    let found: Vec<Vec<[u32; 5]>> = memory
        .iter()
        .zip(counts)
        .map(|(columns, count)| {
            (0..count)
                .map(|row| columns.each_ref().map(|column| column[row]))
                .collect()
        })
        .collect();
    same(mode, &found, &expected);
}

/// A join index's output is exactly the index's order, in every mode.
fn check_join_index(pairs: &[RidPair], left: &[Row], right: &[Row], mode: Mode) {
    let expected = output_rows(
        &pairs.iter().copied().enumerate().collect::<Vec<_>>(),
        left,
        right,
    );
    let outer = JoinIndex::left_outer(pairs, left, right).expect("RIDs are in range");
    let found = results!(outer, mode, RowSink, OutputRow, pairs.len());
    for (worker, found) in found.iter().enumerate() {
        assert_eq!(
            found,
            &share(mode, worker, &expected),
            "{mode}, outer, worker {worker}"
        );
    }
    if pairs.iter().any(|pair| pair.inner == NO_ROW) {
        assert!(JoinIndex::inner(pairs, left, right).is_err());
        return;
    }
    let inner = JoinIndex::inner(pairs, left, right).expect("RIDs are in range");
    let found = results!(inner, mode, RowSink, OutputRow, pairs.len());
    for (worker, found) in found.iter().enumerate() {
        assert_eq!(
            found,
            &share(mode, worker, &expected),
            "{mode}, inner, worker {worker}"
        );
    }
}

/// Pairs over `left` and `right` rows (at least one each), some of them without a right row.
fn join_index_pairs() -> impl Strategy<Value = (usize, usize, Vec<RidPair>)> {
    (
        1_usize..30,
        1_usize..30,
        prop_oneof![Just(0.0), Just(0.2), Just(1.0)],
    )
        .prop_flat_map(|(left, right, nulls)| {
            let inner = (0..right as u32, prop::bool::weighted(nulls))
                .prop_map(|(inner, null)| if null { NO_ROW } else { inner });
            let pair = (0..left as u32, inner).prop_map(|(outer, inner)| RidPair { outer, inner });
            (Just(left), Just(right), prop::collection::vec(pair, 0..100))
        })
}

proptest! {
    #[test]
    fn hash_join_finds_what_a_naive_join_finds(relations in relations(), clustered: bool, mode in mode()) {
        check_hash_join(&relations, clustered, mode);
    }

    #[test]
    fn column_join_finds_what_a_naive_join_finds(relations in relations(), clustered: bool, mode in mode()) {
        check_column_join(&relations, clustered, mode);
    }

    #[test]
    fn table_join_finds_what_a_naive_join_finds(
        relations in relations(), clustered: bool, mode in mode(), kind in prop::sample::select(KINDS.to_vec()),
    ) {
        check_table_join(&relations, clustered, mode, kind);
    }

    #[test]
    fn join_index_copies_its_pairs_in_order((left, right, pairs) in join_index_pairs(), mode in mode()) {
        let left: Vec<u32> = (0..left as u32).collect();
        let right: Vec<u32> = (0..right as u32).collect();
        check_join_index(&pairs, &rows(&left, 1), &rows(&right, 2), mode);
    }

    #[test]
    fn direct_helper_changes_no_answer(
        (left, right, pairs) in join_index_pairs(), ahead in 0_usize..200, window in 1_usize..50, every in 1_usize..20,
    ) {
        let left = rows(&(0..left as u32).collect::<Vec<_>>(), 1);
        let right = rows(&(0..right as u32).collect::<Vec<_>>(), 2);
        let join = JoinIndex::left_outer(&pairs, &left, &right).unwrap();
        let mut memory = vec![OutputRow::default(); pairs.len()];
        let mut sink = RowSink::new(&mut memory);
        let window = direct::Window { ahead, pairs: window, check_every: every };
        direct::run(&join, &mut sink, window, &Anywhere).unwrap();
        prop_assert_eq!(sink.finish(), Ok(pairs.len()));
        let expected = output_rows(&pairs.iter().copied().enumerate().collect::<Vec<_>>(), &left, &right);
        prop_assert!(memory.iter().eq(expected.iter().map(|(_, row)| row)));
    }
}

/// Each key twice to twelve times, one key in a chain of 150, and misses.
fn skewed() -> Relations {
    let mut build: Vec<u32> = (0..200).map(|row| row * row % 97).collect();
    build.extend([1000; 150]);
    let mut probe: Vec<u32> = (0..150).map(|row| row * 7 % 120).collect();
    probe[70] = 1000;
    let order = (0..150).map(|tuple| tuple * 77 % 150).collect();
    Relations {
        build,
        probe,
        order,
        buckets: 64,
    }
}

#[test]
fn all_modes_of_all_operators_on_skewed_chains() {
    let relations = skewed();
    for mode in all_modes() {
        for clustered in [true, false] {
            check_hash_join(&relations, clustered, mode);
            check_column_join(&relations, clustered, mode);
            check_table_join(&relations, clustered, mode, None);
        }
    }
}

#[test]
fn all_modes_of_the_join_index() {
    let side: Vec<u32> = (0..50).collect();
    let (left, right) = (rows(&side, 1), rows(&side, 2));
    let pairs = |null_every: u32| -> Vec<RidPair> {
        let inner = |i: u32| if i % null_every == 1 { NO_ROW } else { i * 13 % 50 };
        (0..300)
            .map(|i| RidPair {
                outer: i * 7 % 50,
                inner: inner(i),
            })
            .collect()
    };
    for mode in all_modes() {
        check_join_index(&pairs(5), &left, &right, mode);
        check_join_index(&pairs(1000)[2..], &left, &right, mode);
    }
}

/// Large enough for keys that are not in their first line.
#[test]
fn table_join_goes_on_to_further_lines() {
    let key = |row: u32| row.wrapping_mul(0x9e37_79b1) >> 4;
    let build: Vec<u32> = (0..3000).map(key).collect();
    let probe: Vec<u32> = (1500..4500).map(key).collect();
    let (build_rows, probe_rows) = (rows(&build, 1), rows(&probe, 2));
    let stream = Stream::clustered(probe.len()).unwrap();
    let numbers: std::collections::HashMap<u32, usize> =
        build.iter().enumerate().map(|(row, &key)| (key, row)).collect();
    let expected: Vec<(usize, OutputRow)> = (0..probe.len())
        .filter_map(|tuple| {
            let right = build_rows[*numbers.get(&probe[tuple])?];
            let left = probe_rows[tuple];
            Some((tuple, OutputRow { left, right }))
        })
        .collect();
    assert_eq!(expected.len(), 1500);
    for kind in [Kind::Buckets32, Kind::Buckets64] {
        let table = row_table(&build_rows, Some(kind));
        assert_eq!(table.table().kind(), kind);
        let join = TableJoin::new(&table, &probe_rows, stream).unwrap();
        let amac = Hiding::Prefetch {
            schedule: Schedule::Amac,
            distance: 16,
        };
        for mode in [Mode::PLAIN, Mode::staged(Threads::One, amac)] {
            let found = results!(join, mode, RowSink, OutputRow, expected.len());
            same(mode, &found, &expected);
        }
    }
}

#[test]
fn a_full_output_is_an_error_that_says_how_much_is_needed() {
    let relations = skewed();
    let needed = relations.expected(true).len();
    let (build, probe) = (rows(&relations.build, 1), rows(&relations.probe, 2));
    let table = PaperTable::build(&build, 10).unwrap();
    let join = HashJoin::new(&table, &probe, relations.stream(true)).unwrap();
    let side: Vec<RidPair> = vec![RidPair::default(); 20];
    let index = JoinIndex::inner(&side, &probe, &build).unwrap();
    for mode in modes(&[4], &[16]).into_iter().filter(|mode| mode.workers() == 1) {
        let mut memory = [OutputRow::default(); 7];
        let mut sinks = [RowSink::new(&mut memory)];
        run(mode, &[&join], &mut sinks, &Options::default()).unwrap();
        assert_eq!(sinks[0].finish(), Err(OutputFull { needed, room: 7 }), "{mode}");
        let mut memory = [OutputRow::default(); 7];
        let mut sinks = [RowSink::new(&mut memory)];
        run(mode, &[&index], &mut sinks, &Options::default()).unwrap();
        assert_eq!(
            sinks[0].finish(),
            Err(OutputFull { needed: 20, room: 7 }),
            "{mode}"
        );
    }
}

#[test]
fn wrong_input_is_an_error() {
    let build = rows(&[1, 2, 3], 1);
    let probe = rows(&[1, 2], 2);
    let table = PaperTable::build(&build, 3).unwrap();
    let other = Stream::clustered(3).unwrap();
    let error = OperatorError::StreamOfOtherRows { stream: 3, rows: 2 };
    assert_eq!(HashJoin::new(&table, &probe, other).unwrap_err(), error);
    let row_table = row_table(&build, None);
    assert_eq!(TableJoin::new(&row_table, &probe, other).unwrap_err(), error);
    assert_eq!(
        PaperTable::build(&build, 0).unwrap_err(),
        OperatorError::Buckets { buckets: 0 }
    );
    assert_eq!(
        Columns::new(&[1, 2], &[1], &[1, 2]).unwrap_err(),
        OperatorError::ColumnLengths {
            key: 2,
            first: 1,
            second: 2
        }
    );
    let pair = |outer, inner| RidPair { outer, inner };
    for (pairs, position, rid, rows) in [
        ([pair(0, 0), pair(2, 0)], 1, 2, 2),
        ([pair(1, 3), pair(0, 0)], 0, 3, 3),
        ([pair(NO_ROW, 0), pair(0, 0)], 0, NO_ROW, 2),
    ] {
        let error = OperatorError::RidOutOfRange { position, rid, rows };
        assert_eq!(JoinIndex::inner(&pairs, &probe, &build).unwrap_err(), error);
        assert_eq!(JoinIndex::left_outer(&pairs, &probe, &build).unwrap_err(), error);
    }
    let window = direct::Window {
        ahead: 1,
        pairs: 0,
        check_every: 1,
    };
    let join = JoinIndex::inner(&[], &probe, &build).unwrap();
    let mut sink = RowSink::new(&mut []);
    assert_eq!(
        direct::run(&join, &mut sink, window, &Anywhere),
        Err(direct::EmptyWindow)
    );
}

/// Addresses of a slice.
fn memory<T>(slice: &[T]) -> std::ops::Range<u64> {
    let range = slice.as_ptr_range();
    range.start as u64..range.end as u64
}

/// Traces a staged run with prefetching: every line that is loaded outside of `stream` was asked for before, and no line
/// was asked for in vain.
fn check_needs<'a, const M: usize, O: Staged<'a, M>>(
    operator: &O,
    output: &mut O::Output,
    stream: std::ops::Range<u64>,
) {
    let hiding = Hiding::Prefetch {
        schedule: Schedule::Group,
        distance: 8,
    };
    let mut asked = std::collections::BTreeSet::new();
    let mut touched = std::collections::BTreeSet::new();
    let mut events = |event: Event| {
        let line = event.address / 64;
        match event.access {
            Access::Prefetch => _ = asked.insert(line),
            Access::Load if stream.contains(&event.address) => {}
            Access::Load => {
                assert!(asked.contains(&line), "loaded, never asked for");
                touched.insert(line);
            }
            Access::Store => _ = touched.insert(line),
        }
    };
    let mode = Mode::staged(Threads::One, hiding);
    traced::trace(mode, &[operator], std::slice::from_mut(output), 1, &mut events).unwrap();
    assert!(!touched.is_empty());
    assert!(asked.is_subset(&touched), "asked for, never touched");
}

#[test]
fn stages_name_what_the_next_one_touches() {
    let keys: Vec<u32> = (0..400).map(|row| row * 31 % 400).collect();
    let order: Vec<u32> = (0..400).map(|tuple| tuple * 77 % 400).collect();
    let (build, probe) = (rows(&keys, 1), rows(&keys, 2));
    let stream = Stream::unclustered(&order, 400).unwrap();
    let mut output = vec![OutputRow::default(); 400];

    let table = PaperTable::build(&build, 300).unwrap();
    let join = HashJoin::new(&table, &probe, stream).unwrap();
    check_needs(&join, &mut RowSink::new(&mut output), memory(&order));

    for kind in [Kind::Dense, Kind::Buckets32, Kind::Buckets64] {
        let table = row_table(&build, Some(kind));
        let join = TableJoin::new(&table, &probe, stream).unwrap();
        check_needs(&join, &mut RowSink::new(&mut output), memory(&order));
    }

    let pairs: Vec<RidPair> = order
        .iter()
        .map(|&rid| RidPair {
            outer: rid,
            inner: 399 - rid,
        })
        .collect();
    let index = JoinIndex::inner(&pairs, &probe, &build).unwrap();
    check_needs(&index, &mut RowSink::new(&mut output), memory(&pairs));

    let columns = Columns::new(&keys, &order, &keys).unwrap();
    let table = ColumnTable::build(columns, 300).unwrap();
    let join_keys = keys.clone();
    let probe = Columns::new(&join_keys, &join_keys, &join_keys).unwrap();
    let rids = order.clone();
    let join = ColumnJoin::new(&table, probe, Stream::unclustered(&rids, 400).unwrap()).unwrap();
    let mut columns = vec![vec![0; 400]; 5];
    let mut columns = columns.iter_mut().map(Vec::as_mut_slice);
    let mut sink = ColumnSink::new(std::array::from_fn(|_| columns.next().unwrap()));
    check_needs(&join, &mut sink, memory(&rids));
}
