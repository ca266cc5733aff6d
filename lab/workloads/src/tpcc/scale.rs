//! [`Scale`]: how many rows there are, and the numbers that depend on it.

use serde::{Deserialize, Serialize};

use super::DISTRICTS;
use crate::random::Random;
use crate::text::Text;

/// Size of the database. Everything but the warehouses can be divided for tests; the rules stay the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scale {
    /// W, at least 1.
    pub warehouses: i16,
    /// Customers and orders of a district and items are divided by it: 1 is the specification's size, at most 100.
    pub divisor: i32,
}

impl Scale {
    /// The specification's size.
    pub fn standard(warehouses: i16) -> Self {
        Self {
            warehouses: warehouses.max(1),
            divisor: 1,
        }
    }

    /// A hundredth of it: 30 customers and orders a district, 1,000 items.
    pub fn hundredth(warehouses: i16) -> Self {
        Self {
            warehouses: warehouses.max(1),
            divisor: 100,
        }
    }

    fn divided(self, full: i32) -> i32 {
        full / self.divisor.clamp(1, 100)
    }

    /// Customers of a district.
    pub fn customers(self) -> i32 {
        self.divided(3_000)
    }

    /// Items.
    pub fn items(self) -> i32 {
        self.divided(100_000)
    }

    /// Orders of a district at first: one a customer.
    pub fn orders(self) -> i32 {
        self.customers()
    }

    /// Those of them that are delivered: seven of ten, with the smallest numbers.
    pub fn delivered(self) -> i32 {
        self.orders() * 7 / 10
    }

    /// Different last names.
    pub fn last_names(self) -> i32 {
        self.divided(1_000)
    }

    /// Rows of all tables at first, order lines at their average of 10 an order.
    pub fn rows(self) -> u64 {
        let district = i64::from(self.customers()) * 2
            + i64::from(self.orders()) * 11
            + i64::from(self.orders() - self.delivered())
            + 1;
        let warehouse = 1 + i64::from(DISTRICTS) * district + i64::from(self.items());
        (i64::from(self.items()) + i64::from(self.warehouses) * warehouse) as u64
    }
}

/// The constants C of NURand (clause 2.1.6), drawn from the seed of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRand {
    scale: Scale,
    c_last_load: i64,
    c_last_run: i64,
    c_customer: i64,
    c_item: i64,
}

impl NuRand {
    /// The constants of the database with this seed.
    pub fn new(scale: Scale, seed: u64) -> Self {
        let mut random = Random::new(seed, u64::MAX);
        let c_last_load = random.between(0, 255);
        // Clause 2.1.6.1: the runs' constant differs from the load's by 65 to 119, but not by 96 or 112.
        let c_last_run = loop {
            let c = random.between(0, 255);
            let delta = (c - c_last_load).abs();
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break c;
            }
        };
        Self {
            scale,
            c_last_load,
            c_last_run,
            c_customer: random.between(0, 1023),
            c_item: random.between(0, 8191),
        }
    }

    /// C_LAST of customer `id` in the initial population: the first of each district have every name once.
    pub fn last_name_loaded(&self, id: i32, random: &mut Random) -> Text<16> {
        let names = self.scale.last_names();
        if id <= names {
            last_name(id - 1)
        } else {
            last_name(self.draw(random, 255, 999, self.c_last_load, 0, names - 1))
        }
    }

    /// C_LAST a terminal asks for.
    pub fn last_name(&self, random: &mut Random) -> Text<16> {
        let names = self.scale.last_names();
        last_name(self.draw(random, 255, 999, self.c_last_run, 0, names - 1))
    }

    /// C_ID a terminal asks for.
    pub fn customer(&self, random: &mut Random) -> i32 {
        self.draw(random, 1023, 3000, self.c_customer, 1, self.scale.customers())
    }

    /// OL_I_ID a terminal asks for.
    pub fn item(&self, random: &mut Random) -> i32 {
        self.draw(random, 8191, 100_000, self.c_item, 1, self.scale.items())
    }

    /// NURand(A, low, high), with A made smaller as the range is (A + 1 stays a power of two).
    fn draw(&self, random: &mut Random, a: i64, full_high: i64, c: i64, low: i32, high: i32) -> i32 {
        let (low, high) = (i64::from(low), i64::from(high));
        let shrunk = (a + 1) * (high + 1) / (full_high + 1);
        let a = (1 << shrunk.max(1).ilog2()) - 1;
        let drawn = (((random.between(0, a) | random.between(low, high)) + c) % (high - low + 1)) + low;
        drawn as i32
    }
}

/// The last name of a number from 0 to 999: a syllable for each digit (clause 4.3.2.3).
pub fn last_name(number: i32) -> Text<16> {
    const SYLLABLES: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let digit = |power: i32| SYLLABLES[(number.max(0) / power % 10) as usize];
    Text::cut(&[digit(100), digit(10), digit(1)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
        // The longest name fits its column.
        assert_eq!(last_name(777), "CALLYCALLYCALLY");
    }

    #[test]
    fn sizes_are_the_specifications() {
        let scale = Scale::standard(2);
        assert_eq!(
            (
                scale.customers(),
                scale.items(),
                scale.orders(),
                scale.delivered()
            ),
            (3000, 100_000, 3000, 2100)
        );
        assert_eq!(
            scale.rows(),
            100_000 + 2 * (1 + 10 + 30_000 * 2 + 30_000 * 11 + 9_000 + 100_000)
        );
        let small = Scale::hundredth(1);
        assert_eq!(
            (
                small.customers(),
                small.items(),
                small.delivered(),
                small.last_names()
            ),
            (30, 1000, 21, 10)
        );
    }

    #[test]
    fn nurand_is_uneven_and_covers_its_range() {
        for scale in [Scale::standard(1), Scale::hundredth(1)] {
            let nurand = NuRand::new(scale, 3);
            let mut random = Random::new(1, 1);
            let mut counts = vec![0u32; scale.customers() as usize + 1];
            for _ in 0..200_000 {
                counts[nurand.customer(&mut random) as usize] += 1;
            }
            assert_eq!(counts[0], 0);
            let mut sorted = counts[1..].to_vec();
            sorted.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
            let tenth: u32 = sorted[..sorted.len() / 10].iter().sum();
            // Evenly drawn, the most wanted tenth would get a little over 20,000.
            assert!(tenth > 40_000, "{tenth} of 200,000");
            // At full size the rarest are drawn once in a million times.
            assert!(
                scale.divisor == 1 || sorted.last() > Some(&0),
                "some customers are never drawn"
            );
        }
    }

    #[test]
    fn the_constants_of_load_and_run_keep_their_distance() {
        for seed in 0..200 {
            let nurand = NuRand::new(Scale::standard(1), seed);
            let delta = (nurand.c_last_run - nurand.c_last_load).abs();
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112);
        }
    }
}
