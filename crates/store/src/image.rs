//! Checkpoints: all rows of a snapshot as chunks of a file.
//!
//! ```text
//! head:   number of tables { definition }        the catalog
//! chunk:  kind = the table's number   { rid, row } ...     about a mebibyte each
//! ```
//!
//! What it is not: the file itself, which [`crate::checkpoint`] writes and reads.

use std::sync::Arc;

use crate::checkpoint::CheckpointWriter;
use crate::codec::{Reader, put_bytes, put_number, put_table, read_table};
use crate::counts::CheckpointDone;
use crate::error::Result;
use crate::log::Log;
use crate::schema::TableDef;
use crate::slots::Rid;
use crate::snapshot::Snapshot;
use crate::store::{Catalog, Home};

/// Bytes after which a chunk is full: large enough for the disk, small enough for readers to share out.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes a checkpoint of a snapshot.
pub(crate) fn write(
    home: &Home,
    catalog: &Catalog,
    snapshot: &Snapshot,
    log: &Log,
) -> Result<CheckpointDone> {
    let mut head = Vec::new();
    put_number(&mut head, u64::from(catalog.next_id));
    put_number(&mut head, catalog.tables.len() as u64);
    for table in catalog.tables.values() {
        put_table(&mut head, table.0.id, &table.definition());
    }
    let writer = CheckpointWriter::begin(Arc::clone(&home.storage), home.store_id, snapshot.ts(), &head)?;
    let (mut rows, mut bytes) = (0, head.len() as u64);
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (64 << 10));
    for table in catalog.tables.values() {
        for found in snapshot.rows(table, 0..table.rid_end())? {
            rows += 1;
            put_number(&mut chunk, u64::from(found.rid.0));
            put_bytes(&mut chunk, found.row.encoded());
            if chunk.len() >= CHUNK_BYTES {
                bytes += chunk.len() as u64;
                writer.chunk(table.0.id, &chunk)?;
                chunk.clear();
            }
        }
        if !chunk.is_empty() {
            bytes += chunk.len() as u64;
            writer.chunk(table.0.id, &chunk)?;
            chunk.clear();
        }
    }
    // The log must not be shorter than the checkpoint.
    log.flush()?;
    writer.finish()?;
    Ok(CheckpointDone {
        ts: snapshot.ts(),
        rows,
        bytes,
    })
}

/// The catalog of a checkpoint: the highest table number so far, and the tables with theirs.
pub(crate) fn read_head(head: &[u8]) -> Option<(u32, Vec<(u32, TableDef)>)> {
    let mut reader = Reader::new(head);
    let next_id = reader.number32()?;
    let count = reader.number()?;
    let tables = (0..count)
        .map(|_| read_table(&mut reader))
        .collect::<Option<_>>()?;
    reader.is_empty().then_some((next_id, tables))
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
