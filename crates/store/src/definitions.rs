//! Tables, columns and indexes are made, changed and dropped: by a [`Transaction`], among its other changes, or by a [`Store`] in a transaction of
//! its own.
//!
//! ```text
//! the name, if it comes or goes, and the table are locked ─► the change is made, for who has the locks ─► the transaction goes on with it
//! ─► commit: one block of the log has definitions and rows in their order ─► all are shown it ─► locks are let go
//! ```
//!
//! Locks are kept to the end, as those of rows. Two transactions that make a table of one name wait for each other by the name's lock. What is
//! defined and how it is taken back is in `definition_set.rs`; rows are written again in `rewrite.rs`.
//!
//! What it is not: the check of a definition ([`TableDef::check`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use corun_exec::teams;
use parking_lot::MutexGuard;

use crate::constant::Constant;
use crate::definition::Definition;
use crate::definition_set::Change;
use crate::error::{Result, StoreError};
use crate::index::{IndexInner, Made};
use crate::known::Reach;
use crate::lock::{TableLock, TableMode};
use crate::operations::check_stack;
use crate::options::Durability;
use crate::park::{self, Park};
use crate::recovery;
use crate::rewrite;
use crate::row::{RowError, SHAPES_MAX};
use crate::schema::{ColumnDef, IndexDef, PRIMARY, SchemaError, TableDef};
use crate::session::State;
use crate::store::{Store, StoreInner};
use crate::table::{Definer, Table, TableInner};
use crate::transaction::Transaction;
use crate::ts::Ts;
use crate::value::Value;

impl Store {
    /// Runs one definition in a transaction of its own. It is durable when this returns.
    fn define<R: Send>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<R> + Send) -> Result<R> {
        teams::blocking(|| {
            let mut session = self.session_here()?;
            let transaction = session.begin()?;
            let made = work(&transaction)?;
            transaction.commit_with(Durability::Durable)?;
            Ok(made)
        })
    }

    /// Makes a table. It is durable when this returns.
    ///
    /// # Errors
    /// As [`Transaction::create_table`]; errors of the log.
    pub fn create_table(&self, definition: TableDef) -> Result<Table> {
        self.define(|transaction| transaction.create_table(definition))
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
    /// [`StoreError::OtherDefinition`] if the table there is has other columns, another primary key or other indexes; the order of its
    /// indexes does not matter. Else as [`Store::create_table`].
    pub fn create_table_if_missing(&self, definition: TableDef) -> Result<Table> {
        let table = self.define(|transaction| transaction.create_table_if_missing(definition))?;
        // Who made it may be waiting for the disk.
        self.inner.log.flush()?;
        Ok(table)
    }

    /// Drops a table with all its rows. Waits for transactions that use it.
    ///
    /// # Errors
    /// As [`Transaction::drop_table`]; errors of the log.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_table(name))
    }

    /// Takes all rows out of a table at once, as if it were dropped and made again. Waits for transactions that use it. Snapshots of before
    /// still read the rows through handles of before; for all else those are handles of a table that was dropped. Returns the new one.
    ///
    /// # Errors
    /// As [`Transaction::truncate_table`]; errors of the log.
    pub fn truncate_table(&self, name: &str) -> Result<Table> {
        self.define(|transaction| transaction.truncate_table(name))
    }

    /// Gives a table another name. Handles of it stay good. Waits for transactions that use it.
    ///
    /// # Errors
    /// As [`Transaction::rename_table`]; errors of the log.
    pub fn rename_table(&self, name: &str, to: &str) -> Result<()> {
        self.define(|transaction| transaction.rename_table(name, to))
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
    /// As [`Transaction::add_column`]; errors of the log.
    pub fn add_column(&self, table: &Table, column: ColumnDef) -> Result<()> {
        self.define(|transaction| transaction.add_column(table, column))
    }

    /// Takes a column out of a table. All rows are written again: see [`Transaction::drop_column`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn drop_column(&self, table: &Table, column: &str) -> Result<Table> {
        self.define(|transaction| transaction.drop_column(table, column))
    }

    /// Gives a column another name.
    ///
    /// # Errors
    /// As [`Transaction::rename_column`]; errors of the log.
    pub fn rename_column(&self, table: &Table, column: &str, to: &str) -> Result<()> {
        self.define(|transaction| transaction.rename_column(table, column, to))
    }

    /// Keeps NULL out of a column: see [`Transaction::set_not_null`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn set_not_null(&self, table: &Table, column: &str) -> Result<Table> {
        self.define(|transaction| transaction.set_not_null(table, column))
    }

    /// Lets NULL into a column: see [`Transaction::drop_not_null`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn drop_not_null(&self, table: &Table, column: &str) -> Result<Table> {
        self.define(|transaction| transaction.drop_not_null(table, column))
    }

    /// Gives new rows another value where a column is not set: see [`Transaction::set_default`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn set_default<'v>(&self, table: &Table, column: &str, value: impl Into<Value<'v>>) -> Result<Table> {
        let value = value.into();
        self.define(|transaction| transaction.set_default(table, column, value))
    }

    /// Takes a column's default away: see [`Transaction::drop_default`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn drop_default(&self, table: &Table, column: &str) -> Result<Table> {
        self.define(|transaction| transaction.drop_default(table, column))
    }

    /// Makes an index over the rows of a table. Waits for transactions that write there, and they wait for it.
    ///
    /// # Errors
    /// As [`Transaction::create_index`]; errors of the log.
    pub fn create_index(&self, table: &Table, name: &str, unique: bool, columns: &[&str]) -> Result<()> {
        self.define(|transaction| transaction.create_index(table, name, unique, columns))
    }

    /// Drops an index; the primary key's stays. Waits for transactions that use the table.
    ///
    /// # Errors
    /// As [`Transaction::drop_index`]; errors of the log.
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_index(table, name))
    }
}

/// Definitions are changed within the transaction: it sees them at once, others when it has committed. It has the tables locked exclusively
/// until then.
impl Transaction<'_> {
    /// A table by name, as this transaction sees it: its handle shows what the transaction has defined, before or after this call.
    ///
    /// ```
    /// # use corun_store::{ColumnDef, Options, Store, TableDef, Type};
    /// # let store = Store::in_memory(Options::default())?;
    /// let mut session = store.session_here()?;
    /// let transaction = session.begin()?;
    /// let table = transaction.create_table(TableDef::new("t").column("id", Type::I64).primary_key(&["id"]))?;
    /// transaction.add_column(&table, ColumnDef::new("size", Type::I32).default_value(7))?;
    /// let mut row = table.new_row();
    /// row.set("id", 1)?;
    /// transaction.insert(&table, &row)?;
    /// let found = transaction.fetch(&table.primary(), &[1.into()])?.unwrap();
    /// assert_eq!(found.row.get::<i32>("size")?, 7);
    /// assert!(transaction.table("t")?.is_same(&table));
    /// assert!(store.table("t").is_err(), "others do not see it yet");
    /// transaction.commit()?;
    /// assert_eq!(store.table("t")?.rows(), 1);
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        check_stack()?;
        self.go_on(|state| {
            let table = self.find(state, name)?;
            Ok(self.handle(state, &table))
        })
    }

    /// All tables, by name, as this transaction sees them.
    pub fn tables(&self) -> Vec<Table> {
        let mut state = self.session.state.borrow_mut();
        let mut catalog = self.session.store.catalog.read().clone();
        state.definitions.apply(&mut catalog);
        let tables = catalog.tables.values();
        tables.map(|table| self.handle(&mut state, table)).collect()
    }

    /// Makes a table. Another transaction that makes one of the name waits for the end of this one.
    ///
    /// # Errors
    /// [`StoreError::Schema`], [`StoreError::Exists`], locks that are not granted.
    pub fn create_table(&self, definition: TableDef) -> Result<Table> {
        definition.check()?;
        self.change_definitions(|state| {
            self.lock_name(state, &definition.name)?;
            self.check_free(state, &definition.name)?;
            self.make(
                state,
                Definition::CreateTable(self.session.store.new_id(), definition),
            )
        })
    }

    /// The table of this definition: as [`Transaction::create_table`], if there is no table of its name.
    ///
    /// # Errors
    /// As [`Store::create_table_if_missing`].
    pub fn create_table_if_missing(&self, definition: TableDef) -> Result<Table> {
        definition.check()?;
        self.change_definitions(|state| {
            self.lock_name(state, &definition.name)?;
            let Ok(table) = self.find(state, &definition.name) else {
                return self.make(
                    state,
                    Definition::CreateTable(self.session.store.new_id(), definition),
                );
            };
            match self.seen(state, &table).difference(&definition) {
                None => Ok(self.handle(state, &table)),
                Some(difference) => Err(StoreError::OtherDefinition {
                    table: definition.name,
                    difference,
                }),
            }
        })
    }

    /// Drops a table with all its rows. Waits for other transactions that use it.
    ///
    /// # Errors
    /// [`StoreError::NoTable`], locks that are not granted.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.change_definitions(|state| {
            self.lock_name(state, name)?;
            let table = self.find(state, name)?;
            self.make(state, Definition::DropTable(table.0.id)).map(drop)
        })
    }

    /// Takes all rows out of a table at once, as if it were dropped and made again. Waits for other transactions that use it. Returns the
    /// table's new handle: those of before are of a table that was dropped.
    ///
    /// # Errors
    /// As [`Transaction::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<Table> {
        self.change_definitions(|state| {
            self.lock_name(state, name)?;
            let table = self.find(state, name)?;
            self.make(
                state,
                Definition::Truncate(table.0.id, self.session.store.new_id()),
            )
        })
    }

    /// Gives a table another name. Handles of it stay good.
    ///
    /// # Errors
    /// [`StoreError::NoTable`], [`StoreError::Exists`], [`StoreError::Schema`] for a name that cannot be, locks that are not granted.
    pub fn rename_table(&self, name: &str, to: &str) -> Result<()> {
        self.change_definitions(|state| {
            self.lock_name(state, name)?;
            let table = self.find(state, name)?;
            self.lock_name(state, to)?;
            self.check_free(state, to)?;
            self.reach(state, &table, Reach::Write)?;
            let mut renamed = self.seen(state, &table);
            to.clone_into(&mut renamed.name);
            renamed.check()?;
            self.make(state, Definition::RenameTable(table.0.id, renamed.name))
                .map(drop)
        })
    }

    /// Adds a column behind the others. No row is written again: those there are have the column's default, or NULL, until they are updated.
    ///
    /// # Errors
    /// [`StoreError::Schema`], also for a column that has neither NULL nor a default; [`StoreError::Dropped`]; locks that are not granted.
    pub fn add_column(&self, table: &Table, column: ColumnDef) -> Result<()> {
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            let with = self.seen(state, table).with_column(column.clone());
            with.check()?;
            if !column.nullable && column.default.is_none() {
                return Err(StoreError::Schema(SchemaError::Default {
                    table: with.name,
                    source: RowError::Null { column: column.name },
                }));
            }
            self.make(state, Definition::AddColumn(table.0.id, column))
                .map(drop)
        })
    }

    /// Takes a column out of a table. All rows are written again, in memory and not in the log; the table has another handle from then on,
    /// which is returned, and those of before are of a table that was dropped. Snapshots of before read on through them.
    ///
    /// # Errors
    /// [`StoreError::ColumnInIndex`]: indexes are not dropped with their columns. [`RowError::NoColumn`], [`StoreError::Schema`] for the last
    /// column, [`StoreError::Dropped`], [`StoreError::MemoryFull`], locks that are not granted.
    pub fn drop_column(&self, table: &Table, column: &str) -> Result<Table> {
        self.change_columns(table, column, true, |columns, at| {
            columns.remove(at);
        })
    }

    /// Gives a column another name.
    ///
    /// # Errors
    /// [`RowError::NoColumn`], [`StoreError::Schema`], [`StoreError::Dropped`], locks that are not granted.
    pub fn rename_column(&self, table: &Table, column: &str, to: &str) -> Result<()> {
        self.change_columns(table, column, false, |columns, at| {
            to.clone_into(&mut columns[at].name)
        })
        .map(drop)
    }

    /// Keeps NULL out of a column, in which there is none. All rows are written again: see [`Transaction::drop_column`].
    ///
    /// # Errors
    /// [`RowError::Null`] if a row has NULL there; else as [`Transaction::drop_column`].
    pub fn set_not_null(&self, table: &Table, column: &str) -> Result<Table> {
        self.change_columns(table, column, true, |columns, at| columns[at].nullable = false)
    }

    /// Lets NULL into a column. All rows are written again: see [`Transaction::drop_column`].
    ///
    /// # Errors
    /// [`StoreError::Schema`] for a column of the primary key; else as [`Transaction::drop_column`].
    pub fn drop_not_null(&self, table: &Table, column: &str) -> Result<Table> {
        self.change_columns(table, column, true, |columns, at| columns[at].nullable = true)
    }

    /// Gives new rows another value where a column is not set; those there are stay as they are. If the column was added to a table that had
    /// rows, and so is the default of rows that do not have it, all rows are written again: see [`Transaction::drop_column`]. Returns the
    /// table's handle.
    ///
    /// # Errors
    /// [`StoreError::Schema`] for a value that the column does not take; else as [`Transaction::drop_column`].
    pub fn set_default<'v>(&self, table: &Table, column: &str, value: impl Into<Value<'v>>) -> Result<Table> {
        let default = Some(Constant::from(value.into()));
        self.change_default(table, column, default)
    }

    /// Takes a column's default away; rows there are stay as they are. As [`Transaction::set_default`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_default(&self, table: &Table, column: &str) -> Result<Table> {
        self.change_default(table, column, None)
    }

    /// Makes an index over the rows of a table.
    ///
    /// # Errors
    /// [`StoreError::Schema`], [`StoreError::Exists`], [`StoreError::Duplicate`] if it is to be unique and is not, [`StoreError::Dropped`],
    /// locks that are not granted.
    pub fn create_index(&self, table: &Table, name: &str, unique: bool, columns: &[&str]) -> Result<()> {
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            let mut with = table.0.with_index(name, unique, columns)?;
            let index = with.indexes.pop().expect("it was just added");
            self.make(state, Definition::CreateIndex(table.0.id, index))
                .map(drop)
        })
    }

    /// Drops an index; the primary key's stays.
    ///
    /// # Errors
    /// [`StoreError::NoIndex`], [`StoreError::PrimaryKey`], [`StoreError::Dropped`], locks that are not granted.
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        if name == PRIMARY && table.primary_key().is_some() {
            return Err(StoreError::PrimaryKey {
                table: table.name().to_owned(),
            });
        }
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            self.make(state, Definition::DropIndex(table.0.id, name.to_owned()))
                .map(drop)
        })
    }

    fn change_definitions<R>(&self, change: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        check_stack()?;
        self.go_on(change)
    }

    fn change_default(&self, table: &Table, column: &str, default: Option<Constant>) -> Result<Table> {
        // Rows that lack the column show what it was added with.
        let lacking = |columns: usize, at: usize| at + table.0.layouts.added() >= columns;
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            let mut columns = self.seen(state, table).columns;
            let at = position(&columns, column)?;
            let rewrites = lacking(columns.len(), at);
            columns[at].default = default;
            self.set_columns(state, table, columns, rewrites)
        })
    }

    fn change_columns(
        &self,
        table: &Table,
        column: &str,
        rewrites: bool,
        change: impl FnOnce(&mut Vec<ColumnDef>, usize),
    ) -> Result<Table> {
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            let mut columns = self.seen(state, table).columns;
            let at = position(&columns, column)?;
            change(&mut columns, at);
            self.set_columns(state, table, columns, rewrites)
        })
    }

    fn set_columns(
        &self,
        state: &mut State,
        table: &Table,
        columns: Vec<ColumnDef>,
        rewrites: bool,
    ) -> Result<Table> {
        let seen = self.seen(state, table);
        if columns == seen.columns {
            return Ok(self.handle(state, table));
        }
        let mut with = TableDef { columns, ..seen };
        let id = table.0.id;
        if !rewrites {
            with.indexes = (table.0.indexes())
                .map(|(_, index)| index.definition(&with.columns))
                .collect();
            with.check()?;
            return self.make(state, Definition::Columns(id, with.columns));
        }
        for index in &with.indexes {
            if let Some(column) = index
                .columns
                .iter()
                .find(|column| with.position(column).is_none())
            {
                return Err(StoreError::ColumnInIndex {
                    table: with.name,
                    column: column.clone(),
                    index: index.name.clone(),
                });
            }
        }
        with.check()?;
        let new = self.session.store.new_id();
        self.make(state, Definition::Rewrite(id, new, with.columns))
    }

    /// Makes a definition that was checked, for the transaction. Returns the table that there is then, or was.
    pub(crate) fn make(&self, state: &mut State, definition: Definition) -> Result<Table> {
        let store = &*self.session.store;
        self.definer(state);
        let change = match &definition {
            Definition::CreateTable(id, table) => {
                let came = store.make_table(*id, table)?;
                self.come(state, table.name.clone(), None, Some(came))?
            }
            Definition::DropTable(id) => {
                let gone = self.locked(state, *id)?;
                self.come(state, self.name_of(state, &gone), Some(gone), None)?
            }
            Definition::Truncate(id, new) => {
                let gone = self.locked(state, *id)?;
                let seen = self.seen(state, &gone);
                let came = store.make_table(*new, &seen)?;
                self.come(state, seen.name, Some(gone), Some(came))?
            }
            Definition::Rewrite(id, new, columns) => {
                let gone = self.locked(state, *id)?;
                let mut seen = self.seen(state, &gone);
                seen.columns.clone_from(columns);
                seen.check()?;
                let filled = store.log.last();
                let came = teams::blocking(|| rewrite::rewrite(store, &gone, *new, &seen, filled))?;
                self.come(state, seen.name, Some(gone), Some(came))?
            }
            Definition::RenameTable(id, to) => {
                let table = self.locked(state, *id)?;
                state.definitions.claim(&table);
                Change::Renamed {
                    from: self.name_of(state, &table),
                    to: to.clone(),
                    table,
                }
            }
            Definition::AddColumn(id, column) => {
                let table = self.locked(state, *id)?;
                let columns = table.0.layouts.newest().definitions();
                let columns = columns.iter().chain([column]).cloned().collect();
                self.shape(state, table, columns)?
            }
            Definition::Columns(id, columns) => {
                let table = self.locked(state, *id)?;
                self.shape(state, table, columns.clone())?
            }
            Definition::CreateIndex(id, index) => {
                let table = self.locked(state, *id)?;
                let filled = store.log.last();
                let made = teams::blocking(|| make_index(&table, index, Made::Within(filled)))?;
                let index = table.0.add_index(made).ok_or_else(|| too_many_indexes(&table))?;
                state.definitions.claim(&table);
                Change::IndexMade { table, index }
            }
            Definition::DropIndex(id, name) => {
                let table = self.locked(state, *id)?;
                let mut indexes = table.0.indexes().map(|(_, index)| index);
                let index = indexes.find(|index| index.name == *name && index.serves_within());
                let index = Arc::clone(index.ok_or_else(|| StoreError::NoIndex {
                    table: table.name().to_owned(),
                    name: name.clone(),
                })?);
                drop(indexes);
                state.definitions.claim(&table);
                table.0.keep_index(&index, false);
                Change::IndexDropped { table, index }
            }
        };
        let table = match &change {
            Change::Table { gone, came, .. } => came.as_ref().or(gone.as_ref()).expect("one of both"),
            Change::Renamed { table, .. }
            | Change::Columns { table, .. }
            | Change::IndexMade { table, .. }
            | Change::IndexDropped { table, .. } => table,
        };
        let table = table.clone();
        let writes = state.writes.len();
        state.definitions.push(definition, change, writes);
        Ok(self.handle(state, &table))
    }

    /// A table comes, goes, or both.
    fn come(
        &self,
        state: &mut State,
        name: String,
        gone: Option<Table>,
        came: Option<Table>,
    ) -> Result<Change> {
        if let Some(came) = &came {
            // Nobody else has it.
            if let Err(error) = self.reach(state, came, Reach::Write) {
                came.0.dropped.store(true, Ordering::Release);
                self.session.store.definitions.fetch_add(1, Ordering::AcqRel);
                return Err(error);
            }
            state.definitions.claim(came);
        }
        if let Some(gone) = &gone {
            state.tables.hide(gone.0.id);
        }
        Ok(Change::Table { name, gone, came })
    }

    fn shape(&self, state: &mut State, table: Table, columns: Vec<ColumnDef>) -> Result<Change> {
        if !table.0.layouts.has_room() {
            return Err(StoreError::Schema(SchemaError::Count {
                table: table.name().to_owned(),
                what: "changes of its columns, until the store is opened again",
                found: SHAPES_MAX,
                most: SHAPES_MAX - 1,
            }));
        }
        state.definitions.claim(&table);
        let shape_before = teams::blocking(|| table.0.layouts.change(columns));
        Ok(Change::Columns { table, shape_before })
    }

    /// The table of a number, locked exclusively.
    fn locked(&self, state: &mut State, id: u32) -> Result<Table> {
        let dropped = || StoreError::Dropped {
            table: format!("number {id}"),
        };
        let table = self.table_of(state, id).ok_or_else(dropped)?;
        self.reach(state, &table, Reach::Write)?;
        Ok(table)
    }

    /// A table by number, as the transaction sees it.
    pub(crate) fn table_of(&self, state: &State, id: u32) -> Option<Table> {
        match state.definitions.table_of(id) {
            Some(table) => table.cloned(),
            None => self.session.store.table_of(id),
        }
    }

    fn find(&self, state: &State, name: &str) -> Result<Table> {
        match state.definitions.table(name) {
            Some(Some(table)) => Ok(table.clone()),
            Some(None) => Err(self.session.store.no_table(name)),
            None => self.session.store.table(name),
        }
    }

    fn check_free(&self, state: &State, name: &str) -> Result<()> {
        match self.find(state, name) {
            Err(_) => Ok(()),
            Ok(_) => Err(StoreError::Exists {
                what: "a table",
                name: name.to_owned(),
            }),
        }
    }

    /// A table's definition as the transaction sees it, which has the table locked or knows nothing more of it than others.
    fn seen(&self, state: &State, table: &Table) -> TableDef {
        let within =
            state.definitions.name_of(table).is_some() || state.tables.reach(table) == Some(Reach::Write);
        TableDef {
            name: self.name_of(state, table),
            ..table.0.definition(within)
        }
    }

    /// A handle that shows what the transaction has defined.
    fn handle(&self, state: &mut State, table: &Table) -> Table {
        let definer = self.definer(state);
        table.seen_by(definer, state.definitions.name_of(table))
    }

    fn name_of(&self, state: &State, table: &Table) -> String {
        let name = state.definitions.name_of(table);
        name.unwrap_or(table.name()).to_owned()
    }

    /// Keeps others from making, dropping or renaming a table of this name.
    fn lock_name(&self, state: &mut State, name: &str) -> Result<()> {
        let lock = self.session.store.name_lock(name);
        state.holder.table(&lock, TableMode::X)?;
        Ok(())
    }

    /// What names the transaction on tables whose definitions it changes.
    fn definer(&self, state: &mut State) -> Definer {
        let (locks, slot) = (&self.session.store.locks, state.holder.slot());
        state
            .definitions
            .definer(|| Definer::new(locks.turns(slot), slot))
    }
}

fn position(columns: &[ColumnDef], name: &str) -> Result<usize> {
    let position = columns.iter().position(|column| column.name == name);
    position.ok_or_else(|| {
        StoreError::Row(RowError::NoColumn {
            column: format!("{name:?}"),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
        })
    })
}

/// An index over the newest rows of a table, which the caller has locked exclusively.
pub(crate) fn make_index(table: &Table, index: &IndexDef, made: Made) -> Result<IndexInner> {
    let columns = table.0.layouts.newest().definitions();
    let within = TableDef {
        columns: columns.to_vec(),
        ..TableDef::new(table.name())
    };
    let mut entries = Vec::new();
    let fill = |layout: &crate::key::KeyLayout| {
        entries = recovery::entries(table, layout, 0..table.rid_end());
        entries.sort_unstable();
        Some(entries.clone())
    };
    let positions = within.positions(index)?;
    let made = IndexInner::new(table.0.id, table.name(), index, columns, positions, made, fill)
        .map_err(|source| StoreError::tree(table.name(), &index.name, source))?;
    match index
        .unique
        .then(|| recovery::twice(table, &made, &entries))
        .flatten()
    {
        Some(twice) => Err(recovery::duplicate(table, &made, twice)),
        None => Ok(made),
    }
}

fn too_many_indexes(table: &Table) -> StoreError {
    StoreError::Schema(SchemaError::Count {
        table: table.name().to_owned(),
        what: "indexes, dropped ones included, until the store is opened again",
        found: crate::schema::INDEXES_MAX + 1,
        most: crate::schema::INDEXES_MAX,
    })
}

impl StoreInner {
    /// A number that no table and no sequence has.
    pub(crate) fn new_id(&self) -> u32 {
        let mut catalog = self.catalog.write();
        catalog.next_id += 1;
        catalog.next_id
    }

    /// A table of a definition that was checked, which nobody is shown yet.
    fn make_table(&self, id: u32, definition: &TableDef) -> Result<Table> {
        {
            let mut catalog = self.catalog.write();
            catalog.next_id = catalog.next_id.max(id);
        }
        let filled = self.log.last();
        teams::blocking(|| {
            let table = TableInner::new(id, definition, self.options.workers, Arc::clone(&self.memory));
            let table = Table::new(Arc::new(table));
            for index in &definition.indexes {
                let made = make_index(&table, index, Made::Within(filled))?;
                let added = table.0.add_index(made);
                debug_assert!(
                    added.is_some(),
                    "a definition that was checked has no more indexes than fit"
                );
            }
            Ok(table)
        })
    }

    /// The lock of a table's name.
    fn name_lock(&self, name: &str) -> Arc<TableLock> {
        let mut names = self.names.lock();
        if let Some(lock) = names.get(name) {
            return Arc::clone(lock);
        }
        // Those that nobody has any more go now and then.
        if names.len().is_power_of_two() {
            names.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        let lock = TableLock::new(TableLock::OF_A_NAME);
        names.insert(name.to_owned(), Arc::clone(&lock));
        lock
    }

    /// Waits until no definitions are published and no checkpoint is written. On a user-level thread the others of its thread go on: one of them
    /// may have what this one waits for.
    pub(crate) fn lock_defining(&self, park: &Arc<dyn Park>) -> MutexGuard<'_, ()> {
        if !teams::is_member() {
            return self.defining.lock();
        }
        loop {
            if let Some(guard) = self.defining.try_lock() {
                return guard;
            }
            park.park(Some(Instant::now() + LOOK_EVERY));
        }
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

/// How often a user-level thread asks again whether it may publish definitions. Unmeasured.
const LOOK_EVERY: Duration = Duration::from_millis(1);
