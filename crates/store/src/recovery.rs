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
use crate::error::{Result, StoreError};
use crate::image;
use crate::index::IndexInner;
use crate::key::{KeyLayout, Words};
use crate::log::{Damage, LogEnd, LogReader, Segment};
use crate::memory::Memory;
use crate::options::Options;
use crate::redo::{self, Record};
use crate::row::Layout;
use crate::schema::{ForeignKeyDef, IndexDef, TableDef};
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
            table.layouts.add(column, *ts);
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
            return Err(self.damaged(format!("row {} of table {:?} is no row of it", rid.0, table.name)));
        }
        let slot = table.slots.claim(rid).ok_or_else(|| {
            self.damaged(format!(
                "table {:?} has an impossible row number {}",
                table.name, rid.0
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
            let is_definition =
                |(_, bytes): &(Ts, Range<usize>)| redo::is_definition(&segment.bytes[bytes.clone()]);
            let until = segment.blocks[at..].iter().position(is_definition);
            let until = until.map_or(segment.blocks.len(), |length| at + length);
            self.rows(&segment.bytes, &segment.blocks[at..until])?;
            if let Some((ts, bytes)) = segment.blocks.get(until) {
                self.definition(*ts, &segment.bytes[bytes.clone()])?;
            }
            at = until + 1;
        }
        Ok(())
    }

    fn definition(&mut self, ts: Ts, block: &[u8]) -> Result<()> {
        for record in redo::records(block) {
            let applied = match record {
                Some(Record::CreateTable(id, definition)) => {
                    self.add_table(id, definition, &[]);
                    true
                }
                Some(Record::DropTable(id)) => {
                    let dropped = self.tables.remove(&id);
                    if let Some((_, table)) = &dropped {
                        // It gives back what it has not taken yet.
                        self.memory.add(table.slots.version_bytes() as i64);
                    }
                    dropped.is_some()
                }
                Some(Record::Truncate(id, new)) => match self.tables.remove(&id) {
                    None => false,
                    Some((definition, table)) => {
                        self.memory.add(table.slots.version_bytes() as i64);
                        self.add_table(new, definition, &[]);
                        true
                    }
                },
                Some(Record::CreateSequence(id, definition)) => {
                    self.next_id = self.next_id.max(id);
                    let read = ReadSequence {
                        base: definition.start,
                        definition,
                        logged: AtomicU64::new(0),
                    };
                    self.sequences.insert(id, read);
                    true
                }
                Some(Record::DropSequence(id)) => self.sequences.remove(&id).is_some(),
                Some(Record::CreateIndex(id, index)) => match self.tables.get_mut(&id) {
                    None => false,
                    Some((definition, _)) => {
                        definition.indexes.push(index);
                        definition.check().is_ok()
                    }
                },
                Some(Record::AddColumn(id, column)) => match self.tables.get_mut(&id) {
                    None => false,
                    Some((definition, table)) => {
                        definition.columns.push(column.clone());
                        let sound = definition.check().is_ok();
                        if sound {
                            table.layouts.add(column, ts);
                        }
                        sound
                    }
                },
                Some(Record::SetSequence(id, base, places)) => match self.sequences.get_mut(&id) {
                    None => false,
                    Some(sequence) => {
                        sequence.base = base;
                        sequence.logged = AtomicU64::new(places);
                        true
                    }
                },
                Some(Record::AddForeignKey(id, key)) => {
                    self.redefine(id, |table| table.with_foreign_key(key))
                }
                Some(Record::AddCheck(id, check)) => {
                    self.redefine(id, |table| table.check_constraint(&check.name, &check.text))
                }
                Some(Record::DropConstraint(id, name)) => self
                    .tables
                    .get_mut(&id)
                    .is_some_and(|(definition, _)| definition.remove_constraint(&name)),
                Some(Record::CreateSchema(name)) => self.schemas.insert(name),
                Some(Record::DropSchema(name)) => self.schemas.remove(&name),
                Some(Record::DropIndex(id, name)) => self
                    .tables
                    .get_mut(&id)
                    .is_some_and(|(definition, _)| remove_index(definition, &name)),
                _ => false,
            };
            if !applied {
                return Err(self.damaged(format!("commit {ts} makes a definition that cannot be")));
            }
        }
        Ok(())
    }

    /// Changes the definition of a table. False if there is none, or it could not be made of the new one.
    fn redefine(&mut self, id: u32, change: impl FnOnce(TableDef) -> TableDef) -> bool {
        let Some((definition, _)) = self.tables.get_mut(&id) else {
            return false;
        };
        *definition = change(definition.clone());
        definition.check().is_ok()
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
            let table = Table(Arc::new(table));
            jobs.extend(
                definition
                    .indexes
                    .iter()
                    .map(|index| (table.clone(), index.clone())),
            );
            let checks = definition.checks.clone();
            table.0.constraints.change(|links| links.checks = checks);
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

fn remove_index(definition: &mut TableDef, name: &str) -> bool {
    let before = definition.indexes.len();
    definition.indexes.retain(|index| index.name != name);
    definition.indexes.len() < before
}

fn load_index(table: &Table, index: &IndexDef, since: Ts) -> Result<IndexInner> {
    let positions = table.definition().positions(index)?;
    IndexInner::new(
        table.0.id,
        &table.0.name,
        index,
        table.layout().definitions(),
        positions,
        Some(since),
        |layout| Some(entries(table, layout, 0..table.rid_end())),
    )
    .map_err(|source| StoreError::tree(&table.0.name, &index.name, source))
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
        table: table.0.name.clone(),
        index: index.name.clone(),
        key: values.unwrap_or_default(),
    }
}
