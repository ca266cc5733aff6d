//! The workloads over the naive store: what the other engines are compared with must itself be right.

use std::time::Duration;

use corun_workloads::Naive;
use corun_workloads::driver::{
    Measure, RunOptions, TpccWorkload, compare_tpcc, compare_ycsb, run_tpcc, run_ycsb, same_tpcc_rows,
    same_ycsb_records,
};
use corun_workloads::engine::{TpccEngine, TxError, YcsbEngine};
use corun_workloads::kv::{End, KvEngine};
use corun_workloads::tpcc::{self, Kind, KvTpcc, Mix, Scale, TableName};
use corun_workloads::ycsb::{self, Database, Finding, KvYcsb, Workload};

const LOAD_SEED: u64 = 11;

fn loaded_tpcc(scale: Scale) -> KvTpcc<Naive> {
    let engine = KvTpcc::new(Naive::new(tpcc::KV_TABLES.len()));
    tpcc::load(&engine, scale, LOAD_SEED, 2, &|_| ()).unwrap();
    engine
}

fn loaded_ycsb(records: u64) -> (KvYcsb<Naive>, Database) {
    let (engine, database) = (
        KvYcsb::new(Naive::new(ycsb::KV_TABLES.len())),
        Database::new(records),
    );
    ycsb::load(&engine, &database, 2, &|_| ()).unwrap();
    (engine, database)
}

#[test]
fn tpcc_stays_consistent() {
    let scale = Scale::hundredth(2);
    for clients in [1, 4] {
        let engine = loaded_tpcc(scale);
        let workload = TpccWorkload {
            scale,
            load_seed: LOAD_SEED,
            mix: Mix::STANDARD,
        };
        let options = RunOptions {
            clients,
            workers: 2,
            measure: Measure::Transactions(5000),
            ..RunOptions::default()
        };
        let outcome = run_tpcc(&engine, &workload, &options).unwrap();
        assert_eq!(outcome.committed() + outcome.rolled_back(), 5000);
        assert_eq!(outcome.kinds.len(), 5, "a type of transaction did not occur");
        assert_eq!(outcome.retried(), 0);
        let new_orders = &outcome.kinds[Kind::NewOrder as usize];
        // One in a hundred of about 2,250.
        assert!(
            (1..70).contains(&new_orders.rolled_back),
            "{} rolled back",
            new_orders.rolled_back
        );
        assert_eq!(tpcc::check(&engine, scale), Ok(Vec::new()));

        // What was committed is there: each new order has a row, each payment one too.
        let mut orders = 0;
        engine.visit(TableName::Orders, &mut |_| orders += 1).unwrap();
        assert_eq!(orders, 2 * 10 * 30 + new_orders.committed);
        let mut payments = 0;
        engine.visit(TableName::History, &mut |_| payments += 1).unwrap();
        assert_eq!(
            payments,
            2 * 10 * 30 + outcome.kinds[Kind::Payment as usize].committed
        );
    }
}

/// A client that is alone does the work of the clients it is compared with: it touches the data of all warehouses, not of one.
#[test]
fn one_client_that_is_all_terminals_pays_at_all_warehouses() {
    let scale = Scale::hundredth(4);
    let payments = |terminals| {
        let engine = loaded_tpcc(scale);
        let workload = TpccWorkload {
            scale,
            load_seed: LOAD_SEED,
            mix: Mix::only(Kind::Payment),
        };
        let options = RunOptions {
            terminals,
            measure: Measure::Transactions(400),
            ..RunOptions::default()
        };
        run_tpcc(&engine, &workload, &options).unwrap();
        let mut at = [0; 4];
        engine
            .visit(TableName::History, &mut |row| {
                if let tpcc::Row::History(payment) = row
                    && payment.date > tpcc::LOADED_AT
                {
                    at[payment.warehouse as usize - 1] += 1;
                }
            })
            .unwrap();
        at
    };
    assert_eq!(payments(1), [400, 0, 0, 0]);
    assert_eq!(payments(40), [100; 4]);
}

#[test]
fn a_run_by_time_ends_and_counts_no_warm_up() {
    let scale = Scale::hundredth(1);
    let workload = TpccWorkload {
        scale,
        load_seed: LOAD_SEED,
        mix: Mix::only(Kind::Payment),
    };
    // A busy machine may give the clients no CPU in a short warm-up: then once more, longer.
    for warmup in [30, 300, 3000].map(Duration::from_millis) {
        let engine = loaded_tpcc(scale);
        let options = RunOptions {
            clients: 3,
            warmup,
            measure: Measure::Time(2 * warmup),
            ..RunOptions::default()
        };
        let outcome = run_tpcc(&engine, &workload, &options).unwrap();
        let mut payments = 0;
        engine.visit(TableName::History, &mut |_| payments += 1).unwrap();
        assert!(outcome.wall_s >= 2.0 * warmup.as_secs_f64());
        assert_eq!(tpcc::check(&engine, scale), Ok(Vec::new()));
        let made = payments - 300;
        assert!(outcome.committed() <= made, "{} of {made}", outcome.committed());
        // Three clients end at most one payment each after the measured time, which nobody counts either.
        if outcome.committed() > 0 && made - outcome.committed() > 3 {
            return;
        }
    }
    panic!("no run had payments both in its warm-up and in the measured time");
}

/// Shows all rows but one of `new_order`: a defect the comparison must find.
struct Forgetful<'a>(&'a KvTpcc<Naive>);

impl TpccEngine for Forgetful<'_> {
    fn name(&self) -> String {
        "forgetful".into()
    }

    fn load(&self, part: &mut dyn Iterator<Item = tpcc::Row>) -> Result<(), TxError> {
        self.0.load(part)
    }

    fn client(&self, worker: usize) -> Result<Box<dyn corun_workloads::engine::TpccClient + '_>, TxError> {
        self.0.client(worker)
    }

    fn visit(&self, table: TableName, each: &mut dyn FnMut(&tpcc::Row)) -> Result<(), TxError> {
        let mut left_out = false;
        self.0.visit(table, &mut |row| {
            if table == TableName::NewOrder && !left_out {
                left_out = true;
            } else {
                each(row);
            }
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

#[test]
fn equal_engines_compare_equal_and_others_do_not() {
    let scale = Scale::hundredth(2);
    let workload = TpccWorkload {
        scale,
        load_seed: LOAD_SEED,
        mix: Mix::STANDARD,
    };
    let (a, b) = (loaded_tpcc(scale), loaded_tpcc(scale));
    compare_tpcc(&a, &b, &workload, 3, 1000).unwrap();
    same_tpcc_rows(&a, &b).unwrap();
    assert!(
        same_tpcc_rows(&a, &Forgetful(&b))
            .unwrap_err()
            .to_string()
            .contains("new_order")
    );

    // One that was given other transactions before answers differently.
    let only_orders = TpccWorkload {
        mix: Mix::only(Kind::NewOrder),
        ..workload
    };
    run_tpcc(
        &b,
        &only_orders,
        &RunOptions {
            measure: Measure::Transactions(20),
            ..RunOptions::default()
        },
    )
    .unwrap();
    let difference = compare_tpcc(&a, &b, &workload, 4, 1000).unwrap_err();
    assert!(difference.to_string().starts_with("transaction "), "{difference}");
}

#[test]
fn ycsb_reads_what_was_written() {
    for workload in Workload::ALL {
        for clients in [1, 4] {
            let (engine, database) = loaded_ycsb(2000);
            let options = RunOptions {
                clients,
                workers: 2,
                measure: Measure::Transactions(4000),
                ..RunOptions::default()
            };
            let outcome = run_ycsb(&engine, &database, workload, &options).unwrap();
            assert_eq!((outcome.committed(), outcome.retried()), (4000, 0));
            assert_eq!(
                ycsb::check(&engine, &database),
                Ok(Vec::new()),
                "workload {workload}"
            );
            assert_eq!(database.modifications() > 0, workload == Workload::F);
            assert_eq!(
                database.updates() > 0,
                matches!(workload, Workload::A | Workload::B)
            );
            assert_eq!(
                database.records() > 2000,
                matches!(workload, Workload::D | Workload::E)
            );
        }
    }
}

#[test]
fn ycsb_compares_equal_and_other_records_do_not() {
    for workload in Workload::ALL {
        let (a, database) = loaded_ycsb(500);
        let (b, _) = loaded_ycsb(500);
        compare_ycsb(&a, &b, &database, workload, 3, 500).unwrap();
        same_ycsb_records(&a, &b).unwrap();
        change(&b, ycsb::record::key(7), |record| {
            record.map(|mut record| {
                record[999] ^= 1;
                record
            })
        });
        assert!(same_ycsb_records(&a, &b).is_err());
    }
}

/// Replaces the record of a key, or deletes it.
fn change(engine: &KvYcsb<Naive>, key: u64, change: impl Fn(Option<Vec<u8>>) -> Option<Vec<u8>>) {
    let mut client = engine.store().client(0).unwrap();
    let key = key.to_be_bytes();
    client
        .transaction(true, &mut |tx| {
            let mut record = Vec::new();
            let found = tx.get(0, &key, &mut record)?;
            match change(found.then_some(record)) {
                Some(record) => tx.put(0, &key, &record)?,
                None => tx.delete(0, &key)?,
            }
            Ok(End::Commit)
        })
        .unwrap();
}

#[test]
fn every_finding_of_ycsb_can_be_found() {
    let (engine, database) = loaded_ycsb(100);
    let key = ycsb::record::key(9);
    change(&engine, key, |_| None);
    assert_eq!(
        ycsb::check(&engine, &database),
        Ok(vec![Finding::Missing { number: 9 }])
    );
    let error = run_ycsb(&engine, &database, Workload::C, &RunOptions::default()).unwrap_err();
    assert!(error.to_string().contains("0 records found"), "{error}");

    change(&engine, key, |_| Some(ycsb::record::record(key ^ 1)));
    assert!(matches!(
        ycsb::check(&engine, &database).unwrap()[..],
        [Finding::Content(_)]
    ));
    let error = run_ycsb(
        &engine,
        &database,
        Workload::C,
        &RunOptions {
            measure: Measure::Transactions(100_000),
            ..RunOptions::default()
        },
    );
    assert!(error.unwrap_err().to_string().contains("does not hold"));

    change(&engine, key, |_| Some(ycsb::record::record(key)));
    let unknown = ycsb::record::key(100);
    change(&engine, unknown, |_| Some(ycsb::record::record(unknown)));
    assert_eq!(
        ycsb::check(&engine, &database),
        Ok(vec![Finding::Unknown { key: unknown }])
    );
    change(&engine, unknown, |_| None);

    // A modification that the database does not know of.
    let mut client = engine.client(0).unwrap();
    let modified = client.read_modify_write(key, 2, &mut |_, content| {
        let version = ycsb::record::version(content) + 1;
        ycsb::record::fill_field(key, 2, version, content);
    });
    assert_eq!(modified, Ok(true));
    assert_eq!(
        ycsb::check(&engine, &database),
        Ok(vec![Finding::Modifications {
            found: 1,
            expected: 0
        }])
    );
}
