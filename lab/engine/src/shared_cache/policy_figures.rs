//! Figure 6 (hash joins under three policies) and section 7.3 (choosing plans by locality).
//!
//! Both send four instances of one query at once. Two scans go first: they hold the CPUs until all four wait, since a policy has
//! nothing to choose from while the first to arrive finds idle CPUs.

use corun_model::cache::coschedule::PolicyName;

use super::crowd::Played;
use super::engines::Kind;
use super::keys::SUITE;
use super::policies::Setup;
use super::scheduled::{Rounds, Side, Stage, rounds};
use super::statement::{Access, Statement};
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::{Noise, Spread, pair_ratios};

/// The case of Figure 6.
pub const FIGURE_6: &str = "fig6";

/// The case of section 7.3.
pub const PLAN_CHOICE: &str = "s73_plan_choice";

/// The paper's queries of Figure 6.
const KS: [usize; 4] = [2, 6, 11, 24];

/// The query of section 7.3, whose two plans cost about the same.
const PLAN_CHOICE_K: usize = 13;

/// The paper's default, SLS and MLS. MLS needs a partitioned cache; streaming stands in for it.
const POLICIES: [(PolicyName, Kind); 3] = [
    (PolicyName::Fifo, Kind::Corun),
    (PolicyName::Sls, Kind::Corun),
    (PolicyName::Mls, Kind::Streaming),
];

/// Scans first, then two hash joins and two index joins in turn.
const ARRIVAL: [usize; 6] = [2, 2, 0, 1, 0, 1];

fn one_each(arrival: &[usize]) -> Vec<Vec<usize>> {
    arrival.iter().map(|&item| vec![item]).collect()
}

/// Emits a value of every round, or why there is none.
fn put(
    row: &dyn Fn(Result<Spread, &str>) -> Row,
    side: &Side,
    track: &Rounds,
    value: impl Fn(&Played) -> Option<f64>,
    runner: &mut Runner<'_>,
) {
    let values = track.values(value);
    let row = match (&side.service, Spread::of(&values)) {
        (Err(reason), _) => row(Err(reason)),
        (Ok(_), Some(spread)) => row(Ok(spread)),
        (Ok(_), None) => row(Err("it failed")),
    };
    runner.emit_checked(row);
}

/// Runs Figure 6.
///
/// # Errors
/// When a coordinator cannot be set up, or a statement fails alone.
pub fn figure_6(stage: &Stage<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    for k in KS {
        let statements = [Statement::hash(k), Statement::index(k), Statement::Scan];
        let sides = stage.policies(&POLICIES, &statements)?;
        let name = format!("{FIGURE_6} plq{k}");
        let tracks = rounds(
            &name,
            &sides,
            &one_each(&ARRIVAL),
            runner.plan().repetitions,
            true,
            runner,
        );
        for (side, track) in sides.iter().zip(&tracks) {
            let mut keys = stage.keys(FIGURE_6, "6", "2 hash, 2 index", side);
            keys.query = Statement::hash(k).to_string();
            keys.class = stage.sizes.hash_class(k).to_string();
            let row = |spread: Result<Spread, &str>| {
                let row = match spread {
                    Ok(spread) => keys.put(Row::measured(
                        SUITE,
                        FIGURE_6,
                        "slowdown",
                        "x",
                        spread,
                        track.is_right(),
                    )),
                    Err(reason) => keys.unavailable("slowdown", "x", reason),
                };
                row.versus("alone")
                    .with("table_bytes", stage.sizes.table_bytes(k).0)
            };
            let of_hash = |statement: Statement| statement == Statement::hash(k);
            let slowdown = |played: &Played| played.mean_slowdown(&side.items, of_hash);
            put(&row, side, track, slowdown, runner);
        }
    }
    Ok(())
}

/// Runs section 7.3. The stage's engines leave it open whether to use the index.
///
/// # Errors
/// As [`figure_6`].
pub fn plan_choice(stage: &Stage<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let statements = [
        Statement::Plq {
            k: PLAN_CHOICE_K,
            access: Access::Index,
        },
        Statement::Scan,
    ];
    let setup = |policy, kind, plan_choice| Setup {
        plan_choice,
        ..Setup::narrow(policy, kind)
    };
    let setups = [
        setup(PolicyName::Fifo, Kind::Corun, false),
        setup(PolicyName::Auto, Kind::Corun, true),
        setup(PolicyName::Mls, Kind::Streaming, true),
    ];
    let sides = setups
        .iter()
        .map(|&setup| stage.coordinated(setup, &statements))
        .collect::<Result<Vec<_>, _>>()?;
    let clients = one_each(&[1, 1, 0, 0, 0, 0]);
    let tracks = rounds(
        PLAN_CHOICE,
        &sides,
        &clients,
        runner.plan().repetitions,
        false,
        runner,
    );
    let mean_ms = |played: &Played| {
        let mine = played.served.iter().filter(|(item, _)| *item == 0);
        let seconds: Vec<f64> = mine.map(|(_, served)| served.ran.as_secs_f64()).collect();
        (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64 * 1e3)
    };
    let default = tracks[0].values(mean_ms);
    let noise = Noise::of(&pair_ratios(&default, &tracks[sides.len()].values(mean_ms)));
    for ((setup, side), track) in setups.iter().zip(&sides).zip(&tracks) {
        let mut keys = stage.keys(PLAN_CHOICE, "7.3", "4 instances", side);
        keys.query = format!("plq{PLAN_CHOICE_K}");
        keys.class = stage.sizes.hash_class(PLAN_CHOICE_K).to_string();
        let made = |metric: &'static str, unit: &'static str| {
            let keys = &keys;
            move |spread: Result<Spread, &str>| {
                let row = match spread {
                    Ok(spread) => keys.put(Row::measured(
                        SUITE,
                        PLAN_CHOICE,
                        metric,
                        unit,
                        spread,
                        track.is_right(),
                    )),
                    Err(reason) => keys.unavailable(metric, unit, reason),
                };
                row.with("plan_choice", setup.plan_choice)
            }
        };
        put(&made("ms", "ms"), side, track, mean_ms, runner);
        let total = |played: &Played| Some(played.elapsed.as_secs_f64() * 1e3);
        put(&made("total_ms", "ms"), side, track, total, runner);
        let ratios = pair_ratios(&track.values(mean_ms), &default);
        let Some(spread) = Spread::of(&ratios) else {
            continue;
        };
        let mut row = made("ratio", "x")(Ok(spread)).versus("cheapest_plans");
        if let Some(noise) = noise {
            row = row.with("noise_low", noise.low).with("noise_high", noise.high);
        }
        runner.emit_checked(row);
    }
    Ok(())
}
