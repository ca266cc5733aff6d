//! `CREATE TABLE`, with its columns and constraints, or `AS` the rows of a query.

use super::columns::{self, NewColumn, Place, check_names, store_column};
use super::constraints::{self, Resolved, Target, Wanted, WantedKind};
use super::error::{self, DUPLICATE_TABLE};
use super::expression::{check_check, check_default};
use super::seen::{At, Seen};
use super::sequence::Plan;
use super::step::{Step, apply, note};
use crate::session::{ClientSession, StoreFailure, cells_as, columns_of, names};
use crate::write::{Column, ColumnDefault, Declared, Property, assign, kept_as};
use corun_store::TableDef;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableOptions, HiveDistributionStyle, Query, SqlOption, Statement,
};

const TAG: &str = "CREATE TABLE";
/// Options of tables that say how PostgreSQL keeps them.
const STORAGE: &[&str] = &[
    "fillfactor",
    "parallel_workers",
    "toast_tuple_target",
    "user_catalog_table",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "log_autovacuum_min_duration",
    "oids",
];

/// `WITH (...)`: what PostgreSQL has means nothing here.
///
/// # Errors
/// 22023.
pub(super) fn check_storage(options: &[SqlOption]) -> Result<(), Refusal> {
    for option in options {
        let name = match option {
            SqlOption::KeyValue { key, .. } => key.value.to_lowercase(),
            SqlOption::Ident(key) => key.value.to_lowercase(),
            other => return Err(error::unsupported(format!("the option {other}"))),
        };
        if !STORAGE.contains(&name.as_str())
            && !name.starts_with("autovacuum_")
            && !name.starts_with("toast.")
        {
            let what = format!("unrecognized parameter \"{name}\"");
            return Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
        }
    }
    Ok(())
}

/// What a statement asks for that is not made here.
fn check_supported(of: &CreateTable) -> Result<(), Refusal> {
    let refused = |what: &str| Err(error::unsupported(what));
    if of.temporary {
        return Err(error::unsupported("a temporary table")
            .hint("Make a table, and drop it in the end; one that a transaction makes others do not see before it commits."));
    }
    match &of.table_options {
        CreateTableOptions::None => {}
        CreateTableOptions::With(options) => check_storage(options)?,
        other => return Err(error::unsupported(format!("the table option {other}"))),
    }
    if of.like.is_some() || of.clone.is_some() {
        return refused("CREATE TABLE ... LIKE");
    }
    if of.inherits.is_some() {
        return refused("INHERITS");
    }
    if of.partition_by.is_some() || of.partition_of.is_some() || of.for_values.is_some() {
        return refused("a partitioned table");
    }
    let other = of.or_replace
        || of.external
        || of.dynamic
        || of.transient
        || of.volatile
        || of.iceberg
        || of.snapshot
        || of.without_rowid
        || of.strict
        || of.on_commit.is_some()
        || of.on_cluster.is_some()
        || of.order_by.is_some()
        || of.cluster_by.is_some()
        || of.clustered_by.is_some()
        || of.location.is_some()
        || of.file_format.is_some()
        || of.comment.is_some()
        || of.primary_key.is_some()
        || !matches!(of.hive_distribution, HiveDistributionStyle::NONE);
    match other {
        true => refused("this form of CREATE TABLE"),
        false => Ok(()),
    }
}

/// Runs it.
///
/// # Errors
/// What speaks against it.
pub(super) async fn run(session: &mut ClientSession, of: &CreateTable) -> Result<&'static str, Refusal> {
    check_supported(of)?;
    let seen = Seen::of(session)?;
    let at = seen.place(&names(&of.name)?)?;
    session.check_may_create(&at.0)?;
    if seen.relation(&at.0, &at.1).is_some() {
        if !of.if_not_exists {
            return Err(error::exists(&at.1));
        }
        let what = format!("relation \"{}\" already exists, skipping", at.1);
        error::notice(session, DUPLICATE_TABLE, what);
        return Ok(match of.query {
            Some(_) => "CREATE TABLE AS",
            None => TAG,
        });
    }
    if let Some(query) = &of.query {
        return as_query(session, of, &at, query).await;
    }
    let zone = session.zone();
    let place = Place {
        at: &at,
        seen: &seen,
        zone: &zone,
    };
    let mut taken = vec![at.1.clone()];
    let mut new = Vec::new();
    for column in &of.columns {
        new.push(place.column(column, &mut taken)?);
    }
    if new.is_empty() {
        return Err(error::unsupported("a table without columns"));
    }
    check_names(&new)?;
    let mut wanted: Vec<Wanted> = new.iter().flat_map(|new| new.constraints.clone()).collect();
    for constraint in &of.constraints {
        wanted.push(constraints::of_table(constraint)?);
    }
    let made = Made::new(at, new, &wanted, &seen, taken)?;
    made.make(session).await?;
    Ok(TAG)
}

/// A table that can be made.
struct Made {
    at: At,
    definition: TableDef,
    sequences: Vec<Plan>,
    notes: Vec<Step>,
    defaults: Vec<String>,
}

impl Made {
    fn new(
        at: At,
        mut new: Vec<NewColumn>,
        wanted: &[Wanted],
        seen: &Seen,
        taken: Vec<String>,
    ) -> Result<Made, Refusal> {
        let mut target = Target {
            at: &at,
            columns: new.iter().map(|new| new.column.name.as_str()).collect(),
            primary: None,
            unique: Vec::new(),
            taken,
        };
        if let Some(index) = wanted.iter().find_map(|wanted| match &wanted.kind {
            WantedKind::UsingIndex { index, .. } => Some(index),
            _ => None,
        }) {
            return Err(error::missing("index", index));
        }
        let resolved = target.resolve(wanted, seen)?;
        let mut steps = Vec::new();
        let mut definition = TableDef::new(&at.1).in_schema(&at.0);
        for resolved in resolved {
            match resolved {
                Resolved::PrimaryKey { name, columns } => {
                    for of in new.iter_mut().filter(|new| columns.contains(&new.column.name)) {
                        if of.said_null {
                            return Err(columns::conflicting(&of.column.name, &at.1));
                        }
                        of.column.nullable = false;
                    }
                    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                    definition = definition.primary_key(&columns);
                    if name != format!("{}_pkey", at.1) {
                        let index = definition.primary_key_index();
                        let index = index.map_or(String::new(), |index| index.name.clone());
                        steps.push(note(&at, &name, Property::PrimaryKey, index));
                    }
                }
                Resolved::Unique(index) => {
                    steps.push(note(&at, &index.name, Property::Unique, ""));
                    definition.indexes.push(index);
                }
                Resolved::UsingIndex { .. } => {}
                Resolved::Check(check) => definition.checks.push(check),
                Resolved::ForeignKey(key, deferrable) => {
                    steps.extend(deferrable_note(&at, &key.name, deferrable));
                    definition.foreign_keys.push(key);
                }
            }
        }
        for of in &new {
            let sequence = of.sequence.as_ref().map(Plan::at);
            steps.extend(columns::notes(&at, &of.column, sequence.as_ref()));
            definition = definition.with_column(store_column(&of.column));
        }
        let default = |new: &NewColumn| match &new.column.default {
            ColumnDefault::Expression(text) if new.sequence.is_none() => Some(text.clone()),
            _ => None,
        };
        Ok(Made {
            defaults: new.iter().filter_map(default).collect(),
            sequences: new.into_iter().filter_map(|new| new.sequence).collect(),
            notes: steps,
            definition,
            at,
        })
    }

    async fn make(self, session: &mut ClientSession) -> Result<(), Refusal> {
        for default in &self.defaults {
            check_default(session, default).await?;
        }
        let checks = self.definition.checks.clone();
        let mut steps: Vec<Step> = self.sequences.into_iter().map(Step::CreateSequence).collect();
        steps.push(Step::CreateTable(Box::new(self.definition)));
        steps.extend(self.notes);
        apply(session, &steps)?;
        if !checks.is_empty() {
            session.store_transaction()?.read_moment(&[])?;
        }
        for check in &checks {
            check_check(session, (&self.at.0, &self.at.1), &check.text).await?;
        }
        Ok(())
    }
}

/// What is kept of `DEFERRABLE`.
pub(super) fn deferrable_note(at: &At, name: &str, deferrable: Option<bool>) -> Option<Step> {
    let text = match deferrable? {
        true => "deferred",
        false => "immediate",
    };
    Some(note(at, name, Property::Deferrable, text))
}

/// `CREATE TABLE ... AS`: the rows are read to their end before the table is made.
async fn as_query(
    session: &mut ClientSession,
    of: &CreateTable,
    at: &At,
    query: &Query,
) -> Result<&'static str, Refusal> {
    let planned = session
        .plan_ast(Statement::Query(Box::new(query.clone())), &[], "")
        .await?;
    let given = &of.columns;
    if let Some(column) = given.iter().find(|column| !column.options.is_empty()) {
        let what = format!("syntax error at or near \"{}\"", column.name);
        return Err(error::syntax(what));
    }
    let results = columns_of(planned.plan.schema().as_arrow());
    if given.len() > results.len() {
        return Err(error::syntax("too many column names were specified"));
    }
    let column = |(position, result): (usize, &corun_wire::server::Column)| {
        let name = given
            .get(position)
            .map(|given| crate::catalog::folded(&given.name));
        let declared = Declared {
            of: result.of,
            length: None,
            precision: None,
        };
        NewColumn {
            column: Column {
                name: name.unwrap_or_else(|| result.name.clone()),
                declared,
                stored: kept_as(&declared),
                nullable: true,
                default: ColumnDefault::None,
                identity: None,
            },
            sequence: None,
            constraints: Vec::new(),
            said_null: false,
        }
    };
    let new: Vec<NewColumn> = results.iter().enumerate().map(column).collect();
    check_names(&new)?;
    let columns: Vec<Column> = new.iter().map(|new| new.column.clone()).collect();
    let (batches, _) = session.read_all(planned.plan, &[]).await?;
    let seen = Seen::of(session)?;
    Made::new(at.clone(), new, &[], &seen, vec![at.1.clone()])?
        .make(session)
        .await?;
    let zone = session.zone();
    session.store_transaction()?.run(|transaction| {
        let table = transaction.table_in(&at.0, &at.1)?;
        for batch in &batches {
            let cells = batch.columns().iter().zip(&columns);
            let cells = cells.map(|(array, column)| cells_as(array.as_ref(), column.declared.of.kind));
            let cells = cells.collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let mut new = table.new_row();
                for (position, (cell, column)) in cells.iter().zip(&columns).enumerate() {
                    let value = cell(row)?;
                    assign(column, position, value.as_ref(), &zone, &mut new)?;
                }
                transaction.insert(&table, &new)?;
            }
        }
        Ok::<(), StoreFailure>(())
    })?;
    Ok("CREATE TABLE AS")
}
