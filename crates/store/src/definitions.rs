//! Tables, columns and indexes are made, changed and dropped: by a [`Transaction`], among its other changes, or by a [`Store`](crate::Store)
//! in a transaction of its own.
//!
//! ```text
//! the name, if it comes or goes, and the table are locked ─► the change is made, for who has the locks ─► the transaction goes on with it
//! ─► commit: one block of the log has definitions and rows in their order ─► all are shown it ─► locks are let go
//! ```
//!
//! Here is what may be defined, `make.rs` makes it. Locks are kept to the end, as those of rows. Two transactions that make a table of one name
//! wait for each other by the name's lock. What is defined and how it is taken back is in `definition_set.rs`; rows are written again in
//! `rewrite.rs`.
//!
//! What it is not: the check of a definition ([`TableDef::check`]); constraints of tables that are there (`constraints.rs`) and schemas
//! (`namespace.rs`), which go the same way.

mod make;
mod of_store;

pub(crate) use make::make_index;

use crate::constant::Constant;
use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::known::Reach;
use crate::lock::TableMode;
use crate::operations::check_stack;
use crate::row::RowError;
use crate::schema::{ColumnDef, PRIMARY, PUBLIC, QualifiedName, SchemaError, TableDef};
use crate::session::State;
use crate::store::Catalog;
use crate::table::{Definer, Table};
use crate::transaction::Transaction;
use crate::value::Value;

/// Definitions are changed within the transaction: it sees them at once, others when it has committed. It has the tables locked exclusively
/// until then.
impl Transaction<'_> {
    /// A table of the schema `public` by name, as this transaction sees it: its handle shows what the transaction has defined, before or after this call.
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
    /// let by_id = table.primary();
    /// let found = transaction.fetch(&by_id, &[1.into()])?.unwrap();
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
        self.table_in(PUBLIC, name)
    }

    /// A table by the name of its schema and its own, as [`Transaction::table`].
    ///
    /// # Errors
    /// [`StoreError::NoTable`].
    pub fn table_in(&self, schema: &str, name: &str) -> Result<Table> {
        check_stack()?;
        self.go_on(|state| {
            let table = self.find(state, &QualifiedName::new(schema, name))?;
            Ok(self.handle(state, &table))
        })
    }

    /// All tables, by schema and name, as this transaction sees them.
    pub fn tables(&self) -> Vec<Table> {
        let mut state = self.session.state.borrow_mut();
        let catalog = self.catalog(&state);
        let tables = catalog.tables.values();
        tables.map(|table| self.handle(&mut state, table)).collect()
    }

    /// Makes a table. Another transaction that makes one of the name waits for the end of this one; so does one that writes to a table that its
    /// foreign keys refer to.
    ///
    /// # Errors
    /// [`StoreError::Schema`], [`StoreError::Exists`], [`StoreError::NoSchema`], locks that are not granted. With foreign keys:
    /// [`StoreError::NoTable`].
    pub fn create_table(&self, definition: TableDef) -> Result<Table> {
        definition.check()?;
        self.change_definitions(|state| {
            self.lock_to_create(state, &definition.qualified_name())?;
            self.check_free(state, &definition.qualified_name())?;
            self.create(state, definition)
        })
    }

    /// The table of this definition: as [`Transaction::create_table`], if there is no table of its name.
    ///
    /// # Errors
    /// As [`Store::create_table_if_missing`](crate::Store::create_table_if_missing).
    pub fn create_table_if_missing(&self, definition: TableDef) -> Result<Table> {
        definition.check()?;
        self.change_definitions(|state| {
            let name = definition.qualified_name();
            self.lock_to_create(state, &name)?;
            let Ok(table) = self.find(state, &name) else {
                return self.create(state, definition);
            };
            match self.seen(state, &table).difference(&definition) {
                None => Ok(self.handle(state, &table)),
                Some(difference) => Err(StoreError::OtherDefinition {
                    table: name.to_string(),
                    difference,
                }),
            }
        })
    }

    /// Drops a table of the schema `public` with all its rows. Waits for other transactions that use it, or write to tables that it refers to.
    ///
    /// # Errors
    /// [`StoreError::NoTable`]; [`StoreError::Referenced`] if other tables refer to it; locks that are not granted.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_table_in(PUBLIC, name)
    }

    /// Drops a table of a schema, as [`Transaction::drop_table`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_table_in(&self, schema: &str, name: &str) -> Result<()> {
        self.change_definitions(|state| {
            let table = self.lock_named(state, &QualifiedName::new(schema, name))?;
            self.make(state, Definition::DropTable(table.0.id)).map(drop)
        })
    }

    /// Takes all rows out of a table of the schema `public` at once, as if it were dropped and made again. Waits for other transactions that use it. Returns the
    /// table's new handle: those of before are of a table that was dropped.
    ///
    /// # Errors
    /// As [`Transaction::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<Table> {
        self.truncate_table_in(PUBLIC, name)
    }

    /// Empties a table of a schema, as [`Transaction::truncate_table`].
    ///
    /// # Errors
    /// As there.
    pub fn truncate_table_in(&self, schema: &str, name: &str) -> Result<Table> {
        self.change_definitions(|state| {
            let table = self.lock_named(state, &QualifiedName::new(schema, name))?;
            let new = self.session.store.new_id();
            self.make_of_table(state, Definition::Truncate(table.0.id, new))
        })
    }

    /// Gives a table of the schema `public` another name. Handles of it stay good, and foreign keys refer to it as before.
    ///
    /// # Errors
    /// [`StoreError::NoTable`], [`StoreError::Exists`], [`StoreError::Schema`] for a name that cannot be, locks that are not granted.
    pub fn rename_table(&self, name: &str, to: &str) -> Result<()> {
        self.rename_table_in(PUBLIC, name, to)
    }

    /// Gives a table another name within its schema, as [`Transaction::rename_table`].
    ///
    /// # Errors
    /// As there.
    pub fn rename_table_in(&self, schema: &str, name: &str, to: &str) -> Result<()> {
        self.change_definitions(|state| {
            let table = self.lock_named(state, &QualifiedName::new(schema, name))?;
            let mut renamed = self.seen(state, &table);
            to.clone_into(&mut renamed.name);
            renamed.check()?;
            self.lock_name(state, &renamed.qualified_name())?;
            self.check_free(state, &renamed.qualified_name())?;
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
                    table: with.shown_name(),
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
    /// [`StoreError::ColumnInIndex`], [`StoreError::ColumnInForeignKey`]: indexes and constraints are not dropped with their columns. Nothing is
    /// known of the columns of checks. [`StoreError::PendingChecks`], [`RowError::NoColumn`], [`StoreError::Schema`] for the last
    /// column, [`StoreError::Dropped`], [`StoreError::MemoryFull`], locks that are not granted.
    pub fn drop_column(&self, table: &Table, column: &str) -> Result<Table> {
        self.change_columns(table, column, true, |columns, at| {
            columns.remove(at);
        })
    }

    /// Gives a column another name, in indexes and foreign keys too. The text of checks stays.
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
            let seen = self.seen(state, table);
            let mut with = table.0.with_index(seen, name, unique, columns)?;
            let index = with.indexes.pop().expect("it was just added");
            self.make(state, Definition::CreateIndex(table.0.id, index))
                .map(drop)
        })
    }

    /// Drops an index; the primary key's stays.
    ///
    /// # Errors
    /// [`StoreError::NoIndex`], [`StoreError::PrimaryKey`], [`StoreError::Referenced`] if a foreign key needs it, [`StoreError::Dropped`], locks that are not granted.
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        if name == PRIMARY && table.primary_key().is_some() {
            return Err(StoreError::PrimaryKey {
                table: table.shown_name(),
            });
        }
        self.change_definitions(|state| {
            self.reach(state, table, Reach::Write)?;
            self.make(state, Definition::DropIndex(table.0.id, name.to_owned()))
                .map(drop)
        })
    }

    pub(crate) fn change_definitions<R>(&self, change: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
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
        let id = table.0.id;
        if !rewrites {
            let mut with = seen;
            with.rename_columns(columns);
            with.indexes = (table.0.indexes())
                .map(|(_, index)| index.definition(&with.columns))
                .collect();
            with.check()?;
            return self.make_of_table(state, Definition::Columns(id, with.columns));
        }
        if !state.pending.is_empty() && table.0.constraints.are_linked() {
            // They know rows of the table that goes.
            return Err(StoreError::PendingChecks {
                table: table.shown_name(),
            });
        }
        let old = &seen.columns;
        let handle = self.handle(state, table);
        handle.check_columns_free(|at| !columns.iter().any(|column| column.name == old[at].name))?;
        let with = TableDef { columns, ..seen };
        for index in &with.indexes {
            if let Some(column) = index
                .columns
                .iter()
                .find(|column| with.position(column).is_none())
            {
                return Err(StoreError::ColumnInIndex {
                    table: with.shown_name(),
                    column: column.clone(),
                    index: index.name.clone(),
                });
            }
        }
        with.check()?;
        let new = self.session.store.new_id();
        self.make_of_table(state, Definition::Rewrite(id, new, with.columns))
    }

    fn create(&self, state: &mut State, definition: TableDef) -> Result<Table> {
        let id = self.session.store.new_id();
        self.make_of_table(state, Definition::CreateTable(id, definition))
    }

    fn make_of_table(&self, state: &mut State, definition: Definition) -> Result<Table> {
        let table = self.make(state, definition)?;
        Ok(table.expect("the definition is of a table"))
    }

    /// What there is, as the transaction sees it.
    pub(crate) fn catalog(&self, state: &State) -> Catalog {
        let mut catalog = self.session.store.catalog.read().clone();
        state.definitions.apply(&mut catalog);
        catalog
    }

    /// A table by number, as the transaction sees it.
    pub(crate) fn table_of(&self, state: &State, id: u32) -> Option<Table> {
        match state.definitions.table_of(id) {
            Some(table) => table.cloned(),
            None => self.session.store.table_of(id),
        }
    }

    pub(crate) fn find(&self, state: &State, name: &QualifiedName) -> Result<Table> {
        match state.definitions.table(name) {
            Some(Some(table)) => Ok(table.clone()),
            Some(None) => Err(self.session.store.catalog.read().no_table(name)),
            None => self.session.store.catalog.read().table(name),
        }
    }

    fn check_free(&self, state: &State, name: &QualifiedName) -> Result<()> {
        match self.find(state, name) {
            Err(_) => Ok(()),
            Ok(_) => Err(StoreError::Exists {
                what: "a table",
                name: name.to_string(),
            }),
        }
    }

    /// A table's definition as the transaction sees it.
    pub(crate) fn seen(&self, state: &mut State, table: &Table) -> TableDef {
        table.0.definition(self.definer(state))
    }

    /// A handle that shows what the transaction has defined.
    fn handle(&self, state: &mut State, table: &Table) -> Table {
        table.seen_by(self.definer(state))
    }

    /// The table of a name, locked exclusively; nobody else makes, drops or renames one of the name.
    fn lock_named(&self, state: &mut State, name: &QualifiedName) -> Result<Table> {
        self.lock_name(state, name)?;
        loop {
            let table = self.find(state, name)?;
            match self.reach(state, &table, Reach::Write) {
                Ok(_) => return Ok(table),
                // Another transaction has written it again while this one waited.
                Err(StoreError::Dropped { .. }) if !self.find(state, name)?.is_same(&table) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps others from making, dropping or renaming a table of this name.
    fn lock_name(&self, state: &mut State, name: &QualifiedName) -> Result<()> {
        let lock = self.session.store.name_lock(name);
        state.holder.table(&lock, TableMode::X)?;
        Ok(())
    }

    /// The same for a table that is to come; nobody drops its schema.
    fn lock_to_create(&self, state: &mut State, name: &QualifiedName) -> Result<()> {
        if name.schema != PUBLIC {
            self.lock_schema(state, &name.schema, TableMode::S)?;
            self.catalog(state).check_schema(&name.schema)?;
        }
        self.lock_name(state, name)
    }

    /// Keeps others from making or dropping a schema; in mode `S`, from nothing else.
    pub(crate) fn lock_schema(&self, state: &mut State, schema: &str, mode: TableMode) -> Result<()> {
        let lock = self.session.store.name_lock(&QualifiedName::new(schema, ""));
        state.holder.table(&lock, mode)?;
        Ok(())
    }

    /// What names the transaction on tables whose definitions it changes.
    pub(crate) fn definer(&self, state: &mut State) -> Definer {
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
