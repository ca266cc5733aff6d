//! [`Stage`]: what the figures about index fetches share, and how counts become rows.

use std::ops::Range;

use corun_model::teams::{Knee, L1i};

use super::cores::{self, PerOperation};
use super::geometry::{Processor, TODAY, half_of};
use super::job::{Job, Mode, Operation, Pass, Points, Workload};
use super::lab::{Lab, Traced};
use super::rows::{Shape, additional_member, bound_percent, metric, reduction_percent};
use super::training::{Trained, profile};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::{Plan, Runner};

/// Rows of the paper's table (section 3.4).
const ROWS: u32 = 100_000;
const ROWS_QUICK: u32 = 2_000;
/// Rounds of a traced pass: the first fills the caches, the others are counted.
pub(super) const ROUNDS: usize = 3;

/// The paper's team.
pub(super) const TEAM: usize = 10;

/// Index fetches to be traced and timed.
pub(super) struct Stage<'s> {
    pub(super) lab: &'s Lab<'s>,
    pub(super) plan: Plan,
    /// An index fetch as it is.
    pub(super) fetch: Trained,
    /// The instruction cache that reductions are judged at: at most half the operation's footprint.
    pub(super) judged: L1i,
}

/// How a pass's numbers are kept apart.
#[derive(Clone, Copy)]
pub(super) enum Caches {
    /// Filled by the round before.
    Warm,
    /// Empty before each round, and where members run one after the other before each of them.
    Cold,
}

impl Caches {
    pub(super) fn name(self) -> &'static str {
        match self {
            Caches::Warm => "warm",
            Caches::Cold => "cold",
        }
    }
}

impl<'s> Stage<'s> {
    /// Traces one fetch.
    ///
    /// # Errors
    /// The lab's.
    pub(super) fn new(lab: &'s Lab<'s>, plan: Plan) -> Result<Stage<'s>, BenchError> {
        let fetch = Trained::trace(lab, Operation::Fetch, rows_of_table(lab.quick))?;
        let footprint = footprint_bytes(&fetch);
        Ok(Stage {
            lab,
            plan,
            fetch,
            judged: half_of(footprint),
        })
    }

    /// The caches that figures are drawn for: the machine's, and the one judged at.
    pub(super) fn caches(&self) -> Vec<L1i> {
        let mut caches = vec![TODAY.l1i];
        if self.judged != TODAY.l1i {
            caches.push(self.judged);
        }
        caches
    }

    /// The workload of the figures.
    pub(super) fn workload(&self) -> Workload {
        Workload::Operation {
            operation: Operation::Fetch,
            rows: rows_of_table(self.lab.quick),
            other_rows: 0,
        }
    }

    /// The points autosteps chooses for a cache.
    ///
    /// # Errors
    /// The simulation's.
    pub(super) fn by_knee(&self, l1i: L1i) -> Result<Points, BenchError> {
        let knee = Knee::default();
        let points = self.fetch.by_knee(l1i, knee)?;
        Ok(profile(l1i, knee, self.fetch.places(&points)))
    }

    /// The points found by trial for a cache.
    ///
    /// # Errors
    /// The simulation's.
    pub(super) fn by_trial(&self, l1i: L1i) -> Result<Points, BenchError> {
        let points = self.fetch.by_trial(l1i)?;
        Ok(profile(l1i, Knee::default(), self.fetch.places(&points)))
    }

    /// Traces passes of the figures' workload.
    ///
    /// # Errors
    /// The lab's.
    pub(super) fn trace(&self, passes: &[Pass], what: &str) -> Result<Traced, BenchError> {
        let job = Job {
            workload: self.workload(),
            passes: passes.to_vec(),
            patient: true,
        };
        self.lab.trace(&job, what)
    }

    /// A row for every fetch's footprint, which the other rows are judged by.
    pub(super) fn footprint(&self, case: &'static str, figure: &'static str) -> Option<Row> {
        let shape = Shape {
            case,
            figure,
            operation: self.fetch.operation.name(),
            team_size: 1,
            l1i: Some(self.judged),
            mode: Mode::Serial,
            points: "none",
        };
        let ok = self.fetch.wrong.is_empty();
        shape.simulated(metric::FOOTPRINT, &[footprint_bytes(&self.fetch) as f64], ok)
    }
}

/// Rows of the table.
pub(super) fn rows_of_table(quick: bool) -> u32 {
    if quick { ROWS_QUICK } else { ROWS }
}

/// Bytes of the 64-byte lines an operation runs through.
pub(super) fn footprint_bytes(trained: &Trained) -> u64 {
    trained.code.footprint_lines(64) * 64
}

/// A traced pass of so many members.
pub(super) fn pass(mode: Mode, members: usize, points: &Points) -> Pass {
    Pass {
        mode,
        members,
        points: points.clone(),
        rounds: ROUNDS + usize::from(mode == Mode::Held),
        warm_up: 20,
        float: false,
        marked: true,
    }
}

/// Counts of a pass on a core, an operation, one value for each counted round.
///
/// # Errors
/// A processor that cannot be.
pub(super) fn counts(
    traced: &Traced,
    at: usize,
    members: usize,
    processor: &Processor,
    caches: Caches,
) -> Result<Vec<PerOperation>, BenchError> {
    let pass = &traced.passes[at];
    // A held team comes apart in its last round.
    let rounds = &pass.rounds[..pass.rounds.len() - usize::from(pass.held)];
    match caches {
        Caches::Warm => cores::warm(&traced.kept, rounds, members, processor, None),
        Caches::Cold => {
            let counted: Vec<Vec<Range<usize>>> = rounds[1..].to_vec();
            cores::cold(&traced.kept, &counted, members, processor)
        }
    }
}

/// One number of each round.
pub(super) fn each(counts: &[PerOperation], of: impl Fn(&PerOperation) -> f64) -> Vec<f64> {
    counts.iter().map(of).collect()
}

/// The misses of the instruction cache alone, as [`beside_serial`] takes them.
pub(super) fn l1i_misses(shape: &Shape, counted: &[PerOperation], ok: bool) -> Vec<Row> {
    let row = shape.simulated(metric::L1I, &each(counted, |c| c.l1i), ok);
    row.into_iter().collect()
}

/// The rows of traced passes on one core: what `count` makes of each, then what it saves over the serial pass before it.
///
/// # Errors
/// As for [`counts`].
pub(super) fn beside_serial(
    (traced, passes): (&Traced, &[Pass]),
    (core, caches): (&Processor, Caches),
    shape_of: impl Fn(&Pass) -> Shape,
    count: impl Fn(&Shape, &[PerOperation], bool) -> Vec<Row>,
) -> Result<Vec<Row>, BenchError> {
    let (mut rows, mut serial) = (Vec::new(), Vec::new());
    for (at, pass) in passes.iter().enumerate() {
        let shape = Shape {
            l1i: Some(core.l1i),
            ..shape_of(pass)
        };
        let ok = traced.passes[at].done.wrong.is_empty();
        let counted = counts(traced, at, pass.members, core, caches)?;
        rows.extend(count(&shape, &counted, ok));
        match pass.mode {
            Mode::Serial => serial = counted,
            _ => rows.extend(reductions(&shape, &serial, &counted, ok)),
        }
    }
    Ok(rows)
}

/// Rows that say what a team saves: the whole team, and each member but the first.
pub(super) fn reductions(
    shape: &Shape,
    serial: &[PerOperation],
    team: &[PerOperation],
    ok: bool,
) -> Vec<Row> {
    let (before, after) = (mean(serial), mean(team));
    if before <= 0.0 {
        return Vec::new();
    }
    let members = shape.team_size;
    let whole = shape.simulated(metric::REDUCTION, &[reduction_percent(before, after)], ok);
    let additional = additional_member(after * members as f64, before, members).and_then(|misses| {
        shape.simulated(metric::MEMBER_REDUCTION, &[reduction_percent(before, misses)], ok)
    });
    let dress = |row: Row| {
        row.versus(Mode::Serial.name())
            .with("bound_percent", bound_percent(members))
    };
    whole.into_iter().chain(additional).map(dress).collect()
}

fn mean(counts: &[PerOperation]) -> f64 {
    counts.iter().map(|counts| counts.l1i).sum::<f64>() / counts.len().max(1) as f64
}

/// Emits rows; what was answered wrongly fails the run with its sentences.
pub(super) fn emit(runner: &mut Runner<'_>, rows: impl IntoIterator<Item = Row>) {
    rows.into_iter().for_each(|row| runner.emit(row));
}

/// Notes what was answered wrongly.
pub(super) fn complain(runner: &mut Runner<'_>, case: &str, wrong: &[String]) {
    for sentence in wrong.iter().take(5) {
        runner.fail(format!("steps {case}: {sentence}"));
    }
}
