//! Runs sqllogictest files of DataFusion against a server, record by record, and counts: `scripts/serve-sqllogictest` starts it.
//!
//! ```text
//! sqllogictest LOGIN FILE... [--failures | --passed]
//! ```
//!
//! `--failures` shows each record that failed, with its reason; `--passed` names the place of each that passed, for a comparison of servers.
//! Each file has a session of its own. A record has passed if its rows are the expected ones (values as DataFusion writes them: see `text`),
//! or if it fails where an error is expected, whatever its words. What cannot be had on a server that only reads is not applicable: what
//! writes, what needs tables made by that or files that are not published, and plans.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints what it found"
)]

#[path = "sqllogictest/text.rs"]
mod text;

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use sqllogictest::{
    Condition, DefaultColumnType, QueryExpect, Record, SortMode, StatementExpect, parse_file,
};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

/// The longest that a record may take.
const LONG: Duration = Duration::from_secs(90);

/// How a record ended.
enum Ended {
    Passed,
    NotApplicable(&'static str),
    /// Why, in one line.
    Failed(String),
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    not_applicable: BTreeMap<&'static str, usize>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        for (why, count) in &other.not_applicable {
            *self.not_applicable.entry(why).or_default() += count;
        }
    }

    fn left_out(&self) -> usize {
        self.not_applicable.values().sum()
    }
}

/// The session of a file.
struct Session {
    client: Client,
    /// Tables that could not be made, by their bare names.
    missing: HashSet<String>,
    /// External tables, which outlive the session.
    made: Vec<String>,
}

/// The bare name of the table that a statement makes; `None`: it makes none.
fn made_by(sql: &str) -> Option<String> {
    let mut words = sql
        .split(|c: char| c.is_whitespace() || c == '(')
        .filter(|word| !word.is_empty());
    if !words.next()?.eq_ignore_ascii_case("create") {
        return None;
    }
    const BEFORE: &[&str] = &[
        "or",
        "replace",
        "external",
        "unbounded",
        "temporary",
        "temp",
        "table",
        "view",
        "materialized",
        "if",
        "not",
        "exists",
        "function",
        "schema",
        "database",
    ];
    let name = words.find(|word| !BEFORE.contains(&word.to_ascii_lowercase().as_str()))?;
    let bare = name.rsplit('.').next().unwrap_or(name);
    Some(bare.trim_matches(['"', ';']).to_lowercase())
}

fn begins(sql: &str, word: &str) -> bool {
    sql.get(..word.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(word))
}

/// What an error is to the counts.
fn of_error(error: &Error, session: &Session) -> Ended {
    let Some(database) = error.as_db_error() else {
        return Ended::Failed(format!("the connection: {error}"));
    };
    let message = database.message();
    match database.code().code() {
        "25006" => Ended::NotApplicable("it writes"),
        "42P01" | "42883" | "3F000" | "26000" | "42704"
            if session
                .missing
                .iter()
                .any(|name| message.to_lowercase().contains(name)) =>
        {
            Ended::NotApplicable("its table could not be made")
        }
        "42501" | "58P01" | "58030" => Ended::NotApplicable("its file is not there"),
        code => Ended::Failed(format!("{code} {message}")),
    }
}

impl Session {
    async fn open(login: &str) -> Result<Session, Error> {
        let (client, connection) = tokio_postgres::connect(login, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET statement_timeout = '60s'").await?;
        // Where there are schemas to write to, a file has one of its own.
        let made = client.simple_query("CREATE SCHEMA IF NOT EXISTS records").await;
        if made.is_ok() {
            client.batch_execute("SET search_path = records, public").await?;
        }
        Ok(Session {
            client,
            missing: HashSet::new(),
            made: Vec::new(),
        })
    }

    /// The rows of a query as DataFusion writes them; of a COPY their number.
    async fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>, Error> {
        let statement = self.client.prepare(sql).await?;
        let types: Vec<Type> = statement
            .columns()
            .iter()
            .map(|column| column.type_().clone())
            .collect();
        let messages = self.client.simple_query(sql).await?;
        let mut rows = Vec::new();
        for message in messages {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let cells = types
                        .iter()
                        .enumerate()
                        .map(|(at, of)| text::cell(of, row.get(at)));
                    rows.push(cells.collect());
                }
                SimpleQueryMessage::CommandComplete(count) if types.is_empty() => {
                    rows.push(vec![count.to_string()])
                }
                _ => {}
            }
        }
        Ok(rows)
    }

    async fn statement(&mut self, sql: &str, expected: &StatementExpect) -> Ended {
        let made = made_by(sql);
        let run = tokio::time::timeout(LONG, self.client.simple_query(sql)).await;
        let Ok(run) = run else {
            return Ended::Failed("it takes too long".to_owned());
        };
        match (run, expected) {
            (Ok(_), StatementExpect::Error(_)) => Ended::Failed("no error".to_owned()),
            (Ok(_), _) => {
                if let Some(name) = made {
                    self.missing.remove(&name);
                    self.made.push(name);
                }
                Ended::Passed
            }
            (Err(error), expected) => {
                let ended = of_error(&error, self);
                self.missing.extend(made);
                match (&ended, expected) {
                    // What is refused because it writes says nothing of the error that was expected.
                    (Ended::Failed(_), StatementExpect::Error(_)) => Ended::Passed,
                    _ => ended,
                }
            }
        }
    }

    async fn query(
        &self,
        sql: &str,
        expected: &QueryExpect<DefaultColumnType>,
        sort: Option<SortMode>,
    ) -> Ended {
        if begins(sql, "explain") {
            return Ended::NotApplicable("it shows a plan");
        }
        let Ok(run) = tokio::time::timeout(LONG, self.rows(sql)).await else {
            return Ended::Failed("it takes too long".to_owned());
        };
        let (results, sort) = match expected {
            QueryExpect::Error(_) => {
                return match run.map_err(|error| of_error(&error, self)) {
                    Ok(_) => Ended::Failed("no error".to_owned()),
                    Err(Ended::Failed(_)) => Ended::Passed,
                    Err(ended) => ended,
                };
            }
            QueryExpect::Results {
                results, sort_mode, ..
            } => (results, (*sort_mode).or(sort)),
        };
        let rows = match run {
            Ok(rows) => rows,
            Err(error) => return of_error(&error, self),
        };
        let plain = |text: &str| text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let mut found: Vec<String> = match sort {
            Some(SortMode::ValueSort) => rows.iter().flatten().map(|cell| plain(cell)).collect(),
            _ => rows.iter().map(|row| plain(&row.join(" "))).collect(),
        };
        let mut wanted: Vec<String> = results.iter().map(|row| plain(row)).collect();
        if !matches!(sort, None | Some(SortMode::NoSort)) {
            found.sort();
            wanted.sort();
        }
        match found == wanted {
            true => Ended::Passed,
            false => {
                let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
                let (found, wanted) = differs.map_or_else(
                    || (format!("{} rows", found.len()), format!("{} rows", wanted.len())),
                    |(found, wanted)| (found.clone(), wanted.clone()),
                );
                Ended::Failed(format!("rows: {found} instead of {wanted}"))
            }
        }
    }

    async fn end(self) {
        _ = self.client.simple_query("ROLLBACK").await;
        _ = self.client.simple_query("DROP SCHEMA records CASCADE").await;
        for name in &self.made {
            _ = self
                .client
                .simple_query(&format!("DROP TABLE IF EXISTS \"{name}\""))
                .await;
        }
    }
}

fn skipped(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| match condition {
        Condition::OnlyIf { label } => label != "datafusion",
        Condition::SkipIf { label } => label == "datafusion",
    })
}

async fn file(login: &str, path: &str, failures: bool, passed: bool) -> Result<Counts, String> {
    let records = parse_file::<DefaultColumnType>(path).map_err(|error| error.to_string())?;
    let mut session = Session::open(login).await.map_err(|error| error.to_string())?;
    let mut counts = Counts::default();
    let mut sort = None;
    for record in records {
        let (loc, sql, ended) = match record {
            Record::Statement {
                loc,
                conditions,
                sql,
                expected,
                ..
            } if !skipped(&conditions) => {
                let ended = session.statement(&sql, &expected).await;
                (loc, sql, ended)
            }
            Record::Query {
                loc,
                conditions,
                sql,
                expected,
                ..
            } if !skipped(&conditions) => {
                let ended = session.query(&sql, &expected, sort).await;
                (loc, sql, ended)
            }
            Record::Control(sqllogictest::Control::SortMode(mode)) => {
                sort = Some(mode);
                continue;
            }
            Record::Halt { .. } => break,
            _ => continue,
        };
        match ended {
            Ended::Passed => {
                counts.passed += 1;
                if passed {
                    println!("passed: {loc}");
                }
            }
            Ended::NotApplicable(why) => *counts.not_applicable.entry(why).or_default() += 1,
            Ended::Failed(why) => {
                counts.failed += 1;
                if failures {
                    println!("{loc}: {why}\n    {}", sql.replace('\n', "\n    "));
                }
            }
        }
        if session.client.is_closed() {
            session = Session::open(login).await.map_err(|error| error.to_string())?;
        }
    }
    session.end().await;
    Ok(counts)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str| {
        let before = arguments.len();
        arguments.retain(|argument| argument != name);
        arguments.len() < before
    };
    let (failures, passed) = (flag("--failures"), flag("--passed"));
    let [login, files @ ..] = arguments.as_slice() else {
        eprintln!("usage: sqllogictest LOGIN FILE... [--failures | --passed]");
        return ExitCode::from(2);
    };
    let mut sum = Counts::default();
    for path in files {
        match file(login, path, failures, passed).await {
            Ok(counts) => {
                println!(
                    "{path} {} passed, {} failed, {} not applicable",
                    counts.passed,
                    counts.failed,
                    counts.left_out()
                );
                sum.add(&counts);
            }
            Err(error) => {
                eprintln!("error: {path}: {error}");
                return ExitCode::from(2);
            }
        }
    }
    for (why, count) in &sum.not_applicable {
        println!("not applicable, {why}: {count}");
    }
    println!(
        "{} files: {} passed, {} failed, {} not applicable",
        files.len(),
        sum.passed,
        sum.failed,
        sum.left_out()
    );
    ExitCode::SUCCESS
}
