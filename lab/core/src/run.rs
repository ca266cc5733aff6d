//! The interleaved runner: every side of a comparison takes its turn in every round, answers are checked each time, and
//! the baseline runs twice a round so that the noise of the machine is measured beside the difference.
//!
//! Order of calls: build [`Side`]s, put them in a [`Comparison`], hand it to [`Runner::compare`], read the [`Outcome`]
//! at the end with [`Runner::finish`].
//!
//! ```text
//!   warm-up   A B C
//!   round 0   C  A  A' B       A' is the baseline once more: the A/A control
//!   round 1   A' B  A  C       each round has an order of its own, shuffled from the seed that the run prints
//!   ...       (5 rounds)
//!   if corun against the baseline is near 1.0: rounds of subject, baseline and A' only, until 30 pairs
//! ```
//!
//! Ratios are taken within a round, so slow drift of the machine cancels. Not a load generator: one side runs at a time
//! (concurrent mixes are the demo's).

use std::time::{Duration, Instant};

use crate::contest::{Contest, Gone, SideResult, Turn};
use crate::error::BenchError;
use crate::metric::{CaseRows, MetricSpec, SideKeys, Versus};
use crate::order;
use crate::row::{Row, Value};
use crate::stats::{PAIRS_NEAR_ONE, Spread};
use corun_model::progress::Progress;

/// What one repetition of a side gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Wall-clock time of the work alone.
    pub elapsed: Duration,
    /// The answer as text comparable with [`Comparison::expected`].
    pub answer: String,
    /// Most heap bytes live during the work beyond those live before; `None` for another process or without the
    /// counting allocator.
    pub peak_bytes: Option<u64>,
}

impl Sample {
    /// Runs `work`, measuring time and peak memory; `answer` is not timed.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn of<T>(
        work: impl FnOnce() -> Result<T, BenchError>,
        answer: impl FnOnce(&T) -> String,
    ) -> Result<Sample, BenchError> {
        corun_machine::memory::reset_peak();
        let live_before = corun_machine::memory::live_bytes();
        let start = Instant::now();
        let output = work()?;
        let elapsed = start.elapsed();
        let peak = corun_machine::memory::peak_bytes();
        // Without the counting allocator both stay zero, and zero is not a measurement.
        let peak_bytes = (peak > 0).then(|| peak.saturating_sub(live_before));
        Ok(Sample {
            elapsed,
            answer: answer(&output),
            peak_bytes,
        })
    }
}

/// The work of one side.
type Work<'a> = Box<dyn FnMut() -> Result<Sample, BenchError> + 'a>;

/// One side of a comparison: a name and something to run again and again.
pub struct Side<'a> {
    name: String,
    optional: bool,
    work: Work<'a>,
}

impl<'a> Side<'a> {
    /// A side that measures itself, such as another process.
    pub fn new(name: &str, work: impl FnMut() -> Result<Sample, BenchError> + 'a) -> Side<'a> {
        Side {
            name: name.to_string(),
            optional: false,
            work: Box::new(work),
        }
    }

    /// A side timed here; `answer` turns its output into comparable text outside the timed part.
    pub fn timed<T>(
        name: &str,
        mut work: impl FnMut() -> Result<T, BenchError> + 'a,
        answer: impl Fn(&T) -> String + 'a,
    ) -> Side<'a> {
        Side::new(name, move || Sample::of(&mut work, &answer))
    }

    /// A failure of this side becomes an unavailable row instead of a failure of the run (a peer, not us).
    pub fn optional(mut self) -> Side<'a> {
        self.optional = true;
        self
    }

    /// Does the work once; the time is in units of which a second has so many.
    pub fn turn(&mut self, expected: &str, units_per_second: f64) -> Turn<Taken> {
        let sample = (self.work)().map_err(|error| {
            let detail = error.detail().map(|detail| format!(" ({detail})"));
            let reason = format!("{error}{}", detail.unwrap_or_default());
            match self.optional {
                true => Gone::Unavailable(reason),
                false => Gone::Failed(reason),
            }
        })?;
        let wrong =
            (sample.answer != expected).then(|| format!("expected {expected}, got {}", sample.answer));
        let time = sample.elapsed.as_secs_f64().max(1e-9) * units_per_second;
        Ok(((time, sample.peak_bytes.map(|bytes| bytes as f64)), wrong))
    }

    /// The side's name, the `engine` of its rows.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// How often to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Untimed rounds before the first timed one; their answers are checked too.
    pub warmups: usize,
    /// Timed rounds of every side.
    pub repetitions: usize,
    /// Most rounds of subject and baseline when their ratio is near 1.0.
    pub pairs_max: usize,
    /// What orders of sides are shuffled from; see [`crate::order`].
    pub order_seed: u64,
}

impl Plan {
    /// Five rounds, and up to 30 pairs near 1.0.
    pub fn standard() -> Plan {
        Plan {
            warmups: 1,
            repetitions: 5,
            pairs_max: PAIRS_NEAR_ONE,
            order_seed: order::SEED,
        }
    }

    /// Two rounds and no claim: for checking answers in seconds.
    pub fn quick() -> Plan {
        Plan {
            warmups: 0,
            repetitions: 2,
            pairs_max: 2,
            order_seed: order::SEED,
        }
    }

    /// Whether it has pairs enough to say that a side is not slower than another.
    pub fn claims(&self) -> bool {
        self.pairs_max >= PAIRS_NEAR_ONE
    }

    /// The plan of `--quick` and `--repetitions`.
    pub fn from_arguments(quick: bool, repetitions: Option<usize>) -> Plan {
        let plan = if quick { Plan::quick() } else { Plan::standard() };
        match repetitions {
            Some(repetitions) => Plan {
                repetitions: repetitions.max(1),
                pairs_max: if quick {
                    repetitions.max(1)
                } else {
                    plan.pairs_max.max(repetitions)
                },
                ..plan
            },
            None => plan,
        }
    }
}

/// Several engines doing the same work.
pub struct Comparison<'a> {
    /// The suite of the rows.
    pub suite: &'static str,
    /// The case of the rows.
    pub case: &'a str,
    /// Parameters of every row beside `engine`.
    pub parameters: Vec<(String, Value)>,
    /// The metric of the per-side rows, such as `ms`.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What a second is in that metric: 1e3 for `ms`, `1e9 / rows` for nanoseconds a row.
    pub units_per_second: f64,
    /// Name of the side whose ratios are wanted (`corun`).
    pub subject: &'a str,
    /// Name of the side run twice a round (`datafusion`).
    pub baseline: &'a str,
    /// The oracle's answer.
    pub expected: String,
    /// The sides; the subject and the baseline among them.
    pub sides: Vec<Side<'a>>,
}

/// What a whole run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Rows emitted.
    pub rows: usize,
    /// Wrong answers and failed sides, one sentence each. Not empty: the run failed (exit code 1).
    pub failures: Vec<String>,
}

impl Outcome {
    /// Whether every answer was right and every side that must run did.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds another outcome's rows and failures.
    pub fn merge(&mut self, other: Outcome) {
        self.rows += other.rows;
        self.failures.extend(other.failures);
    }
}

/// Takes the rows of a run. A closure does, which then does not learn what is finished.
pub trait Sink {
    /// The next row.
    fn row(&mut self, row: Row);
    /// All rows so far are of cases that have no more rows.
    fn cases_are_finished(&mut self) {}
}

impl<F: FnMut(Row)> Sink for F {
    fn row(&mut self, row: Row) {
        self(row);
    }
}

/// Runs comparisons and emits their rows.
pub struct Runner<'r> {
    plan: Plan,
    sink: &'r mut dyn Sink,
    progress: &'r dyn Progress,
    outcome: Outcome,
}

/// What a turn gave: the time in the unit of its comparison, and the most heap bytes where they are counted.
pub type Taken = (f64, Option<f64>);

impl<'r> Runner<'r> {
    /// A runner that hands rows to `sink`.
    pub fn new(plan: Plan, sink: &'r mut dyn Sink, progress: &'r dyn Progress) -> Runner<'r> {
        Runner {
            plan,
            sink,
            progress,
            outcome: Outcome::default(),
        }
    }

    /// The plan in force.
    pub fn plan(&self) -> Plan {
        self.plan
    }

    /// Where to report progress.
    pub fn progress(&self) -> &'r dyn Progress {
        self.progress
    }

    /// Emits one row of the suite's own.
    pub fn emit(&mut self, row: Row) {
        if row.answer_ok == Some(false) {
            self.outcome.failures.push(format!(
                "{} {}: wrong answer in {} {}",
                row.suite,
                row.case,
                row.metric,
                row.engine()
            ));
        }
        self.outcome.rows += 1;
        self.sink.row(row);
    }

    /// Says that all rows so far are of cases that have no more rows.
    pub fn cases_are_finished(&mut self) {
        self.sink.cases_are_finished();
    }

    /// Notes a failure that has no row.
    pub fn fail(&mut self, sentence: String) {
        self.outcome.failures.push(sentence);
    }

    /// What the run came to.
    pub fn finish(self) -> Outcome {
        self.outcome
    }

    /// Runs a comparison and emits its rows: one per side, peak memory where it is counted, one ratio per other side,
    /// and the A/A control. Returns the subject's median ratio versus each other side, for means over cases.
    ///
    /// # Panics
    /// If the subject or the baseline is not among the sides.
    pub fn compare(&mut self, comparison: Comparison<'_>) -> Vec<(String, f64)> {
        let Comparison { suite, case, .. } = comparison;
        let mut sides = comparison.sides;
        let position = |name: &str| sides.iter().position(|side| side.name == name);
        let subject = position(comparison.subject).expect("the subject is one of the sides");
        let baseline = position(comparison.baseline).expect("the baseline is one of the sides");
        let time = MetricSpec::lower(comparison.metric, comparison.unit, |(time, _): &Taken| {
            Some(*time)
        });
        let contest = Contest {
            name: &format!("{suite} {case}"),
            pairs: if subject == baseline {
                &[]
            } else {
                &[(subject, baseline)]
            },
            controls: &[baseline],
            metric: &time,
            plan: self.plan,
        };
        self.progress
            .begin(contest.name, (self.plan.warmups + self.plan.repetitions) as u64);
        let known = sides.iter().map(|_| SideResult::default()).collect();
        let result = contest.run(known, self.progress, |side, _| {
            sides[side].turn(&comparison.expected, comparison.units_per_second)
        });
        self.progress.end();

        let named = sides.iter().map(|side| {
            let engine = ("engine".to_owned(), Value::from(side.name.as_str()));
            SideKeys {
                name: side.name.clone(),
                keys: [engine]
                    .into_iter()
                    .chain(comparison.parameters.iter().cloned())
                    .collect(),
            }
        });
        let named: Vec<SideKeys> = named.collect();
        let peak = MetricSpec::lower("peak_bytes", "bytes", |(_, peak): &Taken| *peak);
        let rows = CaseRows {
            suite,
            case,
            metrics: &[time, peak],
            compared: false,
        };
        for (side, given) in named.iter().zip(&result.sides) {
            if let Some(Gone::Unavailable(reason)) = &given.gone {
                self.progress
                    .note(&format!("{case}: {} left out: {reason}", side.name));
            }
            rows.side(side, given, self);
        }
        let others = (0..sides.len()).filter(|&other| other != subject);
        let versus = others.clone().map(|other| Versus {
            subject,
            other,
            versus: sides[other].name.clone(),
            keys: Vec::new(),
            verdict: self.plan.claims(),
        });
        rows.compare(&time, &named, &result, &versus.collect::<Vec<_>>(), self);
        let ratios = others.filter_map(|other| {
            let ratios = time.ratios(&result.sides[subject], &result.sides[other]);
            Some((sides[other].name.clone(), Spread::of(&ratios)?.median))
        });
        ratios.collect()
    }

    /// Emits a row whose wrong answer, if any, has been reported already.
    pub fn emit_checked(&mut self, row: Row) {
        self.outcome.rows += 1;
        self.sink.row(row);
    }
}

#[cfg(test)]
mod tests;
