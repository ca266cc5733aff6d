//! The join index: figures 10 to 13 and the appendix's two experiments that failed.

use std::cell::RefCell;

use corun_exec::operators::direct::Window;
use corun_exec::stage::HelperKind;
use corun_model::operators::mode::{Hiding, Mode, Threads};

use super::lab::{Lab, Shape};
use super::modes::{self, SCHEDULES, WORK_AHEAD};
use super::stands::{DIRECT, FIG10, FIG11A, FIG11B, FIG12, FIG13, SKIPS};
use super::{Pass, SEEDS};
use crate::memory_latency::contest::{Entrant, Standing, hold};
use crate::memory_latency::data::PairInput;
use crate::memory_latency::joins::IndexedPairs;
use crate::memory_latency::keys::Keys;
use crate::memory_latency::subject::Subject;
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::{Runner, Side};

/// Runs the selected cases.
///
/// # Errors
/// When there is no memory, or a simulation fails.
pub fn run(pass: &Pass<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    inner(pass, runner)?;
    outer(pass, runner)
}

/// Both rows of a pair are known at once: one reference deep, and all alike.
fn shape(table_bytes: u64) -> Shape {
    Shape {
        table_bytes,
        references: 1.0,
        hit_rate: 1.0,
        even: true,
    }
}

fn inner(pass: &Pass<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let (lab, sizes) = (pass.lab, pass.set_sizes());
    if !pass.wants(&[FIG10, FIG11A, FIG11B, DIRECT, SKIPS], &[FIG12]) {
        return Ok(());
    }
    let inputs = [PairInput::new(
        SEEDS[0],
        pass.sizes.rows,
        pass.sizes.pairs,
        false,
    )?];
    let mut join = IndexedPairs::<false>::new(&inputs)?;
    let shape = shape(join.table_bytes());
    let mut modes = vec![Mode::PLAIN, Mode::staged(Threads::One, Hiding::None)];
    modes.extend(SCHEDULES);
    modes.extend(modes::BI_PREFETCHED);
    pass.contest(FIG10, &mut join, &modes, shape, runner);
    pass.contest(FIG11A, &mut join, &modes::by_size(&sizes), shape, runner);
    pass.interference(FIG11B, &mut join, |join| join.array(), runner)?;
    pass.misses(FIG12, &mut join, &modes::by_size_alone(&sizes), runner)?;
    if pass.times(SKIPS) {
        skips(lab, &mut join, runner);
    }
    if pass.times(DIRECT) {
        direct(lab, &mut join, runner);
    }
    Ok(())
}

fn outer(pass: &Pass<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    if !pass.times(FIG13) {
        return Ok(());
    }
    let inputs = [PairInput::new(SEEDS[0], pass.sizes.rows, pass.sizes.pairs, true)?];
    let mut join = IndexedPairs::<true>::new(&inputs)?;
    let shape = shape(join.table_bytes());
    let modes = modes::by_size(&pass.set_sizes());
    pass.lab.contest(FIG13, &mut join, &modes, shape, runner);
    Ok(())
}

/// The paper's helper, and one that does not load again what it has just loaded.
fn skips(lab: &Lab<'_>, join: &mut IndexedPairs<'_, false>, runner: &mut Runner<'_>) {
    let tuples = join.tuples();
    let shared = RefCell::new(join as &mut dyn Subject);
    let mut skipping = lab.entrant_with(SKIPS, &shared, WORK_AHEAD, HelperKind::SkipsDuplicates);
    skipping.keys = skipping.keys.named(&format!("{WORK_AHEAD}-skips_duplicates"));
    skipping.standing = Standing::Aside;
    let entrants = vec![
        lab.entrant(SKIPS, &shared, Mode::PLAIN),
        lab.entrant(SKIPS, &shared, WORK_AHEAD),
        skipping,
    ];
    hold(entrants, tuples, runner);
}

/// Windows of the helper that reads the join index itself. Section A says that its parameters are hard to tune; these span what
/// a work-ahead set of 128 lines and one of 1024 hold.
const WINDOWS: [Window; 3] = [window(8, 32), window(16, 64), window(64, 256)];

const fn window(ahead: usize, pairs: usize) -> Window {
    Window {
        ahead,
        pairs,
        check_every: ahead,
    }
}

/// The paper's set, and a helper that reads the join index itself.
fn direct(lab: &Lab<'_>, join: &mut IndexedPairs<'_, false>, runner: &mut Runner<'_>) {
    let tuples = join.tuples();
    let shared = RefCell::new(join);
    let sample = |mode: Mode| {
        let mut join = shared.borrow_mut();
        let subject: &mut dyn Subject = &mut **join;
        lab.sample(&RefCell::new(subject), mode, HelperKind::Loads)
    };
    let keys = |mode| Keys::of(DIRECT, mode, lab.pair().relation);
    let of_mode = |mode: Mode| Entrant {
        keys: keys(mode),
        standing: modes::standing(mode),
        extra: Vec::new(),
        side: Side::new(&mode.to_string(), move || sample(mode)),
    };
    let mut entrants = vec![of_mode(Mode::PLAIN), of_mode(WORK_AHEAD)];
    let shared = &shared;
    entrants.extend(WINDOWS.map(|window| {
        let name = format!("direct{}", window.pairs);
        Entrant {
            keys: keys(Mode::PLAIN).named(&name),
            standing: Standing::Aside,
            extra: vec![
                ("ahead".to_string(), Value::from(window.ahead)),
                ("window".to_string(), Value::from(window.pairs)),
                ("check_every".to_string(), Value::from(window.check_every)),
            ],
            side: Side::new(&name, move || {
                let mut join = shared.borrow_mut();
                let ran = join.direct(window, &lab.cpus().pinning())?;
                lab.checked(ran.elapsed, join.verdict(&ran.answers, 0..tuples))
            }),
        }
    }));
    hold(entrants, tuples, runner);
}
