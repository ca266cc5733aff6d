//! TPC-H in PostgreSQL for Figure 2: some of its queries, and their answers by DataFusion over the same rows.
//!
//! The two engines write numbers differently (averages have more or fewer digits), so that cells are compared as numbers where they are
//! numbers. Not here: the other queries; nested ones without a cheap plan take hours under valgrind.

use crate::answers::{NULL_TEXT, row_text};
use crate::caric_sim::backend::rows;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::proxy::address::Address;
use crate::proxy::client::Client;
use crate::run::{run_query, runtime};
use crate::suites::all_cores;
use crate::tpch::{QUERIES, Table, Tpch};
use fusion::{Engine, EngineOptions, Joins};

use super::super::PATIENCE;
use super::super::data::{create, lines};

/// Where its tables are: SSB has some of the same names.
pub const SCHEMA: &str = "tpch";
/// Scale factor of a whole run.
pub const SCALE: f64 = 0.01;
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
    "alter table tpch.partsupp add primary key (ps_partkey, ps_suppkey)",
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
///
/// # Errors
/// When the server or DataFusion refuses.
pub fn load(
    address: &Address,
    scale_factor: f64,
    quick: bool,
    progress: &dyn Progress,
) -> Result<Vec<Asked>, BenchError> {
    let data = Tpch::new(scale_factor)?.dataset(1, all_cores(), progress);
    let mut client = Client::connect(address, PATIENCE)?;
    client.run(&format!("create schema {SCHEMA}"))?;
    progress.begin("mcc: filling TPC-H's tables", Table::ALL.len() as u64);
    for table in Table::ALL {
        let name = format!("{SCHEMA}.{}", table.name());
        client.run(&create(&name, &table.schema()))?;
        let batches = data.table(table.name()).into_iter().flat_map(|table| table.batches());
        for batch in batches {
            client.copy_in(&format!("copy {name} from stdin"), &lines(batch))?;
        }
        progress.advance(1);
    }
    for statement in AFTER {
        client.run(statement)?;
    }
    for table in Table::ALL {
        client.run(&format!("vacuum (analyze, freeze) {SCHEMA}.{}", table.name()))?;
    }
    client.run("checkpoint")?;
    progress.end();

    let engine = Engine::new(&EngineOptions {
        joins: Joins::Stock,
        ..EngineOptions::default()
    })?;
    data.register(&engine)?;
    let runtime = runtime(all_cores())?;
    let asked = &ASKED[..if quick { QUICK } else { ASKED.len() }];
    let mut all = Vec::with_capacity(asked.len());
    for &(query, paper_kind) in asked {
        let Some((_, sql)) = QUERIES.iter().find(|(name, _)| *name == query) else {
            continue;
        };
        let output = run_query(&runtime, &engine, sql)?;
        let text = |batch| (0..).take(rows_of(batch)).map(move |row| row_text(batch, row));
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

fn rows_of(batch: &arrow::array::RecordBatch) -> usize {
    batch.num_rows()
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

impl Asked {
    /// What is wrong with an answer of the stand-alone backend; `None` if nothing is.
    pub fn wrong(&self, answer: &str) -> Option<String> {
        let found = canonical(&rows(answer));
        if found == self.expected {
            return None;
        }
        let differs = found.iter().zip(&self.expected).find(|(found, expected)| found != expected);
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
