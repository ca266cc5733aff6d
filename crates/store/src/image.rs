//! Checkpoints: the rows of a snapshot as chunks.
//!
//! ```text
//! head:    number of tables { definition } { number of columns added { commit } } number of sequences { sequence }        the catalog
//!          number of schemas { schema } { schema and constraints of a table } { schema of a sequence, number it counts from }
//! whole:   { rid, row } ...                       all rows of a range
//! delta:   range, a bit for each rid: it is a row │ { rid, row } ...    those that have changed
//! ```
//!
//! Threads take ranges that have changed. What it is not: the files, which [`crate::checkpoint`] writes and reads, nor the choice of
//! ranges, which [`CheckpointMap`] makes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corun_exec::workers::Workers;
use parking_lot::Mutex;

use crate::background::Background;
use crate::changed::{RANGE_ROWS, range_of, rows_of};
use crate::checkpoint::{Busy, CheckpointMap, CheckpointWriter, ChunkName, Need, Role};
use crate::codec::{Reader, put_bytes, put_number, put_table, put_text, read_table};
use crate::counts::CheckpointDone;
use crate::error::Result;
use crate::row::{Layout, RowBuf, RowRef};
use crate::schema::{TableDef, put_rest, read_rest};
use crate::sequence::SequenceDef;
use crate::slots::Rid;
use crate::snapshot::Snapshot;
use crate::storage::Storage;
use crate::store::Catalog;
use crate::table::Table;
use crate::ts::Ts;

/// Bytes of the bits that say which rows of a range are there.
const PRESENT_BYTES: usize = RANGE_ROWS as usize / 8;

/// A row, and the commit that made it so.
type Row<'a> = (Rid, Ts, RowRef<'a>);

/// Where a checkpoint is written to.
pub(crate) struct Target<'a> {
    pub(crate) storage: &'a Arc<dyn Storage>,
    pub(crate) store_id: u64,
    pub(crate) threads: usize,
    pub(crate) busy: Busy,
}

/// A range that is to be written.
struct Job<'a> {
    table: &'a Table,
    range: u32,
    need: Need,
}

/// Writes a checkpoint of a snapshot: what has changed since the one that `map` knows, which then knows the new one. `flush` returns when
/// the log has all of the snapshot.
pub(crate) fn write(
    target: &Target<'_>,
    catalog: &Catalog,
    snapshot: &Snapshot,
    map: &mut CheckpointMap,
    flush: impl FnOnce() -> Result<()>,
) -> Result<CheckpointDone> {
    let mut done = CheckpointDone {
        ts: snapshot.ts(),
        rows: 0,
        bytes: 0,
    };
    if map.ts() == snapshot.ts() && !map.files().is_empty() {
        return Ok(done);
    }
    let mut head = Vec::new();
    put_head(&mut head, catalog);
    let ids: HashSet<u32> = catalog.tables.values().map(|table| table.0.id).collect();
    map.keep_tables(|id| ids.contains(&id));
    let jobs = jobs(catalog, map);
    let storage = Arc::clone(target.storage);
    let writer = CheckpointWriter::begin(storage, target.store_id, snapshot.ts(), &head, map.files())?;
    let writer = writer.beside(Arc::clone(&target.busy));
    let (rows, first_error, written) = (AtomicU64::new(0), Mutex::new(None), Mutex::new(Vec::new()));
    let background = Background {
        threads: target.threads,
        gives_way: (target.busy)(),
    };
    background.run(jobs.len(), &|number| {
        if first_error.lock().is_some() {
            return;
        }
        let Some((name, bytes, count)) = chunk(&jobs[number], snapshot, map) else {
            return;
        };
        rows.fetch_add(count, Ordering::Relaxed);
        match writer.chunk(name, &bytes) {
            Ok(()) => written.lock().push((name, bytes.len() as u64)),
            Err(error) => drop(first_error.lock().get_or_insert(error)),
        }
    });
    if let Some(error) = first_error.into_inner() {
        return Err(error.into());
    }
    map.add_file(writer.file());
    for (name, bytes) in written.into_inner() {
        let stands = map.add_chunk(name, bytes);
        debug_assert!(stands, "changes are of ranges that the map has");
    }
    flush()?;
    let mut kept = map.keep_files();
    kept.pop();
    let manifest = writer.finish(&kept)?;
    done.bytes = manifest.files.last().map_or(0, |file| file.bytes);
    done.rows = rows.into_inner();
    map.set_newest_bytes(done.bytes);
    Ok(done)
}

/// The ranges that are to be written.
fn jobs<'a>(catalog: &'a Catalog, map: &CheckpointMap) -> Vec<Job<'a>> {
    let emptied = map.emptied();
    let mut jobs = Vec::new();
    for table in catalog.tables.values() {
        let used = table
            .rid_end()
            .checked_sub(1)
            .map_or(0, |last| range_of(Rid(last)) + 1);
        for range in 0..used.max(map.ranges_of(table.0.id)) {
            let changed = table.0.changed.since(range, map.ts()) || map.files().is_empty();
            let need = map.need(table.0.id, range, changed, &emptied);
            if need != Need::Nothing {
                jobs.push(Job { table, range, need });
            }
        }
    }
    jobs
}

/// What to write of a range: its name, its bytes, and how many rows it has. None if it is empty and always was.
fn chunk(job: &Job<'_>, snapshot: &Snapshot, map: &CheckpointMap) -> Option<(ChunkName, Vec<u8>, u64)> {
    let (table, range) = (job.table.0.id, job.range);
    let rows: Vec<Row<'_>> = snapshot.versions(job.table, rows_of(range)).collect();
    let name = |role| ChunkName { table, range, role };
    // Numbers are a few bytes; lengths need not be exact here.
    let bytes =
        |rows: &mut dyn Iterator<Item = &Row<'_>>| rows.map(|row| row.2.encoded().len() as u64 + 6).sum();
    if let Need::Changes { role, since } = job.need {
        let has_changed = |row: &&Row<'_>| row.1 > since;
        let delta: u64 = bytes(&mut rows.iter().filter(has_changed));
        let delta = delta + PRESENT_BYTES as u64;
        if !map.is_whole_better(table, range, role, bytes(&mut rows.iter()), delta) {
            let mut chunk = Vec::with_capacity(delta as usize);
            put_number(&mut chunk, u64::from(range));
            let mut present = [0_u8; PRESENT_BYTES];
            for (rid, ..) in &rows {
                let at = (rid.0 - rows_of(range).start) as usize;
                present[at / 8] |= 1 << (at % 8);
            }
            chunk.extend_from_slice(&present);
            let count = put_rows(&mut chunk, job.table.layout(), rows.iter().filter(has_changed));
            return Some((name(role), chunk, count));
        }
    }
    if rows.is_empty() && !map.has(table, range) {
        return None;
    }
    let mut chunk = Vec::with_capacity(bytes(&mut rows.iter()) as usize);
    let count = put_rows(&mut chunk, job.table.layout(), rows.iter());
    Some((name(Role::Whole), chunk, count))
}

/// Appends rows in the newest layout: whoever reads them knows the layout by the commit of the file.
fn put_rows<'a>(chunk: &mut Vec<u8>, newest: &Arc<Layout>, rows: impl Iterator<Item = &'a Row<'a>>) -> u64 {
    let mut count = 0;
    for (rid, _, row) in rows {
        put_number(chunk, u64::from(rid.0));
        match row.has_layout(newest) {
            true => put_bytes(chunk, row.encoded()),
            false => put_bytes(chunk, RowBuf::upgraded(*row, newest).row().encoded()),
        }
        count += 1;
    }
    count
}

/// The catalog of a checkpoint, as read back.
pub(crate) struct Head {
    /// The highest number of a table or a sequence so far.
    pub(crate) next_id: u32,
    pub(crate) tables: Vec<HeadTable>,
    pub(crate) sequences: Vec<HeadSequence>,
    /// All but `public`.
    pub(crate) schemas: Vec<String>,
}

/// A sequence of the catalog.
pub(crate) struct HeadSequence {
    pub(crate) id: u32,
    pub(crate) definition: SequenceDef,
    /// The number of its first place.
    pub(crate) base: i64,
    /// The places that may have been given out.
    pub(crate) logged: u64,
}

/// A table of the catalog.
pub(crate) struct HeadTable {
    pub(crate) id: u32,
    pub(crate) definition: TableDef,
    /// The commits that added its last columns, one each.
    pub(crate) additions: Vec<Ts>,
}

fn put_head(head: &mut Vec<u8>, catalog: &Catalog) {
    put_number(head, u64::from(catalog.next_id));
    put_number(head, catalog.tables.len() as u64);
    for table in catalog.tables.values() {
        put_table(head, table.0.id, &table.definition());
    }
    for table in catalog.tables.values() {
        let additions = table.0.layouts.additions();
        put_number(head, additions.len() as u64);
        additions.iter().for_each(|ts| put_number(head, ts.0));
    }
    put_number(head, catalog.sequences.len() as u64);
    for sequence in catalog.sequences.values() {
        put_number(head, u64::from(sequence.id));
        sequence.definition.put(head);
        // All that commits up to the snapshot say, and perhaps more.
        put_number(head, sequence.logged());
    }
    put_number(head, catalog.schemas.len() as u64);
    catalog.schemas.iter().for_each(|name| put_text(head, name));
    for table in catalog.tables.values() {
        put_rest(head, &table.definition());
    }
    for sequence in catalog.sequences.values() {
        put_text(head, &sequence.definition.schema);
        // It changes with definitions only, which wait.
        put_number(head, sequence.base().cast_unsigned());
    }
}

/// Reads the catalog of a checkpoint.
pub(crate) fn read_head(head: &[u8]) -> Option<Head> {
    let mut reader = Reader::new(head);
    let next_id = reader.number32()?;
    let tables = reader.list(read_table)?;
    // Before the third format no column could be added, and there were no sequences.
    let has_more = !reader.is_empty();
    let mut table = |(id, definition): (u32, TableDef)| {
        let additions = match has_more {
            true => reader.list(|reader| reader.number().map(Ts))?,
            false => Vec::new(),
        };
        let columns = definition.columns.len();
        (additions.len() < columns && additions.is_sorted()).then_some(HeadTable {
            id,
            definition,
            additions,
        })
    };
    let mut tables: Vec<HeadTable> = tables.into_iter().map(&mut table).collect::<Option<_>>()?;
    let sequence = |reader: &mut Reader<'_>| {
        let (id, definition) = (reader.number32()?, SequenceDef::read(reader)?);
        Some(HeadSequence {
            id,
            base: definition.start,
            definition,
            logged: reader.number()?,
        })
    };
    let mut sequences = match has_more {
        true => reader.list(sequence)?,
        false => Vec::new(),
    };
    // Before the fourth format there were no constraints, and one schema.
    let mut schemas = Vec::new();
    if !reader.is_empty() {
        schemas = reader.list(Reader::text)?;
        for table in &mut tables {
            table.definition = read_rest(&mut reader, table.definition.clone())?;
        }
        for sequence in &mut sequences {
            sequence.definition.schema = reader.text()?;
            sequence.base = reader.number()?.cast_signed();
        }
    }
    reader.is_empty().then_some(Head {
        next_id,
        tables,
        sequences,
        schemas,
    })
}

/// A delta: its range, for each of its rows whether it is there, and the bytes of those that have changed.
pub(crate) fn read_delta(chunk: &[u8]) -> Option<(u32, impl Iterator<Item = bool>, &[u8])> {
    let mut reader = Reader::new(chunk);
    let range = reader.number32()?;
    let (present, rest) = reader.rest().split_at_checked(PRESENT_BYTES)?;
    let present = (0..RANGE_ROWS as usize).map(|at| present[at / 8] & 1 << (at % 8) != 0);
    Some((range, present, rest))
}

/// The rows of a chunk. `Some(None)` stands for one that cannot be read.
pub(crate) fn rows(chunk: &[u8]) -> impl Iterator<Item = Option<(Rid, &[u8])>> {
    let mut reader = Reader::new(chunk);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let row = reader
            .number32()
            .and_then(|rid| Some((Rid(rid), reader.bytes()?)));
        if row.is_none() {
            reader = Reader::new(&[]);
        }
        Some(row)
    })
}
