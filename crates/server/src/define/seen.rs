//! [`Seen`]: the tables, indexes, schemas and sequences that there are, as the client's transaction sees them, with the dictionary's entries.
//! What a definition does is decided from it, without effects.

use super::error;
use crate::session::{ClientSession, StoreFailure};
use crate::write::{DICTIONARY_SCHEMA, Dictionary, Entry, TableInfo, described};
use corun_store::{ForeignKeyDef, IndexDef, Transaction};
use corun_wire::error::Refusal;
use std::collections::HashMap;

/// Most bytes of a name that is made here: PostgreSQL's.
const NAME_BYTES_MAX: usize = 63;

/// Schema and name.
pub(super) type At = (String, String);

/// A relation of a name.
pub(super) enum Relation<'s> {
    Table(&'s TableInfo),
    Index(&'s TableInfo, &'s IndexDef),
    Sequence,
}

impl Relation<'_> {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Relation::Table(_) => "table",
            Relation::Index(..) => "index",
            Relation::Sequence => "sequence",
        }
    }
}

/// See [`self`].
pub(super) struct Seen {
    pub(super) tables: Vec<TableInfo>,
    pub(super) schemas: Vec<String>,
    pub(super) sequences: Vec<At>,
    pub(super) path: Vec<String>,
}

impl Seen {
    /// What there is now.
    pub(super) fn of(session: &mut ClientSession) -> Result<Seen, Refusal> {
        let path = session.search_path();
        let transaction = session.store_transaction()?;
        transaction.run(|transaction| Seen::read(transaction, &path))
    }

    fn read(transaction: &Transaction<'_>, path: &[String]) -> Result<Seen, StoreFailure> {
        let entries = match Dictionary::of(transaction)? {
            Some(dictionary) => dictionary.entries(transaction)?,
            None => Vec::new(),
        };
        let mut of_tables: HashMap<At, Vec<Entry>> = HashMap::new();
        for entry in entries {
            let at = (entry.schema.clone(), entry.table.clone());
            of_tables.entry(at).or_default().push(entry);
        }
        let tables = transaction.tables().into_iter().map(|table| {
            let at = (table.schema().to_owned(), table.name().to_owned());
            described(&table, of_tables.remove(&at).unwrap_or_default())
        });
        let sequences = transaction.sequences().into_iter().map(|sequence| {
            let definition = sequence.definition();
            (definition.schema.clone(), definition.name.clone())
        });
        Ok(Seen {
            tables: tables.filter(|table| table.schema != DICTIONARY_SCHEMA).collect(),
            schemas: transaction.schemas(),
            sequences: sequences.collect(),
            path: path.to_vec(),
        })
    }

    pub(super) fn has_schema(&self, schema: &str) -> bool {
        self.schemas.iter().any(|known| known == schema)
    }

    pub(super) fn table(&self, schema: &str, name: &str) -> Option<&TableInfo> {
        let mut tables = self.tables.iter();
        tables.find(|table| table.schema == schema && table.name == name)
    }

    pub(super) fn relation(&self, schema: &str, name: &str) -> Option<Relation<'_>> {
        if let Some(table) = self.table(schema, name) {
            return Some(Relation::Table(table));
        }
        let mut tables = self.tables.iter().filter(|table| table.schema == schema);
        let index = tables.find_map(|table| Some((table, table.index_shown(name)?)));
        if let Some((table, index)) = index {
            return Some(Relation::Index(table, index));
        }
        let is_it = |at: &At| at.0 == schema && at.1 == name;
        self.sequences.iter().any(is_it).then_some(Relation::Sequence)
    }

    /// Schemas in which a name is looked for.
    fn places<'p>(&'p self, schema: Option<&'p str>) -> Vec<&'p str> {
        match schema {
            Some(schema) => vec![schema],
            None => self.path.iter().map(String::as_str).collect(),
        }
    }

    /// The first relation of a name on the search path, or in the schema that it names.
    pub(super) fn find(&self, (schema, name): &(Option<String>, String)) -> Option<(At, Relation<'_>)> {
        let mut places = self.places(schema.as_deref()).into_iter();
        places.find_map(|schema| {
            let relation = self.relation(schema, name)?;
            Some(((schema.to_owned(), name.clone()), relation))
        })
    }

    /// A table by name.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) fn find_table(&self, name: &(Option<String>, String)) -> Result<&TableInfo, Refusal> {
        match self.find(name) {
            Some((_, Relation::Table(table))) => Ok(table),
            Some(_) => Err(error::not_a("table", &name.1)),
            None => Err(error::no_relation(&shown(name))),
        }
    }

    /// Where a relation that has this name is made.
    ///
    /// # Errors
    /// 3F000, 42501.
    pub(super) fn place(&self, (schema, name): &(Option<String>, String)) -> Result<At, Refusal> {
        let schema = match schema {
            Some(schema) => schema.clone(),
            None => {
                let mut path = self.path.iter().filter(|schema| self.has_schema(schema));
                let first = path.next().cloned();
                first.ok_or_else(|| Refusal::new("3F000", "no schema has been selected to create in"))?
            }
        };
        error::check_schema(&schema)?;
        match self.has_schema(&schema) {
            true => Ok((schema, name.clone())),
            false => Err(error::no_schema(&schema)),
        }
    }

    /// The foreign keys that refer to a table, and whose they are.
    pub(super) fn referring(&self, schema: &str, name: &str) -> Vec<(&TableInfo, &ForeignKeyDef)> {
        let keys = self.tables.iter().flat_map(|table| {
            let keys = table.definition.foreign_keys.iter();
            keys.map(move |key| (table, key))
        });
        keys.filter(|(_, key)| key.schema == schema && key.table == name)
            .collect()
    }

    /// The column that owns a sequence.
    pub(super) fn owner_of(&self, at: &At) -> Option<(&TableInfo, &str)> {
        let text = quoted_at(at);
        self.tables.iter().find_map(|table| {
            let mut owned = table.notes.sequences.iter();
            let (column, _) = owned.find(|(_, sequence)| *sequence == text)?;
            Some((table, column.as_str()))
        })
    }

    /// A name for a relation, made of a table's, of columns', and a word: with a number where it is taken.
    pub(super) fn free_relation(
        &self,
        schema: &str,
        (table, columns, word): (&str, &str, &str),
        also_taken: &[String],
    ) -> String {
        first_free(table, columns, word, |name| {
            self.relation(schema, name).is_none() && !also_taken.iter().any(|taken| taken == name)
        })
    }
}

/// A name as errors have it.
pub(super) fn shown((schema, name): &(Option<String>, String)) -> String {
    match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.clone(),
    }
}

/// A name as SQL writes it.
pub(super) fn quoted_at((schema, name): &At) -> String {
    use crate::catalog::quoted;
    format!("{}.{}", quoted(schema), quoted(name))
}

/// The first of the names `table_columns_word`, `..._word1`, ... that is free.
pub(super) fn first_free(table: &str, columns: &str, word: &str, is_free: impl Fn(&str) -> bool) -> String {
    let mut number = 0_usize;
    loop {
        let word = match number {
            0 => word.to_owned(),
            number => format!("{word}{number}"),
        };
        let name = made(table, columns, &word);
        if is_free(&name) {
            return name;
        }
        number += 1;
    }
}

/// A name of parts, of which the longer one is cut until all fit.
fn made(table: &str, columns: &str, word: &str) -> String {
    let points = usize::from(!columns.is_empty()) + usize::from(!word.is_empty());
    let room = NAME_BYTES_MAX.saturating_sub(word.len() + points);
    let (mut of_table, mut of_columns) = (table.len(), columns.len());
    while of_table + of_columns > room {
        match of_table > of_columns {
            true => of_table -= 1,
            false => of_columns -= 1,
        }
    }
    let cut = |text: &str, at: usize| text[..text.floor_char_boundary(at)].to_owned();
    let parts = [cut(table, of_table), cut(columns, of_columns), word.to_owned()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_and_cut_as_postgresql_does() {
        assert_eq!(made("t", "a_b", "key"), "t_a_b_key");
        assert_eq!(made("t", "", "pkey"), "t_pkey");
        let long = "x".repeat(60);
        let name = made(&long, "a", "key");
        assert_eq!(name.len(), NAME_BYTES_MAX);
        assert!(name.ends_with("x_a_key"), "{name}");
        let umlauts = "ä".repeat(40);
        let name = made(&umlauts, &umlauts, "fkey");
        assert!(name.len() <= NAME_BYTES_MAX && name.ends_with("_fkey"), "{name}");
        let taken = ["t_key".to_owned(), "t_key1".to_owned()];
        let free = |name: &str| !taken.iter().any(|taken| taken == name);
        assert_eq!(first_free("t", "", "key", free), "t_key2");
    }
}
