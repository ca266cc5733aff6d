//! Our store as a side: in this process, through the engines of `corun-workloads`.

use std::path::Path;
use std::time::Instant;

use corun_workloads::corun::{CorunTpcc, CorunYcsb, open};
use corun_workloads::driver::{
    Measure, Outcome, RunOptions, Teams, TpccWorkload, beside_tpcc_readers, beside_ycsb_readers,
    compare_tpcc, compare_ycsb, run_tpcc, run_ycsb, same_tpcc_rows, same_ycsb_records,
};
use corun_workloads::engine::{Durability, TpccEngine, TxError, YcsbEngine};
use corun_workloads::tpcc::{self, KvTpcc, Scale};
use corun_workloads::ycsb::{self, Database, KvYcsb, Workload};
use corun_workloads::{Naive, driver};

use super::case::{SEED, Setup, Sizes, Work};
use super::measured::{Loaded, Measured};
use lab_core::error::BenchError;

/// The store with its data.
pub struct Ours {
    setup: Setup,
    data: Data,
}

enum Data {
    Tpcc(Box<CorunTpcc>, TpccWorkload),
    Ycsb(CorunYcsb, Database, Workload),
}

impl Ours {
    /// Opens a store in `folder` and loads it, with one thread, as the peers do.
    ///
    /// # Errors
    /// The store's.
    pub fn load(setup: &Setup, folder: &Path) -> Result<(Ours, Loaded), BenchError> {
        let store = open(setup.durability, folder, setup.workers()).map_err(BenchError::store)?;
        let before = corun_machine::memory::live_bytes();
        let start = Instant::now();
        let data = match setup.case.work {
            Work::Tpcc(mix) => {
                let engine = CorunTpcc::new(store).map_err(BenchError::store)?;
                let scale = setup.sizes.scale;
                tpcc::load(&engine, scale, SEED, 1, &|_| ()).map_err(BenchError::store)?;
                let workload = TpccWorkload {
                    scale,
                    load_seed: SEED,
                    mix,
                };
                Data::Tpcc(Box::new(engine), workload)
            }
            Work::Ycsb(workload) => {
                let engine = CorunYcsb::new(store).map_err(BenchError::store)?;
                let database = match setup.even {
                    true => Database::evenly(setup.sizes.records),
                    false => Database::new(setup.sizes.records),
                };
                ycsb::load(&engine, &database, 1, &|_| ()).map_err(BenchError::store)?;
                Data::Ycsb(engine, database, workload)
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        // Without the counting allocator both are zero, and zero is not a measurement.
        let live = corun_machine::memory::live_bytes();
        let loaded = Loaded {
            seconds,
            engine_bytes: match &data {
                Data::Tpcc(engine, _) => engine.memory_bytes(),
                Data::Ycsb(engine, ..) => engine.memory_bytes(),
            },
            process_bytes: (live > 0).then(|| live.saturating_sub(before)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: configuration(setup.durability).to_owned(),
        };
        let ours = Ours {
            setup: setup.clone(),
            data,
        };
        Ok((ours, loaded))
    }

    /// Round number `round`, from 1; its inputs follow from the number, as the peers' do.
    ///
    /// # Errors
    /// The first failure of a client.
    pub fn round(&self, round: usize) -> Result<Measured, BenchError> {
        let outcome = self.outcome(round, self.setup.clients, Teams::Off)?;
        Ok(Measured::of(&outcome, self.setup.case.work.main_transaction()))
    }

    /// As [`Ours::round`], by so many clients that share the CPUs in this way.
    ///
    /// # Errors
    /// The first failure of a client.
    pub fn outcome(&self, round: usize, clients: usize, teams: Teams) -> Result<Outcome, BenchError> {
        self.run(&options(&self.setup, round, clients, teams))
            .map_err(BenchError::store)
    }

    fn run(&self, options: &RunOptions) -> Result<Outcome, driver::RunError> {
        match &self.data {
            Data::Tpcc(engine, workload) => run_tpcc(&**engine, workload, options),
            Data::Ycsb(engine, database, workload) => run_ycsb(engine, database, *workload, options),
        }
    }

    /// What of all that must hold does not, one sentence each.
    ///
    /// # Errors
    /// The store's.
    pub fn check(&self) -> Result<Vec<String>, BenchError> {
        Ok(match &self.data {
            Data::Tpcc(engine, workload) => {
                texts(tpcc::check(&**engine, workload.scale).map_err(BenchError::store)?)
            }
            Data::Ycsb(engine, database, _) => {
                texts(ycsb::check(engine, database).map_err(BenchError::store)?)
            }
        })
    }
}

/// How a round is run. The terminals are those of the setup however many clients there are, so that one client that is alone touches the
/// warehouses that all clients touch.
fn options(setup: &Setup, round: usize, clients: usize, teams: Teams) -> RunOptions {
    let sizes = &setup.sizes;
    RunOptions {
        clients,
        terminals: setup.clients,
        teams,
        workers: setup.workers(),
        cpus: setup.cpus.clone(),
        warmup: sizes.warmup,
        measure: sizes
            .transactions
            .map_or(Measure::Time(sizes.measured), Measure::Transactions),
        seed: SEED + round as u64,
        ..RunOptions::default()
    }
}

fn texts(found: Vec<impl ToString>) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

fn configuration(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "corun in memory",
        Durability::Asynchronous => "corun, log synced every 10 ms",
        Durability::Durable => "corun, log on disk at commit, commits in groups",
    }
}

/// Gives our store and the oracle the same small database and the same transactions, one after the other. `None` if all answers and all
/// rows afterwards are the same, or else the first difference.
///
/// `in_team`: the store is asked by a member of a team whose other members read the same data all the while, so that it is switched away
/// from wherever it can be.
///
/// # Errors
/// When the store cannot be opened or loaded, or there can be no team.
pub fn compare(setup: &Setup, folder: &Path, in_team: bool) -> Result<Option<String>, BenchError> {
    let store = || open(setup.durability, folder, setup.workers()).map_err(BenchError::store);
    let count = setup.sizes.compared;
    let compared = match setup.case.work {
        Work::Tpcc(mix) => {
            let scale = Scale::hundredth(1);
            let ours = CorunTpcc::new(store()?).map_err(BenchError::store)?;
            let naive = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
            both(&ours as &dyn TpccEngine, &naive, |engine| {
                tpcc::load(engine, scale, SEED, 1, &|_| ())
            })?;
            let workload = TpccWorkload {
                scale,
                load_seed: SEED,
                mix,
            };
            let compared = || compare_tpcc(&ours, &naive, &workload, SEED, count);
            let compared = match in_team {
                true => beside_tpcc_readers(&ours, &workload, SEED, compared).map_err(BenchError::store)?,
                false => compared(),
            };
            compared.and_then(|()| same_tpcc_rows(&ours, &naive))
        }
        Work::Ycsb(workload) => {
            let database = Database::new(Sizes::quick().records);
            let ours = CorunYcsb::new(store()?).map_err(BenchError::store)?;
            let naive = KvYcsb::new(Naive::new(ycsb::KV_TABLES.len()));
            both(&ours as &dyn YcsbEngine, &naive, |engine| {
                ycsb::load(engine, &database, 1, &|_| ())
            })?;
            let compared = || compare_ycsb(&ours, &naive, &database, workload, SEED, count);
            let compared = match in_team {
                true => beside_ycsb_readers(&ours, &database, SEED, compared).map_err(BenchError::store)?,
                false => compared(),
            };
            compared.and_then(|()| same_ycsb_records(&ours, &naive))
        }
    };
    Ok(compared.err().map(|difference| difference.to_string()))
}

fn both<'e, E: ?Sized>(
    a: &'e E,
    b: &'e E,
    load: impl Fn(&'e E) -> Result<(), TxError>,
) -> Result<(), BenchError> {
    load(a).and_then(|()| load(b)).map_err(BenchError::store)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::units::CpuId;

    #[test]
    fn one_client_alone_is_all_terminals() {
        for setup in super::super::teams::setups(false, None, None, &[CpuId(0)]) {
            let alone = options(&setup, 1, 1, Teams::Off);
            let all = options(&setup, 1, setup.clients, Teams::On);
            assert_eq!((alone.clients, all.clients), (1, setup.clients));
            assert_eq!((alone.terminals, alone.seed), (all.terminals, all.seed));
            if matches!(setup.case.work, Work::Tpcc(_)) {
                let warehouses = usize::from(setup.sizes.scale.warehouses.unsigned_abs());
                assert!(alone.terminals >= warehouses, "{}", setup.name());
            }
        }
    }
}
