//! [`Counted`]: what passes of an operation miss on simulated cores, and what a team saves over serial execution.

use corun_model::teams::L1i;

use super::cores::{PerOperation, SimulatedCore};
use super::figures::ByRun;
use super::geometry::{PROCESSORS, Processor, TODAY, figure_10_caches, shrunk};
use super::job::Mode;
use super::rows::{FigureRows, Shape, additional_member, bound_percent, metric, reduction_percent};
use super::stage::{NamedPass, Stage};
use lab_core::error::BenchError;
use lab_core::row::Row;

/// A metric and its value.
pub(super) type Metric = (&'static str, fn(&PerOperation) -> f64);

/// How members take turns, and the name of the points; the serial one is first.
pub(super) type Sides = &'static [(Mode, &'static str)];
/// By the instruction cache that points are chosen for, the cores to count on.
pub(super) type Cores = fn(&Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)>;

/// Everything that is counted.
pub(super) const EVENTS: &[Metric] = &[
    (metric::L1I, |c| c.l1i),
    (metric::L1D, |c| c.l1d),
    (metric::L2, |c| c.l2),
    (metric::MISPREDICTS, |c| c.mispredicts),
    (metric::INSTRUCTIONS, |c| c.instructions),
];
/// The misses of the instruction cache alone.
pub(super) const L1I_MISSES: &[Metric] = EVENTS.split_at(1).0;

/// A part of a figure: sides, each with teams of some sizes, counted on some cores.
pub(super) struct Counted {
    pub(super) members: ByRun<usize>,
    pub(super) sides: Sides,
    pub(super) metrics: &'static [Metric],
    pub(super) cores: Cores,
}

impl Counted {
    /// Traces the sides and emits their rows.
    pub(super) fn emit(&self, stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
        for (trained_for, cores) in (self.cores)(stage) {
            let points = stage.by_trial(trained_for)?;
            let each_mode = |&members: &usize| {
                let side = |&(mode, name): &(Mode, _)| NamedPass::traced(mode, members, (name, &points));
                self.sides.iter().map(side).collect::<Vec<NamedPass>>()
            };
            let sides: Vec<NamedPass> = stage
                .lab
                .choose(self.members)
                .iter()
                .flat_map(each_mode)
                .collect();
            let traced = stage.trace(&sides, out)?;
            for core in cores {
                let mut serial = Vec::new();
                for (side, pass) in sides.iter().zip(&traced.passes) {
                    let shape = out.shape(stage.operation().name(), side, Some(core.processor.l1i));
                    let counted = core.count(&traced.kept, &pass.rounds, side.pass.members)?;
                    let rows = rows(&shape, self.metrics, &mut serial, &counted, pass.ok());
                    out.emit(rows.into_iter().map(|row| row.with_all(&core.keys)));
                }
            }
        }
        Ok(())
    }
}

/// The cache judged at.
pub(super) fn judged(stage: &Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)> {
    vec![(
        stage.judged,
        vec![SimulatedCore::warm(Processor::with_l1i(stage.judged))],
    )]
}

/// The cache judged at and the machine's, with points for the former.
pub(super) fn judged_and_today(stage: &Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)> {
    let mut cores = judged(stage);
    if stage.judged != TODAY.l1i {
        cores[0].1.push(SimulatedCore::warm(TODAY));
    }
    cores
}

/// The machine's cache and the one judged at, each with points for it, warm and cold.
pub(super) fn warm_and_cold(stage: &Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)> {
    let mut caches = vec![TODAY.l1i, stage.judged];
    caches.dedup();
    let both = |l1i| {
        let core = |name, cold| SimulatedCore {
            cold,
            ..SimulatedCore::warm(Processor::with_l1i(l1i)).with("cache", name)
        };
        (l1i, vec![core("warm", false), core("cold", true)])
    };
    caches.into_iter().map(both).collect()
}

/// Several processors. Our code is smaller than the paper's, so each also comes with caches divided until an operation's footprint is to
/// them as the paper's 45 KiB were to the real ones.
pub(super) fn processors(stage: &Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)> {
    let divisor = shrunk(stage.trained.footprint_bytes());
    let mut divisors = vec![1, divisor];
    divisors.dedup();
    let core = |processor: Processor, divisor: u32| {
        SimulatedCore::warm(processor.divided(divisor))
            .with("processor", processor.name)
            .with("divisor", u64::from(divisor))
    };
    let cores = PROCESSORS.iter().flat_map(|&processor| {
        let each = divisors.iter().map(move |&divisor| core(processor, divisor));
        each.collect::<Vec<_>>()
    });
    vec![(PROCESSORS[0].divided(divisor).l1i, cores.collect())]
}

/// Sizes and associativities. Points stay those of one cache, as the paper's do.
pub(super) fn sizes_and_ways(stage: &Stage<'_>) -> Vec<(L1i, Vec<SimulatedCore>)> {
    let cores = figure_10_caches(stage.lab.quick)
        .into_iter()
        .map(|l1i| SimulatedCore::warm(Processor::with_l1i(l1i)));
    vec![(stage.judged, cores.collect())]
}

/// A row of each metric, and what the side saves over the last serial one, which `serial` keeps.
pub(super) fn rows(
    shape: &Shape,
    metrics: &[Metric],
    serial: &mut Vec<PerOperation>,
    counted: &[PerOperation],
    ok: bool,
) -> Vec<Row> {
    let values = |of: fn(&PerOperation) -> f64| counted.iter().map(of).collect::<Vec<f64>>();
    let row = |&(name, of): &Metric| shape.simulated(name, &values(of), ok);
    let mut rows: Vec<Row> = metrics.iter().filter_map(row).collect();
    match shape.mode {
        Mode::Serial => *serial = counted.to_vec(),
        _ => rows.extend(reductions(shape, mean(serial), mean(counted), ok)),
    }
    rows
}

/// Rows that say what a team saves: the whole team, and each member but the first.
fn reductions(shape: &Shape, before: f64, after: f64, ok: bool) -> Vec<Row> {
    if before <= 0.0 {
        return Vec::new();
    }
    let members = shape.team_size;
    let saved = |name, misses| shape.simulated(name, &[reduction_percent(before, misses)], ok);
    let additional = additional_member(after * members as f64, before, members);
    let rows = [
        saved(metric::REDUCTION, after),
        additional.and_then(|misses| saved(metric::MEMBER_REDUCTION, misses)),
    ];
    let dress = |row: Row| {
        row.versus(Mode::Serial.name())
            .with("bound_percent", bound_percent(members))
    };
    rows.into_iter().flatten().map(dress).collect()
}

fn mean(counts: &[PerOperation]) -> f64 {
    counts.iter().map(|counts| counts.l1i).sum::<f64>() / counts.len().max(1) as f64
}
