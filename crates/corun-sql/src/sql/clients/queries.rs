//! The queries that clients run: statements of files, with the answer that each must have.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use corun_datafusion::EngineError;
use corun_model::cache::locality::Locality;
use corun_workloads::answers::{Answer, fingerprint, rows};

use super::super::statements::{Piece, has_limit_without_order, split};

/// Rows of an answer that are kept to be compared one by one.
const ROWS_KEPT: usize = 10_000;
/// Two floats that differ by less are the same: sums of many numbers depend on their order.
const FLOATS_APART_MAX: f64 = 1e-6;
/// How queries begin.
const BEGINNINGS: &[&str] = &["select", "with", "values", "table", "from", "("];

/// A query.
#[derive(Debug)]
pub struct Query {
    /// The file's name without its ending, and the statement's number if the file has several.
    pub name: String,
    /// Where it stands, for errors.
    pub place: String,
    /// Its text.
    pub sql: String,
    /// Whether its rows need not be the same each time: it cuts them off without an order.
    pub may_differ: bool,
    /// What it does to the shared cache.
    pub class: Option<Locality>,
    /// What it must answer.
    pub expected: Option<Expected>,
}

/// The answer of a query's first run.
#[derive(Debug)]
pub struct Expected {
    /// All of it.
    pub answer: Answer,
    /// Its rows, sorted, if they are few.
    rows: Option<Vec<Vec<String>>>,
    /// Which columns are floats.
    floats: Vec<bool>,
}

/// Reads the queries of files and folders.
///
/// # Errors
/// A file that cannot be read; a statement that is no query; none at all.
pub fn read(files: &[PathBuf]) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for file in super::super::scripts(files)? {
        of_text(&file, &super::super::read_script(&file)?, &mut queries)?;
    }
    if queries.is_empty() {
        bail!("there is no query in {}", listed(files));
    }
    Ok(queries)
}

fn listed(files: &[PathBuf]) -> String {
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    files.join(", ")
}

fn of_text(file: &Path, text: &str, queries: &mut Vec<Query>) -> Result<()> {
    let parts = split(text);
    let rest = (!parts.rest.is_empty()).then_some(Piece::Statement(parts.rest));
    let pieces: Vec<Piece<'_>> = parts.pieces.into_iter().chain(rest).collect();
    let stem = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut searched = 0;
    for (number, piece) in pieces.iter().enumerate() {
        let (Piece::Statement(sql) | Piece::Command { command: sql, .. }) = *piece;
        let at = text[searched..].find(sql).map_or(searched, |at| searched + at);
        searched = at + sql.len();
        let line = text[..at].matches('\n').count() + 1;
        let place = match pieces.len() {
            1 => file.display().to_string(),
            _ => format!("{}, statement {} (line {line})", file.display(), number + 1),
        };
        if !is_query(sql) {
            bail!(
                "{place}: clients run queries only\ndetail: this is no query: {}\n\
                 hint: -c runs other statements, once before the clients begin",
                sql.lines().next().unwrap_or_default()
            );
        }
        queries.push(Query {
            name: match pieces.len() {
                1 => stem.clone(),
                _ => format!("{stem}:{}", number + 1),
            },
            place,
            sql: sql.to_owned(),
            may_differ: has_limit_without_order(sql),
            class: None,
            expected: None,
        });
    }
    Ok(())
}

/// Whether a statement begins as queries do, after comments.
fn is_query(sql: &str) -> bool {
    let mut rest = sql.trim_start();
    loop {
        let end = match rest {
            _ if rest.starts_with("--") => rest.find('\n'),
            _ if rest.starts_with("/*") => rest.find("*/").map(|at| at + 1),
            _ => break,
        };
        rest = end.map_or("", |at| rest[at + 1..].trim_start());
    }
    let word = rest.get(..6.min(rest.len())).unwrap_or(rest).to_ascii_lowercase();
    BEGINNINGS.iter().any(|beginning| word.starts_with(beginning))
}

impl Query {
    /// An error of this query.
    pub fn failed(&self, error: EngineError) -> anyhow::Error {
        let mut error = error;
        error.primary = format!("{}: {}", self.place, error.primary);
        anyhow!(error)
    }

    /// How an answer differs from what it must be, if it does.
    pub fn difference(&self, schema: &Schema, output: &Output) -> Option<String> {
        let expected = self.expected.as_ref()?;
        if expected.answer == output.answer || expected.has_rows_of(schema, output) {
            return None;
        }
        Some(format!("{} instead of {}", output.answer, expected.answer))
    }
}

/// Rows of a run as they come: all of them counted, the first ones kept.
#[derive(Debug)]
pub struct Output {
    /// What they are.
    pub answer: Answer,
    batches: Vec<RecordBatch>,
}

impl Default for Output {
    fn default() -> Self {
        Output {
            answer: Answer { rows: 0, checksum: 0 },
            batches: Vec::new(),
        }
    }
}

impl Output {
    /// Takes a batch.
    pub fn take(&mut self, schema: &Schema, batch: RecordBatch) {
        let more = fingerprint(schema, std::slice::from_ref(&batch));
        self.answer.rows += more.rows;
        self.answer.checksum = self.answer.checksum.wrapping_add(more.checksum);
        if self.answer.rows > ROWS_KEPT as u64 {
            self.batches.clear();
        } else {
            self.batches.push(batch);
        }
    }

    /// Its rows, sorted; `None` if they were too many.
    fn sorted(&self) -> Option<Vec<Vec<String>>> {
        if self.answer.rows > ROWS_KEPT as u64 {
            return None;
        }
        let mut rows = rows(&self.batches);
        rows.sort_unstable();
        Some(rows)
    }
}

impl Expected {
    /// What later runs must answer.
    pub fn of(schema: &Schema, output: &Output) -> Expected {
        let floats = schema
            .fields()
            .iter()
            .map(|field| field.data_type().is_floating());
        Expected {
            answer: output.answer,
            rows: output.sorted(),
            floats: floats.collect(),
        }
    }

    /// Whether the rows are the same but for the last digits of floats, which are rounded differently at the edge of their digits.
    fn has_rows_of(&self, schema: &Schema, output: &Output) -> bool {
        let same_columns = schema.fields().len() == self.floats.len();
        if self.answer.rows != output.answer.rows || !same_columns || !self.floats.contains(&true) {
            return false;
        }
        let (Some(expected), Some(rows)) = (&self.rows, output.sorted()) else {
            return false;
        };
        let same = |(row, other): (&Vec<String>, &Vec<String>)| {
            let mut cells = row.iter().zip(other).zip(&self.floats);
            cells.all(|((cell, other), is_float)| cell == other || (*is_float && is_near(cell, other)))
        };
        expected.iter().zip(&rows).all(same)
    }
}

fn is_near(one: &str, other: &str) -> bool {
    let (Ok(one), Ok(other)) = (one.parse::<f64>(), other.parse::<f64>()) else {
        return false;
    };
    (one - other).abs() <= FLOATS_APART_MAX * one.abs().max(other.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, Int64Array};
    use std::sync::Arc;

    fn queries(text: &str) -> Result<Vec<Query>> {
        let mut queries = Vec::new();
        of_text(Path::new("folder/q1.sql"), text, &mut queries).map(|()| queries)
    }

    #[test]
    fn queries_know_where_they_stand() {
        let one = queries("-- only one\nselect 1").expect("a query");
        assert_eq!(
            (one[0].name.as_str(), one[0].place.as_str()),
            ("q1", "folder/q1.sql")
        );
        let two = queries("select 1;\n\n(select 1)\nlimit 3;").expect("queries");
        assert_eq!(two[1].name, "q1:2");
        assert_eq!(two[1].place, "folder/q1.sql, statement 2 (line 3)");
        assert_eq!(
            two.iter().map(|query| query.may_differ).collect::<Vec<_>>(),
            [false, true]
        );
        for (text, words) in [
            (
                "select 1; drop table t",
                "statement 2 (line 1): clients run queries only",
            ),
            ("set a = 1;", "folder/q1.sql: clients run queries only"),
            ("\\d t", "this is no query: \\d t"),
        ] {
            let error = queries(text).expect_err("no query").to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    fn output(numbers: Vec<i64>, floats: Vec<f64>) -> (Arc<Schema>, Output) {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        let floats: ArrayRef = Arc::new(Float64Array::from(floats));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("x", floats)]).expect("same length");
        let schema = batch.schema();
        let mut output = Output::default();
        output.take(&schema, batch);
        (schema, output)
    }

    #[test]
    fn answers_are_the_same_in_any_order_and_but_for_the_last_digits_of_floats() {
        let (schema, first) = output(vec![1, 2], vec![0.1, 1.234_567_895]);
        let mut query = queries("select 1").expect("a query").remove(0);
        query.expected = Some(Expected::of(&schema, &first));
        let differs = |numbers: Vec<i64>, floats: Vec<f64>| {
            let (schema, other) = output(numbers, floats);
            query.difference(&schema, &other)
        };
        assert_eq!(differs(vec![2, 1], vec![1.234_567_895, 0.1]), None);
        assert_eq!(differs(vec![1, 2], vec![0.1, 1.234_567_894_99]), None);
        assert!(differs(vec![1, 2], vec![0.1, 1.2346]).is_some());
        assert!(differs(vec![1, 3], vec![0.1, 1.234_567_895]).is_some());
        assert!(differs(vec![1], vec![0.1]).is_some_and(|text| text.starts_with("1 rows")));
    }
}
