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
use crate::foreign_key::LinkChange;
use crate::index::{IndexInner, Made};
use crate::key::KeyLayout;
use crate::known::Reach;
use crate::lock::{TableLock, TableMode};
use crate::park::{self, Park};
use crate::recovery;
use crate::rewrite;
use crate::row::SHAPES_MAX;
use crate::schema::{CheckDef, ColumnDef, INDEXES_MAX, IndexDef, QualifiedName, SchemaError, TableDef};
use crate::sequence::SequenceInner;
use crate::session::State;
use crate::store::StoreInner;
use crate::table::{Table, TableInner};
use crate::transaction::Transaction;
use crate::ts::Ts;

impl Transaction<'_> {
    /// Makes a definition that was checked, for the transaction. Returns the table that there is then, or was; none of a schema
    /// or a sequence.
    pub(crate) fn make(&self, state: &mut State, definition: Definition) -> Result<Option<Table>> {
        let store = &*self.session.store;
        let definer = self.definer(state);
        let mut links = Vec::new();
        let change = match &definition {
            Definition::CreateTable(id, table) => {
                let parents = self.parents(state, table, &table.foreign_keys)?;
                let came = store.make_table(*id, table)?;
                let change = self.come(state, table.qualified_name(), None, Some(came.clone()))?;
                links = self.or_discard(&came, self.link(&came, &table.foreign_keys, parents))?;
                change
            }
            Definition::DropTable(id) => {
                let gone = self.locked(state, *id)?;
                gone.seen_by(definer).check_unreferenced("dropped")?;
                self.lock_linked(state, &gone)?;
                links = gone.unlink(|_| true);
                self.come(state, gone.0.qualified_for(definer), Some(gone), None)?
            }
            Definition::Truncate(id, new) => {
                let gone = self.locked(state, *id)?;
                gone.seen_by(definer).check_unreferenced("truncated")?;
                self.lock_linked(state, &gone)?;
                let seen = self.seen(state, &gone);
                let came = store.make_table(*new, &seen)?;
                let change;
                (change, links) = self.take_place(state, seen.qualified_name(), gone, came)?;
                change
            }
            Definition::Rewrite(id, new, columns) => {
                let gone = self.locked(state, *id)?;
                self.lock_linked(state, &gone)?;
                let mut seen = self.seen(state, &gone);
                seen.columns.clone_from(columns);
                seen.check()?;
                let filled = store.log.last();
                let came = teams::blocking(|| rewrite::rewrite(store, &gone, *new, &seen, filled))?;
                let change;
                (change, links) = self.take_place(state, seen.qualified_name(), gone, came)?;
                change
            }
            Definition::RenameTable(id, to) => {
                let table = self.locked(state, *id)?;
                let from = table.0.qualified_for(definer);
                let to = QualifiedName::new(&from.schema, to);
                state.definitions.claim(&table);
                table.0.give_name(to.clone());
                Change::Renamed { table, from, to }
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
                    table: table.shown_name(),
                    name: name.clone(),
                })?);
                drop(indexes);
                table.seen_by(definer).check_index_free(&index)?;
                state.definitions.claim(&table);
                table.0.keep_index(&index, false);
                Change::IndexDropped { table, index }
            }
            Definition::AddForeignKey(id, key) => {
                let table = self.locked(state, *id)?;
                let seen = self.seen(state, &table);
                let keys = std::slice::from_ref(key);
                let parents = self.parents(state, &seen, keys)?;
                state.definitions.claim(&table);
                links = self.link(&table, keys, parents)?;
                let verified = teams::blocking(|| links.iter().try_for_each(LinkChange::verify));
                if verified.is_err() {
                    links.iter().for_each(LinkChange::undo);
                }
                verified?;
                Change::ForeignKeys { table }
            }
            Definition::AddCheck(id, check) => {
                let table = self.locked(state, *id)?;
                self.change_checks(state, table, |checks| checks.push(check.clone()))
            }
            Definition::DropConstraint(id, name) => {
                let table = self.locked(state, *id)?;
                self.lock_linked(state, &table)?;
                links = table.unlink(|key| key.name() == name);
                self.change_checks(state, table, |checks| checks.retain(|check| check.name != *name))
            }
            Definition::CreateSchema(name) => {
                self.lock_schema(state, name, TableMode::X)?;
                let (name, came) = (name.clone(), true);
                Change::Schema { name, came }
            }
            Definition::DropSchema(name) => {
                self.lock_schema(state, name, TableMode::X)?;
                let (name, came) = (name.clone(), false);
                Change::Schema { name, came }
            }
            Definition::CreateSequence {
                id,
                definition,
                base,
                given,
            } => {
                let mut catalog = store.catalog.write();
                catalog.next_id = catalog.next_id.max(*id);
                drop(catalog);
                let came = SequenceInner::within(*id, definition.clone(), *base, *given);
                Change::Sequence {
                    name: definition.qualified_name(),
                    gone: None,
                    came: Some(Arc::new(came)),
                }
            }
            Definition::DropSequence(id) => {
                let gone = self.sequence_of(state, *id);
                let gone = gone.ok_or_else(|| StoreError::NoSequence {
                    name: format!("number {id}"),
                })?;
                Change::Sequence {
                    name: gone.definition.qualified_name(),
                    gone: Some(gone),
                    came: None,
                }
            }
        };
        let table = change.table().cloned();
        let writes = state.writes.len();
        state.definitions.push(definition, change, links, writes);
        Ok(table.map(|table| self.handle(state, &table)))
    }

    /// A table comes, goes, or both.
    fn come(
        &self,
        state: &mut State,
        name: QualifiedName,
        gone: Option<Table>,
        came: Option<Table>,
    ) -> Result<Change> {
        if let Some(came) = &came {
            // Nobody else has it.
            let reached = self.reach(state, came, Reach::Write).map(drop);
            self.or_discard(came, reached)?;
            state.definitions.claim(came);
        }
        if let Some(gone) = &gone {
            state.tables.hide(gone.0.id);
        }
        Ok(Change::Table { name, gone, came })
    }

    /// What comes of a table that nobody else has; if it is an error, the table goes.
    /// One table takes another's place: its rows, its foreign keys.
    fn take_place(
        &self,
        state: &mut State,
        name: QualifiedName,
        gone: Table,
        came: Table,
    ) -> Result<(Change, Vec<LinkChange>)> {
        let change = self.come(state, name, Some(gone.clone()), Some(came.clone()))?;
        let links = self.or_discard(&came, self.relink(state, &gone, &came))?;
        Ok((change, links))
    }

    fn or_discard<R>(&self, came: &Table, made: Result<R>) -> Result<R> {
        if made.is_err() {
            came.0.dropped.store(true, Ordering::Release);
            self.session.store.definitions.fetch_add(1, Ordering::AcqRel);
        }
        made
    }

    fn change_checks(
        &self,
        state: &mut State,
        table: Table,
        change: impl FnOnce(&mut Vec<CheckDef>),
    ) -> Change {
        state.definitions.claim(&table);
        let before = table.0.constraints.links().checks.clone();
        table.0.constraints.change(|links| change(&mut links.checks));
        Change::Checks { table, before }
    }

    fn shape(&self, state: &mut State, table: Table, columns: Vec<ColumnDef>) -> Result<Change> {
        if !table.0.layouts.has_room() {
            return Err(StoreError::Schema(SchemaError::Count {
                table: table.shown_name(),
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
        ..TableDef::new(table.0.name())
    };
    let mut entries = Vec::new();
    let fill = |layout: &KeyLayout| {
        entries = recovery::entries(table, layout, 0..table.rid_end());
        entries.sort_unstable();
        Some(entries.clone())
    };
    let positions = within.positions(index)?;
    let made = IndexInner::new(table.0.id, table.0.name(), index, columns, positions, made, fill)
        .map_err(|source| StoreError::tree(table.0.name(), &index.name, source))?;
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
        table: table.shown_name(),
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

    /// The lock of a table's name, or of a schema's: no table has an empty name.
    pub(crate) fn name_lock(&self, name: &QualifiedName) -> Arc<TableLock> {
        let mut names = self.names.lock();
        if let Some(lock) = names.get(name) {
            return Arc::clone(lock);
        }
        // Those that nobody has any more go now and then.
        if names.len().is_power_of_two() {
            names.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        let lock = TableLock::new(TableLock::OF_A_NAME);
        names.insert(name.clone(), Arc::clone(&lock));
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
