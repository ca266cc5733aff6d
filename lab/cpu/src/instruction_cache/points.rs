//! The figures about CTX points: 8 (the size of the switch), 16 (knees) and 17 (ways to choose points).

use corun_cachesim::instruction_cache::{Candidates, CodeCache, Preference, Search, sweep};
use corun_model::teams::{CtxSite, Knee};

use super::cores::{self, SimulatedCore};
use super::counted::{self, EVENTS};
use super::geometry::Processor;
use super::job::{Mode, Points};
use super::operations::timed_side;
use super::rows::{FigureRows, Shape, metric};
use super::stage::{NamedPass, Stage, TEAM};
use super::subject::Subject;
use super::timed;
use super::training::{SWITCH, profile, simulated};
use lab_core::error::BenchError;
use lab_core::row::Row;

/// Figure 8: misses by the size of the switch's code.
pub(super) fn figure_8(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let points = stage.by_trial(stage.judged)?;
    let sides = [
        (Mode::Serial, "none"),
        (Mode::Team, "trial"),
        (Mode::Held, "trial"),
    ]
    .map(|(mode, name)| NamedPass::traced(mode, TEAM, (name, &points)));
    let traced = stage.trace(&sides, out)?;
    let core = SimulatedCore::warm(Processor::with_l1i(stage.judged));
    let on = traced.on(&points);
    let paddings: &[u64] = stage
        .lab
        .choose((&[0, 4096], &[0, 128, 256, 512, 1024, 2048, 4096, 8192, 16384]));
    for (side, pass) in sides.iter().zip(&traced.passes) {
        let shape = out.shape(stage.operation().name(), side, Some(stage.judged));
        // Serial execution passes no point that is on: one bar.
        let paddings = if side.pass.mode == Mode::Serial {
            &paddings[..1]
        } else {
            paddings
        };
        for &bytes in paddings {
            let counted = core.count_padded(&traced.kept, &pass.rounds, TEAM, (&on, bytes))?;
            let l1i: Vec<f64> = counted.iter().map(|counted| counted.l1i).collect();
            let row = shape.simulated(metric::L1I, &l1i, pass.ok());
            out.emit(row.map(|row| row.with("padding_bytes", bytes)));
        }
    }
    Ok(())
}

/// Figure 16: misses of a non-leading member against calls, over knees, for points anywhere (the paper's) and for those compiled in.
pub(super) fn figure_16(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let widths: &[u64] = stage.lab.choose((&[200], &[50, 100, 200, 400]));
    let heights: &[u32] = stage.lab.choose((&[4], &[1, 2, 4, 8, 16]));
    let knee = |width, height| Knee { width, height };
    let knees: Vec<Knee> = widths
        .iter()
        .flat_map(|&width| heights.iter().map(move |&height| knee(width, height)))
        .collect();
    let anywhere = Search::paper(Knee::default());
    let entries = Search {
        candidates: Candidates::Entries,
        preference: Preference::Nearest,
        ..anywhere
    };
    let cache = CodeCache::lru(stage.judged).map_err(simulated)?;
    let ok = stage.trained.wrong.is_empty();
    let shape = Shape {
        team_size: TEAM,
        mode: Mode::Team,
        points: "autosteps",
        ..stage.shape(out)
    };
    for (candidates, search) in [
        ("instructions", anywhere),
        ("sites", Search::sites(Knee::default())),
        ("entries", entries),
    ] {
        let code = &stage.trained.code;
        for tradeoff in sweep(code, &cache, &search, &knees, TEAM, Some(SWITCH)).map_err(simulated)? {
            // The paper's count, and the same with a whole team simulated.
            for (member, misses) in [
                ("non_leading", Some(tradeoff.non_leading_misses as f64)),
                ("additional", tradeoff.additional_misses),
            ] {
                let dress = |row: Row| {
                    row.with("knee", tradeoff.knee.to_string())
                        .with("width", tradeoff.knee.width)
                        .with("height", u64::from(tradeoff.knee.height))
                        .with("candidates", candidates)
                        .with("insertion_points", tradeoff.points)
                        .with("ctx_calls", tradeoff.calls)
                        .with("member", member)
                };
                out.emit(shape.simulated(metric::L1I, misses.as_slice(), ok).map(dress));
            }
        }
    }
    Ok(())
}

/// Figure 17: serial execution, and teams with points chosen in several ways: misses and time.
pub(super) fn figure_17(stage: &Stage<'_>, out: &mut FigureRows<'_, '_>) -> Result<(), BenchError> {
    let l1i = stage.judged;
    let choices = [
        ("all", Points::All),
        ("default", Points::Default),
        ("autosteps", profile(l1i, stage.trained.by_knee(l1i)?)),
        ("trial", stage.by_trial(l1i)?),
    ];
    let none = ("none", &Points::Default);
    let teams = |mode| {
        choices
            .iter()
            .map(move |(name, points)| NamedPass::traced(mode, TEAM, (name, points)))
    };
    let mut sides = vec![NamedPass::traced(Mode::Serial, TEAM, none)];
    sides.extend(teams(Mode::Team).chain(teams(Mode::Held)));
    let traced = stage.trace(&sides, out)?;
    let place = |point| {
        traced
            .sites
            .get(&point)
            .map_or_else(|| "begin".to_owned(), CtxSite::to_string)
    };
    let core = SimulatedCore::warm(Processor::with_l1i(l1i));
    let mut serial = Vec::new();
    for (side, pass) in sides.iter().zip(&traced.passes) {
        let shape = out.shape(stage.operation().name(), side, Some(l1i));
        let counted = core.count(&traced.kept, &pass.rounds, TEAM)?;
        out.emit(counted::rows(&shape, EVENTS, &mut serial, &counted, pass.ok()));
        if side.pass.mode == Mode::Serial {
            continue;
        }
        let on = traced.on(&side.pass.points);
        let calls = pass.rounds[1..].iter().map(|round| {
            let visits = round
                .iter()
                .flat_map(|stretch| traced.kept.visits(stretch.clone()));
            visits.filter(|site| on.contains(site)).count() as f64 / TEAM as f64
        });
        let calls: Vec<f64> = calls.collect();
        out.emit(shape.simulated(metric::CTX_CALLS, &calls, pass.ok()));
        for ((from, to), misses) in cores::segments(&traced.kept, &pass.rounds, TEAM, &core.processor, &on)? {
            let row = shape.simulated(metric::SEGMENT, &[misses], pass.ok());
            out.emit(row.map(|row| row.with("from", place(from)).with("to", place(to))));
        }
    }
    let mut sides = vec![timed_side(stage, Mode::Serial, TEAM, none)];
    let team = |(name, points): &(&'static str, Points)| timed_side(stage, Mode::Team, TEAM, (name, points));
    sides.extend(choices.iter().map(team));
    let subject = Subject::load(stage.workload(), false)?;
    timed::contest(&subject, &sides, stage.operation().name(), &[], out)
}
