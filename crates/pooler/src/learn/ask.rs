//! What a server is asked: its catalog, its statistics, and which statements took its time. All are plain reads.

use std::collections::{BTreeMap, HashMap};

use super::schema::{Column, Place, Schema, Table, key_type};
use super::spread::Statistics;
use super::statements::{Source, Statement};
use crate::admin::QueryRow;
use crate::preflight::{grant, or_refusal};
use crate::session::settings::literal;
use crate::split::quoted_name;
use crate::talk::{Conversation, Rows, TalkError};

/// Tables looked at, the largest.
const TABLES_MAX: usize = 1000;
/// Columns whose statistics are asked for at once: each may have some ten thousand values.
const COLUMNS_AT_ONCE: usize = 4;
/// Statements looked at, those with the most time.
const STATEMENTS_MAX: usize = 500;

fn tables_question() -> String {
    format!(
        "WITH RECURSIVE tree (root, part) AS (\
           SELECT c.oid, c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
           WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND NOT c.relispartition \
             AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
           UNION ALL SELECT t.root, i.inhrelid FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.part) \
         SELECT c.oid, n.nspname, c.relname, pg_catalog.pg_table_is_visible(c.oid)::text, \
           pg_catalog.sum(greatest(p.reltuples, 0))::bigint, \
           pg_catalog.sum(coalesce(pg_catalog.pg_total_relation_size(p.oid), 0))::bigint AS bytes, \
           pg_catalog.has_table_privilege(c.oid, 'SELECT')::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE')::text \
         FROM tree JOIN pg_catalog.pg_class c ON c.oid = root JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
           JOIN pg_catalog.pg_class p ON p.oid = part \
         GROUP BY c.oid, n.oid, n.nspname, c.relname ORDER BY bytes DESC, c.oid LIMIT {TABLES_MAX}"
    )
}

fn columns_question(tables: &str) -> String {
    format!(
        "SELECT a.attrelid, a.attnum, a.attname, (CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END), \
           EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisvalid AND i.indpred IS NULL \
             AND i.indkey[0] = a.attnum)::text, \
           EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND i.indnatts = 1 \
             AND i.indkey[0] = a.attnum)::text \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         WHERE a.attrelid = ANY ('{{{tables}}}'::oid[]) AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attrelid, a.attnum"
    )
}

fn references_question(tables: &str) -> String {
    format!(
        "SELECT k.conrelid, u.own, k.confrelid, u.other \
         FROM pg_catalog.pg_constraint k, ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey)) u (own, other) \
         WHERE k.contype = 'f' AND k.conrelid = ANY ('{{{tables}}}'::oid[]) AND k.confrelid = ANY ('{{{tables}}}'::oid[]) \
         ORDER BY k.oid, u.own"
    )
}

/// A value of a row.
fn at(row: &[Option<String>], column: usize) -> &str {
    row.get(column)
        .and_then(|value| value.as_deref())
        .unwrap_or_default()
}

fn number<T: std::str::FromStr + Default>(row: &[Option<String>], column: usize) -> T {
    at(row, column).parse().unwrap_or_default()
}

/// Asks the catalog.
///
/// # Errors
/// The server does not answer, or refuses.
pub(super) fn schema(talk: &mut Conversation) -> Result<Schema, TalkError> {
    let mut schema = Schema::default();
    let mut oids: Vec<u32> = Vec::new();
    for row in talk.query(&tables_question())?.rows {
        oids.push(number(&row, 0));
        schema.tables.push(Table {
            schema: at(&row, 1).to_owned(),
            name: at(&row, 2).to_owned(),
            visible: at(&row, 3) == "true",
            rows: number(&row, 4),
            bytes: number(&row, 5),
            unreadable: at(&row, 6) == "false",
            out_of_reach: at(&row, 7) == "false",
            columns: Vec::new(),
        });
    }
    let table_of: HashMap<u32, usize> = oids.iter().enumerate().map(|(at, &oid)| (oid, at)).collect();
    let list: Vec<String> = oids.iter().map(u32::to_string).collect();
    let list = list.join(",");
    let mut places: HashMap<(u32, i32), Place> = HashMap::new();
    for row in talk.query(&columns_question(&list))?.rows {
        let (oid, attribute): (u32, i32) = (number(&row, 0), number(&row, 1));
        let Some(&table) = table_of.get(&oid) else {
            continue;
        };
        let kind = key_type(number(&row, 3));
        let columns = &mut schema.tables[table].columns;
        let column = columns.len();
        places.insert((oid, attribute), Place { table, column });
        columns.push(Column {
            name: at(&row, 2).to_owned(),
            kind: kind.map(|(kind, _)| kind),
            zoned: kind.is_some_and(|(_, zoned)| zoned),
            leads: at(&row, 4) == "true",
            alone: at(&row, 5) == "true",
        });
    }
    for row in talk.query(&references_question(&list))?.rows {
        let place = |table: usize, column: usize| places.get(&(number(&row, table), number(&row, column)));
        if let (Some(&own), Some(&other)) = (place(0, 1), place(2, 3)) {
            schema.references.push((own, other));
        }
    }
    Ok(schema)
}

/// Asks for the statistics of columns. Those that have none, or that the account must not see, are missing.
///
/// # Errors
/// The server does not answer, or refuses.
pub(super) fn statistics(
    talk: &mut Conversation,
    schema: &Schema,
    places: &[Place],
) -> Result<BTreeMap<Place, Statistics>, TalkError> {
    let mut all = BTreeMap::new();
    for some in places.chunks(COLUMNS_AT_ONCE) {
        let names: Vec<String> = some
            .iter()
            .map(|&place| {
                let (table, column) = (schema.table(place), schema.column(place));
                let names = [&table.schema, &table.name, &column.name].map(|name| literal(name));
                format!("({})", names.join(", "))
            })
            .collect();
        // Of a partitioned table there are statistics with and without its partitions.
        let question = format!(
            "WITH s AS (SELECT DISTINCT ON (w.number) w.number, s.null_frac, s.n_distinct, \
                 s.most_common_vals::text::text[] AS common, s.most_common_freqs AS often, s.histogram_bounds::text::text[] AS bounds \
               FROM pg_catalog.pg_stats s JOIN (SELECT v.*, pg_catalog.row_number() OVER () AS number \
                 FROM (VALUES {}) v (a, b, c)) w ON (s.schemaname, s.tablename, s.attname) = (w.a, w.b, w.c) \
               ORDER BY w.number, s.inherited DESC) \
             SELECT number, 0, 0::bigint AS n, null_frac::text, n_distinct::text FROM s \
             UNION ALL SELECT number, 1, n, v, f::text FROM s, ROWS FROM (pg_catalog.unnest(common), pg_catalog.unnest(often)) WITH ORDINALITY u (v, f, n) \
             UNION ALL SELECT number, 2, n, v, NULL FROM s, pg_catalog.unnest(bounds) WITH ORDINALITY u (v, n) \
             ORDER BY 1, 2, 3",
            names.join(", ")
        );
        for row in talk.query(&question)?.rows {
            let Some(&place) = number::<usize>(&row, 0)
                .checked_sub(1)
                .and_then(|index| some.get(index))
            else {
                continue;
            };
            let found: &mut Statistics = all.entry(place).or_default();
            match at(&row, 1) {
                "0" => {
                    found.null_part = number(&row, 3);
                    found.distinct = number(&row, 4);
                }
                "1" => found.common.push((at(&row, 3).to_owned(), number(&row, 4))),
                _ => found.bounds.push(at(&row, 3).to_owned()),
            }
        }
    }
    Ok(all)
}

/// The least and the greatest value of a column that an index begins with.
///
/// # Errors
/// The server does not answer, or refuses.
pub(super) fn ends(
    talk: &mut Conversation,
    schema: &Schema,
    place: Place,
) -> Result<Option<(String, String)>, TalkError> {
    let (table, column) = (schema.table(place), quoted_name(&schema.column(place).name));
    let question = format!(
        "SELECT pg_catalog.min({column}), pg_catalog.max({column}) FROM {}.{}",
        quoted_name(&table.schema),
        quoted_name(&table.name)
    );
    let rows = talk.query(&question)?;
    Ok(rows
        .value(0)
        .zip(rows.value(1))
        .map(|(low, high)| (low.to_owned(), high.to_owned())))
}

/// Statements and where they are from.
pub(super) struct KnownStatements {
    pub source: Source,
    pub statements: Vec<Statement>,
    pub remark: Option<String>,
}

/// Asks pg_stat_statements; where it is not there, takes what the proxy has seen.
///
/// # Errors
/// The server does not answer.
pub(super) fn statements(
    talk: &mut Conversation,
    (database, user): (&str, &str),
    seen: &[QueryRow],
) -> Result<KnownStatements, TalkError> {
    let why = match extension(talk, user)? {
        Ok(found) => {
            let others = talk.query("SELECT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')")?;
            let own_only = others.value(0) == Some("f");
            let statement = |row: &Vec<Option<String>>| Statement {
                text: at(row, 0).to_owned(),
                calls: number(row, 1),
                total_us: number::<f64>(row, 2).max(0.0) * 1e3,
            };
            return Ok(KnownStatements {
                source: Source::Server,
                statements: found.rows.iter().map(statement).collect(),
                remark: own_only.then(|| {
                    format!(
                        "{user} sees its own statements only in pg_stat_statements; GRANT pg_read_all_stats TO {}",
                        quoted_name(user)
                    )
                }),
            });
        }
        Err(why) => why,
    };
    let own = seen.iter().filter(|row| row.database == database);
    let statements = own.map(|row| Statement {
        text: row.query.clone(),
        calls: row.query_count,
        total_us: row.total_us as f64,
    });
    Ok(KnownStatements {
        source: Source::Proxy,
        statements: statements.take(STATEMENTS_MAX).collect(),
        remark: Some(format!(
            "{why}; statements are those of SHOW QUERIES, if there are any"
        )),
    })
}

/// Texts, calls and milliseconds of pg_stat_statements, or why there are none.
fn extension(talk: &mut Conversation, user: &str) -> Result<Result<Rows, String>, TalkError> {
    let found = talk.query(
        "SELECT n.nspname, EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
           WHERE c.relname = 'pg_stat_statements' AND c.relnamespace = n.oid AND a.attname = 'total_exec_time')::text \
         FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace \
         WHERE e.extname = 'pg_stat_statements'",
    )?;
    let Some(schema) = found.value(0) else {
        return Ok(Err(
            "pg_stat_statements is not installed in the database".to_owned()
        ));
    };
    // It was called otherwise before PostgreSQL 13.
    let time = if found.value(1) == Some("true") {
        "total_exec_time"
    } else {
        "total_time"
    };
    let question = format!(
        "SELECT query, pg_catalog.sum(calls)::bigint, pg_catalog.sum({time})::float8 AS time \
         FROM \"{}\".pg_stat_statements WHERE dbid = (SELECT oid FROM pg_catalog.pg_database \
           WHERE datname = pg_catalog.current_database()) AND query IS NOT NULL \
         GROUP BY query ORDER BY time DESC LIMIT {STATEMENTS_MAX}",
        schema.replace('"', "\"\"")
    );
    let found = or_refusal(talk.query(&question))?;
    Ok(found.map_err(|why| {
        let grant = grant("USAGE ON SCHEMA", schema, user);
        format!("pg_stat_statements cannot be read: {why}; where {user} lacks the right, {grant}")
    }))
}
