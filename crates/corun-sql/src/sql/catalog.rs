//! What `\d` and its like list: questions to `information_schema`.

use anyhow::{Result, bail};
use corun_datafusion::nearest;

use super::session::Session;

/// Tables, or those whose name is like a pattern.
///
/// # Errors
/// Whatever the engine reports.
pub async fn tables(session: &Session, pattern: Option<&str>) -> Result<()> {
    let wanted = match pattern.map(Name::parse) {
        None => String::new(),
        Some(name) => format!(" and {}", name.condition("table_schema", "table_name")),
    };
    let sql = format!(
        "select table_schema as \"schema\", table_name as \"table\", count(*) as columns \
         from information_schema.columns where table_schema <> 'information_schema'{wanted} \
         group by table_schema, table_name order by 1, 2"
    );
    session.show(&sql).await
}

/// The columns of a table.
///
/// # Errors
/// No such table; whatever the engine reports.
pub async fn columns(session: &Session, name: &str) -> Result<()> {
    let wanted = Name::parse(name);
    let of = format!(
        "from information_schema.columns where {}",
        wanted.condition("table_schema", "table_name")
    );
    let found = session
        .texts(&format!("select distinct table_schema, table_name {of}"))
        .await?;
    match found.as_slice() {
        [] => return no_table(session, &wanted).await,
        [_] => {}
        // A pattern: as psql, but shorter.
        _ => return tables(session, Some(name)).await,
    }
    let sql = format!(
        "select column_name as \"column\", data_type as \"type\", is_nullable as \"nullable\" {of} order by ordinal_position"
    );
    session.show(&sql).await
}

async fn no_table(session: &Session, wanted: &Name) -> Result<()> {
    let sql = "select distinct table_schema, table_name from information_schema.columns";
    let known: Vec<String> = session
        .texts(sql)
        .await?
        .iter()
        .map(|row| match row[0].as_str() {
            "public" => row[1].clone(),
            schema => format!("{schema}.{}", row[1]),
        })
        .collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let name = wanted.shown();
    match nearest(&name, &known) {
        Some(near) => {
            bail!("there is no table \"{name}\"\nhint: did you mean \"{near}\"? \\d lists the tables")
        }
        None => bail!("there is no table \"{name}\"\nhint: \\d lists the tables"),
    }
}

/// Schemas.
///
/// # Errors
/// Whatever the engine reports.
pub async fn schemas(session: &Session) -> Result<()> {
    let sql = "select catalog_name as \"catalog\", schema_name as \"schema\" from information_schema.schemata \
               where schema_name <> 'information_schema' order by 1, 2";
    session.show(sql).await
}

/// Catalogs.
///
/// # Errors
/// Whatever the engine reports.
pub async fn catalogs(session: &Session) -> Result<()> {
    let sql = "select distinct catalog_name as \"catalog\" from information_schema.schemata order by 1";
    session.show(sql).await
}

/// Functions, or those whose name is like a pattern.
///
/// # Errors
/// Whatever the engine reports.
pub async fn functions(session: &Session, pattern: Option<&str>) -> Result<()> {
    let wanted = match pattern.map(Name::parse) {
        None => String::new(),
        Some(name) => format!("where {} ", like("routine_name", &name.name)),
    };
    let sql = format!(
        "select distinct routine_name as \"function\", function_type as \"type\", syntax_example as \"syntax\" \
         from information_schema.routines {wanted}order by 1, 2, 3"
    );
    session.show(&sql).await
}

/// A name or a pattern, maybe with a schema's.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    schema: Option<String>,
    name: String,
}

impl Name {
    /// As an identifier of SQL: without quotes it folds to lower case, a dot in quotes is a character.
    fn parse(text: &str) -> Name {
        let mut parts = vec![String::new()];
        let mut quoted = false;
        for c in text.chars() {
            match c {
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(String::new()),
                c => {
                    if let Some(part) = parts.last_mut() {
                        part.extend(if quoted {
                            vec![c]
                        } else {
                            c.to_lowercase().collect()
                        });
                    }
                }
            }
        }
        let name = parts.pop().unwrap_or_default();
        Name {
            schema: parts.pop(),
            name,
        }
    }

    fn condition(&self, schema: &str, name: &str) -> String {
        let of_schema = match &self.schema {
            Some(wanted) => like(schema, wanted),
            None => format!("{schema} <> 'information_schema'"),
        };
        format!("{of_schema} and {}", like(name, &self.name))
    }

    fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A condition on a column: `*` stands for any characters, `?` for one.
fn like(column: &str, pattern: &str) -> String {
    let text = pattern.replace('\'', "''");
    if !text.contains(['*', '?']) {
        return format!("{column} = '{text}'");
    }
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '*' => escaped.push('%'),
            '?' => escaped.push('_'),
            '%' | '_' | '\\' => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    format!("{column} like '{escaped}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fold_like_identifiers() {
        let name = |schema: Option<&str>, name: &str| Name {
            schema: schema.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(Name::parse("Orders"), name(None, "orders"));
        assert_eq!(Name::parse("\"Orders.x\""), name(None, "Orders.x"));
        assert_eq!(Name::parse("Sales.\"Q1\""), name(Some("sales"), "Q1"));
    }

    #[test]
    fn patterns_are_escaped() {
        assert_eq!(like("a", "line_*"), "a like 'line\\_%'");
        assert_eq!(like("a", "it's"), "a = 'it''s'");
    }
}
