//! What the paper states, and what this run says to it.

use super::select::{Picked, Rows};
use super::spec::ClaimSpec;
use super::{expression, words};
use crate::report::finding::{Agreement, Finding};

/// The numbers of a claim, by name.
type Values<'c> = Vec<(&'c str, Picked<'c>)>;

impl ClaimSpec {
    /// The statement beside this run's numbers; none where one of them is missing.
    ///
    /// The verdict is that of the medians, unless the ends of the ranges hold both: a gain and none, an order and its reverse.
    pub(super) fn finding(&self, rows: &Rows<'_>, nothing_below: f64) -> Option<Finding> {
        let values: Values<'_> = self
            .values
            .iter()
            .map(|(name, pick)| Some((name.as_str(), rows.pick(pick)?)))
            .collect::<Option<_>>()?;
        let ends = 1_usize << values.len();
        let at = |end: usize, name: &str| {
            let index = values.iter().position(|(own, _)| *own == name)?;
            let high = end & (1 << index) != 0;
            Some(if high {
                values[index].1.high
            } else {
                values[index].1.low
            })
        };
        let middle = |name: &str| Some(values.iter().find(|(own, _)| *own == name)?.1.value);
        let (verdict, amount) = self.verdict(nothing_below, &middle)?;
        let (mut agreement, mut range) = (verdict, amount.map(|amount| (amount, amount, amount)));
        for end in 0..ends {
            let (other, amount) = self.verdict(nothing_below, &|name| at(end, name))?;
            if (other == Agreement::Disagrees) != (verdict == Agreement::Disagrees) {
                agreement = Agreement::Undecided;
            }
            range = range
                .zip(amount)
                .map(|((low, middle, high), amount)| (low.min(amount), middle, high.max(amount)));
        }
        let loss = self
            .loss
            .as_ref()
            .filter(|_| amount.is_some_and(|amount| amount < 0.0));
        if loss.is_some() {
            range = range.map(|(low, middle, high)| (-high, -middle, -low));
        }
        let here = words::fill(loss.unwrap_or(&self.here), &|name, format| {
            if name == "amount" {
                return range.map(|range| words::ranged(range, format));
            }
            let (name, key) = name.split_once('.').unwrap_or((name, ""));
            let picked = values.iter().find(|(own, _)| *own == name)?.1;
            match key {
                "" => Some(words::ranged((picked.low, picked.value, picked.high), format)),
                key => rows.word(picked.row, key, format),
            }
        })?;
        Some(Finding {
            paper: self.paper.clone(),
            here,
            agreement,
        })
    }

    /// The verdict for numbers by name, and the amount if the claim has one.
    fn verdict(
        &self,
        nothing_below: f64,
        names: &dyn Fn(&str) -> Option<f64>,
    ) -> Option<(Agreement, Option<f64>)> {
        let amount = expression::value(&self.amount, names);
        let agreement = match self.percent {
            Some(percent) => Agreement::of_percent(percent, amount?, nothing_below),
            None => {
                let names = |name: &str| if name == "amount" { amount } else { names(name) };
                match expression::value(&self.holds, &names)? {
                    0.0 => Agreement::Disagrees,
                    _ => Agreement::Agrees,
                }
            }
        };
        Some((agreement, amount))
    }
}
