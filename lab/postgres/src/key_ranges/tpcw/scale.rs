//! [`Scale`]: how many rows TPC-W's tables have at first; everything follows from the items and the customers.

/// Items of the default size, a tenth of the paper's.
const ITEMS: usize = 100_000;
/// Customers of the default size, a tenth of the paper's.
const CUSTOMERS: usize = 288_000;
/// How much larger the paper's database is.
pub const PAPER: f64 = 10.0;

/// Size of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Rows of `item`, at least 100.
    pub items: usize,
    /// Rows of `customer`, at least 100.
    pub customers: usize,
}

impl Scale {
    /// `factor` times 100,000 items and 288,000 customers; 10 is the paper's size. At least 100 of each.
    pub fn times(factor: f64) -> Scale {
        let of = |count: usize| ((count as f64 * factor) as usize).max(100);
        Scale {
            items: of(ITEMS),
            customers: of(CUSTOMERS),
        }
    }

    /// For tests and `--quick`: 1,000 items.
    pub const QUICK: Scale = Scale {
        items: 1_000,
        customers: 2_880,
    };

    /// Rows of `author`.
    pub fn authors(self) -> usize {
        self.items / 4
    }

    /// Rows of `address`.
    pub fn addresses(self) -> usize {
        self.customers * 2
    }

    /// Rows of `orders`, and of `cc_xacts`.
    pub fn orders(self) -> usize {
        self.customers * 9 / 10
    }

    /// Rows of `country`.
    pub fn countries(self) -> usize {
        92
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_from_items_and_customers() {
        let paper = Scale::times(PAPER);
        assert_eq!((paper.items, paper.customers), (1_000_000, 2_880_000));
        assert_eq!(
            (paper.authors(), paper.orders(), paper.addresses()),
            (250_000, 2_592_000, 5_760_000)
        );
        assert_eq!(Scale::times(0.01), Scale::QUICK);
        assert_eq!(Scale::times(0.0).items, 100);
    }
}
