//! [`Order`]: the lines of a footprint, each once a round, in an order no prefetcher guesses and no memory keeps.
//!
//! A table of the order would itself take a sixteenth of the footprint's cache. So positions are counted over the next power of two and
//! scrambled by steps that can be undone, which therefore give each number once; numbers beyond the footprint are passed over.

/// Odd, so that multiplying by it modulo a power of two can be undone.
const FIRST: u64 = 0xd6e8_feb8_6659_fd93;
const SECOND: u64 = 0xbf58_476d_1ce4_e5b9;

/// An order of the numbers below a bound.
#[derive(Clone, Debug)]
pub(super) struct Order {
    lines: u64,
    mask: u64,
    shift: u32,
    position: u64,
}

impl Order {
    /// Of the numbers below `lines`, at least 1.
    pub(super) fn of(lines: u64) -> Self {
        let mask = lines.max(1).next_power_of_two() - 1;
        Self {
            lines: lines.max(1),
            mask,
            // Half of the bits, at least one: a shift by none would not scramble.
            shift: (mask.count_ones() / 2).max(1),
            position: 0,
        }
    }

    /// The next number; after all have come they come again in the same order.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        loop {
            let mut x = self.position;
            self.position = (self.position + 1) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(FIRST) & self.mask;
            x ^= x >> self.shift;
            x = x.wrapping_mul(SECOND) & self.mask;
            x ^= x >> self.shift;
            // More than half of the numbers are below.
            if x < self.lines {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_number_comes_once_a_round_and_rounds_are_alike(lines in 1u64..5000) {
            let mut order = Order::of(lines);
            let first: Vec<u64> = (0..lines).map(|_| order.next()).collect();
            let second: Vec<u64> = (0..lines).map(|_| order.next()).collect();
            prop_assert_eq!(&first, &second);
            let mut sorted = first;
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..lines));
        }
    }

    #[test]
    fn neighbours_are_far_apart() {
        let lines = 1 << 14;
        let mut order = Order::of(lines);
        let mut before = order.next();
        let mut near = 0;
        for _ in 1..lines {
            let now = order.next();
            near += u64::from(now.abs_diff(before) < 64);
            before = now;
        }
        // By chance it is one in 128.
        assert!(near < lines / 50, "{near} of {lines} lie on the page before");
    }
}
