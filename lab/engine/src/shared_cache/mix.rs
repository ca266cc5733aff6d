//! The PLQ mix: clients with moderate hash joins, weak hash joins, index joins and scans, under every policy, streaming off and on;
//! and the work that has nothing to gain, which must not lose.

use corun_model::cache::coschedule::PolicyName;

use super::crowd::{Item, Played, deal};
use super::engines::{Engines, Kind};
use super::keys::{SLOWDOWN, SUITE};
use super::policies::{Setup, coordinator};
use super::scheduled::{Rounds, Side, Stage, rounds};
use super::service::{Coordinated, Plain, Service};
use super::statement::Statement;
use corun_model::cache::locality::Locality;
use lab_core::error::BenchError;
use lab_core::row::Row;
use lab_core::run::Runner;
use lab_core::stats::{Noise, PAIRS_NEAR_ONE, Spread, not_slower, pair_ratios};

/// The case of the mix.
pub const MIX: &str = "mix";

/// The case of work that has nothing to gain.
pub const NOTHING_TO_GAIN: &str = "nothing_to_gain";

/// The statements of the mix and how many of each: half of them moderate.
const WORK: [(Statement, usize); 6] = [
    (Statement::hash(3), 2),
    (Statement::hash(5), 2),
    (Statement::hash(8), 2),
    (Statement::hash(25), 2),
    (Statement::index(8), 2),
    (Statement::Scan, 2),
];
const CLIENTS: usize = 6;
const SEED: u64 = 0x6c6c_6304;

/// The sides with a coordinator: every policy, and with streaming those that differ by it.
const SETUPS: [(PolicyName, Kind); 8] = [
    (PolicyName::Fifo, Kind::Corun),
    (PolicyName::Sls, Kind::Corun),
    (PolicyName::Mls, Kind::Corun),
    (PolicyName::Learned, Kind::Corun),
    (PolicyName::Auto, Kind::Corun),
    (PolicyName::Sls, Kind::Streaming),
    (PolicyName::Mls, Kind::Streaming),
    (PolicyName::Learned, Kind::Streaming),
];

/// Runs the mix.
///
/// # Errors
/// When a coordinator cannot be set up, or a statement fails alone.
pub fn mix(stage: &Stage<'_>, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let statements = WORK.map(|(statement, _)| statement);
    let mut sides = vec![stage.stock_fifo(&statements)?];
    sides.extend(stage.policies(&SETUPS, &statements)?);
    let clients = deal(&WORK.map(|(_, count)| count), CLIENTS, SEED);
    let tracks = rounds(MIX, &sides, &clients, runner.plan().repetitions, true, runner);
    let rate = |played: &Played| Some(played.queries_per_s());
    // Who ratios are against: order of arrival on DataFusion's operators, and on corun's.
    let baselines = [("stock_fifo", 0), ("fifo", 1)];
    for (place, (side, track)) in sides.iter().zip(&tracks).enumerate() {
        let keys = stage.keys(MIX, MIX, "plq_mix", side);
        if let Err(reason) = &side.service {
            for (metric, unit) in [(SLOWDOWN, "x"), ("queries_per_s", "1/s"), ("ratio", "x")] {
                runner.emit_checked(keys.unavailable(metric, unit, reason));
            }
            continue;
        }
        let mut put = |class: &str, metric: &str, unit: &str, values: &[f64], versus: &str| {
            let Some(spread) = Spread::of(values) else { return };
            let mut keys = keys.clone();
            keys.class = class.to_owned();
            let row = Row::measured(SUITE, MIX, metric, unit, spread, track.is_right());
            let row = keys.put(row).with("clients", CLIENTS);
            let row = if versus.is_empty() {
                row
            } else {
                row.versus(versus)
            };
            let row = match noise(versus, &tracks, place, rate) {
                Some(noise) => row.with("noise_low", noise.low).with("noise_high", noise.high),
                None => row,
            };
            runner.emit_checked(row);
        };
        for class in [Locality::Moderate, Locality::Weak] {
            let of_class = |statement: Statement| statement.class(stage.sizes) == class;
            let slowdown = |played: &Played| played.mean_slowdown(&side.items, of_class);
            put(
                &class.to_string(),
                SLOWDOWN,
                "x",
                &track.values(slowdown),
                "alone",
            );
        }
        put("all", "queries_per_s", "1/s", &track.values(rate), "");
        for (name, baseline) in baselines.into_iter().filter(|(_, baseline)| *baseline != place) {
            // Rates, so the baseline is the one that `pair_ratios` divides by.
            let ratios = pair_ratios(&tracks[baseline].values(rate), &track.values(rate));
            put("all", "ratio", "x", &ratios, name);
        }
    }
    Ok(())
}

/// The A/A control of the ratios versus stock in order of arrival, which runs twice.
fn noise(
    versus: &str,
    tracks: &[Rounds],
    place: usize,
    rate: impl Fn(&Played) -> Option<f64> + Copy,
) -> Option<Noise> {
    if versus != "stock_fifo" || place == 0 {
        return None;
    }
    let control = tracks.last()?;
    Noise::of(&pair_ratios(&tracks[0].values(rate), &control.values(rate)))
}

/// Work that no policy can speed up.
struct Idle {
    mix: &'static str,
    statements: &'static [Statement],
    clients: &'static [&'static [usize]],
}

const IDLE: [Idle; 2] = [
    Idle {
        mix: "all_strong",
        statements: &[Statement::hash(1), Statement::hash(2)],
        clients: &[&[0, 1], &[1, 0], &[0, 1], &[1, 0]],
    },
    Idle {
        mix: "one_client",
        statements: &[Statement::hash(5), Statement::hash(1)],
        clients: &[&[0, 1]],
    },
];

/// The coordinator as it is by default against the same engine without it. `wide` has engines that spread a query over all CPUs.
///
/// # Errors
/// When the coordinator or a thread cannot be set up.
pub fn nothing_to_gain(stage: &Stage<'_>, wide: &Engines, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let threads = lab_core::suite::all_cores();
    let pairs = runner.plan().pairs_max.min(PAIRS_NEAR_ONE);
    let engine = wide.get(Kind::Corun).map_err(BenchError::Data)?;
    for idle in &IDLE {
        let items = || -> Vec<Item> {
            let statements = idle.statements.iter();
            statements
                .map(|&statement| Item {
                    statement,
                    query: super::pinned::Query {
                        engine: engine.clone(),
                        sql: statement.sql(),
                        expected: stage.data.expected(statement),
                    },
                })
                .collect()
        };
        let setup = Setup {
            policy: PolicyName::Auto,
            kind: Kind::Corun,
            plan_choice: true,
            widen: true,
        };
        let coordinator = coordinator(setup, wide, stage.topology, stage.sizes.cache, stage.quick)?;
        let side = |policy: &str, service: Box<dyn Service>| Side {
            policy: policy.to_owned(),
            kind: Kind::Corun,
            service: Ok(service),
            items: items(),
        };
        let sides = [
            side("plain", Box::new(Plain::new(engine, threads)?)),
            side(
                "auto",
                Box::new(Coordinated(coordinator.map_err(BenchError::Data)?)),
            ),
        ];
        let clients: Vec<Vec<usize>> = idle.clients.iter().map(|list| list.to_vec()).collect();
        let name = format!("{NOTHING_TO_GAIN} {}", idle.mix);
        let tracks = rounds(&name, &sides, &clients, pairs, false, runner);
        let seconds = |track: &Rounds| track.values(|played| Some(played.elapsed.as_secs_f64()));
        let [plain, auto, control] = [0, 1, 2].map(|place| seconds(&tracks[place]));
        let aa = pair_ratios(&plain, &control);
        let ratios = pair_ratios(&auto, &plain);
        for (place, (side, track)) in sides.iter().zip(&tracks).enumerate() {
            let keys = stage.keys(NOTHING_TO_GAIN, NOTHING_TO_GAIN, idle.mix, side);
            let rates = track.values(|played| Some(played.queries_per_s()));
            let row = |metric: &str, unit: &str, spread: Spread| {
                keys.put(Row::measured(
                    SUITE,
                    NOTHING_TO_GAIN,
                    metric,
                    unit,
                    spread,
                    track.is_right(),
                ))
            };
            if let Some(spread) = Spread::of(&rates) {
                runner.emit_checked(row("queries_per_s", "1/s", spread));
            }
            let values = if place == 0 { &aa } else { &ratios };
            let (Some(spread), Some(noise)) = (Spread::of(values), Noise::of(&aa)) else {
                continue;
            };
            let mut ratio = row("ratio", "x", spread)
                .versus("plain")
                .with("noise_low", noise.low)
                .with("noise_high", noise.high);
            if place == 0 {
                ratio = ratio.with("control", "a/a");
            } else if pairs >= PAIRS_NEAR_ONE {
                ratio = ratio.with("verdict", not_slower(&ratios, &aa).as_str());
            }
            runner.emit_checked(ratio);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_work_is_moderate_and_clients_share_it_evenly() {
        let sizes =
            super::super::sizes::Sizes::of(corun_model::units::Bytes::mib(8), true).expect("possible");
        let moderate = WORK
            .iter()
            .filter(|(statement, _)| statement.class(&sizes) == Locality::Moderate)
            .map(|(_, count)| count)
            .sum::<usize>();
        let all: usize = WORK.iter().map(|(_, count)| count).sum();
        assert_eq!(moderate * 2, all);
        let lists = deal(&WORK.map(|(_, count)| count), CLIENTS, SEED);
        assert!(lists.iter().all(|list| list.len() * CLIENTS == all));
    }

    #[test]
    fn every_policy_runs_and_the_baseline_of_ratios_comes_first() {
        assert_eq!(SETUPS[0], (PolicyName::Fifo, Kind::Corun));
        for name in PolicyName::NAMES {
            assert!(
                SETUPS.iter().any(|(policy, _)| policy.to_string() == name),
                "{name}"
            );
        }
    }

    #[test]
    fn idle_work_is_strong_or_has_one_client() {
        let sizes =
            super::super::sizes::Sizes::of(corun_model::units::Bytes::mib(8), true).expect("possible");
        for idle in &IDLE {
            let strong = idle
                .statements
                .iter()
                .all(|statement| statement.class(&sizes) == Locality::Strong);
            assert!(strong || idle.clients.len() == 1, "{}", idle.mix);
        }
    }
}
