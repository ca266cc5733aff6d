//! Sets of ways of a cache, as the kernel's cache bit masks write them: one bit a way, hexadecimal.
//!
//! Plain bit arithmetic. Which masks a machine takes is decided in [`super::place`].

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

use serde::{Deserialize, Serialize};

use crate::units::Ways;

/// A set of ways of one cache; way `i` is bit `i`. No machine has more than 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WayMask(pub u32);

impl WayMask {
    /// Reads a mask as the kernel prints it: hexadecimal, zeros in front allowed, `0x` allowed. `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        // `from_str_radix` would take a sign.
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok().map(Self)
    }

    /// The `ways` ways from way `first` on; those past way 31 are left out.
    pub fn window(first: u32, ways: Ways) -> Self {
        let bits = 1u64.checked_shl(ways.0).map_or(u64::MAX, |bit| bit - 1);
        Self(bits.checked_shl(first).unwrap_or(0) as u32)
    }

    /// How many ways it has.
    pub fn ways(self) -> Ways {
        Ways(self.0.count_ones())
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Its stretches of neighbouring ways, lowest first.
    pub fn runs(self) -> impl Iterator<Item = Self> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let first = left.trailing_zeros();
            let run = Self::window(first, Ways((left >> first).trailing_ones()));
            left &= !run.0;
            Some(run)
        })
    }

    /// Its longest stretch of neighbouring ways, the lowest of equals; empty if it has none.
    pub fn longest_run(self) -> Self {
        self.runs().fold(
            Self::default(),
            |best, run| {
                if run.ways() > best.ways() { run } else { best }
            },
        )
    }
}

impl fmt::Display for WayMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl BitAnd for WayMask {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for WayMask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for WayMask {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_read_and_print_as_the_kernel_writes_them() {
        assert_eq!(WayMask::parse("7ff"), Some(WayMask(0x7ff)));
        assert_eq!(WayMask::parse(" 000ff\n"), Some(WayMask(0xff)));
        assert_eq!(WayMask::parse("0x3"), Some(WayMask(3)));
        for bad in ["", "0x", "-1", "+1", "g", "1ffffffff"] {
            assert_eq!(WayMask::parse(bad), None, "{bad}");
        }
        assert_eq!(WayMask(0xf0).to_string(), "f0");
    }

    #[test]
    fn windows_and_runs() {
        assert_eq!(WayMask::window(0, Ways(32)), WayMask(u32::MAX));
        assert_eq!(WayMask::window(30, Ways(4)), WayMask(0xc000_0000));
        assert_eq!(WayMask::window(64, Ways(4)), WayMask(0));
        assert_eq!(WayMask::window(3, Ways(80)), WayMask(u32::MAX << 3));
        let runs: Vec<u32> = WayMask(0b1011_0110).runs().map(|run| run.0).collect();
        assert_eq!(runs, [0b110, 0b11_0000, 0b1000_0000]);
        assert_eq!(WayMask(0b1011_0110).longest_run(), WayMask(0b110));
        assert_eq!(WayMask(u32::MAX).longest_run(), WayMask(u32::MAX));
        assert_eq!(WayMask(0).longest_run(), WayMask(0));
    }
}
