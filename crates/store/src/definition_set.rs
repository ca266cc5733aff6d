//! [`DefinitionSet`]: what a transaction has defined, until it ends.
//!
//! ```text
//!   made at once:  who has the table locked uses it          push ─► put (the log) ─► show, publish        commit
//!   others are shown what was before                          └────► undo_to                               abort, savepoints
//! ```
//!
//! The transaction has each table locked exclusively of which it changes a definition, and the names that come or go; those on the
//! other side of foreign keys at least shared. What it is not: how
//! something is defined, see `definitions.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::definition::Definition;
use crate::foreign_key::LinkChange;
use crate::index::IndexInner;
use crate::schema::{CheckDef, QualifiedName};
use crate::sequence::SequenceInner;
use crate::slots::Rid;
use crate::store::{Catalog, StoreInner};
use crate::table::{Definer, Table};
use crate::ts::Ts;

/// A definition that was made and is not committed.
struct Defined {
    definition: Definition,
    change: Change,
    /// What it has changed of foreign keys.
    links: Vec<LinkChange>,
    /// Changes of rows that were made before it.
    writes_before: usize,
    /// Among all of the session.
    number: u64,
}

/// What a definition has changed.
pub(crate) enum Change {
    /// The table of a name goes, or comes, or another takes its place.
    Table {
        name: QualifiedName,
        gone: Option<Table>,
        came: Option<Table>,
    },
    Renamed {
        table: Table,
        from: QualifiedName,
        to: QualifiedName,
    },
    /// The table had this shape before.
    Columns {
        table: Table,
        shape_before: usize,
    },
    IndexMade {
        table: Table,
        index: Arc<IndexInner>,
    },
    IndexDropped {
        table: Table,
        index: Arc<IndexInner>,
    },
    /// Nothing but foreign keys.
    ForeignKeys {
        table: Table,
    },
    /// The table had these checks before.
    Checks {
        table: Table,
        before: Vec<CheckDef>,
    },
    /// A schema comes, or goes.
    Schema {
        name: String,
        came: bool,
    },
    /// The sequence of a name comes, or goes.
    Sequence {
        name: QualifiedName,
        gone: Option<Arc<SequenceInner>>,
        came: Option<Arc<SequenceInner>>,
    },
}

impl Change {
    /// The table that there is then, or was; none of a schema or a sequence.
    pub(crate) fn table(&self) -> Option<&Table> {
        match self {
            Change::Table { gone, came, .. } => came.as_ref().or(gone.as_ref()),
            Change::Renamed { table, .. }
            | Change::Columns { table, .. }
            | Change::IndexMade { table, .. }
            | Change::IndexDropped { table, .. }
            | Change::ForeignKeys { table }
            | Change::Checks { table, .. } => Some(table),
            Change::Schema { .. } | Change::Sequence { .. } => None,
        }
    }
}

/// Definitions up to a moment: how many, and the number of the last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DefinitionMark {
    count: usize,
    last: u64,
}

/// What a transaction has defined.
#[derive(Default)]
pub(crate) struct DefinitionSet {
    defined: Vec<Defined>,
    /// Definitions the session has made.
    made: u64,
    /// Names the transaction on the tables that it changes; none before it is asked for.
    definer: Definer,
    /// Tables that name it.
    tables: Vec<Table>,
}

impl DefinitionSet {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.defined.is_empty()
    }

    /// What names the transaction: what `new` says when it is asked for the first time.
    pub(crate) fn definer(&mut self, new: impl FnOnce() -> Definer) -> Definer {
        if self.definer == Definer::NONE {
            self.definer = new();
        }
        self.definer
    }

    /// The table names the transaction as the one that changes its definitions.
    pub(crate) fn claim(&mut self, table: &Table) {
        debug_assert!(self.definer != Definer::NONE, "it was asked for");
        if table.0.definer() != self.definer {
            table.0.set_definer(self.definer);
            self.tables.push(table.clone());
        }
    }

    /// Notes what was made, behind so many changes of rows.
    pub(crate) fn push(
        &mut self,
        definition: Definition,
        change: Change,
        links: Vec<LinkChange>,
        writes_before: usize,
    ) {
        self.made += 1;
        self.defined.push(Defined {
            definition,
            change,
            links,
            writes_before,
            number: self.made,
        });
    }

    /// The table of a name: `Some(None)` if the transaction has taken that away, `None` if it has done nothing about it.
    pub(crate) fn table(&self, name: &QualifiedName) -> Option<Option<&Table>> {
        let mut changes = self.defined.iter().rev().map(|defined| &defined.change);
        changes.find_map(|change| match change {
            Change::Table { name: of, came, .. } if of == name => Some(came.as_ref()),
            Change::Renamed { table, to, .. } if to == name => Some(Some(table)),
            Change::Renamed { from, .. } if from == name => Some(None),
            _ => None,
        })
    }

    /// The same by number.
    pub(crate) fn table_of(&self, id: u32) -> Option<Option<&Table>> {
        let has_id = |table: &&Table| table.0.id == id;
        let mut changes = self.defined.iter().rev().map(|defined| &defined.change);
        changes.find_map(|change| match change {
            Change::Table { gone, came, .. } => {
                let came = came.as_ref().filter(has_id).map(Some);
                came.or_else(|| gone.as_ref().filter(has_id).map(|_| None))
            }
            _ => None,
        })
    }

    /// The sequence of a name, as [`DefinitionSet::table`].
    pub(crate) fn sequence(&self, name: &QualifiedName) -> Option<Option<&Arc<SequenceInner>>> {
        let mut changes = self.defined.iter().rev().map(|defined| &defined.change);
        changes.find_map(|change| match change {
            Change::Sequence { name: of, came, .. } if of == name => Some(came.as_ref()),
            _ => None,
        })
    }

    /// The sequences that come or go, each once: nobody else may write to the log about them while the transaction commits.
    pub(crate) fn sequences(&self) -> Vec<Arc<SequenceInner>> {
        let mut sequences: Vec<Arc<SequenceInner>> = Vec::new();
        for Defined { change, .. } in &self.defined {
            if let Change::Sequence { gone, came, .. } = change {
                for sequence in gone.iter().chain(came) {
                    if !sequences.iter().any(|known| Arc::ptr_eq(known, sequence)) {
                        sequences.push(Arc::clone(sequence));
                    }
                }
            }
        }
        sequences
    }

    /// The transaction commits: the log is to have which numbers of its new sequences may have been given out.
    pub(crate) fn close_sequences(&mut self) {
        for Defined {
            definition, change, ..
        } in &mut self.defined
        {
            if let (
                Definition::CreateSequence { base, given, .. },
                Change::Sequence {
                    came: Some(sequence), ..
                },
            ) = (definition, change)
            {
                (*base, *given) = sequence.close();
            }
        }
    }

    /// Whether the transaction has taken a table away.
    pub(crate) fn hides(&self, table: &Table) -> bool {
        self.defined.iter().any(|defined| {
            matches!(&defined.change, Change::Table { gone: Some(gone), .. } if gone.is_same(table))
        })
    }

    /// Brings tables and schemas by name up to what the transaction sees.
    pub(crate) fn apply(&self, catalog: &mut Catalog) {
        for Defined { change, .. } in &self.defined {
            match change {
                Change::Table { name, gone, came } => {
                    if gone.is_some() {
                        catalog.tables.remove(name);
                    }
                    if let Some(came) = came {
                        catalog.tables.insert(name.clone(), came.clone());
                    }
                }
                Change::Renamed { table, from, to } => {
                    catalog.tables.remove(from);
                    catalog.tables.insert(to.clone(), table.clone());
                }
                Change::Schema { name, came: true } => drop(catalog.schemas.insert(name.clone())),
                Change::Schema { name, came: false } => drop(catalog.schemas.remove(name)),
                Change::Sequence { name, came, .. } => drop(match came {
                    Some(came) => catalog.sequences.insert(name.clone(), Arc::clone(came)),
                    None => catalog.sequences.remove(name),
                }),
                _ => {}
            }
        }
    }

    /// The present.
    pub(crate) fn mark(&self) -> DefinitionMark {
        DefinitionMark {
            count: self.defined.len(),
            last: self.defined.last().map_or(0, |defined| defined.number),
        }
    }

    /// Whether all that was there at a mark is.
    pub(crate) fn stands(&self, mark: &DefinitionMark) -> bool {
        match mark.count.checked_sub(1) {
            None => true,
            Some(at) => self
                .defined
                .get(at)
                .is_some_and(|defined| defined.number == mark.last),
        }
    }

    /// Whether anything was made after a mark.
    pub(crate) fn is_beyond(&self, mark: &DefinitionMark) -> bool {
        self.defined.len() > mark.count
    }

    /// Takes back what was made after a mark. Changes of rows behind it were taken back before. False if there was nothing.
    pub(crate) fn undo_to(&mut self, mark: &DefinitionMark, store: &StoreInner) -> bool {
        let mut any = false;
        for Defined { change, links, .. } in self.defined.drain(mark.count..).rev() {
            any = true;
            links.iter().rev().for_each(LinkChange::undo);
            match change {
                Change::Table { came: Some(came), .. } => {
                    came.0.dropped.store(true, Ordering::Release);
                    store.definitions.fetch_add(1, Ordering::AcqRel);
                }
                Change::Table { came: None, .. } | Change::ForeignKeys { .. } | Change::Schema { .. } => {}
                Change::Sequence { came, .. } => came.iter().for_each(|came| came.end()),
                Change::Renamed { table, from, .. } => table.0.give_name(from),
                Change::Checks { table, before } => table.0.constraints.change(|links| links.checks = before),
                Change::Columns { table, shape_before } => table.0.layouts.undo_to(shape_before),
                Change::IndexMade { table, index } => table.0.remove_index(&index),
                Change::IndexDropped { table, index } => table.0.keep_index(&index, true),
            }
        }
        any
    }

    /// The definitions, each with the number of changes of rows before it.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, &Definition)> {
        let defined = self.defined.iter();
        defined.map(|defined| (defined.writes_before, &defined.definition))
    }

    /// Shows all what snapshots of the commit `ts` need to read rows. Called in the log's order.
    pub(crate) fn show(&self, ts: Ts) {
        for Defined { change, .. } in &self.defined {
            match change {
                Change::Table { came: Some(came), .. } => {
                    let made = came.0.indexes().filter(|(_, index)| !index.is_usable());
                    made.for_each(|(_, index)| came.0.show_index(index, ts));
                }
                Change::Columns { table, .. } => table.0.layouts.show(ts),
                Change::IndexMade { table, index } if index.is_kept() => table.0.show_index(index, ts),
                _ => {}
            }
        }
    }

    /// Shows all the rest, which the log has as the commit `ts`.
    pub(crate) fn publish(&mut self, store: &StoreInner, ts: Ts) {
        for Defined {
            definition, change, ..
        } in &self.defined
        {
            if let (Definition::Rewrite(..), Change::Table { came: Some(came), .. }) = (definition, change) {
                stamp(came, ts);
            }
        }
        let links = self.defined.iter().flat_map(|defined| &defined.links);
        links.for_each(LinkChange::show);
        self.apply(&mut store.catalog.write());
        for Defined { change, .. } in self.defined.drain(..) {
            match change {
                Change::Table { gone: Some(gone), .. } => {
                    gone.0.dropped.store(true, Ordering::Release);
                    store.definitions.fetch_add(1, Ordering::AcqRel);
                }
                Change::Renamed { table, to, .. } => table.0.rename(to),
                Change::Checks { table, .. } => table.0.constraints.show_checks(),
                Change::Sequence { gone, came, .. } => {
                    gone.iter().for_each(|gone| gone.end());
                    came.iter().for_each(|came| came.show());
                }
                Change::IndexDropped { table, index } => table.0.remove_index(&index),
                _ => {}
            }
        }
    }

    /// The transaction has ended; its locks are still held.
    pub(crate) fn end(&mut self) {
        for table in self.tables.drain(..) {
            // Perhaps the lock was let go of, and the table is another's now.
            table.0.unset_definer(self.definer);
        }
        self.definer = Definer::NONE;
    }
}

/// The rows that were written again with a table are those of the commit that shows it. Nobody else has the table yet.
fn stamp(table: &Table, ts: Ts) {
    for rid in (0..table.rid_end()).map(Rid) {
        let mut version = table.0.slots.find(rid).and_then(|slot| slot.newest());
        while let Some(older) = version {
            older.commit(ts);
            table.0.changed.mark(rid, ts);
            version = older.previous();
        }
    }
}
