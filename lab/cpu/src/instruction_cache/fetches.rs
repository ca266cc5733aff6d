//! The figures about index fetches (section 3.4): 5, 6, 7, 8, 9, 10, 16 and 17.

use std::collections::BTreeSet;

use corun_cachesim::instruction_cache::{Candidates, CodeCache, Preference, Search, sweep};
use corun_model::teams::Knee;

use super::cores::{self, PerOperation};
use super::geometry::{PROCESSORS, Processor, figure_10_caches, shrunk};
use super::job::{Mode, Pass, Points};
use super::rows::{Shape, metric};
use super::stage::{
    Caches, ROUNDS, Stage, TEAM, beside_serial, complain, counts, each, emit, l1i_misses, pass, reductions,
};
use super::subject::Subject;
use super::timed::{Contestant, contest};
use super::training::{SWITCH, simulated};
use lab_core::error::BenchError;
use lab_core::run::Runner;

/// The operation of these figures.
const OPERATION: &str = "index_fetch";

fn shape(case: &'static str, figure: &'static str, pass: &Pass, points: &'static str) -> Shape {
    Shape {
        case,
        figure,
        operation: OPERATION,
        team_size: pass.members,
        l1i: None,
        mode: pass.mode,
        points: if pass.mode == Mode::Serial { "none" } else { points },
    }
}

/// Figure 5: misses by team size, cold and warm.
pub(super) fn figure_5(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let sizes: Vec<usize> = if stage.lab.quick {
        vec![1, TEAM]
    } else {
        (1..=TEAM).collect()
    };
    emit(runner, stage.footprint(case, "5"));
    for l1i in stage.caches() {
        let points = stage.by_trial(l1i)?;
        let modes = [Mode::Serial, Mode::ToCompletion, Mode::Team, Mode::Held];
        let passes: Vec<Pass> = sizes
            .iter()
            .flat_map(|&size| modes.map(|mode| pass(mode, size, &points)))
            .collect();
        let traced = stage.trace(&passes, case)?;
        complain(runner, case, &traced.wrong());
        let core = Processor::with_l1i(l1i);
        for caches in [Caches::Warm, Caches::Cold] {
            let rows = beside_serial(
                (&traced, &passes),
                (&core, caches),
                |pass| shape(case, "5", pass, "trial"),
                l1i_misses,
            )?;
            emit(
                runner,
                rows.into_iter().map(|row| row.with("cache", caches.name())),
            );
        }
    }
    Ok(())
}

/// Figure 6: time and data misses of one to ten members.
pub(super) fn figure_6(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let sizes: Vec<usize> = if stage.lab.quick {
        vec![1, TEAM]
    } else {
        (1..=TEAM).collect()
    };
    by_size(stage, case, "6", &sizes, runner)
}

/// Figure 7: speed-up and reduction of 2 to 80 members.
pub(super) fn figure_7(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let sizes: &[usize] = if stage.lab.quick {
        &[2, 20]
    } else {
        &[2, 4, 8, 10, 20, 40, 60, 80]
    };
    by_size(stage, case, "7", sizes, runner)
}

/// Misses of both level-one caches, simulated at the cache judged at, and time measured, by team size.
fn by_size(
    stage: &Stage<'_>,
    case: &'static str,
    figure: &'static str,
    sizes: &[usize],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let points = stage.by_trial(stage.judged)?;
    let passes: Vec<Pass> = sizes
        .iter()
        .flat_map(|&size| [Mode::Serial, Mode::Team, Mode::Held].map(|mode| pass(mode, size, &points)))
        .collect();
    let traced = stage.trace(&passes, case)?;
    complain(runner, case, &traced.wrong());
    let core = Processor::with_l1i(stage.judged);
    let rows = beside_serial(
        (&traced, &passes),
        (&core, Caches::Warm),
        |pass| shape(case, figure, pass, "trial"),
        events,
    )?;
    emit(runner, rows);
    let subject = Subject::load(stage.workload(), false)?;
    stage
        .lab
        .progress
        .begin(&format!("timing {case}"), sizes.len() as u64);
    for &size in sizes {
        let sides = [
            (Mode::Serial, &Points::Default, "none", false),
            (Mode::ToCompletion, &Points::Default, "default", false),
            (Mode::Team, &Points::Default, "default", false),
            (Mode::Team, &Points::Default, "default", true),
            (Mode::Team, &points, "trial", false),
        ];
        let sides = sides.map(|(mode, points, name, float)| {
            timed_side(stage, case, figure, (mode, size), (points, name), float)
        });
        let (rows, wrong) = contest(&subject, &sides, stage.plan)?;
        emit(runner, rows);
        complain(runner, case, &wrong);
        stage.lab.progress.advance(1);
    }
    stage.lab.progress.end();
    Ok(())
}

/// A side whose timed part takes about ten milliseconds.
fn timed_side(
    stage: &Stage<'_>,
    case: &'static str,
    figure: &'static str,
    (mode, members): (Mode, usize),
    (points, name): (&Points, &'static str),
    float: bool,
) -> Contestant {
    let operations = if stage.lab.quick { 200 } else { 20_000 };
    let pass = Pass {
        mode,
        members,
        points: points.clone(),
        rounds: (operations / members).max(1),
        warm_up: (operations / members / 10).max(1),
        float,
        marked: false,
    };
    Contestant {
        shape: shape(case, figure, &pass, name),
        pass,
        float,
    }
}

/// A row of each event.
pub(super) fn events(shape: &Shape, counted: &[PerOperation], ok: bool) -> Vec<lab_core::row::Row> {
    type Value = fn(&PerOperation) -> f64;
    let all: [(&str, Value); 5] = [
        (metric::L1I, |c| c.l1i),
        (metric::L1D, |c| c.l1d),
        (metric::L2, |c| c.l2),
        (metric::MISPREDICTS, |c| c.mispredicts),
        (metric::INSTRUCTIONS, |c| c.instructions),
    ];
    let rows = all.map(|(name, of)| shape.simulated(name, &each(counted, of), ok));
    rows.into_iter().flatten().collect()
}

/// Figure 8: misses by the size of the switch's code.
pub(super) fn figure_8(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let points = stage.by_trial(stage.judged)?;
    let passes = [Mode::Serial, Mode::Team, Mode::Held].map(|mode| pass(mode, TEAM, &points));
    let traced = stage.trace(&passes, case)?;
    complain(runner, case, &traced.wrong());
    let core = Processor::with_l1i(stage.judged);
    let on = on_sites(&traced.sites, &points);
    let paddings: &[u64] = if stage.lab.quick {
        &[0, 4096]
    } else {
        &[0, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]
    };
    for (at, pass) in passes.iter().enumerate() {
        let shape = Shape {
            l1i: Some(stage.judged),
            ..shape(case, "8", pass, "trial")
        };
        let ok = traced.passes[at].done.wrong.is_empty();
        let traced_pass = &traced.passes[at];
        let rounds = &traced_pass.rounds[..traced_pass.rounds.len() - usize::from(traced_pass.held)];
        // Serial execution passes no point that is on: one bar.
        let paddings = if pass.mode == Mode::Serial {
            &paddings[..1]
        } else {
            paddings
        };
        for &bytes in paddings {
            let padding = Some((&on, bytes)).filter(|_| bytes > 0);
            let counted = cores::warm(&traced.kept, rounds, TEAM, &core, padding)?;
            let row = shape.simulated(metric::L1I, &each(&counted, |c| c.l1i), ok);
            emit(runner, row.map(|row| row.with("padding_bytes", bytes)));
        }
    }
    Ok(())
}

/// Which of a subject's points are on.
fn on_sites(
    sites: &std::collections::BTreeMap<u64, corun_model::teams::CtxSite>,
    points: &Points,
) -> BTreeSet<u64> {
    let Points::Profile(text) = points else {
        return BTreeSet::new();
    };
    let on: Vec<_> = text
        .parse::<corun_model::teams::CtxProfile>()
        .map_or_else(|_| Vec::new(), |profile| profile.sites);
    let found = sites.iter().filter(|(_, site)| on.contains(site));
    found.map(|(&address, _)| address).collect()
}

/// Figure 9: several processors. Our code is smaller than the paper's, so each also comes with caches divided until an operation's
/// footprint is to them as the paper's 45 KiB were to the real ones.
pub(super) fn figure_9(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let divisor = shrunk(super::stage::footprint_bytes(&stage.fetch));
    let trained_on = PROCESSORS[0].divided(divisor);
    let points = stage.by_trial(trained_on.l1i)?;
    let passes = [Mode::Serial, Mode::Team, Mode::Held].map(|mode| pass(mode, TEAM, &points));
    let traced = stage.trace(&passes, case)?;
    complain(runner, case, &traced.wrong());
    for processor in PROCESSORS {
        let mut sizes = vec![(1, processor)];
        if divisor > 1 {
            sizes.push((divisor, processor.divided(divisor)));
        }
        for (divisor, core) in sizes {
            let rows = beside_serial(
                (&traced, &passes),
                (&core, Caches::Warm),
                |pass| shape(case, "9", pass, "trial"),
                events,
            )?;
            let dress = |row: lab_core::row::Row| {
                row.with("processor", processor.name)
                    .with("divisor", u64::from(divisor))
            };
            emit(runner, rows.into_iter().map(dress));
        }
    }
    Ok(())
}

/// Figure 10: sizes and associativities. Points stay those of one cache, as the paper's do.
pub(super) fn figure_10(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let points = stage.by_trial(stage.judged)?;
    let passes = [Mode::Serial, Mode::Team, Mode::Held].map(|mode| pass(mode, TEAM, &points));
    let traced = stage.trace(&passes, case)?;
    complain(runner, case, &traced.wrong());
    for l1i in figure_10_caches(stage.lab.quick) {
        let core = Processor::with_l1i(l1i);
        let rows = beside_serial(
            (&traced, &passes),
            (&core, Caches::Warm),
            |pass| shape(case, "10", pass, "trial"),
            l1i_misses,
        )?;
        emit(runner, rows);
    }
    Ok(())
}

/// Figure 16: misses of a non-leading member against calls, over knees, for points anywhere (the paper's) and for those compiled in.
pub(super) fn figure_16(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let widths: &[u64] = if stage.lab.quick {
        &[200]
    } else {
        &[50, 100, 200, 400]
    };
    let heights: &[u32] = if stage.lab.quick { &[4] } else { &[1, 2, 4, 8, 16] };
    let knees: Vec<Knee> = widths
        .iter()
        .flat_map(|&width| heights.iter().map(move |&height| Knee { width, height }))
        .collect();
    let anywhere = Search::paper(Knee::default());
    let kinds = [
        ("instructions", anywhere),
        ("sites", Search::sites(Knee::default())),
        (
            "entries",
            Search {
                candidates: Candidates::Entries,
                preference: Preference::Nearest,
                ..anywhere
            },
        ),
    ];
    let cache = CodeCache::lru(stage.judged).map_err(simulated)?;
    let ok = stage.fetch.wrong.is_empty();
    complain(runner, case, &stage.fetch.wrong);
    let shape = Shape {
        case,
        figure: "16",
        operation: OPERATION,
        team_size: TEAM,
        l1i: Some(stage.judged),
        mode: Mode::Team,
        points: "autosteps",
    };
    for (candidates, search) in kinds {
        let tradeoffs =
            sweep(&stage.fetch.code, &cache, &search, &knees, TEAM, Some(SWITCH)).map_err(simulated)?;
        for tradeoff in tradeoffs {
            let dress = |row: lab_core::row::Row| {
                row.with("knee", tradeoff.knee.to_string())
                    .with("width", tradeoff.knee.width)
                    .with("height", u64::from(tradeoff.knee.height))
                    .with("candidates", candidates)
                    .with("insertion_points", tradeoff.points)
                    .with("ctx_calls", tradeoff.calls)
                    .with("member", "non_leading")
            };
            let values = [tradeoff.non_leading_misses as f64];
            emit(runner, shape.simulated(metric::L1I, &values, ok).map(dress));
            // The same, with a whole team simulated instead of the paper's count.
            let additional: Vec<f64> = tradeoff.additional_misses.into_iter().collect();
            let row = shape.simulated(metric::L1I, &additional, ok).map(dress);
            emit(runner, row.map(|row| row.with("member", "additional")));
        }
    }
    Ok(())
}

/// Figure 17: serial execution, and teams with points chosen in several ways: misses and time.
pub(super) fn figure_17(
    stage: &Stage<'_>,
    case: &'static str,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let choices = [
        ("all", Points::All),
        ("default", Points::Default),
        ("autosteps", stage.by_knee(stage.judged)?),
        ("trial", stage.by_trial(stage.judged)?),
    ];
    let mut passes = vec![pass(Mode::Serial, TEAM, &Points::Default)];
    for mode in [Mode::Team, Mode::Held] {
        passes.extend(choices.iter().map(|(_, points)| pass(mode, TEAM, points)));
    }
    let traced = stage.trace(&passes, case)?;
    complain(runner, case, &traced.wrong());
    let each_name = || choices.iter().map(|(name, _)| *name);
    let names = ["none"].into_iter().chain(each_name()).chain(each_name());
    let names: Vec<&'static str> = names.collect();
    let core = Processor::with_l1i(stage.judged);
    let mut serial = Vec::new();
    for (at, (pass, name)) in passes.iter().zip(&names).enumerate() {
        let shape = Shape {
            l1i: Some(stage.judged),
            ..shape(case, "17", pass, name)
        };
        let ok = traced.passes[at].done.wrong.is_empty();
        let counted = counts(&traced, at, TEAM, &core, Caches::Warm)?;
        emit(runner, events(&shape, &counted, ok));
        if pass.mode != Mode::Serial {
            emit(runner, reductions(&shape, &serial, &counted, ok));
            let on = match &pass.points {
                Points::All => traced.sites.keys().copied().collect(),
                Points::Default => traced.prefetching.iter().copied().collect(),
                points => on_sites(&traced.sites, points),
            };
            let calls: Vec<f64> = traced.passes[at].rounds[1..ROUNDS]
                .iter()
                .map(|round| {
                    let visits = round
                        .iter()
                        .flat_map(|stretch| traced.kept.visits(stretch.clone()));
                    visits.filter(|site| on.contains(site)).count() as f64 / TEAM as f64
                })
                .collect();
            emit(runner, shape.simulated(metric::CTX_CALLS, &calls, ok));
            let rounds = &traced.passes[at].rounds[..ROUNDS];
            for ((from, to), misses) in cores::segments(&traced.kept, rounds, TEAM, &core, &on)? {
                let place = |point| {
                    let site = traced.sites.get(&point);
                    site.map_or_else(|| "begin".to_owned(), ToString::to_string)
                };
                let row = shape.simulated(metric::SEGMENT, &[misses], ok);
                emit(
                    runner,
                    row.map(|row| row.with("from", place(from)).with("to", place(to))),
                );
            }
        } else {
            serial = counted;
        }
    }
    let subject = Subject::load(stage.workload(), false)?;
    let mut sides = vec![timed_side(
        stage,
        case,
        "17",
        (Mode::Serial, TEAM),
        (&Points::Default, "none"),
        false,
    )];
    sides.extend(
        choices
            .iter()
            .map(|(name, points)| timed_side(stage, case, "17", (Mode::Team, TEAM), (points, name), false)),
    );
    let (rows, wrong) = contest(&subject, &sides, stage.plan)?;
    emit(runner, rows);
    complain(runner, case, &wrong);
    Ok(())
}
