//! [`Mix`]: how often each transaction is asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The five transactions, as numbers of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl Kind {
    /// All of them, each at its number.
    pub const ALL: [Kind; 5] = [
        Kind::NewOrder,
        Kind::Payment,
        Kind::OrderStatus,
        Kind::Delivery,
        Kind::StockLevel,
    ];

    /// The name in options and records.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }
}

/// How often each transaction is asked for, relative to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: [u32; 5],
}

impl Mix {
    /// 45 % New Order, 43 % Payment, 4 % each of the others.
    pub const STANDARD: Mix = Mix {
        weights: [45, 43, 4, 4, 4],
    };
    /// The standard mix without Delivery, the others in proportion.
    pub const NO_DELIVERY: Mix = Mix {
        weights: [45, 43, 4, 0, 4],
    };

    /// One transaction alone.
    pub const fn only(kind: Kind) -> Self {
        let mut weights = [0; 5];
        weights[kind as usize] = 1;
        Self { weights }
    }

    /// All named mixes.
    pub fn all() -> [Mix; 7] {
        let [a, b, c, d, e] = Kind::ALL.map(Mix::only);
        [Mix::STANDARD, Mix::NO_DELIVERY, a, b, c, d, e]
    }

    /// The transaction that `ticket`, drawn evenly from `0..total`, stands for.
    pub(super) fn kind(&self, ticket: u32) -> Kind {
        let mut left = ticket;
        for kind in Kind::ALL {
            let weight = self.weights[kind as usize];
            if left < weight {
                return kind;
            }
            left -= weight;
        }
        Kind::NewOrder
    }

    /// The sum of the weights.
    pub(super) fn total(&self) -> u32 {
        self.weights.iter().sum()
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match *self {
            Mix::STANDARD => "standard",
            Mix::NO_DELIVERY => "no_delivery",
            only => only.kind(0).as_str(),
        })
    }
}

/// A name that is no mix's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no mix is called `{0}`; there are standard, no_delivery, new_order, payment, order_status, delivery and stock_level"
)]
pub struct UnknownMix(String);

impl FromStr for Mix {
    type Err = UnknownMix;

    fn from_str(name: &str) -> Result<Self, UnknownMix> {
        Mix::all()
            .into_iter()
            .find(|mix| mix.to_string() == name)
            .ok_or_else(|| UnknownMix(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for mix in Mix::all() {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        assert!("all".parse::<Mix>().is_err());
    }
}
