//! [`Zipf`]: ranks drawn with a probability that falls as `1 / rank^0.99` (Gray et al., "Quickly generating billion-record
//! synthetic databases", SIGMOD 1994, as YCSB does it).

/// The skew YCSB uses.
const THETA: f64 = 0.99;

/// Draws ranks from 0 (the most likely) to `items - 1`. It can grow.
#[derive(Clone, Debug)]
pub struct Zipf {
    items: u64,
    /// Sum of `1 / rank^THETA` over all items.
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Over `items` ranks, at least one. Takes time linear in `items`.
    pub fn new(items: u64) -> Self {
        let mut zipf = Self {
            items: 0,
            zeta: 0.0,
            eta: 0.0,
        };
        zipf.grow(items.max(1));
        zipf
    }

    /// Makes room for more ranks. Takes time linear in their number; fewer than there are change nothing.
    pub fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        self.zeta += (self.items + 1..=items)
            .map(|rank| (rank as f64).powf(-THETA))
            .sum::<f64>();
        self.items = items;
        let zeta_2 = 1.0 + 0.5f64.powf(THETA);
        self.eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_2 / self.zeta);
    }

    /// The rank for `unit`, drawn evenly from 0 to 1.
    pub fn rank(&self, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < 1.0 + 0.5f64.powf(THETA) || self.items == 2 {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - THETA));
        (rank as u64).min(self.items - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn ranks_have_their_probabilities() {
        let mut zipf = Zipf::new(10);
        zipf.grow(1000);
        let mut random = Random::new(1, 0);
        let mut counts = vec![0u32; 1000];
        let draws = 1_000_000;
        for _ in 0..draws {
            counts[zipf.rank(random.unit()) as usize] += 1;
        }
        let zeta: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-THETA)).sum();
        for rank in [1usize, 2] {
            let share = f64::from(counts[rank - 1]) / f64::from(draws);
            let expected = (rank as f64).powf(-THETA) / zeta;
            assert!(
                (share / expected - 1.0).abs() < 0.02,
                "rank {rank}: {share} instead of {expected}"
            );
        }
        // From the third rank on the method approximates: sums over ranges are right within a tenth.
        for (low, high) in [(3, 10), (11, 100), (101, 1000)] {
            let share = f64::from(counts[low - 1..high].iter().sum::<u32>()) / f64::from(draws);
            let expected = (low..=high).map(|rank| (rank as f64).powf(-THETA)).sum::<f64>() / zeta;
            assert!(
                (share / expected - 1.0).abs() < 0.1,
                "{low}..{high}: {share} instead of {expected}"
            );
        }
    }

    #[test]
    fn growing_is_the_same_as_beginning_larger() {
        let mut grown = Zipf::new(1);
        grown.grow(500);
        grown.grow(400);
        let made = Zipf::new(500);
        for unit in [0.0, 0.1, 0.3, 0.5, 0.9, 0.999_999] {
            assert_eq!(grown.rank(unit), made.rank(unit));
        }
        assert_eq!(Zipf::new(1).rank(0.99), 0);
        assert!(Zipf::new(2).rank(0.99) < 2);
    }
}
