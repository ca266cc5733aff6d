//! [`Workload`]: what clients run while a server is looked at: a query of DBmbench, or the user's own.
//!
//! Order of calls: [`load`] once for DBmbench's tables, [`Workload::dbmbench`] or [`Workload::own`], then [`Workload::plan`] and, around each
//! turn, [`Workload::clear`] and [`Workload::check`]; [`unload`] at the end.
//!
//! Everything of DBmbench is in the schema [`SCHEMA`]. Not here: turns and times.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::dbmbench::{Query, SETTINGS, Summary, Tables};
use super::server::Server;
use crate::fixture::{failed, write};
use corun_model::progress::Progress;
use lab_core::error::BenchError;

/// The schema of DBmbench's tables.
pub const SCHEMA: &str = "corun_characterize";
/// Numbers differ by less than this part of them if they are the same.
const SAME: f64 = 1e-9;

/// What clients run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in rows.
    pub name: String,
    /// The script of `pgbench`: one transaction is one query.
    pub script: PathBuf,
    /// Settings of sessions.
    pub settings: Vec<(String, String)>,
    /// Transactions of each client in a turn.
    pub times: usize,
    /// Which of DBmbench's it is.
    pub query: Option<Query>,
}

/// Makes sure that DBmbench's tables can be made in a server that runs.
///
/// # Errors
/// When that is not `allowed`, there is such a schema already, or the role lacks the grant; when the server refuses.
pub fn may_load(server: &Server, allowed: bool) -> Result<(), BenchError> {
    if !allowed {
        return Err(BenchError::BadArgument(format!(
            "DBmbench's tables would have to be made in that server, in a schema {SCHEMA} that is dropped afterwards: allow it with --load, or name a workload of your own with --sql or --pgbench"
        )));
    }
    let there = server.one(&format!(
        "select count(*) from pg_namespace where nspname = '{SCHEMA}'"
    ))?;
    if there != "0" {
        return Err(failed(
            "postgres",
            format!(
                "there is a schema {SCHEMA} already, perhaps of a run that was killed; if so: drop schema {SCHEMA} cascade"
            ),
        ));
    }
    let missing = server.ask(
        "select format('grant create on database %I to %I', current_database(), current_user)
         where not has_database_privilege(current_database(), 'create')",
    )?;
    match missing.into_iter().flatten().next() {
        Some(grant) => Err(failed(
            "postgres",
            format!(
                "this role may not make a schema there; the owner of the database or a superuser can allow it: {grant}"
            ),
        )),
        None => Ok(()),
    }
}

/// Makes DBmbench's tables in a new schema and fills them.
pub fn fill(
    server: &Server,
    schema: &str,
    tables: Tables,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    server.ask(&format!(
        "create schema {schema};
         create table {schema}.t1 (a1 int not null, a2 int not null, a3 int not null, filler text not null);
         create table {schema}.t2 (a1 int not null, a2 int not null, filler text not null);
         create table {schema}.result (value numeric)"
    ))?;
    progress.begin(
        "characterize: filling DBmbench's tables",
        tables.parts() as u64 + 1,
    );
    let mut lines = (0..tables.parts()).map(|part| {
        progress.advance(1);
        tables.t1_lines(part)
    });
    let mut other = std::iter::once(tables.t2_lines());
    let filled = server
        .feed(&format!("copy {schema}.t1 from stdin"), &mut lines)
        .and_then(|()| server.feed(&format!("copy {schema}.t2 from stdin"), &mut other))
        .and_then(|()| {
            progress.advance(1);
            server.ask(&format!(
                "create index t1_a2 on {schema}.t1 (a2); alter table {schema}.t2 add primary key (a1)"
            ))
        });
    progress.end();
    filled?;
    // A vacuum is no part of a transaction, which several statements in one text are.
    for table in ["t1", "t2"] {
        server.ask(&format!("vacuum (analyze, freeze) {schema}.{table}"))?;
    }
    Ok(())
}

/// Drops DBmbench's tables.
pub fn unload(server: &Server) -> Result<(), BenchError> {
    server
        .ask(&format!("drop schema if exists {SCHEMA} cascade"))
        .map(drop)
}

/// The settings of a session that runs this query on the tables of a schema, with the paper's plan.
pub fn settings_of(query: Query, schema: &str) -> Vec<(String, String)> {
    let path = std::iter::once(("search_path", schema));
    let all = path.chain(query.settings().iter().copied()).chain(SETTINGS);
    all.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Settings as statements.
pub fn set(settings: &[(String, String)]) -> String {
    let each = settings
        .iter()
        .map(|(name, value)| format!("set {name} = {value};"));
    each.collect::<Vec<String>>().join(" ")
}

/// What `EXPLAIN` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Operators in the order in which a plan is printed, without those that differ by version.
    pub operators: String,
    /// Whether they are the paper's.
    pub as_the_paper: bool,
}

impl Workload {
    /// A query of DBmbench, whose script is written into `folder`.
    pub fn dbmbench(query: Query, paper: bool, folder: &Path) -> Result<Workload, BenchError> {
        let script = folder.join(format!("{}.sql", query.name()));
        write(&script, query.script())?;
        Ok(Workload {
            name: query.name().to_owned(),
            script,
            settings: settings_of(query, SCHEMA),
            times: query.times(paper),
            query: Some(query),
        })
    }

    /// A file of SQL, or a script of `pgbench`, of the user; one run of it is a query.
    ///
    /// # Errors
    /// When it cannot be read, or has nothing in it.
    pub fn own(name: &str, file: &Path, times: usize) -> Result<Workload, BenchError> {
        let text = std::fs::read_to_string(file)
            .map_err(|source| BenchError::io(format!("could not read {}", file.display()), source))?;
        if text.trim().is_empty() {
            return Err(BenchError::BadArgument(format!("{} is empty", file.display())));
        }
        let script = std::path::absolute(file)
            .map_err(|source| BenchError::io(format!("could not find {}", file.display()), source))?;
        Ok(Workload {
            name: name.to_owned(),
            script,
            settings: Vec::new(),
            times,
            query: None,
        })
    }

    /// The settings as libpq takes them.
    pub fn options(&self) -> String {
        let each = self
            .settings
            .iter()
            .map(|(name, value)| format!("-c {name}={value}"));
        each.collect::<Vec<String>>().join(" ")
    }

    /// The settings as statements.
    pub fn set(&self) -> String {
        set(&self.settings)
    }

    /// The plan of DBmbench's query; `None` for the user's own, whose statements are not ours to take apart.
    ///
    /// # Errors
    /// When the server refuses, or answers in another way than it should.
    pub fn plan(&self, server: &Server) -> Result<Option<Plan>, BenchError> {
        let Some(query) = self.query else { return Ok(None) };
        let select = query.select_between(query.bounds()[0]);
        let rows = server.ask(&format!(
            "{} explain (format json, costs off) insert into result {select}",
            self.set()
        ))?;
        let text: Vec<String> = rows.into_iter().flatten().collect();
        let plan: Json = serde_json::from_str(&text.join("\n")).map_err(|error| {
            BenchError::Data(format!("the plan of {} cannot be read: {error}", self.name))
        })?;
        let mut operators = Vec::new();
        walk(&plan[0]["Plan"], &mut operators);
        let operators: Vec<String> = operators
            .into_iter()
            .filter(|operator| !["ModifyTable", "Subquery Scan", "Result"].contains(&operator.as_str()))
            .collect();
        let operators = operators.join(" > ");
        Ok(Some(Plan {
            as_the_paper: operators == query.plan(),
            operators,
        }))
    }

    /// Compares what the server answers with what the rows say, for some bounds. What is wrong, or `None`.
    pub fn compare(&self, server: &Server, summary: &Summary) -> Result<Option<String>, BenchError> {
        let Some(query) = self.query else { return Ok(None) };
        let bounds = query.bounds();
        for &(low, high) in [&bounds[0], &bounds[bounds.len() / 2], &bounds[bounds.len() - 1]] {
            let select = query.select_between((low, high));
            let found = numbers(server.ask(&format!("{} {select}", self.set()))?)?;
            let wanted = summary.answer(query, low, high);
            if !same(&found, &wanted) {
                return Ok(Some(format!(
                    "{} between {low} and {high}: {found:?} instead of {wanted:?}",
                    self.name
                )));
            }
        }
        Ok(None)
    }

    /// Empties the table of results.
    pub fn clear(&self, server: &Server) -> Result<(), BenchError> {
        if self.query.is_some() {
            server.ask(&format!("truncate {SCHEMA}.result"))?;
        }
        Ok(())
    }

    /// What is wrong with the results of so many queries since [`Workload::clear`]; `Ok(None)` if nothing is, or nothing can be known.
    pub fn check(
        &self,
        server: &Server,
        summary: &Summary,
        queries: u64,
    ) -> Result<Option<String>, BenchError> {
        let Some(query) = self.query else { return Ok(None) };
        let rows = server.ask(&format!(
            "select value, count(*) from {SCHEMA}.result group by value"
        ))?;
        let mut wanted: Vec<f64> = Vec::new();
        for (low, high) in query.bounds() {
            wanted.extend(summary.answer(query, low, high));
        }
        wanted.sort_by(f64::total_cmp);
        let mut stored = 0;
        for row in &rows {
            let [value, count] = row.as_slice() else {
                return Err(BenchError::Data("results have two columns".to_owned()));
            };
            let value = number(value)?;
            stored += number(count)? as u64;
            let at = wanted.partition_point(|&known| known < value - SAME * value.abs());
            if !wanted.get(at).is_some_and(|&known| same(&[known], &[value])) {
                return Ok(Some(format!("{}: {value} is no answer", self.name)));
            }
        }
        let each = match query {
            Query::Uss => wanted.len() as u64,
            Query::Utpcc | Query::Unj => 1,
        };
        Ok((stored != each * queries).then(|| {
            format!(
                "{}: {queries} queries stored {stored} rows instead of {}",
                self.name,
                each * queries
            )
        }))
    }
}

/// Node types, a node before what is below it.
fn walk(node: &Json, operators: &mut Vec<String>) {
    if let Some(kind) = node["Node Type"].as_str() {
        operators.push(kind.to_owned());
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, operators);
    }
}

fn number(text: &str) -> Result<f64, BenchError> {
    text.parse()
        .map_err(|_| BenchError::Data(format!("\"{text}\" is not a number")))
}

fn numbers(rows: Vec<Vec<String>>) -> Result<Vec<f64>, BenchError> {
    rows.iter().flatten().map(|text| number(text)).collect()
}

/// Whether numbers are the same, but for what PostgreSQL rounds.
pub fn same(found: &[f64], wanted: &[f64]) -> bool {
    let pair = |(found, wanted): (&f64, &f64)| (found - wanted).abs() <= SAME * wanted.abs();
    found.len() == wanted.len() && found.iter().zip(wanted).all(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_walked_as_they_are_printed() {
        let plan: Json = serde_json::from_str(
            r#"{"Node Type": "Aggregate", "Plans": [{"Node Type": "Nested Loop", "Plans": [
                {"Node Type": "Seq Scan"}, {"Node Type": "Index Scan"}]}]}"#,
        )
        .expect("a plan");
        let mut operators = Vec::new();
        walk(&plan, &mut operators);
        assert_eq!(operators.join(" > "), Query::Unj.plan());
    }

    #[test]
    fn numbers_may_differ_by_rounding_only() {
        assert!(same(&[25.499_999_999_999_99], &[25.5]));
        assert!(!same(&[25.4], &[25.5]));
        assert!(!same(&[1.0], &[1.0, 2.0]));
    }

    #[test]
    fn settings_are_said_both_ways() {
        let folder = tempfile::tempdir().expect("a folder");
        let workload = Workload::dbmbench(Query::Uss, false, folder.path()).expect("a workload");
        assert!(
            workload
                .options()
                .starts_with("-c search_path=corun_characterize -c enable_hashagg=off")
        );
        assert!(workload.set().contains("set jit = off;"));
        assert!(Workload::own("sql", &folder.path().join("none.sql"), 1).is_err());
        std::fs::write(folder.path().join("empty.sql"), " \n").expect("a file");
        assert!(Workload::own("sql", &folder.path().join("empty.sql"), 1).is_err());
    }
}
