//! `regclass`: relations by their names and numbers.

use super::functions::{Call, Context, texts};
use super::oids::{self, Object};
use super::quoting::quoted;
use super::stored;
use arrow::array::{ArrayRef, BooleanArray, Int32Array};
use datafusion::common::exec_err;
use datafusion::error::Result;
use std::sync::Arc;

/// Whether a name without a schema would mean this relation.
fn is_first(call: &Call<'_>, object: &Object, number: i32) -> bool {
    if object.schema == "pg_catalog" {
        return true;
    }
    let path = call.context.facts.search_path();
    // What has a number may be gone.
    let first = path
        .iter()
        .filter(|schema| **schema == object.schema || has_table(call.context, schema, &object.name))
        .find_map(|schema| oids::relation(&call.context.catalog, schema, &object.name));
    path.contains(&object.schema) && (object.kind == "index" || first == Some(number))
}

/// `pg_table_is_visible(number)`.
pub(super) fn is_visible(call: &Call<'_>) -> Result<ArrayRef> {
    let numbers = call.number(0)?.into_iter();
    let visible = numbers.map(|number| {
        let object = call.object(number)?;
        Some(is_first(call, &object, number?))
    });
    Ok(Arc::new(visible.collect::<BooleanArray>()))
}

/// The name of a relation, with its schema where it needs that.
pub(super) fn name(call: &Call<'_>) -> Result<ArrayRef> {
    let name = |number: i32| match call.object(Some(number)) {
        _ if number == 0 => "-".to_owned(),
        None => number.to_string(),
        Some(object) => {
            let name = object
                .name
                .rsplit_once('/')
                .map_or(object.name.as_str(), |(_, index)| index);
            match is_first(call, &object, number) {
                true => quoted(name),
                false => format!("{}.{}", quoted(&object.schema), quoted(name)),
            }
        }
    };
    texts(call.number(0)?.into_iter().map(|number| number.map(name)))
}

/// The number of a relation that there is now, by its name as SQL writes it.
pub(super) fn number(call: &Call<'_>, must_be: bool) -> Result<ArrayRef> {
    let mut numbers = Vec::new();
    for text in call.text(0)? {
        let Some(text) = text else {
            numbers.push(None);
            continue;
        };
        let parts = parts(&text);
        let found = match parts.as_slice() {
            [name] => {
                let path = call.context.facts.search_path();
                let system = std::iter::once("pg_catalog".to_owned());
                let mut schemas = system.chain(path);
                schemas.find_map(|schema| number_of(call.context, &schema, name))
            }
            [.., schema, name] => number_of(call.context, schema, name),
            [] => None,
        };
        if found.is_none() && must_be {
            return exec_err!("relation \"{text}\" does not exist");
        }
        numbers.push(found);
    }
    Ok(Arc::new(Int32Array::from(numbers)))
}

fn has_table(context: &Context, schema: &str, name: &str) -> bool {
    let tables = context.tables.schema(schema);
    tables.is_some_and(|tables| tables.table_exist(name))
}

/// Asks the schema, not what has a number: nobody may have listed the table yet, or it may be gone.
fn number_of(context: &Context, schema: &str, name: &str) -> Option<i32> {
    let catalog = &context.catalog;
    let view = context.view.as_deref();
    if let Some(view) = view.filter(|_| !stored::is_own(schema, name)) {
        if let Some(table) = stored::table_of_index(view, schema, name) {
            return Some(oids::of_index(catalog, schema, &table, name));
        }
        if stored::has_sequence(view, schema, name) {
            return Some(oids::table(catalog, schema, name));
        }
    }
    has_table(context, schema, name).then(|| oids::table(catalog, schema, name))
}

/// `Schema."Table"` as `schema` and `Table`.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), false);
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quote && chars.peek() == Some(&'"') => part.extend(chars.next()),
            '"' => quote = !quote,
            '.' if !quote => parts.push(std::mem::take(&mut part)),
            _ if quote => part.push(c),
            _ => part.extend(c.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_as_sql_cuts_them() {
        assert_eq!(parts("Public.\"My.Table\""), ["public", "My.Table"]);
        assert_eq!(parts("\"a\"\"b\""), ["a\"b"]);
    }
}
