//! What the experiments with the coordinator share: engines, times alone, and rounds in which each service does the same work.
//!
//! Services take turns, in another order in each round; the first of them runs twice, as the A/A control. Coordinators live through
//! all rounds, so that `learned` may learn; the first round is not counted.

use std::collections::BTreeMap;

use corun_datafusion::Coordinator;
use corun_model::cache::coschedule::PolicyName;
use corun_model::topology::Topology;
use corun_model::units::CpuId;

use super::crowd::{Item, Played, play};
use super::data::Data;
use super::engines::{Engines, Kind};
use super::figures::Lab;
use super::keys::{Keys, SUITE};
use super::pinned::PinnedThreads;
use super::policies::{Setup, coordinator};
use super::service::{Coordinated, Service, Unscheduled};
use super::sizes::Sizes;
use super::statement::Statement;
use lab_core::error::BenchError;
use lab_core::order;
use lab_core::run::Runner;

/// Policy of queries that run in order of arrival without a coordinator, on DataFusion's operators where they exist.
pub const STOCK_FIFO: &str = "stock_fifo";

/// Everything a scheduled experiment needs.
pub struct Stage<'a> {
    /// The tables' sizes.
    pub sizes: &'a Sizes,
    /// Their answers.
    pub data: &'a Data,
    /// Engines of one partition: a query gets one CPU.
    pub engines: &'a Engines,
    /// Where queries are timed side by side.
    pub pinned: &'a PinnedThreads,
    /// The machine.
    pub topology: &'a Topology,
    /// The CPUs that queries run on without a coordinator: those it would take.
    pub cpus: &'a [CpuId],
    /// Whether times mean nothing.
    pub quick: bool,
}

/// One side of an experiment.
pub struct Side {
    /// The `policy` of its rows.
    pub policy: String,
    /// Whose operators.
    pub kind: Kind,
    /// Who answers, or why nobody does.
    pub service: Result<Box<dyn Service>, String>,
    /// The statements; empty where nobody answers.
    pub items: Vec<Item>,
}

/// The rounds of one side.
#[derive(Default)]
pub struct Rounds {
    /// What was played, one a round.
    pub played: Vec<Played>,
    /// The first failure.
    pub failed: Option<String>,
    /// Wrong answers.
    pub wrong: Vec<String>,
}

impl Rounds {
    /// Whether all that was to run did, with right answers.
    pub fn is_right(&self) -> bool {
        self.failed.is_none() && self.wrong.is_empty()
    }

    /// One value a round.
    pub fn values(&self, value: impl Fn(&Played) -> Option<f64>) -> Vec<f64> {
        self.played.iter().filter_map(value).collect()
    }
}

impl<'a> Stage<'a> {
    fn lab(&self) -> Lab<'a> {
        Lab {
            sizes: self.sizes,
            data: self.data,
            engines: self.engines,
            pinned: self.pinned,
        }
    }

    /// The statements on the operators of a kind; inside, why there is no such engine.
    pub fn items(&self, kind: Kind, statements: &[Statement]) -> Result<Vec<Item>, String> {
        let lab = self.lab();
        let item = |&statement: &Statement| {
            let query = lab.query(kind, statement)?;
            Ok(Item { statement, query })
        };
        statements.iter().map(item).collect()
    }

    /// DataFusion's operators in order of arrival, without a coordinator.
    ///
    /// # Errors
    /// When a CPU cannot be had.
    pub fn stock_fifo(&self, statements: &[Statement]) -> Result<Side, BenchError> {
        let items = self.items(Kind::Stock, statements);
        let service: Box<dyn Service> = Box::new(Unscheduled::on(self.cpus)?);
        Ok(Side {
            policy: STOCK_FIFO.to_owned(),
            kind: Kind::Stock,
            service: items.as_ref().map(|_| service).map_err(Clone::clone),
            items: items.unwrap_or_default(),
        })
    }

    /// A coordinator under a policy.
    ///
    /// # Errors
    /// When it cannot be set up.
    pub fn coordinated(&self, setup: Setup, statements: &[Statement]) -> Result<Side, BenchError> {
        let made = coordinator(setup, self.engines, self.topology, self.sizes.cache, self.quick)?;
        let items = match &made {
            Ok(_) => self.items(setup.kind, statements),
            Err(reason) => Err(reason.clone()),
        };
        let boxed = |coordinator: Coordinator| Box::new(Coordinated(coordinator)) as Box<dyn Service>;
        Ok(Side {
            policy: setup.policy.to_string(),
            kind: setup.kind,
            service: items.as_ref().map_err(Clone::clone).and_then(|_| made.map(boxed)),
            items: items.unwrap_or_default(),
        })
    }

    /// The sides of a comparison of policies: the setups that exist here.
    ///
    /// # Errors
    /// As [`Stage::coordinated`].
    pub fn policies(
        &self,
        setups: &[(PolicyName, Kind)],
        statements: &[Statement],
    ) -> Result<Vec<Side>, BenchError> {
        setups
            .iter()
            .map(|&(policy, kind)| self.coordinated(Setup::narrow(policy, kind), statements))
            .collect()
    }

    /// The parameters of a side's rows.
    pub fn keys(&self, case: &'static str, figure: &'static str, mix: &str, side: &Side) -> Keys {
        Keys {
            case,
            figure,
            mix: mix.to_owned(),
            policy: side.policy.clone(),
            class: "all".to_owned(),
            partition: side.kind.partition(),
            corunner: "the_mix".to_owned(),
            engine: side.kind.engine(),
            query: mix.to_owned(),
            cache: self.sizes.cache,
        }
    }
}

/// Plays the same work on every side in every round; the first side runs once more as control, whose rounds come last. With
/// `alone`, each statement also runs alone in every round, on one side of each kind of operators: what slow-downs of that
/// round are relative to, so that the machine's drift is in both.
///
/// # Errors
/// None of a side's: those are in its rounds.
pub fn rounds(
    name: &str,
    sides: &[Side],
    clients: &[Vec<usize>],
    counted: usize,
    alone: bool,
    runner: &mut Runner<'_>,
) -> Vec<Rounds> {
    let (warmups, seed) = (runner.plan().warmups, runner.plan().order_seed);
    let mut tracks: Vec<Rounds> = (0..=sides.len()).map(|_| Rounds::default()).collect();
    // The first side of each kind that answers.
    let mut timekeepers: BTreeMap<Kind, usize> = BTreeMap::new();
    for (place, side) in sides
        .iter()
        .enumerate()
        .filter(|(_, side)| alone && side.service.is_ok())
    {
        timekeepers.entry(side.kind).or_insert(place);
    }
    let timekeepers: Vec<usize> = timekeepers.into_values().collect();
    runner
        .progress()
        .begin(&format!("{SUITE} {name}"), (warmups + counted) as u64);
    for round in 0..warmups + counted {
        let mut played: Vec<Option<Played>> = vec![None; tracks.len()];
        let mut times: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
        let mut turns: Vec<usize> = (0..tracks.len() + timekeepers.len()).collect();
        order::shuffle(&mut turns, seed, name, round);
        for turn in turns {
            let keeps_time = turn.checked_sub(tracks.len()).map(|keeper| timekeepers[keeper]);
            let place = keeps_time.unwrap_or(turn);
            let side = &sides[place % sides.len()];
            let Ok(service) = &side.service else { continue };
            let track = &mut tracks[place];
            if track.failed.is_some() {
                continue;
            }
            let result = match keeps_time {
                Some(_) => alone_times(service.as_ref(), &side.items).map(|seconds| {
                    times.insert(side.kind, seconds);
                }),
                None => play(service.as_ref(), &side.items, clients).map(|done| played[turn] = Some(done)),
            };
            if let Err(error) = result {
                track.failed = Some(error.to_string());
            }
        }
        for (place, (track, played)) in tracks.iter_mut().zip(played).enumerate() {
            let side = &sides[place % sides.len()];
            let Some(mut played) = played else { continue };
            track.wrong.extend(played.wrong(&side.items));
            played.alone = times.get(&side.kind).cloned().unwrap_or_default();
            if round >= warmups {
                track.played.push(played);
            }
        }
        runner.progress().advance(1);
    }
    runner.progress().end();
    for (place, track) in tracks.iter().enumerate() {
        let side = &sides[place % sides.len()];
        let told = track.failed.iter().chain(track.wrong.first());
        for told in told {
            runner.fail(format!(
                "{SUITE} {name}: {} {}: {told}",
                side.policy,
                side.kind.partition()
            ));
        }
    }
    tracks
}

/// Seconds each statement takes with nobody beside it.
fn alone_times(service: &dyn Service, items: &[Item]) -> Result<Vec<f64>, BenchError> {
    let mut seconds = Vec::with_capacity(items.len());
    for item in 0..items.len() {
        let played = play(service, items, &[vec![item]])?;
        seconds.extend(played.served.iter().map(|(_, served)| served.ran.as_secs_f64()));
    }
    Ok(seconds)
}
