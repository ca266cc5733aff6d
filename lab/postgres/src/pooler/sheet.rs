//! [`Sheet`]: the rows of a case that several sides ran in turns: what each side gave, and how sides compare.

use super::sides::Gone;
use super::turns::{Track, Tracks, ratios};
use lab_core::row::{Row, Value};
use lab_core::run::Runner;
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower};

/// Transactions a second, what sides are compared by first.
pub const TPS: &str = "tps";
/// The metric of comparisons; above 1 the subject was better, whichever metric was compared.
pub const RATIO: &str = "ratio";

/// A metric of rounds.
pub struct Metric<M> {
    /// Its name, also in comparisons.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it is read; `None` where a side has none.
    pub read: fn(&M) -> Option<f64>,
    /// Whether more is better.
    pub higher: bool,
}

/// A side, as rows name it.
pub struct Named {
    /// Its name.
    pub name: String,
    /// What tells it from others.
    pub parameters: Vec<(String, Value)>,
}

/// A comparison of two sides, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versus<'v> {
    /// Above the line.
    pub subject: usize,
    /// Below it.
    pub other: usize,
    /// The other's word in rows.
    pub versus: &'v str,
}

/// What all rows of a case have.
pub struct Sheet<'s, M: 'static> {
    /// The suite.
    pub suite: &'static str,
    /// The case.
    pub case: &'s str,
    /// Parameters of all rows.
    pub parameters: &'s [(String, Value)],
    /// The metrics, [`TPS`] among them.
    pub metrics: &'static [Metric<M>],
}

impl<M> Sheet<'_, M> {
    /// Emits all rows and notes what failed. `control` is the side that ran twice.
    pub fn emit(
        &self,
        sides: &[Named],
        tracks: &Tracks<M>,
        pairs: &[Versus<'_>],
        control: usize,
        runner: &mut Runner<'_>,
    ) {
        for (side, track) in sides.iter().zip(&tracks.sides) {
            self.side(side, track, runner);
        }
        let twice = [&tracks.sides[control], &tracks.control];
        for metric in self.metrics {
            let noise = metric.ratios(twice);
            for pair in pairs {
                self.compare(metric, sides, tracks, *pair, &noise, runner);
            }
            self.control(metric, &sides[control], twice, &noise, runner);
        }
    }

    /// The row of a side that could not take part; a failure of the run if it is ours.
    pub fn missing(&self, side: &Named, gone: &Gone, runner: &mut Runner<'_>) {
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
        let row = Row::unavailable(self.suite, self.case, TPS, "1/s", reason);
        runner.emit_checked(row.with_all(&side.parameters).with_all(self.parameters));
    }

    fn side(&self, side: &Named, track: &Track<M>, runner: &mut Runner<'_>) {
        if let Some(gone) = &track.gone {
            return self.missing(side, gone, runner);
        }
        if let Some(wrong) = &track.wrong {
            runner.fail(format!("{} {}: {}: {wrong}", self.suite, self.case, side.name));
        }
        for metric in self.metrics {
            if let Some(spread) = Spread::of(&track.values(metric.read)) {
                let row = Row::measured(
                    self.suite,
                    self.case,
                    metric.name,
                    metric.unit,
                    spread,
                    track.wrong.is_none(),
                );
                runner.emit_checked(row.with_all(&side.parameters).with_all(self.parameters));
            }
        }
    }

    fn compare(
        &self,
        metric: &Metric<M>,
        sides: &[Named],
        tracks: &Tracks<M>,
        pair: Versus<'_>,
        noise: &[f64],
        runner: &mut Runner<'_>,
    ) {
        let both = [&tracks.sides[pair.subject], &tracks.sides[pair.other]];
        let ratios = metric.ratios(both);
        if let Some(row) = self.ratio(metric, &sides[pair.subject], pair.versus, both, &ratios) {
            let mut row = row.with("other", sides[pair.other].name.as_str());
            if runner.plan().pairs_max >= PAIRS_NEAR_ONE {
                row = row.with("verdict", not_slower(&ratios, noise).as_str());
            }
            runner.emit_checked(row);
        }
    }

    fn control(
        &self,
        metric: &Metric<M>,
        side: &Named,
        both: [&Track<M>; 2],
        noise: &[f64],
        runner: &mut Runner<'_>,
    ) {
        if let (Some(row), Some(Noise { low, high })) = (
            self.ratio(metric, side, &side.name, both, noise),
            Noise::of(noise),
        ) {
            let row = row.with("control", "a/a");
            runner.emit_checked(row.with("noise_low", low).with("noise_high", high));
        }
    }

    fn ratio(
        &self,
        metric: &Metric<M>,
        side: &Named,
        versus: &str,
        both: [&Track<M>; 2],
        ratios: &[f64],
    ) -> Option<Row> {
        let ok = both.iter().all(|track| track.wrong.is_none());
        let gone = both.iter().any(|track| track.gone.is_some());
        let spread = Spread::of(ratios).filter(|_| !gone)?;
        let row = Row::measured(self.suite, self.case, RATIO, "x", spread, ok).versus(versus);
        let row = row.with_all(&side.parameters).with_all(self.parameters);
        Some(row.with("compared", metric.name))
    }
}

impl<M> Metric<M> {
    /// Subject over other for each round both were in; above 1 the subject was better.
    fn ratios(&self, [subject, other]: [&Track<M>; 2]) -> Vec<f64> {
        match self.higher {
            true => ratios(subject, other, self.read),
            false => ratios(other, subject, self.read),
        }
    }
}
