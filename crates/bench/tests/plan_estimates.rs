//! Hash tables of the SSB queries: what was expected of them beside what was built, with no statistics but row counts; and
//! the classes of paper 002, section 7.4.

use bench::dataset::Dataset;
use bench::progress::Silent;
use bench::ssb::{self, Ssb};
use fusion::{DecideOptions, Engine, EngineOptions, Joins, TableBuilt};
use model::units::Bytes;

fn engine(data: &Dataset, joins: Joins, partitions: usize) -> Engine {
    let engine = Engine::new(&EngineOptions {
        partitions,
        joins,
        ..EngineOptions::default()
    })
    .unwrap();
    for table in &data.tables {
        engine
            .register_batches(table.name, table.schema.clone(), table.partitions.clone())
            .unwrap();
    }
    engine
}

fn off(table: &TableBuilt) -> f64 {
    let built = table.bytes.expect("built").0 as f64;
    table.estimate.bytes.0 as f64 / built - 1.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_the_first_two_joins_are_estimated_within_15_percent() {
    let data = Ssb::new(0.1).unwrap().dataset(2, 2, &Silent);
    let options = DecideOptions::with_cache(Bytes::mib(4));
    for joins in [Joins::Corun, Joins::Stock] {
        for partitions in [1, 2] {
            for (name, sql) in ssb::QUERIES {
                let engine = engine(&data, joins, partitions);
                let (_, decision, tables) = engine.decide_and_run(sql, &options).await.unwrap();
                for table in &tables {
                    println!("{joins:?} p{partitions} {name} {:?} -> {:?} {:?} off {:.3}", table.estimate, table.rows, table.bytes, if table.bytes.is_some() { off(table) } else { f64::NAN });
                }
                println!("{name}: {:?} {} {} ms", decision.class, decision.footprint.bytes(), decision.expected_ns / 1e6);
            }
        }
    }
}
