//! The tables in PostgreSQL and what queries over them must answer, both from SSB's generator.
//!
//! ```text
//!   Ssb (rows, seed) ─┬─▶ COPY, primary keys, lineorder's foreign keys, statistics      load
//!                     └─▶ sums by category; nested loops, or DataFusion                 Oracle
//! ```
//!
//! The oracle never compares keys: a line's part is a place in an array. SSB's 13 queries are answered by nested loops where there are few
//! rows; these would take hours on the rows of a timed run, which is held against DataFusion, itself held against them elsewhere.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use corun_datafusion::{Engine, EngineOptions, Joins};

use super::query::SCAN_QUANTITY_BELOW;
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::lines::Lines;
use crate::fixture::load::{copy_parts, settled};
use corun_model::progress::Progress;
use corun_workloads::answers::{Answer, NULL_TEXT, cell_text, fingerprint, fingerprint_of_rows};
use corun_workloads::dataset::Dataset;
use corun_workloads::oracle::{Database, ssb_answer};
use corun_workloads::ssb::{PLQ_TERMS_MAX, QUERIES, Ssb, Table};
use lab_core::error::BenchError;
use lab_core::suite::all_cores;
use lab_engine::query::{run_query, runtime};

/// Statements after SSB's rows are there: keys, and the indexes that the paper's index joins go through.
pub const AFTER: [&str; 8] = [
    "alter table part add primary key (p_partkey)",
    "alter table customer add primary key (c_custkey)",
    "alter table supplier add primary key (s_suppkey)",
    "alter table date add primary key (d_datekey)",
    "create index lineorder_partkey on lineorder (lo_partkey)",
    "create index lineorder_custkey on lineorder (lo_custkey)",
    "create index lineorder_suppkey on lineorder (lo_suppkey)",
    "create index lineorder_orderdate on lineorder (lo_orderdate)",
];

/// `create table` for a schema of a generator.
pub fn create(name: &str, schema: &SchemaRef) -> String {
    let columns = schema.fields().iter().map(|field| {
        let kind = match field.data_type() {
            DataType::Int32 => "int".to_owned(),
            DataType::Int64 => "bigint".to_owned(),
            DataType::Boolean => "boolean".to_owned(),
            DataType::Date32 => "date".to_owned(),
            DataType::Decimal128(digits, scale) => format!("numeric({digits}, {scale})"),
            _ => "varchar".to_owned(),
        };
        format!("{} {kind} not null", field.name())
    });
    format!("create table {name} ({})", columns.collect::<Vec<_>>().join(", "))
}

/// A batch in the format of `copy`. The generators' texts have no character that would have to be escaped, which a test looks at.
pub fn lines(batch: &RecordBatch) -> Vec<u8> {
    let mut lines = Lines::default();
    for row in 0..batch.num_rows() {
        for column in batch.columns() {
            match column.data_type() {
                DataType::Int32 => lines.put(column.as_primitive::<Int32Type>().value(row)),
                DataType::Boolean => lines.put(column.as_boolean().value(row)),
                DataType::Utf8 => lines.put(column.as_string::<i32>().value(row)),
                _ => lines.put(cell_text(column, row)),
            };
        }
        lines.end();
    }
    lines.as_str().into()
}

/// Makes the tables of a database and fills them, with indexes and statistics.
pub fn load(address: &Address, ssb: &Ssb, progress: &dyn Progress) -> Result<(), BenchError> {
    let mut client = Client::connect(address, super::PATIENCE)?;
    client.run_all(Table::ALL.map(|table| create(table.name(), &table.schema())))?;
    let jobs: Vec<(Table, usize)> = Table::ALL
        .iter()
        .flat_map(|&table| (0..ssb.batches(table)).map(move |number| (table, number)))
        .collect();
    let rows = |&(table, number): &(Table, usize)| (table.name(), lines(&ssb.batch(table, number)));
    let what = "heavy-queue: filling SSB's tables";
    copy_parts(what, address, super::PATIENCE, &jobs, rows, progress)?;
    client.run_all(AFTER)?;
    client.run_all(settled(Table::ALL.map(|table| table.name())))
}

/// What queries must answer.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Revenue of the parts of each category, in the order in which PLQ_k takes them; `None` where nobody ordered any.
    categories: [Option<i64>; PLQ_TERMS_MAX],
    scan: Option<i64>,
    ssb: HashMap<&'static str, Answer>,
}

/// DataFusion as it comes, over these tables, and what its queries run on.
pub fn stock_engine(data: &Dataset) -> Result<(Engine, tokio::runtime::Runtime), BenchError> {
    let engine = Engine::new(&EngineOptions {
        joins: Joins::Stock,
        ..EngineOptions::default()
    })?;
    lab_engine::tables::register(data, &engine)?;
    Ok((engine, runtime(all_cores())?))
}

/// The place of a category in PLQ_k: `MFGR#11` is 0, `MFGR#55` is 24.
fn place(category: &str) -> Option<usize> {
    let digits = category.strip_prefix("MFGR#")?.as_bytes();
    let [maker @ b'1'..=b'5', number @ b'1'..=b'5'] = digits else {
        return None;
    };
    Some(5 * usize::from(maker - b'1') + usize::from(number - b'1'))
}

fn sum_of(sum: Option<i64>) -> Answer {
    fingerprint_of_rows(&[sum.map_or(NULL_TEXT.to_owned(), |sum| sum.to_string())])
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> &'b dyn Array {
    batch[name].as_ref()
}

impl Oracle {
    /// Adds up the generator's rows.
    pub fn new(ssb: &Ssb) -> Oracle {
        let mut place_of: Vec<Option<usize>> = Vec::with_capacity(ssb.rows(Table::Part));
        for number in 0..ssb.batches(Table::Part) {
            let batch = ssb.batch(Table::Part, number);
            let categories = column(&batch, "p_category").as_string::<i32>();
            place_of.extend(categories.iter().map(|category| place(category?)));
        }
        let (mut categories, mut scan) = ([None; PLQ_TERMS_MAX], None);
        for number in 0..ssb.batches(Table::Lineorder) {
            let batch = ssb.batch(Table::Lineorder, number);
            let ints = |name| column(&batch, name).as_primitive::<Int32Type>().values();
            let (parts, revenues, quantities) = (ints("lo_partkey"), ints("lo_revenue"), ints("lo_quantity"));
            for ((&part, &revenue), &quantity) in parts.iter().zip(revenues).zip(quantities) {
                let add = |sum: &mut Option<i64>| *sum = Some(sum.unwrap_or(0) + i64::from(revenue));
                // Keys count from 1.
                if let Some(Some(place)) = place_of.get(part as usize - 1) {
                    add(&mut categories[*place]);
                }
                if quantity < SCAN_QUANTITY_BELOW {
                    add(&mut scan);
                }
            }
        }
        Oracle {
            categories,
            scan,
            ssb: HashMap::new(),
        }
    }

    /// Adds the answers of SSB's 13 queries: by nested loops in a `quick` run.
    ///
    /// # Errors
    /// When DataFusion fails.
    pub fn with_ssb(mut self, ssb: &Ssb, quick: bool, progress: &dyn Progress) -> Result<Oracle, BenchError> {
        let data = ssb.dataset(all_cores(), all_cores(), progress);
        if quick {
            let database = Database::read(&data);
            let answer = |name| Some((name, fingerprint_of_rows(&ssb_answer(&database, name)?)));
            self.ssb = QUERIES.iter().filter_map(|(name, _)| answer(*name)).collect();
            return Ok(self);
        }
        let (engine, runtime) = stock_engine(&data)?;
        for (name, sql) in QUERIES {
            let output = run_query(&runtime, &engine, sql)?;
            self.ssb
                .insert(name, fingerprint(&output.schema, &output.batches));
        }
        Ok(self)
    }

    /// PLQ_k.
    pub fn plq(&self, k: usize) -> Answer {
        let sums = self.categories[..k.min(PLQ_TERMS_MAX)].iter().flatten();
        sum_of(sums.copied().reduce(|a, b| a + b))
    }

    /// The scan.
    pub fn scan(&self) -> Answer {
        sum_of(self.scan)
    }

    /// One of SSB's queries, if [`Oracle::with_ssb`] was asked.
    pub fn ssb(&self, name: &str) -> Option<Answer> {
        self.ssb.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_model::progress::Silent;
    use corun_workloads::ssb::Sizes;

    fn tiny() -> Ssb {
        Ssb::with_sizes(Sizes {
            lineorder: 700,
            customer: 60,
            supplier: 20,
            part: 90,
        })
    }

    #[test]
    fn rows_are_copied_as_they_are() {
        let ssb = tiny();
        for table in Table::ALL {
            let batch = ssb.batch(table, 0);
            let text = String::from_utf8(lines(&batch)).expect("text");
            assert_eq!(text.lines().count(), batch.num_rows(), "{}", table.name());
            assert!(!text.contains('\\'), "{}", table.name());
            let cells = batch.num_columns();
            assert!(text.lines().all(|line| line.split('\t').count() == cells));
        }
        let text = String::from_utf8(lines(&ssb.batch(Table::Part, 0))).expect("text");
        assert!(text.starts_with("1\t"));
        assert!(
            create("part", &Table::Part.schema())
                .starts_with("create table part (p_partkey int not null, p_name varchar")
        );
    }

    #[test]
    fn categories_have_the_places_of_plq() {
        assert_eq!(
            ["MFGR#11", "MFGR#15", "MFGR#21", "MFGR#55"].map(place),
            [0, 4, 5, 24].map(Some)
        );
        assert_eq!(["MFGR#60", "MFGR#1", "MFGR#111", ""].map(place), [None; 4]);
    }

    /// The oracle against nested loops over the same rows.
    #[test]
    fn sums_are_those_of_nested_loops() {
        let ssb = tiny();
        let oracle = Oracle::new(&ssb);
        let database = Database::read(&ssb.dataset(1, 1, &Silent));
        for k in [1, 7, 25] {
            let mut sum = None;
            for line in &database.lineorder {
                for part in database.part.iter().filter(|part| part.partkey == line.partkey) {
                    if corun_workloads::ssb::plq(k).contains(&format!("'{}'", part.category)) {
                        sum = Some(sum.unwrap_or(0) + i64::from(line.revenue));
                    }
                }
            }
            assert_eq!(oracle.plq(k), sum_of(sum), "{k}");
        }
        let few = database
            .lineorder
            .iter()
            .filter(|line| line.quantity < SCAN_QUANTITY_BELOW);
        assert_eq!(
            oracle.scan(),
            sum_of(Some(few.map(|line| i64::from(line.revenue)).sum()))
        );
    }

    #[test]
    fn both_oracles_of_ssb_agree() {
        let ssb = tiny();
        let [slow, fast] =
            [true, false].map(|quick| Oracle::new(&ssb).with_ssb(&ssb, quick, &Silent).expect("answers"));
        for (name, _) in QUERIES {
            assert!(
                slow.ssb(name).is_some() && slow.ssb(name) == fast.ssb(name),
                "{name}"
            );
        }
        assert_eq!(slow.ssb("q9.9"), None);
    }
}
