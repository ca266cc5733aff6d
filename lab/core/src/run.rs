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

use crate::error::BenchError;
use crate::order;
use crate::row::{Row, Value};
use crate::stats::{Noise, PAIRS_NEAR_ONE, Spread, Verdict, not_slower, pair_ratios};
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
    pub suite: &'a str,
    /// The case of the rows.
    pub case: &'a str,
    /// Parameters of every row beside `engine`.
    pub parameters: Vec<(String, Value)>,
    /// The metric of the per-side rows, such as `ms`.
    pub metric: &'a str,
    /// Its unit.
    pub unit: &'a str,
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

/// The timed rounds of one side.
#[derive(Default)]
pub struct Track {
    /// Seconds of each.
    pub seconds: Vec<f64>,
    peaks: Vec<f64>,
    /// The first wrong answer.
    pub wrong: Option<String>,
    /// Why the side no longer takes part.
    pub failed: Option<String>,
}

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
    /// and the A/A control. Returns the subject's median ratio versus the baseline, for means over cases.
    ///
    /// # Panics
    /// If the subject or the baseline is not among the sides.
    pub fn compare(&mut self, mut comparison: Comparison<'_>) -> Option<f64> {
        let position = |name: &str| comparison.sides.iter().position(|side| side.name == name);
        let subject = position(comparison.subject).expect("the subject is one of the sides");
        let baseline = position(comparison.baseline).expect("the baseline is one of the sides");
        let side_count = comparison.sides.len();
        let control = side_count;
        let mut tracks: Vec<Track> = (0..=control).map(|_| Track::default()).collect();
        let rounds = self.plan.warmups + self.plan.repetitions;
        let contest = format!("{} {}", comparison.suite, comparison.case);
        let seed = self.plan.order_seed;
        let shuffle = |order: &mut [usize], round| order::shuffle(order, seed, &contest, round);
        self.progress.begin(&contest, rounds as u64);

        for round in 0..rounds {
            let warm_up = round < self.plan.warmups;
            let mut order: Vec<usize> = (0..if warm_up { side_count } else { side_count + 1 }).collect();
            shuffle(&mut order, round);
            let Comparison { sides, expected, .. } = &mut comparison;
            run_round(sides, expected, &mut tracks, &order, !warm_up, baseline);
            self.progress.advance(1);
        }
        while self.wants_more_pairs(&tracks, subject, baseline, control) {
            let round = tracks[subject].seconds.len();
            let mut order = [subject, baseline, control];
            shuffle(&mut order, self.plan.warmups + round);
            let Comparison { sides, expected, .. } = &mut comparison;
            run_round(sides, expected, &mut tracks, &order, true, baseline);
        }
        self.progress.end();
        self.emit_rows(&comparison, &tracks, subject, baseline, control);
        let ratios = pair_ratios(&tracks[subject].seconds, &tracks[baseline].seconds);
        Spread::of(&ratios).map(|spread| spread.median)
    }

    fn wants_more_pairs(&self, tracks: &[Track], subject: usize, baseline: usize, control: usize) -> bool {
        let broken = [subject, baseline, control]
            .iter()
            .any(|&side| tracks[side].failed.is_some());
        let pairs = tracks[subject].seconds.len();
        if broken || subject == baseline || pairs == 0 || pairs >= self.plan.pairs_max {
            return false;
        }
        let ratios = pair_ratios(&tracks[subject].seconds, &tracks[baseline].seconds);
        let aa = pair_ratios(&tracks[baseline].seconds, &tracks[control].seconds);
        not_slower(&ratios, &aa) == Verdict::Undecided
    }

    fn emit_rows(
        &mut self,
        comparison: &Comparison<'_>,
        tracks: &[Track],
        subject: usize,
        baseline: usize,
        control: usize,
    ) {
        let (suite, case) = (comparison.suite, comparison.case);
        let with_engine =
            |row: Row, engine: &str| row.with("engine", engine).with_all(&comparison.parameters);
        for (side, track) in comparison.sides.iter().zip(tracks) {
            if let Some(reason) = &track.failed {
                let row = Row::unavailable(suite, case, comparison.metric, comparison.unit, reason);
                self.emit(with_engine(row, &side.name));
                if side.optional {
                    self.progress
                        .note(&format!("{case}: {} left out: {reason}", side.name));
                } else {
                    self.fail(format!("{suite} {case}: {} failed: {reason}", side.name));
                }
                continue;
            }
            if let Some(wrong) = &track.wrong {
                self.fail(format!("{suite} {case}: {}: {wrong}", side.name));
            }
            let Some(spread) = Spread::of(&track.seconds) else {
                continue;
            };
            let ok = track.wrong.is_none();
            let spread = spread.scaled(comparison.units_per_second);
            let row = Row::measured(suite, case, comparison.metric, comparison.unit, spread, ok);
            self.emit_checked(with_engine(row, &side.name));
            if let Some(peaks) = Spread::of(&track.peaks) {
                let row = Row::measured(suite, case, "peak_bytes", "bytes", peaks, ok);
                self.emit_checked(with_engine(row, &side.name));
            }
        }

        let aa = pair_ratios(&tracks[baseline].seconds, &tracks[control].seconds);
        let base = &comparison.sides[baseline].name;
        for (index, (side, track)) in comparison.sides.iter().zip(tracks).enumerate() {
            if index == subject || track.failed.is_some() || tracks[subject].failed.is_some() {
                continue;
            }
            let ratios = pair_ratios(&tracks[subject].seconds, &track.seconds);
            let Some(spread) = Spread::of(&ratios) else {
                continue;
            };
            let ok = track.wrong.is_none() && tracks[subject].wrong.is_none();
            let mut row = Row::measured(suite, case, "ratio", "x", spread, ok).versus(&side.name);
            row = with_engine(row, comparison.subject);
            if self.plan.claims() {
                row = row.with("verdict", not_slower(&ratios, &aa).as_str());
            }
            self.emit_checked(row);
        }
        if let (Some(spread), Some(noise)) = (Spread::of(&aa), Noise::of(&aa)) {
            let ok = tracks[baseline].wrong.is_none() && tracks[control].wrong.is_none();
            let row = Row::measured(suite, case, "ratio", "x", spread, ok).versus(base);
            let row = with_engine(row, base).with("control", "a/a");
            self.emit_checked(row.with("noise_low", noise.low).with("noise_high", noise.high));
        }
    }

    /// Emits a row whose wrong answer, if any, has been reported already.
    pub fn emit_checked(&mut self, row: Row) {
        self.outcome.rows += 1;
        self.sink.row(row);
    }
}

/// Runs each track of `order` once, in that order. Track number `sides.len()` is the baseline's second run.
pub fn run_round(
    sides: &mut [Side<'_>],
    expected: &str,
    tracks: &mut [Track],
    order: &[usize],
    keep: bool,
    baseline: usize,
) {
    for &index in order {
        let side = if index < sides.len() { index } else { baseline };
        let track = &mut tracks[index];
        if track.failed.is_some() {
            continue;
        }
        match (sides[side].work)() {
            Ok(sample) => {
                if sample.answer != expected {
                    track.wrong = Some(format!("expected {expected}, got {}", sample.answer));
                }
                if keep {
                    track.seconds.push(sample.elapsed.as_secs_f64().max(1e-9));
                    track.peaks.extend(sample.peak_bytes.map(|bytes| bytes as f64));
                }
            }
            Err(error) => {
                let detail = error
                    .detail()
                    .map(|detail| format!(" ({detail})"))
                    .unwrap_or_default();
                track.failed = Some(format!("{error}{detail}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use corun_model::progress::Silent;

    fn side<'a>(
        name: &'static str,
        millis: u64,
        answer: &'static str,
        log: &'a RefCell<Vec<&'static str>>,
    ) -> Side<'a> {
        Side::new(name, move || {
            log.borrow_mut().push(name);
            Ok(Sample {
                elapsed: Duration::from_millis(millis),
                answer: answer.to_string(),
                peak_bytes: Some(7),
            })
        })
    }

    fn comparison<'a>(sides: Vec<Side<'a>>) -> Comparison<'a> {
        Comparison {
            suite: "join",
            case: "c",
            parameters: vec![("threads".to_string(), Value::Integer(2))],
            metric: "ms",
            unit: "ms",
            units_per_second: 1e3,
            subject: "corun",
            baseline: "datafusion",
            expected: "42".to_string(),
            sides,
        }
    }

    fn run(plan: Plan, sides: Vec<Side<'_>>) -> (Vec<Row>, Outcome) {
        let mut rows = Vec::new();
        let mut emit = |row| rows.push(row);
        let mut runner = Runner::new(plan, &mut emit, &Silent);
        runner.compare(comparison(sides));
        let outcome = runner.finish();
        (rows, outcome)
    }

    fn ratio<'a>(rows: &'a [Row], engine: &str, versus: &str) -> &'a Row {
        rows.iter()
            .find(|row| {
                row.metric == "ratio" && row.engine() == engine && row.versus.as_deref() == Some(versus)
            })
            .expect("the ratio row")
    }

    #[test]
    fn every_side_runs_in_every_round_and_the_baseline_twice() {
        let log = RefCell::new(Vec::new());
        let sides = vec![
            side("corun", 10, "42", &log),
            side("datafusion", 30, "42", &log),
            side("duckdb", 20, "42", &log),
        ];
        let (rows, outcome) = run(
            Plan {
                warmups: 1,
                repetitions: 5,
                pairs_max: 30,
                order_seed: 1,
            },
            sides,
        );
        assert!(outcome.is_ok());
        assert_eq!(outcome.rows, rows.len());
        let count = |name| log.borrow().iter().filter(|run| **run == name).count();
        assert_eq!((count("corun"), count("datafusion"), count("duckdb")), (6, 11, 6));
        assert_eq!(ratio(&rows, "corun", "datafusion").median(), Some(3.0));
        assert_eq!(ratio(&rows, "corun", "duckdb").median(), Some(2.0));
        let control = ratio(&rows, "datafusion", "datafusion");
        assert_eq!(control.median(), Some(1.0));
        assert_eq!(control.parameter("control"), Some(&Value::from("a/a")));
        assert_eq!(rows.iter().filter(|row| row.metric == "peak_bytes").count(), 3);
        assert!(
            rows.iter()
                .all(|row| row.parameter("threads") == Some(&Value::Integer(2)))
        );
    }

    #[test]
    fn each_round_has_an_order_of_its_own_and_a_seed_repeats_it() {
        let orders = |order_seed| {
            let log = RefCell::new(Vec::new());
            let sides = vec![side("corun", 10, "42", &log), side("datafusion", 30, "42", &log)];
            run(
                Plan {
                    warmups: 0,
                    repetitions: 12,
                    pairs_max: 12,
                    order_seed,
                },
                sides,
            );
            log.into_inner()
        };
        assert_eq!(orders(3), orders(3));
        let places: std::collections::BTreeSet<usize> = orders(3)
            .chunks(3)
            .filter_map(|round| round.iter().position(|name| *name == "corun"))
            .collect();
        assert_eq!(places.len(), 3, "corun runs first, second and third");
    }

    #[test]
    fn near_one_gets_thirty_pairs_of_the_two_sides_only() {
        let log = RefCell::new(Vec::new());
        let sides = vec![
            side("corun", 10, "42", &log),
            side("datafusion", 10, "42", &log),
            side("duckdb", 20, "42", &log),
        ];
        let (rows, _) = run(Plan::standard(), sides);
        let row = ratio(&rows, "corun", "datafusion");
        assert_eq!(row.spread.map(|spread| spread.n), Some(30));
        assert_eq!(row.parameter("verdict"), Some(&Value::from("not_slower")));
        assert_eq!(
            ratio(&rows, "corun", "duckdb").spread.map(|spread| spread.n),
            Some(5)
        );
    }

    #[test]
    fn quick_makes_no_claim() {
        let log = RefCell::new(Vec::new());
        let sides = vec![side("corun", 10, "42", &log), side("datafusion", 10, "42", &log)];
        let (rows, _) = run(Plan::quick(), sides);
        let row = ratio(&rows, "corun", "datafusion");
        assert_eq!(row.spread.map(|spread| spread.n), Some(2));
        assert_eq!(row.parameter("verdict"), None);
    }

    #[test]
    fn a_wrong_answer_fails_the_run_and_its_rows_say_so() {
        let log = RefCell::new(Vec::new());
        let sides = vec![side("corun", 10, "41", &log), side("datafusion", 30, "42", &log)];
        let (rows, outcome) = run(Plan::quick(), sides);
        assert!(!outcome.is_ok());
        assert!(
            outcome.failures[0].contains("expected 42, got 41"),
            "{:?}",
            outcome.failures
        );
        assert_eq!(ratio(&rows, "corun", "datafusion").answer_ok, Some(false));
        assert_eq!(ratio(&rows, "datafusion", "datafusion").answer_ok, Some(true));
    }

    #[test]
    fn a_failing_peer_is_left_out_but_a_failing_engine_fails_the_run() {
        let log = RefCell::new(Vec::new());
        let broken = |name| {
            Side::new(name, || {
                Err(BenchError::Peer {
                    peer: "duckdb",
                    reason: "gone".to_string(),
                })
            })
        };
        let sides = vec![
            side("corun", 10, "42", &log),
            side("datafusion", 30, "42", &log),
            broken("duckdb").optional(),
        ];
        let (rows, outcome) = run(Plan::quick(), sides);
        assert!(outcome.is_ok());
        let row = rows
            .iter()
            .find(|row| row.engine() == "duckdb")
            .expect("a row for duckdb");
        assert_eq!(row.label, crate::row::Label::Unavailable);

        let (_, outcome) = run(
            Plan::quick(),
            vec![broken("corun"), side("datafusion", 30, "42", &log)],
        );
        assert_eq!(outcome.failures.len(), 1);
    }

    #[test]
    fn arguments_make_the_plan() {
        assert_eq!(Plan::from_arguments(false, None), Plan::standard());
        assert_eq!(
            Plan::from_arguments(true, Some(3)),
            Plan {
                warmups: 0,
                repetitions: 3,
                pairs_max: 3,
                ..Plan::quick()
            }
        );
        assert_eq!(Plan::from_arguments(false, Some(50)).pairs_max, 50);
        assert_eq!(Plan::from_arguments(false, Some(0)).repetitions, 1);
    }
}
