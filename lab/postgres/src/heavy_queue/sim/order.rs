//! Figure 6 and a larger mix, simulated: [`corun_model::cache::coschedule`] decides who runs beside whom, the pairs' simulated slow-downs say what
//! becomes of it.
//!
//! ```text
//!   lab, pair by pair ──▶ matrix, undivided ────▶ fifo, sls, learned ─┐
//!                    └──▶ matrix, by ways ──────▶ mls ────────────────┴▶ time of the mix, slow-down of the hash joins
//! ```
//!
//! With a partitioner every query fills the ways of its class, as the plan of [`corun_model::cache::partition`] has them. Not here: the virtual time
//! ([`super::super::order`]).

use std::collections::HashMap;

use corun_model::cache::coschedule::PolicyName;
use corun_model::cache::locality::{Footprint, Locality};
use corun_model::cache::partition::DefaultShare;

use super::super::keys::{Keys, MIX_SECONDS, SLOWDOWN};
use super::super::order::{Matrix, Played, drawn, played_by};
use super::super::sizes::Sizes;
use super::ORDER;
use super::figures::put;
use super::lab::{Lab, Traced};
use super::platform::Shares;
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::Runner;
use lab_core::stats::Spread;

/// Hash bytes over `C` of Figure 6's queries.
const FIG6_OVER_CACHE: [f64; 4] = [0.2, 0.57, 1.03, 2.2];
/// The mix: how many of each of its queries; half are moderate hash joins.
const MIX: [usize; 5] = [6, 6, 3, 6, 3];
/// Orders of arrival of the mix.
const ARRIVALS: u64 = 25;
/// Order of arrival of Figure 6: hash, index, hash, index.
const FIG6_ORDER: [usize; 4] = [0, 1, 0, 1];

/// A policy, and how the cache is divided under it.
struct Side {
    policy: PolicyName,
    name: &'static str,
    shares: Option<DefaultShare>,
    partition: &'static str,
}

const fn side(
    policy: PolicyName,
    name: &'static str,
    shares: Option<DefaultShare>,
    partition: &'static str,
) -> Side {
    Side {
        policy,
        name,
        shares,
        partition,
    }
}

const SIDES: [Side; 5] = [
    side(PolicyName::Fifo, "fifo", None, "none"),
    side(PolicyName::Sls, "sls", None, "none"),
    side(PolicyName::Learned, "learned", None, "none"),
    side(PolicyName::Mls, "mls", Some(DefaultShare::Rest), "ways_apart"),
    // As in the paper: the ways of weak queries are not kept from the others.
    side(PolicyName::Mls, "mls", Some(DefaultShare::All), "ways"),
];

/// Simulated pairs, each once.
struct Pairs<'l> {
    lab: &'l Lab,
    alone: HashMap<String, f64>,
    slowdown: HashMap<(String, String, &'static str), [f64; 2]>,
}

impl Pairs<'_> {
    fn alone(&mut self, query: &Traced) -> Result<f64, BenchError> {
        if let Some(&seconds) = self.alone.get(&query.name) {
            return Ok(seconds);
        }
        let seconds = self.lab.alone(query, None)?.seconds;
        self.alone.insert(query.name.clone(), seconds);
        Ok(seconds)
    }

    /// What two queries do to each other.
    fn beside(
        &mut self,
        [first, second]: [&Traced; 2],
        partition: &'static str,
        shares: Option<Shares>,
    ) -> Result<[f64; 2], BenchError> {
        let key = |a: &Traced, b: &Traced| (a.name.clone(), b.name.clone(), partition);
        if let Some(&known) = self.slowdown.get(&key(first, second)) {
            return Ok(known);
        }
        let ways = [first, second].map(|query| {
            shares.map(|shares| match query.class {
                Locality::Weak => shares.weak,
                _ => shares.other,
            })
        });
        let ran = self.lab.beside([first, second], ways)?;
        let slow = [
            ran[0].seconds / self.alone(first)?,
            ran[1].seconds / self.alone(second)?,
        ];
        self.slowdown.insert(key(first, second), slow);
        self.slowdown.insert(key(second, first), [slow[1], slow[0]]);
        Ok(slow)
    }

    fn matrix(
        &mut self,
        kinds: &[&Traced],
        partition: &'static str,
        shares: Option<Shares>,
    ) -> Result<Matrix, BenchError> {
        let mut matrix = Matrix {
            alone: Vec::new(),
            slowdown: Vec::new(),
        };
        for kind in kinds {
            matrix.alone.push(self.alone(kind)?);
            let mut row = Vec::new();
            for other in kinds {
                row.push(self.beside([kind, other], partition, shares)?[0]);
            }
            matrix.slowdown.push(row);
        }
        Ok(matrix)
    }
}

/// The rows of Figure 6 and of the mix.
pub fn run(lab: &Lab, traced: &[Traced], sizes: &Sizes, runner: &mut Runner<'_>) -> Result<(), BenchError> {
    let mut pairs = Pairs {
        lab,
        alone: HashMap::new(),
        slowdown: HashMap::new(),
    };
    let named = |name: String| traced.iter().find(|query| query.name == name);
    let hash = |over: f64| named(format!("hash_plq{}", sizes.k_of(over)));
    let index = |over: f64| named(format!("index_plq{}", sizes.k_of(over)));
    runner.progress().begin(
        "heavy-queue: simulating policies",
        1 + FIG6_OVER_CACHE.len() as u64,
    );
    for over in FIG6_OVER_CACHE {
        if let (Some(hash), Some(index)) = (hash(over), index(over)) {
            let what = What {
                figure: "fig6",
                name: format!("plq{}", sizes.k_of(over)),
                hashes: hash.name.clone(),
                class: hash.class.to_string(),
            };
            let orders = [FIG6_ORDER.to_vec()];
            policies(&mut pairs, &[hash, index], &orders, &what, runner)?;
        }
        runner.progress().advance(1);
    }
    let kinds = [
        hash(0.57),
        hash(1.03),
        hash(4.0),
        index(1.03),
        named("scan".to_owned()),
    ];
    let kinds: Vec<&Traced> = kinds.into_iter().flatten().collect();
    if kinds.len() == MIX.len() {
        let mix: Vec<usize> = MIX
            .iter()
            .enumerate()
            .flat_map(|(kind, &count)| std::iter::repeat_n(kind, count))
            .collect();
        let orders: Vec<Vec<usize>> = (0..ARRIVALS).map(|number| drawn(&mix, number)).collect();
        let what = What {
            figure: "mix",
            name: "all".to_owned(),
            hashes: "hash_joins".to_owned(),
            class: Locality::Moderate.to_string(),
        };
        policies(&mut pairs, &kinds, &orders, &what, runner)?;
    }
    runner.progress().end();
    Ok(())
}

/// What rows say of a mix.
struct What {
    figure: &'static str,
    name: String,
    /// The name of the hash joins whose slow-down is told.
    hashes: String,
    class: String,
}

fn policies(
    pairs: &mut Pairs<'_>,
    kinds: &[&Traced],
    orders: &[Vec<usize>],
    what: &What,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let footprints: Vec<Footprint> = kinds.iter().map(|kind| kind.footprint).collect();
    let platform = &pairs.lab.platform;
    let mut fifo: Vec<f64> = Vec::new();
    for side in &SIDES {
        let shares = match side.shares {
            Some(default) => Some(platform.shares(default)?),
            None => None,
        };
        let matrix = pairs.matrix(kinds, side.partition, shares)?;
        let play = |order: &Vec<usize>| {
            let divided = side.shares.is_some();
            let cache = platform.cache();
            played_by(&matrix, order, &footprints, cache, side.policy, divided)
        };
        let played: Option<Vec<Played>> = orders.iter().map(play).collect();
        let Some(played) = played else {
            continue;
        };
        let seconds: Vec<f64> = played.iter().map(|played| played.seconds).collect();
        let is_hash =
            |kind: usize| kinds[kind].footprint != Footprint::Streams && kinds[kind].class != Locality::Weak;
        let means: Vec<f64> = played.iter().filter_map(|played| played.mean(is_hash)).collect();
        if side.name == "fifo" {
            fifo.clone_from(&seconds);
        }
        let ratios: Vec<f64> = fifo.iter().zip(&seconds).map(|(fifo, own)| fifo / own).collect();
        let keys = Keys {
            query: what.name.clone(),
            policy: side.name.to_owned(),
            partition: side.partition,
            ..Keys::new(ORDER, what.figure, platform.cache())
        };
        let hashes = Keys {
            query: what.hashes.clone(),
            class: what.class.clone(),
            ..keys.clone()
        };
        let more = [("queries", Value::from(orders.first().map_or(0, Vec::len)))];
        let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
        for (keys, metric, unit, value) in [
            (&keys, MIX_SECONDS, "s", median(&seconds)),
            (&keys, "ratio", "x", median(&ratios)),
            (&hashes, SLOWDOWN, "x", median(&means)),
        ] {
            if let Some(value) = value {
                put(keys, (metric, unit, value), &more, None, runner);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::lab::example::query;
    use super::super::platform::Platform;
    use super::*;

    /// Tables that fit two at a time, beside a query that floods: the order that the paper has.
    #[test]
    fn tables_lose_most_by_arrival_and_least_with_ways() {
        let lab = Lab {
            platform: Platform::paper(16).expect("a platform"),
        };
        let table = query("table", Locality::Moderate, &lab.platform, 1600, 30_000);
        let flood = query("flood", Locality::Weak, &lab.platform, 1 << 18, 30_000);
        let mut pairs = Pairs {
            lab: &lab,
            alone: HashMap::new(),
            slowdown: HashMap::new(),
        };
        let kinds = [&table, &flood];
        let footprints = kinds.map(|kind| kind.footprint);
        let mut mean = |policy, partition, shares: Option<DefaultShare>| {
            let shares = shares.map(|share| lab.platform.shares(share).expect("a plan"));
            let matrix = pairs.matrix(&kinds, partition, shares).expect("simulated");
            let cache = lab.platform.cache();
            let played = played_by(&matrix, &FIG6_ORDER, &footprints, cache, policy, shares.is_some());
            played
                .and_then(|played| played.mean(|kind| kind == 0))
                .expect("two tables")
        };
        let fifo = mean(PolicyName::Fifo, "none", None);
        let sls = mean(PolicyName::Sls, "none", None);
        let mls = mean(PolicyName::Mls, "ways", Some(DefaultShare::All));
        assert!(
            mls <= sls + 1e-9 && sls < fifo && mls < fifo,
            "{fifo} {sls} {mls}"
        );
        assert!(fifo > 1.02, "{fifo}");
        // Each pair once, both ways round.
        assert_eq!(pairs.slowdown.len(), 2 * 4);
    }
}
