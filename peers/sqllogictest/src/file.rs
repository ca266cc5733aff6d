//! One file: its records in order, each on its connection.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use sqllogictest::{
    Condition, Connection, Control, DefaultColumnType, QueryExpect, Record, ResultMode, SortMode,
    StatementExpect, parse_file,
};

use crate::cells;

/// How long a statement may take.
const STATEMENT_TIME: Duration = Duration::from_secs(60);

/// What became of records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    passed: u64,
    failed: u64,
    /// It writes, or reads what a statement would have written.
    writes: u64,
    /// It reads a file that does not come with the tests.
    files: u64,
    /// `EXPLAIN`, whose plans are the server's own.
    explains: u64,
    /// It asks for a function, a type or a statement of the tests' own program, or is for other engines.
    other: u64,
}

impl Counts {
    pub fn add(&mut self, more: &Counts) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.writes += more.writes;
        self.files += more.files;
        self.explains += more.explains;
        self.other += more.other;
    }

    /// As a line of JSON.
    pub fn line(&self, file: &str) -> String {
        serde_json::json!({
            "suite": "sqllogictest", "file": file, "passed": self.passed, "failed": self.failed, "writes": self.writes,
            "missing_files": self.files, "explains": self.explains, "other": self.other,
        })
        .to_string()
    }
}

/// Why a statement failed: SQLSTATE and words.
struct Refused {
    code: String,
    words: String,
}

type Answer = Result<Vec<Vec<String>>, Refused>;

/// The run of a file.
pub struct Run<'a> {
    pub counts: Counts,
    config: &'a Config,
    name: &'a str,
    clients: HashMap<Option<String>, Client>,
    /// Statements were refused that later ones may need.
    lacks_tables: bool,
    lacks_files: bool,
    sort: SortMode,
    by_value: bool,
}

impl<'a> Run<'a> {
    pub fn new(config: &'a Config, name: &'a str) -> Self {
        Run {
            counts: Counts::default(),
            config,
            name,
            clients: HashMap::new(),
            lacks_tables: false,
            lacks_files: false,
            sort: SortMode::NoSort,
            by_value: false,
        }
    }

    /// # Errors
    /// A file that cannot be read, a server that is not there.
    pub fn file(&mut self, path: &Path) -> Result<()> {
        for record in parse_file::<DefaultColumnType>(path)? {
            match record {
                Record::Statement {
                    conditions,
                    connection,
                    sql,
                    expected,
                    loc,
                    ..
                } => {
                    let wants_error = matches!(expected, StatementExpect::Error(_));
                    self.record(
                        &conditions,
                        &connection,
                        &sql,
                        loc.line(),
                        |answer| match answer {
                            Ok(_) => (!wants_error)
                                .then_some(())
                                .ok_or_else(|| "it does not fail".to_owned()),
                            Err(refused) if wants_error => refused.is_of_the_statement(),
                            Err(refused) => Err(refused.words.clone()),
                        },
                    )?;
                }
                Record::Query {
                    conditions,
                    connection,
                    sql,
                    expected,
                    loc,
                    ..
                } => {
                    let (sort, by_value) = (self.sort, self.by_value);
                    self.record(&conditions, &connection, &sql, loc.line(), |answer| {
                        match (answer, &expected) {
                            (Ok(_), QueryExpect::Error(_)) => Err("it does not fail".to_owned()),
                            (Err(refused), QueryExpect::Error(_)) => refused.is_of_the_statement(),
                            (Err(refused), QueryExpect::Results { .. }) => Err(refused.words.clone()),
                            (
                                Ok(rows),
                                QueryExpect::Results {
                                    sort_mode,
                                    result_mode,
                                    results,
                                    ..
                                },
                            ) => {
                                let by_value =
                                    result_mode.map_or(by_value, |mode| mode == ResultMode::ValueWise);
                                same(rows, results, sort_mode.unwrap_or(sort), by_value)
                            }
                        }
                    })?;
                }
                Record::Control(Control::SortMode(mode)) => self.sort = mode,
                Record::Control(Control::ResultMode(mode)) => self.by_value = mode == ResultMode::ValueWise,
                Record::System { .. } | Record::Let { .. } => self.counts.other += 1,
                Record::Halt { .. } => break,
                _ => {}
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        conditions: &[Condition],
        connection: &Connection,
        sql: &str,
        line: u32,
        check: impl FnOnce(&Answer) -> Result<(), String>,
    ) -> Result<()> {
        let is_for_others = conditions.iter().any(|condition| match condition {
            Condition::OnlyIf { label } => label != "DataFusion",
            Condition::SkipIf { label } => label == "DataFusion",
        });
        if is_for_others {
            self.counts.other += 1;
            return Ok(());
        }
        let answer = self.answer(connection, sql)?;
        let Err(why) = check(&answer) else {
            self.counts.passed += 1;
            return Ok(());
        };
        let code = answer.as_ref().err().map_or("", |refused| refused.code.as_str());
        let words = answer.as_ref().err().map_or("", |refused| refused.words.as_str());
        let first = sql.trim_start().get(..7).unwrap_or_default();
        match code {
            "25006" => {
                self.counts.writes += 1;
                self.lacks_tables = true;
            }
            _ if first.eq_ignore_ascii_case("explain") => self.counts.explains += 1,
            "58P01" | "42501" => {
                self.counts.files += 1;
                self.lacks_files = true;
            }
            // Of what was not made, or of what was not changed.
            "42P01" if self.lacks_files => self.counts.files += 1,
            "42P01" if self.lacks_tables => self.counts.writes += 1,
            "0A000" | "42883" if words.contains("test") => self.counts.other += 1,
            _ => {
                self.counts.failed += 1;
                let short = sql.split_whitespace().collect::<Vec<_>>().join(" ");
                let short: String = short.chars().take(160).collect();
                eprintln!("{}:{line}: {why} [{code}] {short}", self.name);
            }
        }
        Ok(())
    }

    fn answer(&mut self, connection: &Connection, sql: &str) -> Result<Answer> {
        let name = match connection {
            Connection::Default => None,
            Connection::Named(name) => Some(name.clone()),
        };
        if !self.clients.contains_key(&name) {
            let mut config = self.config.clone();
            config.options(&format!("-c statement_timeout={}", STATEMENT_TIME.as_millis()));
            let client = config.connect(NoTls).context("the server is not there")?;
            self.clients.insert(name.clone(), client);
        }
        let client = self.clients.get_mut(&name).context("a client")?;
        let answer = ask(client, sql);
        if client.is_closed() {
            self.clients.remove(&name);
        }
        Ok(answer)
    }
}

impl Refused {
    /// An error that the file asks for: about the statement, not about what the server keeps from it.
    fn is_of_the_statement(&self) -> Result<(), String> {
        match self.code.as_str() {
            "25006" | "42501" | "58P01" | "42P01" | "XX000" | "" => Err(self.words.clone()),
            _ => Ok(()),
        }
    }
}

fn ask(client: &mut Client, sql: &str) -> Answer {
    let refused = |error: postgres::Error| match error.as_db_error() {
        Some(error) => Refused {
            code: error.code().code().to_owned(),
            words: error.message().to_owned(),
        },
        None => Refused {
            code: String::new(),
            words: error.to_string(),
        },
    };
    let prepared = client.prepare(sql).map_err(refused)?;
    let messages = client.simple_query(sql).map_err(refused)?;
    let mut rows = Vec::new();
    for message in messages {
        let SimpleQueryMessage::Row(row) = message else {
            continue;
        };
        let cell = |(at, column): (usize, &postgres::Column)| match row.get(at) {
            Some(text) => cells::as_file(column.type_(), text),
            None => "NULL".to_owned(),
        };
        rows.push(prepared.columns().iter().enumerate().map(cell).collect());
    }
    Ok(rows)
}

/// Whether rows are those of the file.
fn same(rows: &[Vec<String>], expected: &[String], sort: SortMode, by_value: bool) -> Result<(), String> {
    let mut found: Vec<String> = match by_value || sort == SortMode::ValueSort {
        true => rows.iter().flatten().cloned().collect(),
        false => rows.iter().map(|row| row.join(" ")).collect(),
    };
    let mut expected = expected.to_vec();
    if sort != SortMode::NoSort {
        found.sort();
        expected.sort();
    }
    // A value may have lines; the file breaks them, too.
    let lines = |texts: &[String]| -> Vec<String> {
        texts
            .iter()
            .flat_map(|text| text.split('\n'))
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    let (found, expected) = (lines(&found), lines(&expected));
    if found == expected || is_like(&found.join("\n"), &expected.join("\n")) {
        return Ok(());
    }
    let at = (0..found.len().max(expected.len()))
        .find(|at| found.get(*at) != expected.get(*at))
        .unwrap_or(0);
    let of = |lines: &[String]| {
        lines
            .get(at)
            .map_or("nothing".to_owned(), |line| format!("\"{line}\""))
    };
    Err(format!("row {at} is {}, not {}", of(&found), of(&expected)))
}

/// Whether a text is one that leaves parts open.
fn is_like(found: &str, expected: &str) -> bool {
    let Some((first, rest)) = expected.split_once("<slt:ignore>") else {
        return false;
    };
    let Some(mut found) = found.strip_prefix(first) else {
        return false;
    };
    for part in rest.split("<slt:ignore>") {
        match found.find(part) {
            Some(at) => found = &found[at + part.len()..],
            None => return false,
        }
    }
    true
}
