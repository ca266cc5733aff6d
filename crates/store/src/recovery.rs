//! Opening a store: checkpoint, then the log behind it, then the indexes.
//!
//! ```text
//! checkpoint   threads take chunks; each row goes to its slot
//! log          each segment: every thread goes through all blocks and applies the records of its own rows, in order
//! indexes      threads take indexes; each is sorted and loaded
//! ```
//!
//! Rows are shared out by number, so that all changes of a row are applied by one thread in the order of the log; definitions
//! are applied alone, between two parallel parts. Nobody else can see the store yet.

mod replay;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use corun_exec::workers::{ScopedThreads, Workers};
use parking_lot::Mutex;

use crate::changed::rows_of;
use crate::checkpoint::{CheckpointMap, CheckpointReader, Manifest, Role};
use crate::counts::Recovered;
use crate::definition::Definition;
use crate::error::{Result, StoreError};
use crate::image;
use crate::index::{IndexInner, Made};
use crate::key::{KeyLayout, Words};
use crate::log::{Damage, LogEnd, LogReader, Segment};
use crate::memory::Memory;
use crate::options::Options;
use crate::redo::{self, Record};
use crate::rewrite::convert;
use crate::row::Layout;
use crate::schema::{ColumnDef, ForeignKeyDef, IndexDef, QualifiedName, TableDef};
use crate::sequence::{SequenceDef, SequenceInner};
use crate::slots::Rid;
use crate::storage::Storage;
use crate::store::Catalog;
use crate::table::{Table, TableInner};
use crate::ts::Ts;
use crate::version::VersionPtr;

/// What a store has when it is opened.
#[derive(Default)]
pub(crate) struct Content {
    pub(crate) catalog: Catalog,
    pub(crate) checkpoint: CheckpointMap,
    pub(crate) damage: Option<Damage>,
    pub(crate) recovered: Recovered,
}

/// Tables without indexes while rows are being read, by number.
struct Reading<'a> {
    options: &'a Options,
    memory: &'a Arc<Memory>,
    place: String,
    tables: HashMap<u32, (TableDef, TableInner)>,
    sequences: HashMap<u32, ReadSequence>,
    /// All but `public`.
    schemas: BTreeSet<String>,
    next_id: u32,
    recovered: Recovered,
}

/// A sequence while the log is being read.
struct ReadSequence {
    definition: SequenceDef,
    /// The number of its first place.
    base: i64,
    /// The places that may have been given out.
    logged: AtomicU64,
}

/// Reads a store: what it has, and where its log goes on.
pub(crate) fn read(
    storage: &Arc<dyn Storage>,
    manifest: &Manifest,
    options: &Options,
    memory: &Arc<Memory>,
) -> Result<(Content, LogEnd)> {
    let mut reading = Reading::new(storage, options, memory);
    let checkpoint = reading.checkpoint(storage, manifest)?;
    let started = Instant::now();
    let mut log = LogReader::open(
        Arc::clone(storage),
        manifest.store_id,
        manifest.ts,
        options.on_damage,
    )?;
    let of = log.bytes_total();
    while let Some(segment) = log.next_segment()? {
        reading.segment(&segment)?;
        options.progress("log", log.bytes_read(), of);
    }
    let end = log.end()?;
    reading.recovered.log_time = started.elapsed();
    let content = reading.content(end.last(), checkpoint, log.damage().cloned())?;
    Ok((content, end))
}

/// Reads the checkpoint of a store, without the log behind it.
pub(crate) fn read_checkpoint(
    storage: &Arc<dyn Storage>,
    manifest: &Manifest,
    options: &Options,
    memory: &Arc<Memory>,
) -> Result<Content> {
    let mut reading = Reading::new(storage, options, memory);
    let checkpoint = reading.checkpoint(storage, manifest)?;
    reading.content(manifest.ts, checkpoint, None)
}

impl<'a> Reading<'a> {
    fn new(storage: &Arc<dyn Storage>, options: &'a Options, memory: &'a Arc<Memory>) -> Self {
        Reading {
            options,
            memory,
            place: storage.place(),
            tables: HashMap::new(),
            sequences: HashMap::new(),
            schemas: BTreeSet::new(),
            next_id: 0,
            recovered: Recovered::default(),
        }
    }

    /// Builds the indexes over what was read, up to the commit `last`.
    fn content(mut self, last: Ts, checkpoint: CheckpointMap, damage: Option<Damage>) -> Result<Content> {
        let started = Instant::now();
        let catalog = self.indexes(last)?;
        self.recovered.index_time = started.elapsed();
        Ok(Content {
            catalog,
            checkpoint,
            damage,
            recovered: self.recovered,
        })
    }

    fn damaged(&self, what: impl Into<String>) -> StoreError {
        StoreError::Damaged {
            place: self.place.clone(),
            what: what.into(),
        }
    }

    /// Adds a table, whose last columns were added by these commits.
    fn add_table(&mut self, id: u32, definition: TableDef, additions: &[Ts]) {
        let mut first = definition.clone();
        let added = first.columns.split_off(first.columns.len() - additions.len());
        let table = TableInner::new(id, &first, self.options.workers, Arc::clone(self.memory));
        for (column, ts) in added.into_iter().zip(additions) {
            add_column(&table, column, *ts);
        }
        self.next_id = self.next_id.max(id);
        self.tables.insert(id, (definition, table));
    }

    /// Reads the checkpoint, if there is one. Returns which chunks count.
    fn checkpoint(&mut self, storage: &Arc<dyn Storage>, manifest: &Manifest) -> Result<CheckpointMap> {
        let started = Instant::now();
        let reader = CheckpointReader::open(&**storage, manifest)?;
        if !manifest.files.is_empty() {
            self.chunks(&reader)?;
        }
        self.recovered.checkpoint_time = started.elapsed();
        Ok(reader.into_map())
    }

    fn chunks(&mut self, reader: &CheckpointReader) -> Result<()> {
        let head = image::read_head(reader.head());
        let head = head.ok_or_else(|| self.damaged("the checkpoint's catalog cannot be read"))?;
        for table in head.tables {
            self.add_table(table.id, table.definition, &table.additions);
        }
        for sequence in head.sequences {
            let read = ReadSequence {
                definition: sequence.definition,
                base: sequence.base,
                logged: AtomicU64::new(sequence.logged),
            };
            self.sequences.insert(sequence.id, read);
        }
        self.schemas = head.schemas.into_iter().collect();
        self.next_id = self.next_id.max(head.next_id);
        let parts = reader.parts();
        let (done, rows) = (AtomicUsize::new(0), AtomicU64::new(0));
        let first_error = Mutex::new(None);
        ScopedThreads(self.options.threads()).run(parts, &|number| {
            if first_error.lock().is_some() {
                return;
            }
            match self.part(reader, number) {
                Ok(count) => rows.fetch_add(count, Ordering::Relaxed),
                Err(error) => {
                    first_error.lock().get_or_insert(error);
                    return;
                }
            };
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            self.options.progress("checkpoint", done as u64, parts as u64);
        });
        self.recovered.checkpoint_rows = rows.into_inner();
        first_error.into_inner().map_or(Ok(()), Err)
    }

    /// Puts the rows of a part into their slots, and takes those away that its deltas do not have any more. Returns how many rows it read.
    fn part(&self, reader: &CheckpointReader, number: usize) -> Result<u64> {
        let part = reader.part(number)?;
        let Some((_, table)) = self.tables.get(&part.table) else {
            // It was dropped since. Tables never get the number of another.
            return Ok(0);
        };
        if part.chunks.first().is_some_and(|(role, ..)| *role != Role::Whole) {
            let what = format!("part {number} of the checkpoint has changes, and no rows before them");
            return Err(self.damaged(what));
        }
        let unreadable = || self.damaged(format!("part {number} of the checkpoint cannot be read"));
        let mut count = 0;
        for (role, ts, bytes) in &part.chunks {
            let mut rows = &bytes[..];
            if *role != Role::Whole {
                let (range, present, rest) = image::read_delta(bytes).ok_or_else(unreadable)?;
                rows = rest;
                for (rid, _) in rows_of(range).zip(present).filter(|(_, is_there)| !is_there) {
                    table.slots.clear_now(Rid(rid));
                }
            }
            // Checkpoints write all rows in the layout of their time.
            let layout = table.layouts.at(*ts);
            for row in image::rows(rows) {
                let (rid, row) = row.ok_or_else(unreadable)?;
                self.put(table, rid, row, layout, *ts)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Puts a row into its slot.
    fn put(&self, table: &TableInner, rid: Rid, row: &[u8], layout: &Layout, ts: Ts) -> Result<()> {
        if !layout.accepts(row) {
            return Err(self.damaged(format!(
                "row {} of table {:?} is no row of it",
                rid.0,
                table.name()
            )));
        }
        let slot = table.slots.claim(rid).ok_or_else(|| {
            self.damaged(format!(
                "table {:?} has an impossible row number {}",
                table.name(),
                rid.0
            ))
        })?;
        let version = VersionPtr::new(None, None, Some(row), layout.number(), 0)
            .ok_or(StoreError::OutOfMemory { bytes: row.len() })?;
        version.commit(ts);
        if let Some(before) = slot.newest() {
            // SAFETY: this thread alone has the row, and nobody else knows its version.
            unsafe { before.free(None) };
        }
        slot.set(Some(version));
        Ok(())
    }

    fn segment(&mut self, segment: &Segment) -> Result<()> {
        self.recovered.commits += segment.blocks.len() as u64;
        let mut at = 0;
        while at < segment.blocks.len() {
            let defines = |(_, bytes): &(Ts, Range<usize>)| redo::defines(&segment.bytes[bytes.clone()]);
            let until = segment.blocks[at..].iter().position(defines);
            let until = until.map_or(segment.blocks.len(), |length| at + length);
            self.rows(&segment.bytes, &segment.blocks[at..until])?;
            if let Some((ts, bytes)) = segment.blocks.get(until) {
                self.mixed(*ts, &segment.bytes[bytes.clone()])?;
            }
            at = until + 1;
        }
        Ok(())
    }

    /// Applies a block that has definitions, and perhaps changes of rows between them.
    fn mixed(&mut self, ts: Ts, block: &[u8]) -> Result<()> {
        // Where the changes of rows begin that are not applied yet, and where they end.
        let (mut rows, mut at) = (redo::begin(block), redo::begin(block));
        for (end, record) in redo::placed_records(block) {
            match record {
                Some(Record::Row { .. } | Record::Patch { .. } | Record::Delete { .. }) => {}
                Some(other) => {
                    self.rows(block, &[(ts, rows..at)])?;
                    rows = end;
                    if !self.define(ts, other)? {
                        return Err(self.damaged(format!("commit {ts} makes a definition that cannot be")));
                    }
                }
                None => return Err(self.damaged(format!("commit {ts} cannot be read"))),
            }
            at = end;
        }
        self.rows(block, &[(ts, rows..at)])
    }

    /// Makes a definition. False if it cannot be.
    fn define(&mut self, ts: Ts, record: Record<'_>) -> Result<bool> {
        let definition = match record {
            Record::CreateSequence(id, definition) => {
                self.next_id = self.next_id.max(id);
                let read = ReadSequence {
                    base: definition.start,
                    definition,
                    logged: AtomicU64::new(0),
                };
                self.sequences.insert(id, read);
                return Ok(true);
            }
            Record::DropSequence(id) => return Ok(self.sequences.remove(&id).is_some()),
            Record::SetSequence(id, base, places) => {
                let sequence = self.sequences.get_mut(&id);
                return Ok(sequence.is_some_and(|sequence| {
                    (sequence.base, sequence.logged) = (base, AtomicU64::new(places));
                    true
                }));
            }
            Record::Define(definition) => definition,
            _ => return Ok(false),
        };
        Ok(match definition {
            Definition::CreateTable(id, definition) => {
                self.add_table(id, definition, &[]);
                true
            }
            Definition::DropTable(id) => self.take_table(id).is_some(),
            Definition::Truncate(id, new) => match self.take_table(id) {
                None => false,
                Some((definition, _)) => {
                    self.add_table(new, definition, &[]);
                    true
                }
            },
            Definition::Rewrite(id, new, columns) => self.rewrite(ts, (id, new), columns)?,
            Definition::CreateIndex(id, index) => self.redefine(id, |definition, _| {
                definition.indexes.push(index);
                true
            }),
            Definition::DropIndex(id, name) => {
                self.redefine(id, |definition, _| remove_index(definition, &name))
            }
            Definition::AddColumn(id, column) => self.redefine(id, |definition, table| {
                definition.columns.push(column.clone());
                let sound = definition.check().is_ok();
                if sound {
                    add_column(table, column, ts);
                }
                sound
            }),
            Definition::RenameTable(id, name) => self.rename_table(id, name),
            Definition::Columns(id, columns) => self.rename_columns(ts, id, columns),
            Definition::AddForeignKey(id, key) => self.redefine(id, |definition, _| {
                definition.foreign_keys.push(key);
                true
            }),
            Definition::AddCheck(id, check) => self.redefine(id, |definition, _| {
                definition.checks.push(check);
                true
            }),
            Definition::DropConstraint(id, name) => {
                self.redefine(id, |definition, _| definition.remove_constraint(&name))
            }
            Definition::CreateSchema(name) => self.schemas.insert(name),
            Definition::DropSchema(name) => self.schemas.remove(&name),
            // Their records are read as such.
            Definition::CreateSequence { .. } | Definition::DropSequence(_) => false,
        })
    }

    /// Changes the definition of a table. False if there is no such table, or none can be made of the definition.
    fn redefine(&mut self, id: u32, change: impl FnOnce(&mut TableDef, &TableInner) -> bool) -> bool {
        let table = self.tables.get_mut(&id);
        table.is_some_and(|(definition, table)| {
            table.layouts.has_room() && change(definition, table) && definition.check().is_ok()
        })
    }

    /// Gives a table another name, in foreign keys too. False if it cannot have it.
    fn rename_table(&mut self, id: u32, name: String) -> bool {
        let Some(from) = self
            .tables
            .get(&id)
            .map(|(definition, _)| definition.qualified_name())
        else {
            return false;
        };
        for (definition, _) in self.tables.values_mut() {
            definition.rename_parent(&from, &name);
        }
        self.redefine(id, |definition, table| {
            definition.name = name;
            table.rename(definition.qualified_name());
            true
        })
    }

    /// Gives columns other names and defaults, in foreign keys of other tables too. False if they are no such columns.
    fn rename_columns(&mut self, ts: Ts, id: u32, columns: Vec<ColumnDef>) -> bool {
        let mut renamed: Option<(QualifiedName, Vec<ColumnDef>)> = None;
        let new = columns.clone();
        let sound = self.redefine(id, |definition, table| {
            let sound = are_alike(&definition.columns, &columns);
            if sound {
                renamed = Some((definition.qualified_name(), definition.columns.clone()));
                definition.rename_columns(columns.clone());
                table.layouts.change(columns);
                table.layouts.show(ts);
            }
            sound
        });
        if let Some((parent, old)) = renamed {
            let others = self.tables.iter_mut().filter(|(other, _)| **other != id);
            others.for_each(|(_, (definition, _))| definition.rename_referenced(&parent, &old, &new));
        }
        sound
    }

    /// Takes a table away with its rows.
    fn take_table(&mut self, id: u32) -> Option<(TableDef, TableInner)> {
        let taken = self.tables.remove(&id)?;
        // It gives back what it has not taken yet.
        self.memory.add(taken.1.slots.version_bytes() as i64);
        Some(taken)
    }

    /// Writes a table's rows again in other columns, as another table. False if that cannot be.
    fn rewrite(&mut self, ts: Ts, (id, new): (u32, u32), columns: Vec<ColumnDef>) -> Result<bool> {
        let Some((mut definition, old)) = self.take_table(id) else {
            return Ok(false);
        };
        let from: Vec<_> = columns
            .iter()
            .map(|column| definition.position(&column.name))
            .collect();
        definition.columns = columns;
        if definition.check().is_err() {
            return Ok(false);
        }
        self.add_table(new, definition, &[]);
        let (_, table) = &self.tables[&new];
        for rid in (0..old.slots.end()).map(Rid) {
            let version = old.slots.find(rid).and_then(|slot| slot.newest());
            // SAFETY: nobody else has the table.
            let Some(row) = version.and_then(|version| unsafe { old.layouts.row(version) }) else {
                continue;
            };
            let Ok(row) = convert(row, table.layouts.newest(), &from) else {
                return Ok(false);
            };
            table.changed.mark(rid, ts);
            self.put(table, rid, row.row().encoded(), table.layouts.newest(), ts)?;
        }
        Ok(true)
    }

    /// Builds all indexes; counts rows.
    fn indexes(&mut self, last: Ts) -> Result<Catalog> {
        let tables = std::mem::take(&mut self.tables);
        let mut catalog = Catalog {
            next_id: self.next_id,
            schemas: std::mem::take(&mut self.schemas),
            ..Catalog::default()
        };
        for (id, sequence) in std::mem::take(&mut self.sequences) {
            let name = sequence.definition.qualified_name();
            let sequence = SequenceInner::new(
                id,
                sequence.definition,
                sequence.base,
                sequence.logged.into_inner(),
            );
            catalog.sequences.insert(name, Arc::new(sequence));
        }
        let mut foreign_keys: Vec<(Table, Vec<ForeignKeyDef>)> = Vec::new();
        let mut jobs: Vec<(Table, IndexDef)> = Vec::new();
        for (definition, table) in tables.into_values() {
            let table = Table::new(Arc::new(table));
            jobs.extend(
                definition
                    .indexes
                    .iter()
                    .map(|index| (table.clone(), index.clone())),
            );
            let checks = definition.checks.clone();
            table.0.constraints.change(|links| links.checks = checks);
            table.0.constraints.show_checks();
            catalog.tables.insert(definition.qualified_name(), table.clone());
            foreign_keys.push((table, definition.foreign_keys));
        }
        let threads = self.options.threads();
        let tables: Vec<&Table> = catalog.tables.values().collect();
        ScopedThreads(threads).run(tables.len(), &|number| {
            let table = &tables[number].0;
            let rows = table.slots.sweep();
            table.rows.add(0, rows as i64);
            let bytes = table.slots.version_bytes() as i64;
            table.row_bytes.add(0, bytes);
            table.memory.add(bytes);
        });
        // Large ones first, so that no thread begins one at the end.
        jobs.sort_by_key(|(table, _)| std::cmp::Reverse(table.rows()));
        let (done, of) = (AtomicUsize::new(0), jobs.len());
        let made: Vec<Mutex<Option<Result<IndexInner>>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        ScopedThreads(threads).run(jobs.len(), &|number| {
            let (table, index) = &jobs[number];
            *made[number].lock() = Some(load_index(table, index, last));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            self.options.progress("indexes", done as u64, of as u64);
        });
        // In the order of the definitions, the primary key's first.
        let mut loaded: Vec<(Table, IndexInner)> = Vec::new();
        for ((table, _), made) in jobs.into_iter().zip(made) {
            loaded.push((table, made.into_inner().expect("every job was run")?));
        }
        for (table, index) in loaded {
            table.0.add_index(index);
        }
        for (table, keys) in foreign_keys {
            let linked = catalog.link(&table, &keys);
            linked.map_err(|error| self.damaged(format!("a foreign key cannot be: {error}")))?;
        }
        Ok(catalog)
    }
}

/// Adds a column to a table that nobody else has, as the commit `ts` did.
fn add_column(table: &TableInner, column: ColumnDef, ts: Ts) {
    let columns = table.layouts.newest().definitions();
    table
        .layouts
        .change(columns.iter().cloned().chain([column]).collect());
    table.layouts.show(ts);
}

/// Whether columns are the same but for names and defaults.
fn are_alike(old: &[ColumnDef], new: &[ColumnDef]) -> bool {
    let alike =
        |(old, new): (&ColumnDef, &ColumnDef)| old.data_type == new.data_type && old.nullable == new.nullable;
    old.len() == new.len() && old.iter().zip(new).all(alike)
}

fn remove_index(definition: &mut TableDef, name: &str) -> bool {
    let before = definition.indexes.len();
    definition.indexes.retain(|index| index.name != name);
    definition.indexes.len() < before
}

fn load_index(table: &Table, index: &IndexDef, since: Ts) -> Result<IndexInner> {
    let positions = table.definition().positions(index)?;
    IndexInner::new(
        table.0.id,
        table.0.name(),
        index,
        table.layout().definitions(),
        positions,
        Made::By(since),
        |layout| Some(entries(table, layout, 0..table.rid_end())),
    )
    .map_err(|source| StoreError::tree(table.0.name(), &index.name, source))
}

/// The entries of an index over the newest rows of a table that nobody changes now.
pub(crate) fn entries(table: &Table, layout: &KeyLayout, rids: Range<u32>) -> Vec<(Words, Rid)> {
    let entry = |rid| {
        let version = table.0.slots.find(Rid(rid))?.newest()?;
        // SAFETY: nobody changes rows of the table now.
        let row = unsafe { table.0.layouts.row(version) }?;
        Some((layout.of_row(row), Rid(rid)))
    };
    rids.filter_map(entry).collect()
}

/// A row whose key another row has, too, by the sorted entries of an index over rows that nobody changes now.
pub(crate) fn twice(table: &Table, index: &IndexInner, entries: &[(Words, Rid)]) -> Option<Rid> {
    let layout = &index.layout;
    let row = |rid: Rid| {
        let version = table.0.slots.find(rid)?.newest()?;
        // SAFETY: nobody changes rows of the table now.
        unsafe { table.0.layouts.row(version) }
    };
    let runs = entries.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1);
    runs.into_iter().find_map(|run| {
        let with_row = |(key, rid): &(Words, Rid)| Some((*key, *rid, row(*rid)?));
        let rows = run.iter().filter_map(with_row);
        let rows = rows.filter(|(key, _, row)| !layout.has_null(key, *row));
        if !layout.cuts() {
            let mut rids = rows.map(|(_, rid, _)| rid);
            return rids.next().filter(|_| rids.next().is_some());
        }
        let mut keys: Vec<_> = rows.map(|(_, rid, row)| (layout.long_of_row(row), rid)).collect();
        keys.sort_unstable();
        let pair = keys.windows(2).find(|pair| pair[0].0 == pair[1].0);
        pair.map(|pair| pair[0].1)
    })
}

/// The error of an index that is to be unique and is not.
pub(crate) fn duplicate(table: &Table, index: &IndexInner, rid: Rid) -> StoreError {
    let version = table.0.slots.slot(rid).newest();
    // SAFETY: nobody changes rows of the table now.
    let row = version.and_then(|version| unsafe { table.0.layouts.row(version) });
    let values = row.map(|row| {
        let values = index.columns.iter().map(|&column| row.value(column).to_string());
        values.collect::<Vec<_>>().join(", ")
    });
    StoreError::Duplicate {
        table: table.shown_name(),
        index: index.name.clone(),
        key: values.unwrap_or_default(),
    }
}
