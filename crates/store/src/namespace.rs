//! Schemas: names that tables and sequences have in common, so that there may be two of one name.
//!
//! What it is not: a search path. [`Store::table`] looks in `public`; whoever has a path looks in one schema after the other.

use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::lock::TableMode;
use crate::schema::{PUBLIC, QualifiedName, SchemaError};
use crate::store::{Catalog, Store};
use crate::table::Table;
use crate::transaction::Transaction;

/// Names that an error lists of what is in a schema.
const NAMES_SHOWN: usize = 10;

impl Catalog {
    /// A table by name.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub(crate) fn table(&self, name: &QualifiedName) -> Result<Table> {
        self.tables.get(name).cloned().ok_or_else(|| self.no_table(name))
    }

    pub(crate) fn no_table(&self, name: &QualifiedName) -> StoreError {
        StoreError::NoTable {
            name: name.to_string(),
            known: self.tables.keys().map(QualifiedName::to_string).collect(),
        }
    }

    /// # Errors
    /// [`StoreError::NoSchema`].
    pub(crate) fn check_schema(&self, name: &str) -> Result<()> {
        match name == PUBLIC || self.schemas.contains(name) {
            true => Ok(()),
            false => Err(StoreError::NoSchema {
                name: name.to_owned(),
                known: self.schemas().collect(),
            }),
        }
    }

    /// `public`, then the others by name.
    fn schemas(&self) -> impl Iterator<Item = String> {
        std::iter::once(PUBLIC.to_owned()).chain(self.schemas.iter().cloned())
    }

    /// Whether a schema may be dropped.
    fn check_empty(&self, schema: &str) -> Result<()> {
        self.check_schema(schema)?;
        let refused = |why: String| StoreError::SchemaInUse {
            name: schema.to_owned(),
            why,
        };
        if schema == PUBLIC {
            return Err(refused("it is always there".to_owned()));
        }
        let tables = self.tables.keys().map(|name| ("table", name));
        let all = tables.chain(self.sequences.keys().map(|name| ("sequence", name)));
        let in_it: Vec<String> = all
            .filter(|(_, name)| name.schema == schema)
            .map(|(what, name)| format!("{what} {name}"))
            .collect();
        let shown = &in_it[..in_it.len().min(NAMES_SHOWN)];
        let more = match in_it.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match shown {
            [] => Ok(()),
            shown => Err(refused(format!(
                "it has {}{more}; drop these first",
                shown.join(", ")
            ))),
        }
    }
}

impl Transaction<'_> {
    /// Makes a schema. Another transaction that makes or drops one of the name waits for the end of this one.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Schema`] for a name that cannot be, locks that are not granted.
    pub fn create_schema(&self, name: &str) -> Result<()> {
        if name.is_empty() || name.len() > 255 {
            return Err(StoreError::Schema(SchemaError::SchemaName {
                name: name.to_owned(),
            }));
        }
        self.change_definitions(|state| {
            self.lock_schema(state, name, TableMode::X)?;
            if self.catalog(state).check_schema(name).is_ok() {
                return Err(StoreError::Exists {
                    what: "a schema",
                    name: name.to_owned(),
                });
            }
            self.make(state, Definition::CreateSchema(name.to_owned()))
                .map(drop)
        })
    }

    /// Drops a schema that has no tables and no sequences.
    ///
    /// # Errors
    /// [`StoreError::NoSchema`]; [`StoreError::SchemaInUse`], which names what is in it; locks that are not granted.
    pub fn drop_schema(&self, name: &str) -> Result<()> {
        self.change_definitions(|state| {
            self.lock_schema(state, name, TableMode::X)?;
            self.catalog(state).check_empty(name)?;
            self.make(state, Definition::DropSchema(name.to_owned()))
                .map(drop)
        })
    }

    /// The names of all schemas, as this transaction sees them: `public`, then the others in order.
    pub fn schemas(&self) -> Vec<String> {
        let state = self.session.state.borrow();
        self.catalog(&state).schemas().collect()
    }
}

impl Store {
    /// The names of all schemas: `public`, then the others in order.
    pub fn schemas(&self) -> Vec<String> {
        self.inner.catalog.read().schemas().collect()
    }
}
