//! Definitions of a [`Store`]: each in a transaction of its own.

use corun_exec::teams;

use crate::error::Result;
use crate::options::Durability;
use crate::schema::{CheckDef, ColumnDef, ForeignKeyDef, PUBLIC, TableDef};
use crate::store::Store;
use crate::table::Table;
use crate::transaction::Transaction;
use crate::value::Value;

impl Store {
    /// Runs one definition in a transaction of its own. It is durable when this returns.
    pub(crate) fn define<R: Send>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<R> + Send,
    ) -> Result<R> {
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
    /// [`StoreError::OtherDefinition`](crate::StoreError::OtherDefinition) if the table there is has other columns, another primary key, other indexes or constraints; the
    /// order of its indexes and constraints does not matter. Else as [`Store::create_table`].
    pub fn create_table_if_missing(&self, definition: TableDef) -> Result<Table> {
        let table = self.define(|transaction| transaction.create_table_if_missing(definition))?;
        // Who made it may be waiting for the disk.
        self.inner.log.flush()?;
        Ok(table)
    }

    /// Drops a table of the schema `public` with all its rows. Waits for transactions that use it, or write to tables that it refers to.
    ///
    /// # Errors
    /// As [`Transaction::drop_table`]; errors of the log.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_table_in(PUBLIC, name)
    }

    /// Drops a table of a schema, as [`Store::drop_table`].
    ///
    /// # Errors
    /// As there.
    pub fn drop_table_in(&self, schema: &str, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_table_in(schema, name))
    }

    /// Takes all rows out of a table of the schema `public` at once, as if it were dropped and made again. Waits for transactions that use it. Snapshots of before
    /// still read the rows through handles of before; for all else those are handles of a table that was dropped. Returns the new one.
    ///
    /// # Errors
    /// As [`Transaction::truncate_table`]; errors of the log.
    pub fn truncate_table(&self, name: &str) -> Result<Table> {
        self.truncate_table_in(PUBLIC, name)
    }

    /// Empties a table of a schema, as [`Store::truncate_table`].
    ///
    /// # Errors
    /// As there.
    pub fn truncate_table_in(&self, schema: &str, name: &str) -> Result<Table> {
        self.define(|transaction| transaction.truncate_table_in(schema, name))
    }

    /// Gives a table of the schema `public` another name. Handles of it stay good, and foreign keys refer to it as before. Waits for transactions
    /// that use it.
    ///
    /// # Errors
    /// As [`Transaction::rename_table`]; errors of the log.
    pub fn rename_table(&self, name: &str, to: &str) -> Result<()> {
        self.rename_table_in(PUBLIC, name, to)
    }

    /// Gives a table another name within its schema, as [`Store::rename_table`].
    ///
    /// # Errors
    /// As there.
    pub fn rename_table_in(&self, schema: &str, name: &str, to: &str) -> Result<()> {
        self.define(|transaction| transaction.rename_table_in(schema, name, to))
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
    /// As [`Transaction::create_schema`]; errors of the log.
    pub fn create_schema(&self, name: &str) -> Result<()> {
        self.define(|transaction| transaction.create_schema(name))
    }

    /// Drops a schema that has no tables and no sequences.
    ///
    /// # Errors
    /// As [`Transaction::drop_schema`]; errors of the log.
    pub fn drop_schema(&self, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_schema(name))
    }

    /// Adds a foreign key to a table whose rows fulfil it: see [`Transaction::add_foreign_key`].
    ///
    /// ```
    /// use corun_store::{ForeignKeyDef, Options, Store, TableDef, Type};
    ///
    /// let store = Store::in_memory(Options::default())?;
    /// store.create_table(TableDef::new("customer").column("id", Type::I64).primary_key(&["id"]))?;
    /// let orders = TableDef::new("orders").column("id", Type::I64).nullable("customer_id", Type::I64);
    /// let orders = store.create_table(orders.primary_key(&["id"]))?;
    /// store.add_foreign_key(&orders, ForeignKeyDef::new("by_customer", &["customer_id"], "customer", &["id"]))?;
    ///
    /// let mut session = store.session_here()?;
    /// let transaction = session.begin()?;
    /// let mut row = orders.new_row();
    /// row.set("id", 1)?;
    /// row.set("customer_id", 7)?;
    /// assert_eq!(
    ///     transaction.insert(&orders, &row).unwrap_err().to_string(),
    ///     "insert or update on table \"orders\" violates foreign key constraint \"by_customer\": \
    ///      key (customer_id)=(7) is not present in table \"customer\""
    /// );
    /// # Ok::<(), corun_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn add_foreign_key(&self, table: &Table, key: ForeignKeyDef) -> Result<()> {
        self.define(|transaction| transaction.add_foreign_key(table, key))
    }

    /// Adds a condition that the rows of a table fulfil, which the store does not evaluate: see [`Transaction::add_check`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn add_check(&self, table: &Table, check: CheckDef) -> Result<()> {
        self.define(|transaction| transaction.add_check(table, check))
    }

    /// Drops a foreign key or a check: see [`Transaction::drop_constraint`].
    ///
    /// # Errors
    /// As there; errors of the log.
    pub fn drop_constraint(&self, table: &Table, name: &str) -> Result<()> {
        self.define(|transaction| transaction.drop_constraint(table, name))
    }
}
