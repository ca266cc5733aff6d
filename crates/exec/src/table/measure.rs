//! [`probe_times`]: from which size on prefetching pays for [`JoinTable`]'s own probe, measured on this machine.
//!
//! An out-of-order core overlaps the misses of neighbouring probes by itself up to a point; where that point lies differs
//! from machine to machine. Half of the probed codes have a partner, in random order.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use corun_model::operators::technique::ProbePoint;
use corun_model::units::Bytes;

use super::{BuildError, BuildOptions, JoinTable, Kind, Pairs, ProbeCursor};
use crate::codes::{Chunk, Codes};
use crate::workers::Serial;

/// Bytes of index a row takes in [`Kind::Buckets64`], roughly: five keys a line, two thirds full.
const INDEX_BYTES_PER_ROW: usize = 20;

/// A bijective scramble: distinct inputs give distinct codes without order.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d)
}

/// Times probes of `rows` rows, the fastest of `repetitions`, against tables with indexes of about `sizes` bytes.
///
/// # Errors
/// When a table cannot be built.
///
/// # Panics
/// If a probe found a wrong number of pairs, which would be a defect of this crate.
pub fn probe_times(sizes: &[Bytes], rows: usize, repetitions: usize) -> Result<Vec<ProbePoint>, BuildError> {
    let options = BuildOptions {
        force: Some(Kind::Buckets64),
        ..BuildOptions::default()
    };
    let (mut cursor, mut pairs) = (ProbeCursor::default(), Pairs::default());
    let mut points = Vec::with_capacity(sizes.len());
    for size in sizes {
        let build_rows = (size.as_usize() / INDEX_BYTES_PER_ROW).max(1);
        let codes: Vec<u64> = (0..build_rows as u64).map(scrambled).collect();
        let chunk = Chunk {
            codes: Codes::U64 {
                values: &codes,
                bias: 0,
            },
            valid: None,
            first_row: 0,
        };
        let mut table = JoinTable::build(&[chunk], &options, &Serial, &AtomicBool::new(false))?;
        let mut salt = 0_u64;
        let mut least_ns = |far: bool| {
            table.prefetch_from_bytes = if far { 0 } else { usize::MAX };
            let mut least = f64::INFINITY;
            for _ in 0..repetitions.max(1) {
                // Other rows each time: those of the last run may still be near.
                salt += rows as u64;
                let numbers = (0..rows as u64).map(|row| {
                    let spread = scrambled(row + salt) >> 1;
                    spread % (2 * build_rows as u64)
                });
                let mut partners = 0;
                let probed: Vec<u64> = numbers
                    .inspect(|&number| partners += usize::from(number < build_rows as u64))
                    .map(scrambled)
                    .collect();
                let codes = Codes::U64 {
                    values: &probed,
                    bias: 0,
                };
                cursor.reset();
                let begin = Instant::now();
                let finished = table.probe(&codes, None, None, &mut cursor, rows + 1, &mut pairs);
                least = least.min(begin.elapsed().as_nanos() as f64 / rows as f64);
                assert!(finished && pairs.len() == partners, "a probe lost a row");
            }
            least
        };
        // The first probe also brings the pairs' memory into being.
        least_ns(false);
        let (plain_ns, prefetch_ns) = (least_ns(false), least_ns(true));
        points.push(ProbePoint {
            table: Bytes(table.index_bytes() as u64),
            plain_ns,
            prefetch_ns,
        });
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_timed_both_ways() {
        let points = probe_times(&[Bytes::kib(8), Bytes::kib(64)], 1000, 2).expect("small tables");
        assert_eq!(points.len(), 2);
        assert!(points[0].table < points[1].table);
        assert!(
            points
                .iter()
                .all(|point| point.plain_ns > 0.0 && point.prefetch_ns > 0.0)
        );
    }
}
