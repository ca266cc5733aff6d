//! [`Query`]: a text, how PostgreSQL is to run it, and what it must answer.
//!
//! | name | text | how it runs |
//! | --- | --- | --- |
//! | `hash_plqK` | PLQ_k (paper 002, section 4.2.1) | a hash table of the parts, probed by all of `lineorder` |
//! | `index_plqK` | PLQ_k with `lineorder` as a lateral sub-select that is not pulled up | the parts, each looked up in the index of `lineorder` |
//! | `plqK` | PLQ_k | as the planner likes |
//! | `scan` | a filter and a sum over `lineorder` | a sequential scan |
//! | `ssb_qN.N` | one of SSB's 13 queries | as the planner likes |
//!
//! The lateral form needs no setting, so a client sends it through a pooler as it sends anything else.

use super::backend::Backend;
use super::data::Oracle;
use crate::fixture::answer::Answer as Said;
use crate::fixture::failed;
use corun_workloads::answers::{Answer, NULL_TEXT, fingerprint_of_rows};
use corun_workloads::ssb::{QUERIES, plq};
use lab_core::error::BenchError;

/// Orders the scan counts: about half.
pub const SCAN_QUANTITY_BELOW: i32 = 26;
/// Planner settings that forms turn off.
const SWITCHES: [&str; 3] = ["enable_mergejoin", "enable_nestloop", "enable_hashjoin"];

/// How PLQ_k is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By a hash table.
    Hash,
    /// Through the index.
    Index,
    /// As the planner likes.
    Free,
}

impl Form {
    /// The [`SWITCHES`] that are off, so that joins take this form whatever the planner thinks of others.
    pub fn off(self) -> &'static [&'static str] {
        match self {
            Form::Hash => &["enable_mergejoin", "enable_nestloop"],
            Form::Index => &["enable_mergejoin", "enable_hashjoin"],
            Form::Free => &[],
        }
    }

    /// The statements that set the planner so.
    pub fn statements(self) -> impl Iterator<Item = String> {
        SWITCHES.iter().map(move |name| {
            let value = if self.off().contains(name) { "off" } else { "on" };
            format!("set {name} = {value}")
        })
    }
}

/// One query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name in rows.
    pub name: String,
    /// Its text.
    pub sql: String,
    /// Its form; [`Form::Free`] for everything but PLQ_k.
    pub form: Form,
    /// `k`, for PLQ_k.
    pub k: Option<usize>,
    /// What it must answer.
    pub expected: Answer,
    /// Whether its last column is how long it ran.
    pub timed: bool,
}

impl Query {
    /// The same with a column that says how long the server ran it, so that waiting in a queue before it does not count. Only of queries
    /// that give one sum.
    pub fn timed(self) -> Query {
        let seconds = "extract(epoch from clock_timestamp() - statement_timestamp()) as seconds";
        Query {
            sql: self
                .sql
                .replacen(" as revenue", &format!(" as revenue, {seconds}"), 1),
            timed: true,
            ..self
        }
    }

    /// The same with a comment that has it queue however short it is.
    pub fn queued(self) -> Query {
        Query {
            sql: format!("/* corun: heavy_queue=analytic */ {}", self.sql),
            ..self
        }
    }

    /// How long the server ran a timed query.
    pub fn seconds(&self, said: &Said) -> Option<f64> {
        let last = said.rows.first()?.last()?.as_ref()?;
        last.parse().ok().filter(|_| self.timed)
    }

    /// PLQ_k.
    ///
    /// # Panics
    /// Unless `k` is 1 to 25.
    pub fn plq(k: usize, form: Form, oracle: &Oracle) -> Query {
        let text = plq(k);
        let (name, sql) = match form {
            Form::Free => (format!("plq{k}"), text),
            Form::Hash => (format!("hash_plq{k}"), text),
            Form::Index => (format!("index_plq{k}"), lateral(&text)),
        };
        Query {
            form,
            k: Some(k),
            ..Query::of(name, sql, oracle.plq(k))
        }
    }

    /// The scan.
    pub fn scan(oracle: &Oracle) -> Query {
        let sql = format!(
            "select sum(lo_revenue) as revenue from lineorder where lo_quantity < {SCAN_QUANTITY_BELOW}"
        );
        Query::of("scan", sql, oracle.scan())
    }

    /// One of SSB's queries; `None` where there is none of that name, or no answer to it.
    pub fn ssb(name: &str, oracle: &Oracle) -> Option<Query> {
        let (name, sql) = QUERIES.iter().find(|(query, _)| *query == name)?;
        Some(Query::of(format!("ssb_{name}"), *sql, oracle.ssb(name)?))
    }

    /// One that runs as the planner likes.
    pub fn of(name: impl Into<String>, sql: impl Into<String>, expected: Answer) -> Query {
        Query {
            name: name.into(),
            sql: sql.into(),
            form: Form::Free,
            k: None,
            expected,
            timed: false,
        }
    }

    /// What is wrong with an answer; `None` if nothing is.
    pub fn wrong(&self, said: &Said) -> Option<String> {
        if let Some((state, words)) = &said.error {
            return Some(format!("{}: {words} ({state})", self.name));
        }
        let row = |row: &Vec<Option<String>>| {
            let answered = &row[..row.len() - usize::from(self.timed && !row.is_empty())];
            let cells = answered.iter().map(|cell| cell.as_deref().unwrap_or(NULL_TEXT));
            cells.collect::<Vec<_>>().join("|")
        };
        let rows: Vec<String> = said.rows.iter().map(row).collect();
        let found = fingerprint_of_rows(&rows);
        (found != self.expected).then(|| format!("{}: expected {}, got {found}", self.name, self.expected))
    }
}

/// PLQ_k with `lineorder` looked up for each part: `offset 0` keeps the planner from making a join of it.
fn lateral(plq: &str) -> String {
    plq.replace(
        "from part, lineorder",
        "from part, lateral (select lo_revenue from lineorder where lo_partkey = p_partkey offset 0) as its",
    )
    .replace("where p_partkey = lo_partkey\n  and (", "where (")
}

/// Bytes of the hash tables that a query really makes, the first to be probed first: what `explain analyze` says. Empty without hash joins.
pub fn hash_bytes(backend: &mut Backend, query: &Query) -> Result<Vec<u64>, BenchError> {
    backend.prefer(query.form)?;
    let said = backend
        .client()
        .run(&format!("explain (analyze, timing off, costs off) {}", query.sql))?;
    let lines = said.rows.iter().flatten().flatten();
    let bytes = |line: &String| {
        let (_, rest) = line.split_once("Memory Usage: ")?;
        Some(rest.split_once("kB")?.0.parse::<u64>().ok()? << 10)
    };
    let hashes = lines.filter(|line| line.contains("Buckets: "));
    hashes
        .map(|line| bytes(line).ok_or_else(|| failed("postgres", format!("says of a hash table: {line}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corun_workloads::ssb::{Sizes, Ssb};

    fn oracle() -> Oracle {
        Oracle::new(&Ssb::with_sizes(Sizes {
            lineorder: 100,
            customer: 1,
            supplier: 1,
            part: 50,
        }))
    }

    #[test]
    fn forms_differ_in_text_and_not_in_what_they_must_answer() {
        let oracle = oracle();
        let [hash, index, free] =
            [Form::Hash, Form::Index, Form::Free].map(|form| Query::plq(3, form, &oracle));
        assert_eq!(
            (hash.sql.as_str(), hash.expected),
            (free.sql.as_str(), free.expected)
        );
        assert_eq!(index.expected, hash.expected);
        assert!(
            index.sql.contains("lateral (select lo_revenue") && !index.sql.contains("and ("),
            "{}",
            index.sql
        );
        assert!(
            index.sql.ends_with(
                "where (p_category = 'MFGR#11' or p_category = 'MFGR#12' or p_category = 'MFGR#13')"
            )
        );
        assert_eq!(
            [hash.name, index.name, free.name],
            ["hash_plq3", "index_plq3", "plq3"]
        );
    }

    #[test]
    fn wrong_answers_and_errors_are_told() {
        let oracle = oracle();
        let query = Query::scan(&oracle);
        let said = |cell: &str| Said {
            rows: vec![vec![Some(cell.to_owned())]],
            ..Said::default()
        };
        assert!(
            query
                .wrong(&said("1"))
                .is_some_and(|words| words.starts_with("scan: expected"))
        );
        let failed = Said {
            error: Some(("57014".to_owned(), "canceled".to_owned())),
            ..Said::default()
        };
        assert_eq!(query.wrong(&failed).as_deref(), Some("scan: canceled (57014)"));
        // The time it took is not part of the answer.
        let untimed = query.seconds(&said("0.5"));
        let timed = query.timed();
        assert!(
            timed.sql.contains("sum(lo_revenue) as revenue, extract(epoch"),
            "{}",
            timed.sql
        );
        let took = Said {
            rows: vec![vec![Some("1".to_owned()), Some("0.5".to_owned())]],
            ..Said::default()
        };
        assert_eq!((untimed, timed.seconds(&took)), (None, Some(0.5)));
        assert_eq!(timed.wrong(&took), Query::scan(&oracle).wrong(&said("1")));
    }
}
