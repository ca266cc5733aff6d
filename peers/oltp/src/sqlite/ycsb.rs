//! [`Ycsb`]: YCSB as SQL: a column for each field, the key as rowid.

use std::path::Path;

use corun_workloads::engine::{Durability, TxError, YcsbClient, YcsbEngine};
use corun_workloads::kv::End;
use corun_workloads::ycsb::{FIELD_BYTES, FIELDS, RECORD_BYTES, ScanAnswer};
use rusqlite::{Connection, Row, Statement};

use super::session::{Prepare, tx_error};
use super::{Client, Layout, Sqlite, schema};

/// The statements of YCSB.
pub struct Statements {
    read: Statement<'static>,
    scan: Statement<'static>,
    insert: Statement<'static>,
    /// One for each field.
    update: Vec<Statement<'static>>,
}

impl Prepare for Statements {
    fn prepare(connection: &'static Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            read: connection.prepare("select f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 from record where k = ?1")?,
            scan: connection
                .prepare("select f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, k from record where k >= ?1 order by k limit ?2")?,
            insert: connection.prepare("insert into record values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?,
            update: (0..FIELDS)
                .map(|field| connection.prepare(&format!("update record set f{field} = ?1 where k = ?2")))
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Rowids are signed, keys are not: this keeps their order.
fn rowid(key: u64) -> i64 {
    (key ^ 1 << 63) as i64
}

fn key(rowid: i64) -> u64 {
    rowid as u64 ^ 1 << 63
}

/// The fields of a row, one after the other.
fn collect(row: &Row<'_>, record: &mut Vec<u8>) -> rusqlite::Result<()> {
    record.clear();
    for field in 0..FIELDS {
        record.extend_from_slice(row.get_ref(field)?.as_blob()?);
    }
    Ok(())
}

fn insert(statements: &mut Statements, key: u64, record: &[u8]) -> Result<(), TxError> {
    if record.len() != RECORD_BYTES {
        return Err(TxError::Failed(format!(
            "sqlite: a record of {} bytes instead of {RECORD_BYTES}",
            record.len()
        )));
    }
    let bind = |statement: &mut Statement<'_>| {
        statement.raw_bind_parameter(1, rowid(key))?;
        for (field, content) in record.chunks_exact(FIELD_BYTES).enumerate() {
            statement.raw_bind_parameter(field + 2, content)?;
        }
        statement.raw_execute()
    };
    bind(&mut statements.insert).map_err(tx_error)?;
    Ok(())
}

fn read(statements: &mut Statements, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
    let mut rows = statements.read.query((rowid(key),)).map_err(tx_error)?;
    let Some(row) = rows.next().map_err(tx_error)? else {
        record.clear();
        return Ok(false);
    };
    collect(row, record).map_err(tx_error)?;
    Ok(true)
}

fn update(statements: &mut Statements, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError> {
    let update = statements
        .update
        .get_mut(field)
        .ok_or_else(|| TxError::Failed(format!("sqlite: field {field} of {FIELDS}")))?;
    Ok(update.execute((content, rowid(key))).map_err(tx_error)? == 1)
}

/// SQLite running YCSB.
pub struct Ycsb(Sqlite<Statements>);

impl Ycsb {
    /// Makes an empty database.
    ///
    /// # Errors
    /// SQLite's.
    pub fn create(folder: &Path, durability: Durability, layout: Layout) -> Result<Self, TxError> {
        Sqlite::create(folder, durability, layout, schema::YCSB).map(Self)
    }
}

impl YcsbEngine for Ycsb {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError> {
        self.0
            .load_with(part, |statements, (key, record)| insert(statements, key, &record))
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError> {
        Ok(Box::new(self.0.connect()?))
    }

    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError> {
        let mut record = Vec::new();
        self.0.connect()?.read_statement(|statements| {
            let mut rows = statements.scan.query((i64::MIN, -1)).map_err(tx_error)?;
            while let Some(row) = rows.next().map_err(tx_error)? {
                collect(row, &mut record).map_err(tx_error)?;
                each(key(row.get(FIELDS).map_err(tx_error)?), &record);
            }
            Ok(())
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.0.bytes()
    }
}

impl YcsbClient for Client<'_, Statements> {
    fn read(&mut self, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
        self.read_statement(|statements| read(statements, key, record))
    }

    fn update(&mut self, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError> {
        self.write_statement(|statements| update(statements, key, field, content))
    }

    fn insert(&mut self, key: u64, record: &[u8]) -> Result<(), TxError> {
        self.write_statement(|statements| insert(statements, key, record))
    }

    fn scan(&mut self, start: u64, count: usize) -> Result<ScanAnswer, TxError> {
        let mut record = Vec::with_capacity(RECORD_BYTES);
        self.read_statement(|statements| {
            let mut answer = ScanAnswer::default();
            let mut rows = statements
                .scan
                .query((rowid(start), count as i64))
                .map_err(tx_error)?;
            while let Some(row) = rows.next().map_err(tx_error)? {
                collect(row, &mut record).map_err(tx_error)?;
                answer.add(key(row.get(FIELDS).map_err(tx_error)?), &record);
            }
            Ok(answer)
        })
    }

    fn read_modify_write(
        &mut self,
        key: u64,
        field: usize,
        modify: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<bool, TxError> {
        self.write(|statements| {
            let mut record = Vec::with_capacity(RECORD_BYTES);
            if !read(statements, key, &mut record)? {
                return Ok((false, End::Commit));
            }
            let mut content = record
                .get(field * FIELD_BYTES..(field + 1) * FIELD_BYTES)
                .ok_or_else(|| TxError::Failed(format!("sqlite: field {field} of {FIELDS}")))?
                .to_vec();
            modify(&record, &mut content);
            Ok((update(statements, key, field, &content)?, End::Commit))
        })
    }
}
