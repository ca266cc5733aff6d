//! The operators and the memory they share with helpers, on data small enough for Miri: `make miri` runs this file, and so
//! does every `cargo test`. Breadth is the job of `operators.rs`.

use std::sync::atomic::AtomicBool;

use crate::support::{modes, naive, results, rows, same};
use corun_exec::operators::{
    HashJoin, JoinIndex, NO_ROW, OutputRow, PaperTable, RidPair, Row, RowSink, RowTable, Stream, TableJoin,
    direct,
};
use corun_exec::stage::Anywhere;
use corun_exec::{BuildOptions, Kind, Serial};
use corun_model::operators::mode::{Mode, Threads};

fn few_modes() -> Vec<Mode> {
    let mut modes = modes(&[3], &[4]);
    modes.retain(|mode| matches!(mode.threads, Threads::One | Threads::BiThreaded(2)));
    modes
}

const BUILD: [u32; 8] = [1, 5, 5, 9, 1, 12, u32::MAX, 0];
const PROBE: [u32; 7] = [5, 1, 7, u32::MAX, 0, 5, 13];
const ORDER: [u32; 9] = [6, 0, 5, 1, 1, 3, 4, 2, 0];

fn expected(build: &[u32], left: &[Row], right: &[Row]) -> Vec<(usize, OutputRow)> {
    naive(build, &PROBE, &ORDER)
        .iter()
        .map(|&(tuple, RidPair { outer, inner })| {
            let (left, right) = (left[outer as usize], right[inner as usize]);
            (tuple, OutputRow { left, right })
        })
        .collect()
}

#[test]
fn hash_join() {
    let (build, probe) = (rows(&BUILD, 1), rows(&PROBE, 2));
    let expected = expected(&BUILD, &probe, &build);
    let table = PaperTable::build(&build, 3).unwrap();
    let join = HashJoin::new(&table, &probe, Stream::unclustered(&ORDER, PROBE.len()).unwrap()).unwrap();
    for mode in few_modes() {
        same(
            mode,
            &results!(join, mode, RowSink, OutputRow, expected.len()),
            &expected,
        );
    }
}

#[test]
fn table_join() {
    // Without the largest key, so that a dense table is small.
    let keys = BUILD.map(|key| key.min(20));
    let (build, probe) = (rows(&keys, 1), rows(&PROBE, 2));
    let expected = expected(&keys, &probe, &build);
    for kind in [Kind::Dense, Kind::Buckets32, Kind::Buckets64] {
        let options = BuildOptions {
            force: Some(kind),
            ..BuildOptions::default()
        };
        let table = RowTable::build(&build, &options, &Serial, &AtomicBool::new(false)).unwrap();
        let stream = Stream::unclustered(&ORDER, PROBE.len()).unwrap();
        let join = TableJoin::new(&table, &probe, stream).unwrap();
        for mode in few_modes().into_iter().step_by(2) {
            same(
                mode,
                &results!(join, mode, RowSink, OutputRow, expected.len()),
                &expected,
            );
        }
    }
}

#[test]
fn join_index() {
    let (left, right) = (rows(&PROBE, 1), rows(&BUILD, 2));
    let pairs: Vec<RidPair> = ORDER
        .iter()
        .enumerate()
        .map(|(position, &outer)| RidPair {
            outer,
            inner: if position % 4 == 1 { NO_ROW } else { 7 - outer },
        })
        .collect();
    let expected: Vec<(usize, OutputRow)> = pairs
        .iter()
        .map(|pair| OutputRow {
            left: left[pair.outer as usize],
            right: right.get(pair.inner as usize).copied().unwrap_or(Row::ZERO),
        })
        .enumerate()
        .collect();
    let join = JoinIndex::left_outer(&pairs, &left, &right).unwrap();
    for mode in few_modes() {
        same(
            mode,
            &results!(join, mode, RowSink, OutputRow, pairs.len()),
            &expected,
        );
    }
    let mut memory = vec![OutputRow::default(); pairs.len()];
    let mut sink = RowSink::new(&mut memory);
    let window = direct::Window {
        ahead: 1,
        pairs: 3,
        check_every: 2,
    };
    direct::run(&join, &mut sink, window, &Anywhere).unwrap();
    assert!(memory.iter().eq(expected.iter().map(|(_, row)| row)));
}
