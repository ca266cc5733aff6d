//! How a definition is made: by the transaction that wants it, and by who replays what another store defined.
//!
//! What takes long or needs a deep stack runs beside a user-level thread ([`teams::blocking`]): tables, layouts and indexes are made, and rows
//! written again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use corun_exec::teams;
use parking_lot::MutexGuard;

use crate::definition::Definition;
use crate::definition_set::Change;
use crate::error::{Result, StoreError};
use crate::index::{IndexInner, Made};
use crate::key::KeyLayout;
use crate::known::Reach;
use crate::lock::TableLock;
use crate::park::{self, Park};
use crate::recovery;
use crate::rewrite;
use crate::row::SHAPES_MAX;
use crate::schema::{ColumnDef, INDEXES_MAX, IndexDef, SchemaError, TableDef};
use crate::session::State;
use crate::store::StoreInner;
use crate::table::{Table, TableInner};
use crate::transaction::Transaction;
use crate::ts::Ts;

impl Transaction<'_> {
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
}

/// An index over the newest rows of a table, which the caller has locked exclusively.
pub(crate) fn make_index(table: &Table, index: &IndexDef, made: Made) -> Result<IndexInner> {
    let columns = table.0.layouts.newest().definitions();
    let within = TableDef {
        columns: columns.to_vec(),
        ..TableDef::new(table.name())
    };
    let mut entries = Vec::new();
    let fill = |layout: &KeyLayout| {
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
        found: INDEXES_MAX + 1,
        most: INDEXES_MAX,
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
    pub(super) fn name_lock(&self, name: &str) -> Arc<TableLock> {
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
