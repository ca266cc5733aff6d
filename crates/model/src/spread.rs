//! Repeated values of one quantity, and how a value came about.

use serde::{Deserialize, Serialize};

use crate::knee::median;

/// Least, middle and greatest of repeated values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// How many values.
    pub n: usize,
    /// Least.
    pub min: f64,
    /// Middle; of an even count, the mean of the two in the middle.
    pub median: f64,
    /// Greatest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let min = values.iter().copied().reduce(f64::min)?;
        let max = values.iter().copied().reduce(f64::max)?;
        Some(Self {
            n: values.len(),
            min,
            median: median(values),
            max,
        })
    }
}

/// How a number came about. Every number corun shows carries one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// Timed or counted on this machine.
    Measured,
    /// Computed by a model of a machine.
    Simulated,
    /// This machine cannot tell.
    Unavailable,
}

impl Label {
    /// The word used in rows and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Unavailable => "unavailable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_some_and_none() {
        assert_eq!(
            Spread::of(&[3.0, 1.0, 2.5]),
            Some(Spread {
                n: 3,
                min: 1.0,
                median: 2.5,
                max: 3.0
            })
        );
        assert_eq!(Spread::of(&[]), None);
    }
}
