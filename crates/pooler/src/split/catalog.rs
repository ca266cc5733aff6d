//! [`Catalog`]: what a server is asked about names in a text, and what it answered.

use super::kinds::{COLLATION_DEFAULT, COLLATIONS_C, FIRST_OF_USERS};
use super::text::{qualified, quoted};
use super::{Plan, Refusal};

/// A column of a table.
#[derive(Clone, Debug)]
pub(super) struct CatalogColumn {
    pub name: String,
    /// Its type; of a domain, what it is based on.
    pub kind: u32,
    /// Neither PostgreSQL's own type nor an enumeration.
    pub own_type: bool,
    pub not_null: bool,
    pub collation: u32,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct CatalogTable {
    pub oid: u32,
    pub columns: Vec<CatalogColumn>,
}

impl CatalogTable {
    /// The number of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// What the names in a text stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    /// In the order of [`Plan::tables`].
    pub tables: Vec<CatalogTable>,
    /// The table of the key.
    pub key: u32,
    /// The database's own collation is that of bytes.
    pub in_bytes: bool,
}

impl Catalog {
    /// Whether a collation is the one literals have, or puts in the same order.
    pub fn is_default(&self, collation: u32) -> bool {
        collation == 0 || collation == COLLATION_DEFAULT || self.in_bytes && COLLATIONS_C.contains(&collation)
    }

    /// Whether a collation certainly puts bytes in order.
    pub fn is_c(&self, collation: u32) -> bool {
        COLLATIONS_C.contains(&collation) || self.in_bytes && collation == COLLATION_DEFAULT
    }
}

impl Plan {
    /// One statement of the simple protocol that asks the catalog what the names in the text stand for. Its rows have seven
    /// columns of text and go to [`Plan::resolve`].
    pub fn questions(&self) -> String {
        let tables: Vec<String> = self
            .tables()
            .into_iter()
            .enumerate()
            .map(|(number, table)| {
                let name = qualified(table.schema.as_deref(), &table.name);
                format!("({number}, pg_catalog.to_regclass({}))", quoted(&name))
            })
            .collect();
        let array = |names: &mut dyn Iterator<Item = &String>| {
            let list: Vec<String> = names.map(|name| quoted(name)).collect();
            format!("array[{}]::text[]", list.join(", "))
        };
        let functions = array(&mut self.seen.functions.iter());
        let operators = array(&mut self.seen.operators.iter());
        let types = array(&mut self.seen.types.iter());
        let key = quoted(&qualified(self.key.schema.as_deref(), &self.key.table));
        // A type that no column in the text has; columns may have domains and enumerations, so those count as PostgreSQL's own.
        let own = format!(
            "exists (select from pg_catalog.pg_type t where t.oid = kind and t.oid >= {FIRST_OF_USERS} and t.typtype not in ('d', 'e'))"
        );
        format!(
            "with mentioned (number, relation) as (values {tables}) \
             select 'table', number::text, c.oid::text, c.relkind::text, c.relpersistence::text, \
               pg_catalog.row_security_active(c.oid)::text, null::text \
               from mentioned join pg_catalog.pg_class c on c.oid = relation \
             union all select 'column', number::text, a.attname::text, \
               (case t.typtype when 'd' then t.typbasetype else t.oid end)::text, a.attnotnull::text, a.attcollation::text, t.typtype::text \
               from mentioned join pg_catalog.pg_attribute a on a.attrelid = relation and a.attnum > 0 and not a.attisdropped \
               join pg_catalog.pg_type t on t.oid = a.atttypid \
             union all select 'key', pg_catalog.to_regclass({key})::oid::text, null, null, null, null, null \
             union all select 'function', p.proname::text, null, null, null, null, null from pg_catalog.pg_proc p \
               where p.proname::text = any ({functions}) and p.pronamespace <> 'pg_catalog'::regnamespace \
               and pg_catalog.pg_function_is_visible(p.oid) \
               and not exists (select from pg_catalog.unnest(p.proargtypes::oid[]) u (kind) where {own}) \
             union all select 'operator', o.oprname::text, null, null, null, null, null from pg_catalog.pg_operator o \
               where o.oprname::text = any ({operators}) and o.oprnamespace <> 'pg_catalog'::regnamespace \
               and pg_catalog.pg_operator_is_visible(o.oid) \
               and not exists (select from (values (o.oprleft), (o.oprright)) u (kind) where {own}) \
             union all select 'type', name, pg_catalog.to_regtype(pg_catalog.quote_ident(name))::oid::text, null, null, null, null \
               from pg_catalog.unnest({types}) u (name) \
             union all select 'casts', pg_catalog.count(*)::text, null, null, null, null, null from pg_catalog.pg_cast \
               c where c.oid >= {FIRST_OF_USERS} \
               and not exists (select from (values (castsource), (casttarget)) u (kind) where {own}) \
             union all select 'foreign', pg_catalog.count(*)::text, null, null, null, null, null from pg_catalog.pg_inherits i \
               join pg_catalog.pg_class c on c.oid = i.inhrelid and c.relkind = 'f' \
             union all select 'path', (select s from pg_catalog.unnest(pg_catalog.current_schemas(true)) with ordinality u (s, n) \
               where s::text !~ '^pg_temp_' order by n limit 1)::text, null, null, null, null, null \
             union all select 'isolation', pg_catalog.current_setting('default_transaction_isolation'), null, null, null, null, null \
             union all select 'collation', d.datcollate::text, pg_catalog.to_jsonb(d) ->> 'datlocprovider', \
               coalesce(pg_catalog.to_jsonb(d) ->> 'datlocale', pg_catalog.to_jsonb(d) ->> 'daticulocale'), null, null, null \
               from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()",
            tables = tables.join(", "),
        )
    }

    /// Reads the answer to [`Plan::questions`].
    pub(super) fn catalog(&self, rows: &[Vec<Option<String>>]) -> Result<Catalog, Refusal> {
        let mut catalog = Catalog::default();
        let mut tables: Vec<Option<CatalogTable>> = vec![None; self.tables().len()];
        let bad = || Refusal::CatalogAnswer;
        let mut path_seen = false;
        for row in rows {
            let at = |at: usize| row.get(at).and_then(|value| value.as_deref());
            let text = |number: usize| at(number).ok_or_else(bad);
            let oid = |number: usize| text(number)?.parse::<u32>().map_err(|_| bad());
            match text(0)? {
                "table" => {
                    let number: usize = text(1)?.parse().map_err(|_| bad())?;
                    let name = self.tables().get(number).ok_or_else(bad)?.name.to_string();
                    let strange = match (text(3)?, text(4)?, text(5)?) {
                        (_, "t", _) => Some("temporary"),
                        (_, _, "true" | "t") => Some("under row security"),
                        ("r" | "p", ..) => None,
                        ("v", ..) => Some("a view"),
                        ("m", ..) => Some("a materialized view"),
                        ("f", ..) => Some("a foreign table"),
                        _ => Some("no table"),
                    };
                    if let Some(strange) = strange {
                        return Err(Refusal::TableKind(name, strange));
                    }
                    tables[number] = Some(CatalogTable {
                        oid: oid(2)?,
                        columns: Vec::new(),
                    });
                }
                "column" => {
                    let number: usize = text(1)?.parse().map_err(|_| bad())?;
                    let kind = oid(3)?;
                    let column = CatalogColumn {
                        name: text(2)?.to_owned(),
                        kind,
                        own_type: kind >= FIRST_OF_USERS && text(6)? != "e",
                        not_null: matches!(text(4)?, "true" | "t"),
                        collation: oid(5)?,
                    };
                    let table = tables.get_mut(number).and_then(Option::as_mut).ok_or_else(bad)?;
                    table.columns.push(column);
                }
                "key" => catalog.key = at(1).unwrap_or("0").parse().map_err(|_| bad())?,
                "function" | "operator" => return Err(Refusal::Shadowed(text(1)?.to_owned())),
                "type" => {
                    if at(2)
                        .and_then(|oid| oid.parse::<u32>().ok())
                        .is_none_or(|oid| oid >= FIRST_OF_USERS)
                    {
                        return Err(Refusal::Shadowed(text(1)?.to_owned()));
                    }
                }
                "casts" if text(1)? != "0" => return Err(Refusal::OwnCasts),
                "foreign" if text(1)? != "0" => return Err(Refusal::ForeignPartition),
                "casts" | "foreign" => {}
                "path" => {
                    path_seen = true;
                    if at(1) != Some("pg_catalog") {
                        return Err(Refusal::SearchPath);
                    }
                }
                "isolation" if text(1)? == "serializable" => return Err(Refusal::Serializable),
                "isolation" => {}
                "collation" => {
                    let c = |name: Option<&str>| matches!(name, Some("C" | "POSIX"));
                    catalog.in_bytes = match at(2) {
                        None | Some("c") => c(at(1)),
                        Some("b") => c(at(3)),
                        Some(_) => false,
                    };
                }
                _ => return Err(bad()),
            }
        }
        if !path_seen {
            return Err(bad());
        }
        for (name, table) in self.tables().into_iter().zip(tables) {
            let table = table.ok_or_else(|| Refusal::NoTable(name.name.to_string()))?;
            catalog.tables.push(table);
        }
        Ok(catalog)
    }
}
