//! Distinct types for the quantities corun reasons about.
//!
//! A cache has ways, lines and bytes, and a query has rows; all are integers, and mixing them up is a silent bug. Each
//! is its own type here, with only the conversions that make sense.
//!
//! Not here: time. Durations are `f64` nanoseconds with the unit in the field's name, because they are only measured,
//! averaged and printed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` kibibytes (1024 bytes each).
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` mebibytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` gibibytes.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The amount as a `usize`, saturating where the address space is smaller.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// How many whole cache lines of `line` bytes fit; zero if `line` is zero.
    pub fn whole_lines(self, line: Self) -> CacheLines {
        CacheLines(self.0.checked_div(line.0).unwrap_or(0))
    }
}

impl fmt::Display for Bytes {
    /// Binary units with at most two decimals, so that cache sizes print exactly: `48 KiB`, `1.25 MiB`, `260 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 1023.995 would print as `1024.00`, so it already belongs to the next unit.
        while value >= 1023.995 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = format!("{value:.2}");
        f.pad(&format!(
            "{} {}",
            text.trim_end_matches('0').trim_end_matches('.'),
            UNITS[unit]
        ))
    }
}

/// A number of cache lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CacheLines(pub u64);

impl CacheLines {
    /// The memory these lines cover, saturating.
    pub fn bytes(self, line: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(line.0))
    }
}

/// A number of ways of a set-associative cache; the unit in which resctrl partitions it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ways(pub u32);

/// The kernel's number of a logical CPU. Numbers may have gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u32);

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A number of rows of a table or an intermediate result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rows(pub u64);

impl Rows {
    /// The memory of this many rows of `width` bytes each, saturating.
    pub fn bytes(self, width: Bytes) -> Bytes {
        Bytes(self.0.saturating_mul(width.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_print_in_the_unit_people_use() {
        let printed: Vec<String> = [
            0,
            1,
            100,
            1023,
            1024,
            48 << 10,
            1280 << 10,
            260 << 20,
            (1 << 20) - 1,
        ]
        .map(|n| Bytes(n).to_string())
        .to_vec();
        assert_eq!(
            printed,
            [
                "0 B", "1 B", "100 B", "1023 B", "1 KiB", "48 KiB", "1.25 MiB", "260 MiB", "1 MiB"
            ]
        );
    }

    #[test]
    fn lines_and_bytes_convert_both_ways() {
        assert_eq!(Bytes::kib(48).whole_lines(Bytes(64)), CacheLines(768));
        assert_eq!(CacheLines(768).bytes(Bytes(64)), Bytes::kib(48));
        assert_eq!(Bytes::kib(48).whole_lines(Bytes(0)), CacheLines(0));
        assert_eq!(Rows(u64::MAX).bytes(Bytes(8)), Bytes(u64::MAX));
    }
}
