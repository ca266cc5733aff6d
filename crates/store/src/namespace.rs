//! Schemas: names that tables and sequences have in common, so that there may be two of one name.
//!
//! What it is not: a search path. [`Store::table`] looks in `public`; whoever has a path looks in one schema after the other.

use corun_exec::teams;

use crate::error::{Result, StoreError};
use crate::redo;
use crate::schema::{PUBLIC, QualifiedName, SchemaError};
use crate::store::{Catalog, Store};
use crate::table::Table;

/// Names that an error lists of what is in a schema.
const NAMES_SHOWN: usize = 10;

impl Catalog {
    /// A table by name.
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub(crate) fn table(&self, name: &QualifiedName) -> Result<Table> {
        let known = || self.tables.keys().map(QualifiedName::to_string).collect();
        self.tables.get(name).cloned().ok_or_else(|| StoreError::NoTable {
            name: name.to_string(),
            known: known(),
        })
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

impl Store {
    /// Makes a schema. It is durable when this returns.
    ///
    /// ```
    /// use corun_store::{Options, Store, TableDef, Type};
    ///
    /// let store = Store::in_memory(Options::default())?;
    /// store.create_schema("sales")?;
    /// let definition = TableDef::new("t").column("id", Type::I64).primary_key(&["id"]);
    /// store.create_table(definition.clone())?;
    /// let table = store.create_table(definition.in_schema("sales"))?;
    /// assert!(store.table_in("sales", "t")?.is_same(&table) && !store.table("t")?.is_same(&table));
    /// assert_eq!(
    ///     store.drop_schema("sales").unwrap_err().to_string(),
    ///     "schema \"sales\" cannot be dropped: it has table sales.t; drop these first"
    /// );
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Schema`] for a name that cannot be, errors of the log.
    pub fn create_schema(&self, name: &str) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            inner.check_open()?;
            let _defining = inner.defining.lock();
            if name.is_empty() || name.len() > 255 {
                return Err(StoreError::Schema(SchemaError::SchemaName {
                    name: name.to_owned(),
                }));
            }
            if inner.catalog.read().check_schema(name).is_ok() {
                return Err(StoreError::Exists {
                    what: "a schema",
                    name: name.to_owned(),
                });
            }
            inner.append_definition(&redo::create_schema(name))?;
            inner.catalog.write().schemas.insert(name.to_owned());
            inner.flush_definition()
        })
    }

    /// Drops a schema that has no tables and no sequences.
    ///
    /// # Errors
    /// [`StoreError::NoSchema`]; [`StoreError::SchemaInUse`], which names what is in it; errors of the log.
    pub fn drop_schema(&self, name: &str) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            inner.catalog.read().check_empty(name)?;
            inner.append_definition(&redo::drop_schema(name))?;
            inner.catalog.write().schemas.remove(name);
            inner.flush_definition()
        })
    }

    /// The names of all schemas: `public`, then the others in order.
    pub fn schemas(&self) -> Vec<String> {
        self.inner.catalog.read().schemas().collect()
    }
}
