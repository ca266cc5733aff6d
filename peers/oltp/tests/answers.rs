//! Every engine answers as the naive one, transaction by transaction, and stays consistent when many clients run at once.

use std::time::Duration;

use clap::ValueEnum;
use corun_workloads::Naive;
use corun_workloads::driver::{
    Measure, RunOptions, TpccWorkload, compare_tpcc, compare_ycsb, run_tpcc, run_ycsb, same_tpcc_rows,
    same_ycsb_records,
};
use corun_workloads::engine::{Durability, TpccEngine, YcsbEngine};
use corun_workloads::tpcc::{self, Kind, KvTpcc, Mix, Scale};
use corun_workloads::ycsb::{self, Database, KvYcsb, Workload};
use oltp_peers::engines::Engine;
use oltp_peers::{sqlite, turso};

const SEED: u64 = 11;
const RECORDS: u64 = 500;
const DURABILITIES: [Durability; 3] = [Durability::None, Durability::Asynchronous, Durability::Durable];

fn loaded_tpcc(
    engine: Engine,
    folder: &tempfile::TempDir,
    durability: Durability,
    scale: Scale,
    mix: Mix,
) -> Box<dyn TpccEngine> {
    let engine = engine.tpcc(folder.path(), durability, mix).unwrap();
    tpcc::load(&*engine, scale, SEED, 2, &|_| ()).unwrap();
    engine
}

fn loaded_ycsb(engine: &dyn YcsbEngine) -> Database {
    let database = Database::new(RECORDS);
    ycsb::load(engine, &database, 2, &|_| ()).unwrap();
    database
}

#[test]
fn tpcc_answers_equal_the_naive_ones() {
    let scale = Scale::hundredth(2);
    for &engine in Engine::value_variants() {
        for mix in Mix::all() {
            let folder = tempfile::tempdir().unwrap();
            let peer = loaded_tpcc(engine, &folder, Durability::None, scale, mix);
            let naive = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
            tpcc::load(&naive, scale, SEED, 1, &|_| ()).unwrap();
            same_tpcc_rows(&*peer, &naive).unwrap();
            let workload = TpccWorkload {
                scale,
                load_seed: SEED,
                mix,
            };
            compare_tpcc(&*peer, &naive, &workload, 5, 2000).unwrap_or_else(|error| panic!("{mix}: {error}"));
            same_tpcc_rows(&*peer, &naive).unwrap_or_else(|error| panic!("{mix}: {error}"));
            assert_eq!(tpcc::check(&*peer, scale), Ok(vec![]), "{} {mix}", peer.name());
        }
    }
}

/// Rolled back and committed orders, deliveries of all districts: in every durability, with as many clients as are usual.
#[test]
fn tpcc_stays_consistent() {
    let scale = Scale::hundredth(2);
    let workload = TpccWorkload {
        scale,
        load_seed: SEED,
        mix: Mix::STANDARD,
    };
    for &engine in Engine::value_variants() {
        for durability in DURABILITIES {
            for (clients, workers) in [(1, 1), (20, 2)] {
                let folder = tempfile::tempdir().unwrap();
                let peer = loaded_tpcc(engine, &folder, durability, scale, Mix::STANDARD);
                let options = RunOptions {
                    clients,
                    workers,
                    measure: Measure::Transactions(2000),
                    warmup: Duration::from_millis(10),
                    ..RunOptions::default()
                };
                let outcome = run_tpcc(&*peer, &workload, &options).unwrap();
                assert_eq!(outcome.committed() + outcome.rolled_back(), 2000);
                assert!(outcome.rolled_back() > 0, "no order was rolled back");
                assert_eq!(
                    outcome.kinds.len(),
                    Kind::ALL.len(),
                    "a type of transaction did not occur"
                );
                assert_eq!(
                    tpcc::check(&*peer, scale),
                    Ok(vec![]),
                    "{} {durability} {clients}",
                    peer.name()
                );
            }
        }
    }
}

#[test]
fn ycsb_answers_equal_the_naive_ones() {
    for &engine in Engine::value_variants() {
        for workload in Workload::ALL {
            let folder = tempfile::tempdir().unwrap();
            let peer = engine.ycsb(folder.path(), Durability::None, workload).unwrap();
            let naive = KvYcsb::new(Naive::new(ycsb::KV_TABLES.len()));
            loaded_ycsb(&*peer);
            let database = loaded_ycsb(&naive);
            compare_ycsb(&*peer, &naive, &database, workload, 7, 1000)
                .unwrap_or_else(|error| panic!("{workload}: {error}"));
            same_ycsb_records(&*peer, &naive).unwrap_or_else(|error| panic!("{workload}: {error}"));
            assert_eq!(
                ycsb::check(&*peer, &database),
                Ok(vec![]),
                "{} {workload}",
                peer.name()
            );
        }
    }
}

#[test]
fn ycsb_loses_no_update() {
    for &engine in Engine::value_variants() {
        for durability in DURABILITIES {
            // Read-modify-writes are counted by the versions they leave; inserts by the records.
            for workload in [Workload::D, Workload::F] {
                let folder = tempfile::tempdir().unwrap();
                let peer = engine.ycsb(folder.path(), durability, workload).unwrap();
                let database = loaded_ycsb(&*peer);
                let options = RunOptions {
                    clients: 8,
                    workers: 2,
                    measure: Measure::Transactions(2000),
                    // A disk may take its time while Turso's clients run again.
                    retries_max: 100_000,
                    ..RunOptions::default()
                };
                let outcome = run_ycsb(&*peer, &database, workload, &options).unwrap();
                assert_eq!(outcome.committed(), 2000);
                let changed = database.modifications() + database.records() - database.loaded();
                assert!(changed > 0, "nothing was written");
                assert_eq!(
                    ycsb::check(&*peer, &database),
                    Ok(vec![]),
                    "{} {durability} {workload}",
                    peer.name()
                );
            }
        }
    }
}

/// All layouts of the SQL engines give the same answers, whichever the mix would choose.
#[test]
fn sql_engines_answer_alike_in_all_layouts() {
    let scale = Scale::hundredth(1);
    let workload = TpccWorkload {
        scale,
        load_seed: SEED,
        mix: Mix::STANDARD,
    };
    let folder = tempfile::tempdir().unwrap();
    let (folder, none) = (folder.path(), Durability::None);
    let others = [
        Box::new(sqlite::tpcc(folder, none, sqlite::Layout::Readers).unwrap()) as Box<dyn TpccEngine>,
        Box::new(turso::tpcc(folder, none, turso::Layout::Shared).unwrap()),
        Box::new(turso::tpcc(folder, none, turso::Layout::Readers).unwrap()),
        Box::new(turso::tpcc(folder, none, turso::Layout::Concurrent).unwrap()),
    ];
    for other in &others {
        let shared = sqlite::tpcc(folder, none, sqlite::Layout::Shared).unwrap();
        tpcc::load(&shared, scale, SEED, 1, &|_| ()).unwrap();
        tpcc::load(&**other, scale, SEED, 1, &|_| ()).unwrap();
        compare_tpcc(&shared, &**other, &workload, 9, 1000)
            .unwrap_or_else(|error| panic!("{}: {error}", other.name()));
        same_tpcc_rows(&shared, &**other).unwrap_or_else(|error| panic!("{}: {error}", other.name()));
    }
}

/// What is broken on purpose is found: the comparison and the checks do see these engines' rows.
#[test]
fn damage_is_found() {
    let scale = Scale::hundredth(1);
    for &engine in Engine::value_variants() {
        let folder = tempfile::tempdir().unwrap();
        let peer = engine
            .tpcc(folder.path(), Durability::None, Mix::STANDARD)
            .unwrap();
        // One part only: the items without their warehouse.
        peer.load(&mut tpcc::Rows::part(scale, SEED, 0)).unwrap();
        assert_ne!(tpcc::check(&*peer, scale), Ok(vec![]), "{}", peer.name());
        let database = Database::new(RECORDS);
        let folder = tempfile::tempdir().unwrap();
        let peer = engine.ycsb(folder.path(), Durability::None, Workload::A).unwrap();
        assert!(
            !ycsb::check(&*peer, &database).unwrap().is_empty(),
            "{}",
            peer.name()
        );
    }
}
