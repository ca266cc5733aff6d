//! Whether the rows of a table fulfil its foreign keys, all of them at once: when one is added, and when a folder is verified.

use super::ForeignKey;
use crate::error::{Result, StoreError};
use crate::key::Exact;
use crate::row::RowRef;
use crate::slots::Rid;
use crate::table::{Table, TableInner};
use crate::transaction::Direction;

/// A row that nobody changes now.
fn row(table: &TableInner, rid: Rid) -> Option<RowRef<'_>> {
    let version = table.slots.find(rid)?.newest()?;
    // SAFETY: nobody changes rows of the table now.
    unsafe { table.layouts.row(version) }
}

impl ForeignKey {
    /// Whether the parent has a row of a key, while nobody changes its rows.
    fn is_there(&self, parent: &Table, key: &Exact) -> bool {
        let range = key.range();
        let layout = &self.index.layout;
        let mut cursor = self.index.tree.cursor();
        cursor.seek(&range, Direction::Ascending);
        std::iter::from_fn(|| cursor.next(&range, Direction::Ascending)).any(|(words, rid)| {
            row(&parent.0, rid).is_some_and(|row| layout.of_row(row) == words && layout.is_of(row, key))
        })
    }

    /// Whether all rows of the child refer to rows that are there. Nobody changes rows of the two tables now.
    ///
    /// # Errors
    /// [`StoreError::ForeignKey`], of the first that does not.
    pub(crate) fn verify(&self) -> Result<()> {
        let (child, parent) = (self.child()?, self.parent()?);
        for rid in 0..child.rid_end() {
            let Some(row) = row(&child.0, Rid(rid)) else {
                continue;
            };
            let Some(values) = self.values_of_child(row) else {
                continue;
            };
            let key = self.index.layout.exact(&values)?;
            if !key.is_some_and(|key| self.is_there(&parent, &key)) {
                return Err(StoreError::ForeignKey(Box::new(self.missing(&child, row))));
            }
        }
        Ok(())
    }
}

/// Whether all rows of a table refer to rows that are there. Nobody changes rows now.
///
/// # Errors
/// As [`ForeignKey::verify`].
pub(crate) fn verify_table(table: &Table) -> Result<()> {
    let links = table.0.constraints.links();
    links.own.iter().try_for_each(|key| key.verify())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::ForeignKeyDef;
    use crate::{Options, Store, TableDef, Type, Value};

    /// Only damage could leave such rows in a store; here the foreign key comes into force behind its back.
    #[test]
    fn a_row_that_refers_to_none_is_found() {
        let store = Store::in_memory(Options::default()).unwrap();
        let table = |name: &str| {
            let definition = TableDef::new(name)
                .column("id", Type::I64)
                .nullable("up", Type::I64);
            store.create_table(definition.primary_key(&["id"])).unwrap()
        };
        let (parent, child) = (table("parent"), table("child"));
        let put = |table: &Table, id: i64, up: Value<'_>| {
            let mut row = table.new_row();
            row.set("id", id).unwrap();
            row.set("up", up).unwrap();
            let mut session = store.session_here().unwrap();
            session
                .run(|transaction| transaction.insert(table, &row))
                .unwrap();
        };
        let keys = [ForeignKeyDef::new("f", &["up"], "parent", &["id"])];
        let linked = store.inner.catalog.read().link(&child, &keys).unwrap();
        put(&parent, 1, Value::Null);
        put(&child, 1, Value::Int(1));
        put(&child, 2, Value::Null);
        verify_table(&child).unwrap();
        linked.iter().for_each(crate::foreign_key::LinkChange::undo);
        put(&child, 3, Value::Int(4));
        verify_table(&child).unwrap();
        store.inner.catalog.read().link(&child, &keys).unwrap();
        let found = verify_table(&child).unwrap_err().to_string();
        assert!(
            found.contains("key (up)=(4) is not present in table \"parent\""),
            "{found}"
        );
        verify_table(&parent).unwrap();
    }
}
