//! Definitions of a [`Store`]: each in a transaction of its own.

use corun_exec::teams;

use crate::error::Result;
use crate::options::Durability;
use crate::schema::{ColumnDef, TableDef};
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Transaction;
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
