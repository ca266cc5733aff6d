//! The rows of a contest: [`MetricSpec`]s say what is read from rounds, [`CaseRows`] turns the rounds of all sides into rows.
//!
//! ```text
//!   each side         its metrics, or why it has none
//!   each metric       each comparison, then the A/A controls with the limits of noise
//! ```
//!
//! The first metric is the one that sides without numbers are told by.

use crate::contest::{ContestResult, Gone, SideResult};
use crate::row::{Row, Value};
use crate::run::Runner;
use crate::stats::{Noise, Spread, not_slower, pair_ratios};

/// The metric of comparisons: above 1 the subject was better, whichever metric was compared.
pub const RATIO: &str = "ratio";

/// A metric of rounds.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec<M> {
    /// Its name, also in comparisons.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it is read; `None` where a side has none.
    pub read: fn(&M) -> Option<f64>,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl<M> MetricSpec<M> {
    /// A metric of which more is better.
    pub const fn higher(
        name: &'static str,
        unit: &'static str,
        read: fn(&M) -> Option<f64>,
    ) -> MetricSpec<M> {
        MetricSpec {
            name,
            unit,
            read,
            higher_is_better: true,
        }
    }

    /// A metric of which less is better.
    pub const fn lower(name: &'static str, unit: &'static str, read: fn(&M) -> Option<f64>) -> MetricSpec<M> {
        MetricSpec {
            higher_is_better: false,
            ..MetricSpec::higher(name, unit, read)
        }
    }

    /// How much better the subject was in each round that both took part in.
    pub fn ratios(&self, subject: &SideResult<M>, other: &SideResult<M>) -> Vec<f64> {
        let both = subject.rounds.iter().zip(&other.rounds);
        let (subject, other): (Vec<f64>, Vec<f64>) = both
            .filter_map(|(subject, other)| {
                let read = |round: &Option<M>| round.as_ref().and_then(self.read);
                Some((read(subject)?, read(other)?))
            })
            .unzip();
        match self.higher_is_better {
            true => pair_ratios(&other, &subject),
            false => pair_ratios(&subject, &other),
        }
    }
}

/// Parameters under their names, as rows have them.
pub fn parameters<'k>(all: impl IntoIterator<Item = (&'k str, Value)>) -> Vec<(String, Value)> {
    all.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// A side, as rows name it.
#[derive(Clone, Debug, PartialEq)]
pub struct SideKeys {
    /// Its name, in failures and as the other side of its control.
    pub name: String,
    /// The parameters of its rows.
    pub keys: Vec<(String, Value)>,
}

/// A comparison of two sides, as rows name it.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// Place of the side above the line, whose parameters the row has.
    pub subject: usize,
    /// Place of the side below it.
    pub other: usize,
    /// The other's word.
    pub versus: String,
    /// What else the row says of the other.
    pub keys: Vec<(String, Value)>,
    /// Whether the row has a verdict: too few pairs claim nothing.
    pub verdict: bool,
}

/// The rows of a case that several sides ran in turns.
pub struct CaseRows<'c, M> {
    /// The suite.
    pub suite: &'static str,
    /// The case.
    pub case: &'c str,
    /// The metrics.
    pub metrics: &'c [MetricSpec<M>],
    /// Whether comparisons say by which metric they are.
    pub compared: bool,
}

impl<M> CaseRows<'_, M> {
    /// Emits all rows and notes what failed.
    pub fn emit(
        &self,
        sides: &[SideKeys],
        result: &ContestResult<M>,
        comparisons: &[Versus],
        runner: &mut Runner<'_>,
    ) {
        for (side, given) in sides.iter().zip(&result.sides) {
            self.side(side, given, runner);
        }
        for metric in self.metrics {
            self.compare(metric, sides, result, comparisons, runner);
        }
    }

    /// Emits the rows of a side and notes what failed.
    pub fn side(&self, side: &SideKeys, given: &SideResult<M>, runner: &mut Runner<'_>) {
        if let Some(wrong) = &given.wrong {
            runner.fail(format!("{} {}: {}: {wrong}", self.suite, self.case, side.name));
        }
        if let Some(gone) = &given.gone {
            return self.missing(side, gone, runner);
        }
        self.values(side, given, runner);
    }

    /// Emits a row for each metric of a side that has values.
    pub fn values(&self, side: &SideKeys, given: &SideResult<M>, runner: &mut Runner<'_>) {
        for metric in self.metrics {
            let values = given.values(metric.read);
            if let Some(row) = self.row(side, metric.name, metric.unit, &values, given.wrong.is_none()) {
                runner.emit_checked(row);
            }
        }
    }

    /// Emits the row of a side that could not take part, and notes a failure of the run if the side is ours.
    pub fn missing(&self, side: &SideKeys, gone: &Gone, runner: &mut Runner<'_>) {
        let reason = match gone {
            Gone::Unavailable(reason) => reason,
            Gone::Failed(reason) => {
                runner.fail(format!(
                    "{} {}: {} failed: {reason}",
                    self.suite, self.case, side.name
                ));
                reason
            }
        };
        if let Some(metric) = self.metrics.first() {
            let row = Row::unavailable(self.suite, self.case, metric.name, metric.unit, reason);
            runner.emit_checked(row.with_all(&side.keys));
        }
    }

    /// A row of a side's own; `None` of no values.
    pub fn row(&self, side: &SideKeys, metric: &str, unit: &str, values: &[f64], ok: bool) -> Option<Row> {
        let row = Row::measured(self.suite, self.case, metric, unit, Spread::of(values)?, ok);
        Some(row.with_all(&side.keys))
    }

    /// Emits the comparisons by one metric, then its controls.
    pub fn compare(
        &self,
        metric: &MetricSpec<M>,
        sides: &[SideKeys],
        result: &ContestResult<M>,
        comparisons: &[Versus],
        runner: &mut Runner<'_>,
    ) {
        for comparison in comparisons {
            let Versus { subject, other, .. } = *comparison;
            let both = [&result.sides[subject], &result.sides[other]];
            let Some((row, ratios)) = self.ratio(metric, &sides[subject], &comparison.versus, both) else {
                continue;
            };
            let mut row = row.with_all(&comparison.keys);
            if comparison.verdict {
                let noise = result.noise((subject, other), metric);
                row = row.with("verdict", not_slower(&ratios, &noise).as_str());
            }
            runner.emit_checked(row);
        }
        for (place, again) in &result.controls {
            let side = &sides[*place];
            if let Some((row, noise)) = self.ratio(metric, side, &side.name, [&result.sides[*place], again])
                && let Some(Noise { low, high }) = Noise::of(&noise)
            {
                let row = row.with("control", "a/a");
                runner.emit_checked(row.with("noise_low", low).with("noise_high", high));
            }
        }
    }

    fn ratio(
        &self,
        metric: &MetricSpec<M>,
        side: &SideKeys,
        versus: &str,
        both: [&SideResult<M>; 2],
    ) -> Option<(Row, Vec<f64>)> {
        let ok = both.iter().all(|side| side.wrong.is_none());
        let gone = both.iter().any(|side| side.gone.is_some());
        let ratios = metric.ratios(both[0], both[1]);
        let row = self.row(side, RATIO, "x", &ratios, ok).filter(|_| !gone)?;
        let row = match self.compared {
            true => row.with("compared", metric.name),
            false => row,
        };
        Some((row.versus(versus), ratios))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_rounds_both_took_part_in_and_above_one_where_the_subject_was_better() {
        let side = |rounds: &[Option<f64>]| SideResult {
            rounds: rounds.to_vec(),
            ..SideResult::default()
        };
        let subject = side(&[Some(10.0), None, Some(30.0), Some(40.0)]);
        let other = side(&[Some(5.0), Some(1.0), Some(10.0), None]);
        let rate = MetricSpec::higher("rate", "1/s", |value: &f64| Some(*value));
        assert_eq!(rate.ratios(&subject, &other), [2.0, 3.0]);
        let time = MetricSpec::lower("time", "s", |value: &f64| Some(*value));
        assert_eq!(time.ratios(&other, &subject), [2.0, 3.0]);
        let nothing = MetricSpec::higher("nothing", "x", |_: &f64| None);
        assert_eq!(nothing.ratios(&subject, &other), [0.0; 0]);
    }
}
