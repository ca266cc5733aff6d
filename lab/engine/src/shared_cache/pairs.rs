//! Section 7.4: SSB queries by index joins and SSB queries by hash joins beside each other.
//!
//! The paper's database has 8 GB; what matters is its tables against the cache: the first two hash tables of Q3.1 took 0.6 C. So
//! customers are as many as make Q3.1's that large in this cache, suppliers and parts follow the benchmark's formulas, and orders
//! are few enough to measure. Plans are forced: the index group runs on tables with indexes that must be used, the hash group on
//! tables without.

use corun_datafusion::{Engine, EngineOptions, Joins};
use corun_model::cache::locality::Footprint;
use corun_model::units::Bytes;

use super::beside::{measure, unavailable};
use super::engines::{Engines, Indexes, Kind, Settings, built_tables};
use super::keys::{ALONE, Keys, PINNED};
use super::pinned::{PinnedThreads, Query};
use super::sizes::Sizes;
use crate::query::{run_query, runtime};
use corun_workloads::answers::{Answer, fingerprint, fingerprint_of_rows};
use corun_workloads::dataset::Dataset;
use corun_workloads::oracle::{Database, ssb_answer};
use corun_workloads::ssb::{self, QUERIES, Ssb};
use lab_core::error::BenchError;
use lab_core::row::Value;
use lab_core::run::Runner;

/// The case.
pub const CASE: &str = "s74_ssb_pairs";

/// The paper's first group, for which its optimizer preferred index joins.
const INDEX_GROUP: [&str; 4] = ["q1.1", "q2.1", "q3.2", "q4.3"];

/// Its second group, by hash joins.
const HASH_GROUP: [&str; 3] = ["q3.1", "q4.1", "q4.2"];

/// Share of `C` that Q3.1's first hash table is to take.
const CUSTOMERS_OVER_CACHE: f64 = 0.55;

/// Bytes a customer takes there: 14 in the table, 13 of its nation's name. Of five customers one is in the region asked for.
const BYTES_PER_CUSTOMER: f64 = 27.0;
const REGIONS: f64 = 5.0;

/// Orders of a timed run: a hash join query then takes about 200 ms of one thread.
const ORDERS: usize = 4_000_000;
/// Orders of a quick one.
const ORDERS_QUICK: usize = 5_000;

/// Indexes on every foreign key.
const INDEXES: [Indexes; 1] = [Indexes {
    table: "lineorder",
    name: "lineorder",
    columns: &["lo_orderdate", "lo_partkey", "lo_custkey", "lo_suppkey"],
}];

/// Rows for a cache.
fn rows(cache: Bytes, quick: bool) -> ssb::Sizes {
    let customer = cache.0 as f64 * CUSTOMERS_OVER_CACHE / BYTES_PER_CUSTOMER * REGIONS;
    let scale = customer / 30_000.0;
    let part = match scale {
        scale if scale < 1.0 => 200_000.0 * scale,
        scale => 200_000.0 * (1.0 + scale.log2()).floor(),
    };
    ssb::Sizes {
        lineorder: if quick { ORDERS_QUICK } else { ORDERS },
        customer: customer as usize,
        supplier: (customer / 15.0) as usize,
        part: if quick { customer as usize } else { part as usize },
    }
}

fn sql(name: &str) -> Result<String, BenchError> {
    let found = QUERIES.iter().find(|(query, _)| *query == name);
    found
        .map(|(_, sql)| (*sql).to_owned())
        .ok_or_else(|| BenchError::Data(format!("SSB has no query {name}")))
}

/// The engines of one kind: without indexes, and with.
struct Sides {
    hash: Engines,
    index: Engines,
}

/// A query of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    name: &'static str,
    by_index: bool,
}

impl Member {
    fn full_name(self) -> String {
        format!("{}_{}", if self.by_index { "index" } else { "hash" }, self.name)
    }
}

/// Who is measured beside whom: each hash query beside each index query and beside itself, each index query beside each hash query.
fn duels() -> Vec<(Member, Vec<Member>)> {
    let hash = HASH_GROUP.map(|name| Member {
        name,
        by_index: false,
    });
    let index = INDEX_GROUP.map(|name| Member { name, by_index: true });
    let hashes = hash.iter().map(|&target| {
        let beside = index.iter().copied().chain([target]).collect();
        (target, beside)
    });
    let indexes = index.iter().map(|&target| (target, hash.to_vec()));
    hashes.chain(indexes).collect()
}

/// Runs the case.
///
/// # Errors
/// Tables an engine refuses, or a query that ended its thread.
pub fn run(
    sizes: &Sizes,
    settings: &Settings,
    pinned: &PinnedThreads,
    quick: bool,
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let data =
        Ssb::with_sizes(rows(sizes.cache, quick)).dataset(1, lab_core::suite::all_cores(), runner.progress());
    let answers = answers(&data, quick)?;
    let kinds = [Kind::Corun, Kind::Streaming];
    let sides = Sides {
        hash: Engines::make(&kinds, &data, &[], settings, runner)?,
        index: Engines::make(&kinds, &data, &INDEXES, settings, runner)?,
    };
    for kind in kinds {
        for (target, corunners) in duels() {
            duel(&sides, &answers, sizes, pinned, kind, target, &corunners, runner)?;
        }
    }
    Ok(())
}

/// What the queries must answer: by nested loops on quick data. Those would take hours on the data of a timed run, which is held
/// against DataFusion as it comes instead.
fn answers(data: &Dataset, quick: bool) -> Result<Vec<(&'static str, Answer)>, BenchError> {
    let names = INDEX_GROUP.into_iter().chain(HASH_GROUP);
    if quick {
        let database = Database::read(data);
        let by_hand = |name| ssb_answer(&database, name).map(|rows| (name, fingerprint_of_rows(&rows)));
        return names
            .map(|name| {
                by_hand(name).ok_or_else(|| BenchError::Data(format!("the oracle has no query {name}")))
            })
            .collect();
    }
    let engine = Engine::new(&EngineOptions {
        joins: Joins::Stock,
        ..EngineOptions::default()
    })?;
    crate::tables::register(&data.repartitioned(lab_core::suite::all_cores()), &engine)?;
    let runtime = runtime(lab_core::suite::all_cores())?;
    names
        .map(|name| {
            let output = run_query(&runtime, &engine, &sql(name)?)?;
            Ok((name, fingerprint(&output.schema, &output.batches)))
        })
        .collect()
}

impl Sides {
    fn query(&self, kind: Kind, member: Member, answers: &[(&str, Answer)]) -> Result<Query, String> {
        let engines = if member.by_index { &self.index } else { &self.hash };
        let expected = answers
            .iter()
            .find(|(name, _)| *name == member.name)
            .map(|(_, answer)| *answer);
        Ok(Query {
            engine: engines.get(kind)?.clone(),
            sql: sql(member.name).map_err(|error| error.to_string())?,
            expected: expected.ok_or("the oracle has no answer")?,
        })
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "each is one independent input; a struct would have one user"
)]
fn duel(
    sides: &Sides,
    answers: &[(&str, Answer)],
    sizes: &Sizes,
    pinned: &PinnedThreads,
    kind: Kind,
    target: Member,
    corunners: &[Member],
    runner: &mut Runner<'_>,
) -> Result<(), BenchError> {
    let keys = |class: &str, corunner: Option<Member>| Keys {
        case: CASE,
        figure: "7.4",
        mix: match corunner {
            Some(corunner) if corunner.by_index != target.by_index => "hash/index".to_owned(),
            Some(_) => "hash/hash".to_owned(),
            None => target.full_name(),
        },
        policy: PINNED.to_owned(),
        class: class.to_owned(),
        partition: kind.partition(),
        corunner: corunner.map_or_else(|| ALONE.to_owned(), Member::full_name),
        engine: kind.engine(),
        query: target.full_name(),
        cache: sizes.cache,
    };
    let shown = |class: &str| -> Vec<(Keys, Option<usize>)> {
        let besides = (0..)
            .zip(corunners)
            .map(|(place, &corunner)| (keys(class, Some(corunner)), Some(place)));
        std::iter::once((keys(class, None), None))
            .chain(besides)
            .collect()
    };
    let query = |member: &Member| Ok((member.full_name(), sides.query(kind, *member, answers)?));
    let queries: Result<Vec<_>, String> = corunners.iter().map(query).collect();
    let both = sides
        .query(kind, target, answers)
        .and_then(|query| Ok((query, queries?)));
    let (query, queries) = match both {
        Ok(both) => both,
        Err(reason) => {
            unavailable(&shown("unknown"), &reason, runner);
            return Ok(());
        }
    };
    let mut extra = Vec::new();
    let mut class = sizes.class(Footprint::Streams);
    if !target.by_index {
        let one = runtime(1)?;
        let plan = one.block_on(query.engine.explain(&query.sql, true))?;
        // The lowest joins of a left-deep tree are printed last; the paper counts the first two (section 4.3).
        let first_two: u64 = built_tables(&plan).iter().rev().take(2).sum();
        class = sizes.class(Footprint::Tables(Bytes(first_two)));
        extra.push(("built_bytes".to_owned(), Value::from(first_two)));
    }
    let (name, shown) = (target.full_name(), shown(&class.to_string()));
    measure(pinned, (&name, &query), &queries, &shown, &extra, runner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_pairs_are_all_there() {
        let duels = duels();
        assert_eq!(duels.len(), HASH_GROUP.len() + INDEX_GROUP.len());
        let pairs: usize = duels.iter().map(|(_, corunners)| corunners.len()).sum();
        assert_eq!(pairs, 3 * 5 + 4 * 3);
        for name in INDEX_GROUP.iter().chain(&HASH_GROUP) {
            assert!(sql(name).is_ok(), "{name}");
        }
        assert!(sql("q9.9").is_err());
    }

    #[test]
    fn customers_follow_the_cache() {
        let customers = |mib| rows(Bytes::mib(mib), false).customer;
        assert!((1.9..2.1).contains(&(customers(16) as f64 / customers(8) as f64)));
        let paper = customers(4) as f64 / REGIONS * BYTES_PER_CUSTOMER / f64::from(4 << 20);
        assert!((paper - CUSTOMERS_OVER_CACHE).abs() < 0.01, "{paper}");
    }
}
