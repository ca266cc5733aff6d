//! TPC-H in PostgreSQL for Figure 2: some of its queries under valgrind's cachegrind, whose last level is made smaller and smaller, and their
//! answers by DataFusion over the same rows.
//!
//! ```text
//!   settings ─────────▶ cachegrind(size) ──▶ what starting takes ─┐
//!   settings, query ──▶ cachegrind(size) ──▶ that and the query ──┴▶ Counted
//! ```
//!
//! Order of calls: [`load`] while the server runs, [`counted`] when it has ended. Caches are smaller by sets, as with the paper's page
//! colours, and have 16 ways throughout. The two engines write numbers differently (averages have more or fewer digits), so that cells are
//! compared as numbers where they are numbers. Not here: traces; cachegrind keeps none, and so is fast enough for whole queries.

use arrow::array::RecordBatch;
use corun_cachesim::cachegrind::{Event, Profile};
use corun_model::units::Bytes;

use super::super::PATIENCE;
use super::super::data::{create, lines, stock_engine};
use super::platform::{CYCLES_PER_NS, Platform};
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::load::settled;
use crate::traced::counted::CountedBackend;
use crate::traced::rows;
use corun_model::progress::Progress;
use corun_workloads::answers::{NULL_TEXT, row_text};
use corun_workloads::tpch::{QUERIES, Table, Tpch};
use lab_core::error::BenchError;
use lab_core::suite::all_cores;
use lab_engine::query::run_query;

/// Where its tables are: SSB has some of the same names.
pub const SCHEMA: &str = "tpch";
/// Scale factor of a whole run: a twentieth of the paper's. Hash tables that are comparable with 4 MiB there are small here.
pub const SCALE: f64 = 0.05;
/// The same of a quick one.
pub const SCALE_QUICK: f64 = 0.002;
/// Queries and what the paper says of their kind (section 2.1), where it says something.
const ASKED: [(&str, &str); 8] = [
    ("q6", ""),
    ("q1", "insensitive"),
    ("q12", ""),
    ("q3", ""),
    ("q5", "sensitive"),
    ("q8", "sensitive"),
    ("q9", "sensitive"),
    ("q18", "insensitive"),
];
/// How many of them a quick run has.
const QUICK: usize = 1;
/// Keys as the specification has them; PostgreSQL of the paper's time made no others by itself.
const AFTER: [&str; 8] = [
    "alter table tpch.part add primary key (p_partkey)",
    "alter table tpch.supplier add primary key (s_suppkey)",
    // The specification's key; with the few suppliers of a small scale the generator gives a part one of them twice.
    "create index on tpch.partsupp (ps_partkey, ps_suppkey)",
    "alter table tpch.customer add primary key (c_custkey)",
    "alter table tpch.orders add primary key (o_orderkey)",
    "alter table tpch.lineitem add primary key (l_orderkey, l_linenumber)",
    "alter table tpch.nation add primary key (n_nationkey)",
    "alter table tpch.region add primary key (r_regionkey)",
];

/// A query and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name, such as `tpch_q5`.
    pub name: String,
    /// Its text.
    pub sql: &'static str,
    /// What the paper says of it: `sensitive`, `insensitive`, or nothing.
    pub paper_kind: &'static str,
    expected: Vec<String>,
}

/// Makes the tables, and asks DataFusion.
pub fn load(
    address: &Address,
    scale_factor: f64,
    quick: bool,
    progress: &dyn Progress,
) -> Result<Vec<Asked>, BenchError> {
    let data = Tpch::new(scale_factor)?.dataset(1, all_cores(), progress);
    let mut client = Client::connect(address, PATIENCE)?;
    client.run(&format!("create schema {SCHEMA}"))?;
    progress.begin("heavy-queue: filling TPC-H's tables", Table::ALL.len() as u64);
    for table in Table::ALL {
        let name = format!("{SCHEMA}.{}", table.name());
        client.run(&create(&name, &table.schema()))?;
        let batches = data
            .table(table.name())
            .into_iter()
            .flat_map(|table| table.batches());
        for batch in batches {
            client.copy_in(&format!("copy {name} from stdin"), &lines(batch))?;
        }
        progress.advance(1);
    }
    client.run_all(AFTER)?;
    let named = |table: Table| format!("{SCHEMA}.{}", table.name());
    client.run_all(settled(Table::ALL.map(named)))?;
    progress.end();
    let (engine, runtime) = stock_engine(&data)?;
    let asked = &ASKED[..if quick { QUICK } else { ASKED.len() }];
    let mut all = Vec::with_capacity(asked.len());
    for &(query, paper_kind) in asked {
        let Some((_, sql)) = QUERIES.iter().find(|(name, _)| *name == query) else {
            continue;
        };
        let output = run_query(&runtime, &engine, sql)?;
        let text = |batch: &'_ RecordBatch| -> Vec<String> {
            (0..batch.num_rows()).map(|row| row_text(batch, row)).collect()
        };
        let expected: Vec<Vec<String>> = output
            .batches
            .iter()
            .flat_map(text)
            .map(|row| row.split('|').map(str::to_owned).collect())
            .collect();
        all.push(Asked {
            name: format!("{SCHEMA}_{query}"),
            sql,
            paper_kind,
            expected: canonical(&expected),
        });
    }
    Ok(all)
}

/// Rows in an order and a spelling that do not depend on who wrote them: numbers with three digits of their fraction.
fn canonical(rows: &[Vec<String>]) -> Vec<String> {
    let cell = |text: &String| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => format!("{number:.3}"),
        _ => text.trim_end().to_owned(),
    };
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> = row.iter().filter(|text| *text != NULL_TEXT).map(cell).collect();
            cells.join("|")
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// What cachegrind counted of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Instructions.
    pub instructions: u64,
    /// What missed the first level.
    pub accesses: u64,
    /// What missed the last level too.
    pub misses: u64,
}

impl Counted {
    /// The part of the accesses to the last level that missed.
    pub fn miss_rate(&self) -> f64 {
        self.misses as f64 / self.accesses.max(1) as f64
    }

    /// Cycles an instruction when every access to the last level, and to memory, is waited for.
    pub fn cycles_per_instruction(&self, platform: &Platform) -> f64 {
        let hits = self.accesses.saturating_sub(self.misses);
        let time_ns = platform.instructions_ns(self.instructions)
            + hits as f64 * platform.domain().llc_ns
            + self.misses as f64 * platform.domain().memory_ns;
        time_ns * CYCLES_PER_NS / self.instructions.max(1) as f64
    }
}

/// What starting takes with a last level of so many bytes.
pub fn start(backend: &CountedBackend, platform: &Platform, cache: Bytes) -> Result<Profile, BenchError> {
    Ok(run(backend, platform, cache, None)?.0)
}

fn run(
    backend: &CountedBackend,
    platform: &Platform,
    cache: Bytes,
    sql: Option<&str>,
) -> Result<(Profile, Vec<String>), BenchError> {
    let first = platform.first_level();
    let level = |name: &str, bytes: u64, ways: u32| format!("--{name}={bytes},{ways},{}", first.line().0);
    let arguments = [
        "--cache-sim=yes".to_owned(),
        level("I1", first.size().0, first.ways().0),
        level("D1", first.size().0, first.ways().0),
        level("LL", cache.0, platform.ways()),
    ];
    let settings = [
        format!("set search_path = {SCHEMA}"),
        "set work_mem = '512MB'".to_owned(),
    ];
    let statements: Vec<String> = settings.into_iter().chain(sql.map(str::to_owned)).collect();
    let (text, answers) = backend.under("cachegrind", &arguments, &statements)?;
    let profile = Profile::parse(&text).map_err(|error| BenchError::Data(error.to_string()))?;
    Ok((profile, answers))
}

impl Asked {
    /// What the query does with a last level of so many bytes.
    ///
    /// # Errors
    /// When valgrind or PostgreSQL fail, or the answer is wrong.
    pub fn counted(
        &self,
        backend: &CountedBackend,
        platform: &Platform,
        cache: Bytes,
        start: &Profile,
    ) -> Result<Counted, BenchError> {
        let (profile, answers) = run(backend, platform, cache, Some(self.sql))?;
        if let Some(wrong) = self.wrong(answers.last().map_or("", String::as_str)) {
            return Err(BenchError::Data(wrong));
        }
        let of = |event: Event| {
            profile
                .total()
                .get(event)
                .saturating_sub(start.total().get(event))
        };
        let sum = |events: [Event; 3]| events.into_iter().map(of).sum();
        Ok(Counted {
            instructions: of(Event::Instructions),
            accesses: sum([Event::L1iMisses, Event::L1dLoadMisses, Event::L1dStoreMisses]),
            misses: sum([
                Event::LastInstructionMisses,
                Event::LastLoadMisses,
                Event::LastStoreMisses,
            ]),
        })
    }

    /// What is wrong with an answer of the stand-alone backend; `None` if nothing is.
    pub fn wrong(&self, answer: &str) -> Option<String> {
        let found = canonical(&rows(answer));
        if found == self.expected {
            return None;
        }
        let differs = found
            .iter()
            .zip(&self.expected)
            .find(|(found, expected)| found != expected);
        Some(format!(
            "{}: {} rows, {} expected; the first that differs is {:?}",
            self.name,
            found.len(),
            self.expected.len(),
            differs
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_compared_as_numbers_where_they_are() {
        let asked = Asked {
            name: "tpch_q1".to_owned(),
            sql: "",
            paper_kind: "",
            expected: canonical(&[
                vec!["A".to_owned(), "25.505879".to_owned(), "7".to_owned()],
                vec!["N".to_owned(), "3".to_owned()],
            ]),
        };
        let said = |average: &str| {
            format!(
                "\t 1: flag\t(typeid = 1043)\n\t 2: avg\t(typeid = 1700)\n\t----\n\t 1: flag = \"N\"\t(typeid = 1043)\n\t \
                 2: avg = \"3.00\"\t(typeid = 1700)\n\t----\n\t 1: flag = \"A\"\t(typeid = 1043)\n\t 2: avg = \"{average}\"\t(typeid = 1700)\n\t \
                 3: n = \"7\"\t(typeid = 20)\n\t----\n"
            )
        };
        assert_eq!(asked.wrong(&said("25.5058793612690770")), None);
        assert!(asked.wrong(&said("25.6")).is_some());
    }
}
