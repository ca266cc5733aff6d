//! Tables and indexes are made and dropped: what a [`Store`] does about definitions.
//!
//! ```text
//! one at a time (`defining`) ─► the table is locked, if it is there ─► the log has the definition ─► the catalog or the table has it
//! ─► the log is on disk
//! ```
//!
//! What it is not: the check of a definition ([`TableDef::check`]), nor constraints of tables that are there (`constraints.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corun_exec::teams;

use crate::error::{Result, StoreError};
use crate::foreign_key::unlink;
use crate::index::IndexInner;
use crate::park;
use crate::recovery;
use crate::redo;
use crate::row::RowError;
use crate::schema::{ColumnDef, PRIMARY, PUBLIC, SchemaError, TableDef};
use crate::store::{Store, StoreInner};
use crate::table::{Table, TableInner};
use crate::transaction::Lock;
use crate::ts::Ts;

impl Store {
    /// Makes a table. It is durable when this returns. Waits for transactions that write to tables that its foreign keys refer to.
    ///
    /// # Errors
    /// [`StoreError::Schema`], [`StoreError::Exists`], [`StoreError::NoSchema`], errors of the log. With foreign keys: [`StoreError::NoTable`],
    /// locks that are not granted.
    pub fn create_table(&self, definition: TableDef) -> Result<Table> {
        teams::blocking(|| {
            definition.check()?;
            self.inner.check_open()?;
            let _defining = self.inner.defining.lock();
            self.create(definition)
        })
    }

    /// The table of this definition: as [`Store::create_table`], if there is no table of its name.
    ///
    /// ```
    /// use corun_store::{Options, Store, TableDef, Type};
    ///
    /// let store = Store::in_memory(Options::default())?;
    /// let definition = TableDef::new("t").column("id", Type::I64).primary_key(&["id"]);
    /// let table = store.create_table_if_missing(definition.clone())?;
    /// assert!(store.create_table_if_missing(definition.clone())?.is_same(&table));
    /// let refused = store.create_table_if_missing(definition.nullable("note", Type::I64)).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "there is a table \"t\" already, and it is not as defined: it has no column \"note\""
    /// );
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::OtherDefinition`] if the table there is has other columns, another primary key, other indexes or constraints; the order of
    /// its indexes and constraints does not matter. Else as [`Store::create_table`].
    pub fn create_table_if_missing(&self, definition: TableDef) -> Result<Table> {
        teams::blocking(|| {
            definition.check()?;
            self.inner.check_open()?;
            // Who makes the table now holds this until it is durable.
            let _defining = self.inner.defining.lock();
            let name = definition.qualified_name();
            let known = self.inner.catalog.read().tables.get(&name).cloned();
            let Some(table) = known else {
                return self.create(definition);
            };
            match table.definition().difference(&definition) {
                None => Ok(table),
                Some(difference) => Err(StoreError::OtherDefinition {
                    table: name.to_string(),
                    difference,
                }),
            }
        })
    }

    /// Makes a table of a definition that was checked. The caller holds `defining`.
    fn create(&self, definition: TableDef) -> Result<Table> {
        let id = self.inner.catalog.read().next_id + 1;
        self.create_as(id, definition)
    }

    /// The same under a number that no table has.
    pub(crate) fn create_as(&self, id: u32, definition: TableDef) -> Result<Table> {
        let inner = &self.inner;
        let name = definition.qualified_name();
        let parents = {
            let mut catalog = inner.catalog.write();
            catalog.check_schema(&name.schema)?;
            if catalog.tables.contains_key(&name) {
                return Err(StoreError::Exists {
                    what: "a table",
                    name: name.to_string(),
                });
            }
            catalog.next_id = catalog.next_id.max(id);
            catalog.references(&definition)?
        };
        self.while_nobody_writes(&parents, || {
            let ts = inner.append_definition(&redo::create_table(id, &definition))?;
            let table = inner.make_table(id, &definition, ts)?;
            let mut catalog = inner.catalog.write();
            catalog.tables.insert(name, table.clone());
            catalog.link(&table, &definition.foreign_keys)?;
            Ok(table)
        })
        .and_then(|table| inner.flush_definition().map(|()| table))
    }

    /// Drops a table of the schema `public` with all its rows. Waits for transactions that use it, or write to tables that it refers to.
    ///
    /// # Errors
    /// [`StoreError::NoTable`]; [`StoreError::Referenced`] if other tables refer to it; locks that are not granted, errors of the log.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_table_in(PUBLIC, name)
    }

    /// Drops a table of a schema, as [`Store::drop_table`] does.
    ///
    /// # Errors
    /// As there.
    pub fn drop_table_in(&self, schema: &str, name: &str) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            let table = self.table_in(schema, name)?;
            table.check_unreferenced("dropped")?;
            let mut session = self.session_here()?;
            let locked = session.begin()?;
            locked.lock_table(&table, Lock::Exclusive)?;
            for parent in table.parents() {
                locked.lock_table(&parent, Lock::Shared)?;
            }
            inner.append_definition(&redo::drop_table(table.0.id))?;
            table.0.dropped.store(true, Ordering::Release);
            unlink(&table, |_| true);
            inner.catalog.write().tables.remove(&table.0.qualified);
            inner.definitions.fetch_add(1, Ordering::AcqRel);
            locked.abort();
            inner.flush_definition()
        })
    }

    /// Takes all rows out of a table of the schema `public` at once, as if it were dropped and made again. Waits as [`Store::drop_table`]. Snapshots
    /// of before still read the rows through handles of before; for all else those are handles of a table that was dropped. Returns the new one.
    ///
    /// # Errors
    /// As [`Store::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<Table> {
        self.truncate_table_in(PUBLIC, name)
    }

    /// Takes all rows out of a table of a schema, as [`Store::truncate_table`] does.
    ///
    /// # Errors
    /// As there.
    pub fn truncate_table_in(&self, schema: &str, name: &str) -> Result<Table> {
        teams::blocking(|| {
            let _defining = self.inner.defining.lock();
            let id = self.inner.catalog.read().next_id + 1;
            self.truncate_as(&self.table_in(schema, name)?, id)
        })
    }

    /// The same; the table gets a number that no table has. The caller holds `defining`, or is alone.
    pub(crate) fn truncate_as(&self, old: &Table, id: u32) -> Result<Table> {
        let inner = &self.inner;
        old.check_unreferenced("truncated")?;
        let mut session = self.session_here()?;
        let locked = session.begin()?;
        locked.lock_table(old, Lock::Exclusive)?;
        for parent in old.parents() {
            locked.lock_table(&parent, Lock::Shared)?;
        }
        let definition = old.definition();
        let ts = inner.append_definition(&redo::truncate_table(old.0.id, id))?;
        let table = inner.make_table(id, &definition, ts)?;
        old.0.dropped.store(true, Ordering::Release);
        {
            let mut catalog = inner.catalog.write();
            catalog.next_id = catalog.next_id.max(id);
            catalog.tables.insert(old.0.qualified.clone(), table.clone());
            unlink(old, |_| true);
            catalog.link(&table, &definition.foreign_keys)?;
        }
        inner.definitions.fetch_add(1, Ordering::AcqRel);
        locked.abort();
        inner.flush_definition()?;
        Ok(table)
    }

    /// Adds a column behind the others. No row is written again: those there are have the column's default, or NULL, until they are updated.
    /// Waits for transactions that use the table, and they wait for it.
    ///
    /// Rows that were begun before ([`Table::new_row`]) can still be set and inserted; positions of columns stay as they are.
    ///
    /// ```
    /// # use corun_store::{ColumnDef, Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// # let table = store.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// # let mut session = store.session_here()?;
    /// let mut row = table.new_row();
    /// row.set("id", 1)?;
    /// session.run(|transaction| transaction.insert(&table, &row))?;
    /// store.add_column(&table, ColumnDef::new("state", Type::Text { max: 9 }).default_value("new"))?;
    /// store.add_column(&table, ColumnDef::new("note", Type::Text { max: 99 }).nullable())?;
    ///
    /// let (snapshot, by_id) = (store.snapshot()?, table.primary());
    /// let found = snapshot.fetch(&by_id, &[1.into()])?.unwrap();
    /// assert_eq!(found.row.get::<&str>("state")?, "new");
    /// assert_eq!(found.row.get::<Option<&str>>("note")?, None);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Schema`], also for a column that has neither NULL nor a default; [`StoreError::Dropped`]; locks that are not granted;
    /// errors of the log.
    pub fn add_column(&self, table: &Table, column: ColumnDef) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            let with = table.definition().with_column(column.clone());
            with.check()?;
            if !column.nullable && column.default.is_none() {
                return Err(StoreError::Schema(SchemaError::Default {
                    table: table.0.name.clone(),
                    source: RowError::Null { column: column.name },
                }));
            }
            let mut session = self.session_here()?;
            let locked = session.begin()?;
            locked.lock_table(table, Lock::Exclusive)?;
            let ts = inner.append_definition(&redo::add_column(table.0.id, &column))?;
            table.0.layouts.add(column, ts);
            locked.abort();
            inner.flush_definition()
        })
    }

    /// Makes an index over the rows of a table. Waits for transactions that write there, and they wait for it.
    ///
    /// # Errors
    /// [`StoreError::Schema`], [`StoreError::Exists`], [`StoreError::Duplicate`] if it is to be unique and is not, locks that are
    /// not granted, errors of the log.
    pub fn create_index(&self, table: &Table, name: &str, unique: bool, columns: &[&str]) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            let with = table.0.with_index(name, unique, columns)?;
            let index = with.indexes.last().expect("it was just added");
            let mut session = self.session_here()?;
            let locked = session.begin()?;
            // Exclusively: nobody may meet an index that is not whole.
            locked.lock_table(table, Lock::Exclusive)?;
            let positions = with.positions(index)?;
            // Before the log has it: what refuses the index must not be in the log. Readers use it after `add_index` only.
            let since = inner.log.last().next();
            let refused = |source| StoreError::tree(&table.0.name, name, source);
            let mut entries = Vec::new();
            let made = IndexInner::new(
                table.0.id,
                &table.0.name,
                index,
                &with.columns,
                positions,
                Some(since),
                |layout| {
                    entries = recovery::entries(table, layout, 0..table.rid_end());
                    entries.sort_unstable();
                    Some(entries.clone())
                },
            )
            .map_err(refused)?;
            if let Some(twice) = unique.then(|| recovery::twice(table, &made, &entries)).flatten() {
                return Err(recovery::duplicate(table, &made, twice));
            }
            inner.append_definition(&redo::create_index(table.0.id, index))?;
            table.0.add_index(made);
            locked.abort();
            inner.flush_definition()
        })
    }

    /// Drops an index; the primary key's stays. Waits for transactions that use the table.
    ///
    /// # Errors
    /// [`StoreError::NoIndex`], [`StoreError::PrimaryKey`]; [`StoreError::Referenced`] if foreign keys find the rows they refer to by it; locks
    /// that are not granted, errors of the log.
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        teams::blocking(|| {
            if name == PRIMARY && table.primary_key().is_some() {
                return Err(StoreError::PrimaryKey {
                    table: table.0.name.clone(),
                });
            }
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            let index = table.index(name).ok_or_else(|| StoreError::NoIndex {
                table: table.0.name.clone(),
                name: name.to_owned(),
            })?;
            table.check_index_free(&index.inner)?;
            let mut session = self.session_here()?;
            let locked = session.begin()?;
            locked.lock_table(table, Lock::Exclusive)?;
            inner.append_definition(&redo::drop_index(table.0.id, name))?;
            table.0.remove_index(&index.inner);
            locked.abort();
            inner.flush_definition()
        })
    }
}

impl StoreInner {
    /// A table of a definition that was checked, made by the commit `ts`.
    fn make_table(&self, id: u32, definition: &TableDef, ts: Ts) -> Result<Table> {
        let table = TableInner::new(id, definition, self.options.workers, Arc::clone(&self.memory));
        for index in &definition.indexes {
            let positions = definition.positions(index)?;
            let index = IndexInner::new(
                id,
                &table.name,
                index,
                &definition.columns,
                positions,
                Some(ts),
                |_| None,
            );
            let added =
                table.add_index(index.map_err(|source| StoreError::tree(&table.name, "primary", source))?);
            debug_assert!(
                added.is_some(),
                "a definition that was checked has no more indexes than fit"
            );
        }
        Ok(Table(Arc::new(table)))
    }

    pub(crate) fn append_definition(&self, block: &[u8]) -> Result<Ts> {
        self.append_definition_then(block, |_| ())
    }

    /// `in_order` as of [`Log::append`](crate::log::Log::append).
    pub(crate) fn append_definition_then(&self, block: &[u8], in_order: impl FnOnce(Ts)) -> Result<Ts> {
        Ok(self.log.append(block, &park::current(), in_order)?)
    }

    pub(crate) fn flush_definition(&self) -> Result<()> {
        self.log.flush()?;
        Ok(())
    }
}
