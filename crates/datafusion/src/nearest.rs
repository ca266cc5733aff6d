//! The name that a misspelt one was meant to be.

use crate::EngineError;
use datafusion::catalog::CatalogProvider;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// The nearest of `known` to `given`, if it is near enough to be meant.
pub fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let of = |name: &&str| levenshtein(given, name);
    let best = known.iter().min_by_key(|name| of(name))?;
    (of(best) <= given.len().max(best.len()) / 2).then_some(*best)
}

/// The error with a hint at a table that exists, where it is about one that does not.
pub(crate) fn with_near_table(context: &SessionContext, error: EngineError) -> EngineError {
    let Some(name) = error.unknown_table().filter(|_| error.hint.is_none()) else {
        return error;
    };
    let config = context.copied_config();
    let defaults = &config.options().catalog;
    let Some(catalog) = context.catalog(&defaults.default_catalog) else {
        return error;
    };
    let known = tables(&catalog, &defaults.default_schema);
    // A table of that very name in another schema is nearer than one of a similar name.
    let bare = name.rsplit('.').next().unwrap_or(&name);
    let elsewhere = known.iter().find(|known| known.rsplit('.').next() == Some(bare));
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match elsewhere.map(String::as_str).or_else(|| nearest(&name, &known)) {
        Some(near) => error.with_hint(format!("did you mean \"{near}\"?")),
        None => error,
    }
}

/// All tables of a catalog, those of the schema `default` without its name.
fn tables(catalog: &Arc<dyn CatalogProvider>, default: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in catalog.schema_names() {
        let tables = catalog.schema(&name).map(|schema| schema.table_names());
        found.extend(tables.into_iter().flatten().map(|table| match name == default {
            true => table,
            false => format!("{name}.{table}"),
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_meant() {
        let known = ["lineorder", "part", "supplier"];
        assert_eq!(nearest("lineoder", &known), Some("lineorder"));
        assert_eq!(nearest("parts", &known), Some("part"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("part", &[]), None);
    }
}
