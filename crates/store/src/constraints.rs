//! Constraints of tables that are there already: added and dropped.
//!
//! What it is not: those that a table is made with (`definitions.rs`), nor what they do (`foreign_key.rs`).

use corun_exec::teams;

use crate::error::{Result, StoreError};
use crate::foreign_key::unlink;
use crate::redo;
use crate::schema::{CheckDef, ForeignKeyDef, TableDef};
use crate::store::Store;
use crate::table::Table;

impl Store {
    /// Adds a foreign key to a table whose rows fulfil it. Waits for transactions that write to the two tables, and they wait for it; readers go
    /// on.
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
    /// [`StoreError::ForeignKey`] of the first row that refers to no row; [`StoreError::Exists`], [`StoreError::Schema`],
    /// [`StoreError::NoTable`]; locks that are not granted; errors of the log.
    pub fn add_foreign_key(&self, table: &Table, key: ForeignKeyDef) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            let parents = {
                let with = table.with_constraint(&key.name, |table| table.with_foreign_key(key.clone()))?;
                let mut tables = inner.catalog.read().references(&with)?;
                tables.push(table.clone());
                tables
            };
            self.while_nobody_writes(&parents, || {
                let keys = [key];
                inner.catalog.read().link(table, &keys)?;
                let [key] = &keys;
                let links = table.0.constraints.links();
                let linked = links.own.iter().find(|known| known.definition.name == key.name);
                let done = linked
                    .map_or(Ok(()), |linked| linked.verify())
                    .and_then(|()| inner.append_definition(&redo::add_foreign_key(table.0.id, key)));
                if done.is_err() {
                    unlink(table, |known| known.name == key.name);
                }
                done.map(drop)
            })?;
            inner.flush_definition()
        })
    }

    /// Adds a condition that the rows of a table fulfil. The store does not evaluate it: the caller has seen to it that the rows there are do,
    /// and that nobody writes others meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Exists`], [`StoreError::Schema`]; locks that are not granted; errors of the log.
    pub fn add_check(&self, table: &Table, check: CheckDef) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            table.with_constraint(&check.name, |table| {
                table.check_constraint(&check.name, &check.text)
            })?;
            self.while_nobody_writes(std::slice::from_ref(table), || {
                inner.append_definition(&redo::add_check(table.0.id, &check))?;
                table.0.constraints.change(|links| links.checks.push(check));
                Ok(())
            })?;
            inner.flush_definition()
        })
    }

    /// Drops a foreign key or a check. Waits for transactions that write to the tables.
    ///
    /// # Errors
    /// [`StoreError::NoConstraint`]; locks that are not granted; errors of the log.
    pub fn drop_constraint(&self, table: &Table, name: &str) -> Result<()> {
        teams::blocking(|| {
            let inner = &self.inner;
            let _defining = inner.defining.lock();
            table.0.check_there()?;
            if !table.definition().has_constraint(name) {
                return Err(StoreError::NoConstraint {
                    table: table.0.name.clone(),
                    name: name.to_owned(),
                });
            }
            let mut tables = table.parents();
            tables.push(table.clone());
            self.while_nobody_writes(&tables, || {
                inner.append_definition(&redo::drop_constraint(table.0.id, name))?;
                unlink(table, |key| key.name == name);
                let checks = &table.0.constraints;
                checks.change(|links| links.checks.retain(|check| check.name != name));
                Ok(())
            })?;
            inner.flush_definition()
        })
    }
}

impl Table {
    /// The definition with another constraint, which it can have.
    fn with_constraint(&self, name: &str, add: impl FnOnce(TableDef) -> TableDef) -> Result<TableDef> {
        self.0.check_there()?;
        let definition = self.definition();
        if definition.has_constraint(name) {
            return Err(StoreError::Exists {
                what: "a constraint",
                name: name.to_owned(),
            });
        }
        let with = add(definition);
        with.check()?;
        Ok(with)
    }
}
