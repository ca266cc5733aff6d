//! Counter-based random numbers: the value of a cell is a function of (seed, table, column, row) alone.
//!
//! That is what makes the data independent of how many threads or partitions produced it: any thread can make any
//! row without replaying the rows before it. The function is splitmix64 with one stream a column; it needs three
//! multiplications a value. Not for cryptography.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random values of one column of one table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream(u64);

impl Stream {
    /// The stream of `column` (any number unique within its table) of `table` under `seed`.
    pub(super) fn new(seed: u64, table: u64, column: u64) -> Self {
        Stream(mix(mix(seed.wrapping_add(GOLDEN)) ^ (table << 32 | column)))
    }

    /// 64 random bits of `row`.
    pub(super) fn bits(self, row: u64) -> u64 {
        mix(self.0.wrapping_add((row + 1).wrapping_mul(GOLDEN)))
    }

    /// A value of `0..bound` for `row`, uniform up to a bias of at most `bound / 2^32`.
    pub(super) fn below(self, row: u64, bound: u32) -> u32 {
        (((self.bits(row) >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A value of `least..=most` for `row`.
    pub(super) fn between(self, row: u64, least: i32, most: i32) -> i32 {
        least + self.below(row, (most - least + 1) as u32) as i32
    }

    /// One of `choices` for `row`.
    pub(super) fn pick<'a>(self, row: u64, choices: &[&'a str]) -> &'a str {
        choices[self.below(row, choices.len() as u32) as usize]
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_uniform_and_within_bounds() {
        let stream = Stream::new(1, 2, 3);
        let mut counts = [0u32; 11];
        for row in 0..110_000 {
            counts[stream.between(row, 0, 10) as usize] += 1;
        }
        // 10,000 expected each; a standard deviation is about 95.
        assert!(
            counts.iter().all(|&count| (9_500..10_500).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn streams_differ_by_seed_table_and_column() {
        let value = |seed, table, column| Stream::new(seed, table, column).bits(7);
        let all = [value(1, 1, 1), value(2, 1, 1), value(1, 2, 1), value(1, 1, 2)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(value(1, 1, 1), value(1, 1, 1));
    }
}
