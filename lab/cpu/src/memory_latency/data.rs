//! The inputs of the suite `memory-latency`, each with the answers of a naive oracle.
//!
//! Every input is a function of its seed alone, so two inputs differ only by their seeds, and runs compare. Everything large
//! lies in huge pages and has been written, so nothing is paged in while somebody measures. Oracles count and look up in plain
//! arrays; they share no code with the operators.

use corun_exec::HugeBuf;
use corun_exec::operators::{KeyRid, NO_ROW, RidPair, Row};

use super::expected::{Answer, Expected, columnar, joined, paired};
use corun_workloads::numbers::{below, draw};
use lab_core::error::BenchError;

/// Streams of random numbers of one seed.
const BUILD: u64 = 1;
const PROBE: u64 = 2;
const ORDER: u64 = 3;
const RIGHT: u64 = 4;

/// Out of memory while data is made.
fn memory(error: corun_exec::huge::OutOfMemory) -> BenchError {
    BenchError::Data(format!("{error}; other sizes: --quick, --paper-sizes"))
}

fn rows(count: usize, key: impl Fn(u32) -> u32) -> Result<HugeBuf<Row>, BenchError> {
    let mut rows = HugeBuf::<Row>::zeroed(count).map_err(memory)?;
    for (rid, row) in rows.iter_mut().enumerate() {
        let rid = rid as u32;
        row.key = key(rid);
        row.payload = std::array::from_fn(|word| rid.wrapping_mul(0x9e37_79b1).wrapping_add(word as u32));
    }
    Ok(rows)
}

fn numbers(count: usize, number: impl Fn(usize) -> u32) -> Result<HugeBuf<u32>, BenchError> {
    let mut numbers = HugeBuf::<u32>::zeroed(count).map_err(memory)?;
    for (at, place) in numbers.iter_mut().enumerate() {
        *place = number(at);
    }
    Ok(numbers)
}

/// A random number below `bound`.
fn random(seed: u64, stream: u64, at: usize, bound: usize) -> u32 {
    below(draw(seed, stream, at as u64), bound as u64) as u32
}

/// RIDs by key, found by counting: the naive oracle of hash joins. Keys are `1..=keys`.
struct ByKey {
    starts: Vec<u32>,
    rids: Vec<u32>,
}

impl ByKey {
    fn of(keys: usize, rows: usize, key: impl Fn(usize) -> u32) -> ByKey {
        let mut starts = vec![0_u32; keys + 2];
        for row in 0..rows {
            starts[key(row) as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut rids = vec![0; rows];
        for row in 0..rows {
            let place = &mut next[key(row) as usize];
            rids[*place as usize] = row as u32;
            *place += 1;
        }
        ByKey { starts, rids }
    }

    fn rids(&self, key: u32) -> &[u32] {
        let key = key as usize;
        &self.rids[self.starts[key] as usize..self.starts[key + 1] as usize]
    }
}

/// Two tables of 64-byte rows and an unclustered probe stream (paper 000, section 6.2): keys of both sides are random in `1..=rows`,
/// so a probe finds one row on average and about a third of them find none.
pub struct RowInput {
    /// The side the hash table is built over.
    pub build: HugeBuf<Row>,
    /// The side that is probed with.
    pub probe: HugeBuf<Row>,
    /// RIDs of the probe side in the order they are probed.
    pub order: HugeBuf<u32>,
    /// The answers.
    pub expected: Expected,
}

impl RowInput {
    /// `rows` rows a side, of which `probes` are probed.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(seed: u64, count: usize, probes: usize) -> Result<RowInput, BenchError> {
        let build = rows(count, |rid| 1 + random(seed, BUILD, rid as usize, count))?;
        let probe = rows(count, |rid| 1 + random(seed, PROBE, rid as usize, count))?;
        let order = numbers(probes, |at| random(seed, ORDER, at, count))?;
        let by_key = ByKey::of(count, count, |row| build[row].key);
        let expected = Expected::new(probes, |tuple| {
            let left = &probe[order[tuple] as usize];
            let matches = by_key.rids(left.key).iter();
            Answer::sum(matches.map(|&rid| Answer::one(joined(left, &build[rid as usize]))))
        });
        Ok(RowInput {
            build,
            probe,
            order,
            expected,
        })
    }
}

/// Two relations of three columns (paper 000, section 6.4); every probe row is probed, in order.
pub struct ColumnInput {
    /// Key and two attributes of the build side.
    pub build: [HugeBuf<u32>; 3],
    /// The same of the probe side.
    pub probe: [HugeBuf<u32>; 3],
    /// The answers.
    pub expected: Expected,
}

impl ColumnInput {
    /// `count` build rows with random keys in `1..=count`, probed with `probes` more such.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(seed: u64, count: usize, probes: usize) -> Result<ColumnInput, BenchError> {
        let relation = |rows: usize, stream: u64| -> Result<[HugeBuf<u32>; 3], BenchError> {
            Ok([
                numbers(rows, |row| 1 + random(seed, stream, row, count))?,
                numbers(rows, |row| (row as u32).wrapping_mul(0x85eb_ca6b))?,
                numbers(rows, |row| (row as u32).wrapping_mul(0xc2b2_ae35))?,
            ])
        };
        let (build, probe) = (relation(count, BUILD)?, relation(probes, PROBE)?);
        let by_key = ByKey::of(count, count, |row| build[0][row]);
        let expected = Expected::new(probes, |row| {
            let matches = by_key.rids(probe[0][row]).iter();
            Answer::sum(matches.map(|&rid| {
                let rid = rid as usize;
                let record = [
                    probe[0][row],
                    probe[1][row],
                    probe[2][row],
                    build[1][rid],
                    build[2][rid],
                ];
                Answer::one(columnar(record))
            }))
        });
        Ok(ColumnInput {
            build,
            probe,
            expected,
        })
    }
}

/// Two tables and a join index of random pairs over them (paper 000, appendix A.1.1).
pub struct PairInput {
    /// The left table.
    pub left: HugeBuf<Row>,
    /// The right table.
    pub right: HugeBuf<Row>,
    /// The index: RIDs of both.
    pub pairs: HugeBuf<RidPair>,
    /// The answers.
    pub expected: Expected,
}

/// Of a hundred pairs of an outer join index, those without a right row (appendix A.1.1).
pub const NULL_PERCENT: u64 = 20;

impl PairInput {
    /// `count` rows a side and `pairs` pairs, one in five without a right row if `outer`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(seed: u64, count: usize, pairs: usize, outer: bool) -> Result<PairInput, BenchError> {
        let left = rows(count, |rid| rid)?;
        let right = rows(count, |rid| !rid)?;
        let mut index = HugeBuf::<RidPair>::zeroed(pairs).map_err(memory)?;
        for (at, pair) in index.iter_mut().enumerate() {
            let missing = outer && below(draw(seed, RIGHT, at as u64), 100) < NULL_PERCENT;
            pair.outer = random(seed, BUILD, at, count);
            pair.inner = if missing {
                NO_ROW
            } else {
                random(seed, PROBE, at, count)
            };
        }
        let expected = Expected::new(pairs, |at| {
            let RidPair { outer, inner } = index[at];
            let right = if inner == NO_ROW {
                &Row::ZERO
            } else {
                &right[inner as usize]
            };
            Answer::one(joined(&left[outer as usize], right))
        });
        Ok(PairInput {
            left,
            right,
            pairs: index,
            expected,
        })
    }
}

/// Keys of an index and two probe streams over them (paper 000, section 6.1): 32-bit floating-point keys, ascending, and probe keys
/// drawn from them at random, so every probe finds one row.
pub struct IndexInput {
    /// The keys in ascending order.
    pub keys: Vec<f32>,
    /// Their RIDs.
    pub rids: Vec<u32>,
    /// A clustered stream: the probe key of each outer row, in the order of the outer rows.
    pub clustered: Vec<KeyRid<f32>>,
    /// An unclustered one: RIDs of an outer table in random order; each one's key is in `outer_keys`.
    pub order: HugeBuf<u32>,
    /// The key column that the unclustered stream's RIDs are looked up in: as many rows as the index has.
    pub outer_keys: HugeBuf<f32>,
    /// The answers of the clustered stream.
    pub clustered_expected: Expected,
    /// The answers of the unclustered stream.
    pub unclustered_expected: Expected,
}

/// The smallest positive normal number, and how many larger finite ones there are: their bit patterns ascend with them.
const FIRST_FLOAT: u32 = 0x0080_0000;
const FLOATS: u32 = 0x7f7f_ffff - FIRST_FLOAT;

impl IndexInput {
    /// `count` keys and `probes` probes a stream.
    ///
    /// # Errors
    /// When there is no memory, or more keys than floating-point numbers.
    pub fn new(seed: u64, count: usize, probes: usize) -> Result<IndexInput, BenchError> {
        let step = match u32::try_from(count) {
            Ok(count) if count > 0 && count <= FLOATS => FLOATS / count,
            _ => {
                return Err(BenchError::Data(format!(
                    "there are no {count} distinct 32-bit keys"
                )));
            }
        };
        let key = |at: u32| f32::from_bits(FIRST_FLOAT + at * step);
        // Some other number than the key's position, so that neither can stand for the other.
        let rid = |at: u32| at.wrapping_mul(0x9e37_79b1);
        let clustered = (0..probes).map(|row| KeyRid {
            key: key(random(seed, PROBE, row, count)),
            rid: row as u32,
        });
        let mut outer_keys = HugeBuf::<f32>::zeroed(count).map_err(memory)?;
        for (row, place) in outer_keys.iter_mut().enumerate() {
            *place = key(random(seed, RIGHT, row, count));
        }
        let order = numbers(probes, |at| random(seed, ORDER, at, count))?;
        let pair = |outer: u32, at: u32| {
            Answer::one(paired(RidPair {
                outer,
                inner: rid(at),
            }))
        };
        let clustered_expected =
            Expected::new(probes, |row| pair(row as u32, random(seed, PROBE, row, count)));
        let unclustered_expected = Expected::new(probes, |tuple| {
            let outer = order[tuple];
            pair(outer, random(seed, RIGHT, outer as usize, count))
        });
        let positions = 0..count as u32;
        Ok(IndexInput {
            keys: positions.clone().map(key).collect(),
            rids: positions.map(rid).collect(),
            clustered: clustered.collect(),
            order,
            outer_keys,
            clustered_expected,
            unclustered_expected,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_oracle_is_found_again() {
        let keys = [3, 1, 3, 7, 1, 3];
        let by_key = ByKey::of(7, keys.len(), |row| keys[row]);
        assert_eq!(by_key.rids(3), [0, 2, 5]);
        assert_eq!(by_key.rids(1), [1, 4]);
        assert_eq!((by_key.rids(2), by_key.rids(7)), (&[][..], &[3][..]));
    }

    #[test]
    fn random_keys_hit_as_often_as_random_keys_do() {
        let input = RowInput::new(7, 2000, 2000).expect("small");
        let none = (0..2000)
            .filter(|&tuple| input.expected.of(tuple..tuple + 1).rows == 0)
            .count();
        // 1/e of them, give or take.
        assert!((650..850).contains(&none), "{none}");
        assert!((1800..2200).contains(&input.expected.of(0..2000).rows));
    }

    #[test]
    fn index_keys_ascend_and_every_probe_is_one_of_them() {
        let input = IndexInput::new(7, 1000, 300).expect("small");
        assert!(input.keys.windows(2).all(|pair| pair[0] < pair[1]));
        let is_key = |key: &f32| input.keys.binary_search_by(|other| other.total_cmp(key)).is_ok();
        assert!(input.clustered.iter().all(|probe| is_key(&probe.key)));
        assert!(input.outer_keys.iter().all(is_key));
        assert_eq!(input.clustered_expected.of(0..300).rows, 300);
        assert!(IndexInput::new(7, 0, 1).is_err());
    }

    #[test]
    fn a_fifth_of_an_outer_index_has_no_right_row() {
        let input = PairInput::new(7, 100, 5000, true).expect("small");
        let missing = input.pairs.iter().filter(|pair| pair.inner == NO_ROW).count();
        assert!((900..1100).contains(&missing), "{missing}");
        let inner = PairInput::new(7, 100, 500, false).expect("small");
        assert!(inner.pairs.iter().all(|pair| pair.inner != NO_ROW));
    }

    #[test]
    fn seeds_make_different_inputs() {
        let (a, b) = (
            ColumnInput::new(1, 500, 400).expect("small"),
            ColumnInput::new(2, 500, 400).expect("small"),
        );
        assert_ne!(a.expected.of(0..400), b.expected.of(0..400));
    }
}
