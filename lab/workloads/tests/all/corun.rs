//! The workloads on the store: the same answers and rows as the naive store's, and consistency after concurrent runs.

use std::path::Path;

use corun_workloads::Naive;
use corun_workloads::corun::{self, CorunTpcc, CorunYcsb};
use corun_workloads::driver::{
    Measure, RunOptions, Teams, TpccWorkload, beside_tpcc_readers, beside_ycsb_readers, compare_tpcc,
    compare_ycsb, run_tpcc, run_ycsb, same_tpcc_rows, same_ycsb_records,
};
use corun_workloads::engine::{Durability, TpccEngine};
use corun_workloads::tpcc::{self, KvTpcc, Mix, Scale};
use corun_workloads::ycsb::{self, Database, KvYcsb, Workload};

const LOAD_SEED: u64 = 11;
const DURABILITIES: [Durability; 3] = [Durability::None, Durability::Asynchronous, Durability::Durable];

fn open_tpcc(durability: Durability, folder: &Path) -> CorunTpcc {
    CorunTpcc::new(corun::open(durability, folder, 2).unwrap()).unwrap()
}

fn load_tpcc(engine: &dyn TpccEngine, scale: Scale) {
    tpcc::load(engine, scale, LOAD_SEED, 2, &|_| ()).unwrap();
}

fn options(clients: usize, transactions: u64) -> RunOptions {
    RunOptions {
        clients,
        workers: 2,
        measure: Measure::Transactions(transactions),
        ..RunOptions::default()
    }
}

#[test]
fn answers_and_rows_are_the_naive_ones() {
    let scale = Scale::hundredth(2);
    let folder = tempfile::tempdir().unwrap();
    for mix in Mix::all() {
        let naive = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
        let corun = open_tpcc(Durability::None, folder.path());
        load_tpcc(&naive, scale);
        load_tpcc(&corun, scale);
        same_tpcc_rows(&naive, &corun).unwrap();
        let workload = TpccWorkload {
            scale,
            load_seed: LOAD_SEED,
            mix,
        };
        if let Err(difference) = compare_tpcc(&naive, &corun, &workload, 5, 2000) {
            panic!("mix {mix}: {difference}");
        }
        // Once more by a member of a team that is switched away from in the middle of its transactions.
        let compared = beside_tpcc_readers(&corun, &workload, 6, || {
            compare_tpcc(&naive, &corun, &workload, 6, 1000)
        });
        if let Err(difference) = compared.unwrap() {
            panic!("mix {mix}, in a team: {difference}");
        }
        same_tpcc_rows(&naive, &corun).unwrap();
        assert_eq!(tpcc::check(&corun, scale), Ok(Vec::new()), "mix {mix}");
    }
}

#[test]
fn concurrent_terminals_leave_a_consistent_state() {
    let scale = Scale::hundredth(2);
    for durability in DURABILITIES {
        for (clients, teams) in [
            (1, Teams::Off),
            (4, Teams::Off),
            (20, Teams::Off),
            (1, Teams::On),
            (20, Teams::On),
            (20, Teams::Serial),
            (20, Teams::Auto),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let engine = open_tpcc(durability, folder.path());
            load_tpcc(&engine, scale);
            let workload = TpccWorkload {
                scale,
                load_seed: LOAD_SEED,
                mix: Mix::STANDARD,
            };
            let options = |transactions| RunOptions {
                teams,
                ..options(clients, transactions)
            };
            let outcome = run_tpcc(&engine, &workload, &options(4000)).unwrap();
            assert_eq!(outcome.committed() + outcome.rolled_back(), 4000);
            let formed = outcome.teams.map_or(0, |teams| teams.all().entered);
            assert_eq!(formed > 0, matches!(teams, Teams::On | Teams::Auto), "{teams}");
            assert_eq!(outcome.kinds.len(), 5);
            assert_eq!(
                tpcc::check(&engine, scale),
                Ok(Vec::new()),
                "{durability}, {clients} clients, teams {teams}"
            );
            if durability == Durability::None {
                continue;
            }
            // The same after it was closed and opened again, and it goes on from there.
            let before = rows(&engine);
            drop(engine);
            let engine = open_tpcc(durability, folder.path());
            assert_eq!(rows(&engine), before);
            run_tpcc(&engine, &workload, &options(500)).unwrap();
            assert_eq!(tpcc::check(&engine, scale), Ok(Vec::new()));
        }
    }
}

fn rows(engine: &CorunTpcc) -> Vec<tpcc::Row> {
    let mut rows = Vec::new();
    for table in tpcc::TableName::ALL {
        engine.visit(table, &mut |row| rows.push(row.clone())).unwrap();
    }
    rows.sort_unstable();
    rows
}

#[test]
fn each_transaction_alone_runs_concurrently() {
    let scale = Scale::hundredth(1);
    let folder = tempfile::tempdir().unwrap();
    for mix in Mix::all() {
        let engine = open_tpcc(Durability::None, folder.path());
        load_tpcc(&engine, scale);
        let workload = TpccWorkload {
            scale,
            load_seed: LOAD_SEED,
            mix,
        };
        let outcome = run_tpcc(&engine, &workload, &options(10, 2000)).unwrap();
        assert_eq!(outcome.committed() + outcome.rolled_back(), 2000);
        assert_eq!(tpcc::check(&engine, scale), Ok(Vec::new()), "mix {mix}");
    }
}

#[test]
fn ycsb_answers_and_records_are_the_naive_ones() {
    let folder = tempfile::tempdir().unwrap();
    for workload in Workload::ALL {
        let naive = KvYcsb::new(Naive::new(ycsb::KV_TABLES.len()));
        let corun = CorunYcsb::new(corun::open(Durability::None, folder.path(), 1).unwrap()).unwrap();
        let database = Database::new(1000);
        ycsb::load(&naive, &database, 1, &|_| ()).unwrap();
        ycsb::load(&corun, &database, 2, &|_| ()).unwrap();
        if let Err(difference) = compare_ycsb(&naive, &corun, &database, workload, 5, 2000) {
            panic!("workload {workload}: {difference}");
        }
        let compared = beside_ycsb_readers(&corun, &database, 6, || {
            compare_ycsb(&naive, &corun, &database, workload, 6, 1000)
        });
        if let Err(difference) = compared.unwrap() {
            panic!("workload {workload}, in a team: {difference}");
        }
        same_ycsb_records(&naive, &corun).unwrap();
        assert_eq!(ycsb::check(&corun, &database), Ok(Vec::new()));
    }
}

#[test]
fn concurrent_ycsb_clients_lose_nothing() {
    for durability in DURABILITIES {
        for workload in Workload::ALL {
            let folder = tempfile::tempdir().unwrap();
            let open = || CorunYcsb::new(corun::open(durability, folder.path(), 2).unwrap()).unwrap();
            let engine = open();
            let database = Database::new(1000);
            ycsb::load(&engine, &database, 2, &|_| ()).unwrap();
            for (clients, teams) in [(1, Teams::Off), (4, Teams::Off), (8, Teams::On)] {
                let options = RunOptions {
                    teams,
                    ..options(clients, 2000)
                };
                let outcome = run_ycsb(&engine, &database, workload, &options).unwrap();
                assert_eq!(outcome.committed(), 2000);
                assert_eq!(
                    ycsb::check(&engine, &database),
                    Ok(Vec::new()),
                    "{durability}, workload {workload}"
                );
            }
            if durability != Durability::None {
                drop(engine);
                assert_eq!(ycsb::check(&open(), &database), Ok(Vec::new()));
            }
        }
    }
}
