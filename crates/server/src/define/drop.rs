//! `DROP TABLE`, `TRUNCATE`, `CREATE SCHEMA`, `DROP SCHEMA`.

use super::alter_table::at_of;
use super::error;
use super::seen::{At, Relation, Seen, shown};
use super::sequence;
use super::step::{Step, apply};
use crate::catalog::folded;
use crate::session::{ClientSession, names};
use crate::users::WriteRight;
use crate::write::{Property, TableInfo};
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::{
    CascadeOption, ObjectName, SchemaName, Truncate, TruncateIdentityOption,
};

/// Names that a notice or an error lists.
const LISTED_MAX: usize = 100;

/// Foreign keys of other tables to these, as steps that take them away and as what the client is told.
struct Referring {
    steps: Vec<Step>,
    needs: Vec<String>,
    told: Vec<String>,
}

fn is_in(tables: &[&TableInfo], table: &TableInfo) -> bool {
    tables.iter().any(|of| of.table.is_same(&table.table))
}

/// All foreign keys between the tables are dropped before them, whatever their order.
fn referring(seen: &Seen, tables: &[&TableInfo]) -> Referring {
    let mut found = Referring {
        steps: Vec::new(),
        needs: Vec::new(),
        told: Vec::new(),
    };
    for of in tables {
        for (table, key) in seen.referring(&of.schema, &of.name) {
            if table.table.is_same(&of.table) {
                continue;
            }
            found
                .steps
                .push(Step::DropConstraint(at_of(table), key.name.clone()));
            if is_in(tables, table) {
                continue;
            }
            found
                .steps
                .push(Step::Forget(at_of(table), key.name.clone(), Property::Deferrable));
            let what = format!("constraint {} on table {}", key.name, table.name);
            found.needs.push(format!("{what} depends on table {}", of.name));
            found.told.push(format!("drop cascades to {what}"));
        }
    }
    found
}

fn tell(session: &mut ClientSession, told: Vec<String>) {
    match told.len() {
        0 => {}
        1 => told
            .into_iter()
            .for_each(|what| error::notice(session, code::SUCCESS, what)),
        count => {
            let listed = told[..count.min(LISTED_MAX)].join("\n");
            let what = Refusal::new(code::SUCCESS, format!("drop cascades to {count} other objects"));
            session.notice(what.detail(listed));
        }
    }
}

/// Drops tables with the sequences that they own.
fn drop_all(seen: &Seen, tables: &[&TableInfo]) -> Referring {
    let mut found = referring(seen, tables);
    for table in tables {
        found.steps.push(Step::DropTable(at_of(table)));
        found.steps.push(Step::ForgetTable(at_of(table)));
        let owned = sequence::owned_by(seen, table, None);
        found.steps.extend(owned.into_iter().map(Step::DropSequence));
    }
    found
}

/// Runs `DROP TABLE` of several.
///
/// # Errors
/// 42P01, 42809; 2BP01 where others refer to them.
pub(super) fn tables(
    session: &mut ClientSession,
    named: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<&'static str, Refusal> {
    let seen = Seen::of(session)?;
    let mut tables: Vec<&TableInfo> = Vec::new();
    for name in named {
        let name = names(name)?;
        match seen.find(&name) {
            Some((_, Relation::Table(table))) if is_in(&tables, table) => {}
            Some((_, Relation::Table(table))) => tables.push(table),
            Some((_, other)) => {
                let hint = format!("Use DROP {} to remove it.", other.kind().to_uppercase());
                return Err(error::not_a("table", &name.1).hint(hint));
            }
            None if if_exists => match &name.0 {
                Some(schema) if !seen.has_schema(schema) => error::skipped(session, "schema", schema),
                _ => error::skipped(session, "table", &name.1),
            },
            None => match &name.0 {
                Some(schema) if !seen.has_schema(schema) => return Err(error::no_schema(schema)),
                _ => return Err(error::missing("table", &shown(&name))),
            },
        }
    }
    for table in &tables {
        super::check_may_define(session, table)?;
    }
    let found = drop_all(&seen, &tables);
    if !found.needs.is_empty() && !cascade {
        let what = match tables.as_slice() {
            [table] => format!("table {}", table.name),
            _ => "desired object(s)".to_owned(),
        };
        return Err(error::needed(&what, &found.needs));
    }
    apply(session, &found.steps)?;
    tell(session, found.told);
    Ok("DROP TABLE")
}

/// Runs `TRUNCATE` of several tables.
///
/// # Errors
/// 42P01; 0A000 where others refer to them.
pub(super) fn truncate(session: &mut ClientSession, of: &Truncate) -> Result<&'static str, Refusal> {
    if of.partitions.is_some() || of.on_cluster.is_some() || of.if_exists {
        return Err(error::unsupported("this form of TRUNCATE"));
    }
    let seen = Seen::of(session)?;
    let mut tables: Vec<&TableInfo> = Vec::new();
    for target in &of.table_names {
        let table = seen.find_table(&names(&target.name)?)?;
        if !is_in(&tables, table) {
            tables.push(table);
        }
    }
    let cascade = of.cascade == Some(CascadeOption::Cascade);
    // Those that are found are looked at, too.
    let mut at = 0;
    while let Some(table) = tables.get(at).copied() {
        at += 1;
        for (other, _) in seen.referring(&table.schema, &table.name) {
            if is_in(&tables, other) {
                continue;
            }
            if !cascade {
                let what = "cannot truncate a table referenced in a foreign key constraint";
                return Err(Refusal::new(code::NOT_SUPPORTED, what)
                    .detail(format!("Table \"{}\" references \"{}\".", other.name, table.name))
                    .hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        other.name
                    )));
            }
            let what = format!("truncate cascades to table \"{}\"", other.name);
            error::notice(session, code::SUCCESS, what);
            tables.push(other);
        }
    }
    for table in &tables {
        session.check_may_write(WriteRight::Truncate, table)?;
    }
    // Foreign keys between them stand in the store's way, and come back to empty tables.
    let (mut steps, mut again) = (Vec::new(), Vec::new());
    for table in &tables {
        for (other, key) in seen.referring(&table.schema, &table.name) {
            if !other.table.is_same(&table.table) {
                steps.push(Step::DropConstraint(at_of(other), key.name.clone()));
                again.push(Step::AddForeignKey(at_of(other), key.clone()));
            }
        }
    }
    steps.extend(tables.iter().map(|table| Step::Truncate(at_of(table))));
    steps.extend(again);
    if of.identity == Some(TruncateIdentityOption::Restart) {
        for table in &tables {
            for at in sequence::owned_by(&seen, table, None) {
                steps.push(sequence::restarted(session, &at)?);
            }
        }
    }
    apply(session, &steps)?;
    Ok("TRUNCATE TABLE")
}

/// Runs `CREATE SCHEMA`.
///
/// # Errors
/// 42P06, 42939.
pub(super) fn create_schema(
    session: &mut ClientSession,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<&'static str, Refusal> {
    const TAG: &str = "CREATE SCHEMA";
    let name = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => match names(name)? {
            (None, name) => name,
            _ => return Err(error::unsupported("a schema of another database")),
        },
        SchemaName::UnnamedAuthorization(user) => folded(user),
    };
    let is_ours = error::check_schema(&name).is_err();
    if name.starts_with("pg_") || is_ours {
        let refusal = Refusal::new("42939", format!("unacceptable schema name \"{name}\""));
        return Err(match is_ours {
            true => refusal.detail("The server keeps its own tables there."),
            false => refusal.detail("The prefix \"pg_\" is reserved for system schemas."),
        });
    }
    session.check_may_create(&name)?;
    let seen = Seen::of(session)?;
    if seen.has_schema(&name) {
        let what = format!("schema \"{name}\" already exists");
        if !if_not_exists {
            return Err(Refusal::new("42P06", what));
        }
        error::notice(session, "42P06", format!("{what}, skipping"));
        return Ok(TAG);
    }
    apply(session, &[Step::CreateSchema(name)])?;
    Ok(TAG)
}

/// Runs `DROP SCHEMA` of several.
///
/// # Errors
/// 3F000; 2BP01 of those that are not empty.
pub(super) fn schemas(
    session: &mut ClientSession,
    named: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<&'static str, Refusal> {
    for name in named {
        let (_, name) = names(name)?;
        error::check_schema(&name)?;
        session.check_may_create(&name)?;
        let seen = Seen::of(session)?;
        if !seen.has_schema(&name) {
            if !if_exists {
                return Err(error::no_schema(&name));
            }
            error::skipped(session, "schema", &name);
            continue;
        }
        schema(session, &seen, &name, cascade)?;
    }
    Ok("DROP SCHEMA")
}

fn schema(session: &mut ClientSession, seen: &Seen, name: &str, cascade: bool) -> Result<(), Refusal> {
    let tables: Vec<&TableInfo> = seen.tables.iter().filter(|table| table.schema == name).collect();
    let sequences: Vec<&At> = seen.sequences.iter().filter(|at| at.0 == name).collect();
    for table in &tables {
        super::check_may_define(session, table)?;
    }
    let mut found = drop_all(seen, &tables);
    let of_tables: Vec<At> = tables
        .iter()
        .flat_map(|of| sequence::owned_by(seen, of, None))
        .collect();
    let mut needs: Vec<String> = tables
        .iter()
        .map(|table| format!("table {name}.{} depends on schema {name}", table.name))
        .collect();
    let mut told: Vec<String> = tables
        .iter()
        .map(|table| format!("drop cascades to table {name}.{}", table.name))
        .collect();
    for at in sequences.iter().filter(|at| !of_tables.contains(at)) {
        needs.push(format!("sequence {name}.{} depends on schema {name}", at.1));
        told.push(format!("drop cascades to sequence {name}.{}", at.1));
        for (table, column, _) in sequence::uses(seen, at) {
            if table.0 != name {
                found.steps.push(Step::Forget(table, column, Property::Default));
            }
        }
    }
    if !needs.is_empty() && !cascade {
        needs.truncate(LISTED_MAX);
        return Err(error::needed(&format!("schema {name}"), &needs));
    }
    told.extend(found.told);
    if name == corun_store::PUBLIC {
        return Err(error::unsupported("dropping the schema public")
            .hint("Drop the tables that are in it; the schema is always there."));
    }
    let of_nobody = sequences.into_iter().filter(|at| !of_tables.contains(at));
    found.steps.extend(of_nobody.cloned().map(Step::DropSequence));
    found.steps.push(Step::DropSchema(name.to_owned()));
    apply(session, &found.steps)?;
    tell(session, told);
    Ok(())
}
