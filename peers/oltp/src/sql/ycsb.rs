//! [`Ycsb`]: YCSB as SQL: a column for each field, the key as rowid.

use corun_workloads::engine::{TxError, YcsbClient, YcsbEngine};
use corun_workloads::kv::End;
use corun_workloads::ycsb::{FIELD_BYTES, FIELDS, RECORD_BYTES, ScanAnswer};

use super::{Bind, Client, Columns, Engine, Prepare, Statement, bind};

/// The statements of YCSB.
pub struct Statements<S> {
    read: S,
    scan: S,
    all: S,
    insert: S,
    /// One for each field.
    update: Vec<S>,
}

impl<S> Prepare<S> for Statements<S> {
    fn prepare(prepare: &mut dyn FnMut(&str) -> Result<S, TxError>) -> Result<Self, TxError> {
        Ok(Self {
            read: prepare("select f0, f1, f2, f3, f4, f5, f6, f7, f8, f9 from record where k = ?1")?,
            scan: prepare(
                "select f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, k from record where k >= ?1 order by k limit ?2",
            )?,
            all: prepare("select f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, k from record")?,
            insert: prepare("insert into record values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?,
            update: (0..FIELDS)
                .map(|field| prepare(&format!("update record set f{field} = ?1 where k = ?2")))
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
fn collect(row: &impl Columns, record: &mut Vec<u8>) -> Result<(), TxError> {
    record.clear();
    for field in 0..FIELDS {
        record.extend_from_slice(row.bytes(field)?);
    }
    Ok(())
}

fn insert<S: Statement>(sql: &mut Statements<S>, key: u64, record: &[u8]) -> Result<(), TxError> {
    if record.len() != RECORD_BYTES {
        return Err(TxError::Failed(format!(
            "sql: a record of {} bytes instead of {RECORD_BYTES}",
            record.len()
        )));
    }
    let mut values = [Bind::Integer(rowid(key)); 1 + FIELDS];
    for (value, content) in values[1..].iter_mut().zip(record.chunks_exact(FIELD_BYTES)) {
        *value = Bind::Blob(content);
    }
    sql.insert.execute(&values)?;
    Ok(())
}

fn read<S: Statement>(sql: &mut Statements<S>, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
    let found = sql.read.find(bind![rowid(key)], |row| collect(row, record))?;
    if found.is_none() {
        record.clear();
    }
    Ok(found.is_some())
}

fn update<S: Statement>(
    sql: &mut Statements<S>,
    key: u64,
    field: usize,
    content: &[u8],
) -> Result<bool, TxError> {
    let update = sql
        .update
        .get_mut(field)
        .ok_or_else(|| TxError::Failed(format!("sql: field {field} of {FIELDS}")))?;
    Ok(update.execute(bind![content, rowid(key)])? == 1)
}

/// YCSB on an engine whose statements are `S`.
pub struct Ycsb<S>(Box<dyn Engine<Statements<S>>>);

impl<S> Ycsb<S> {
    /// On an empty database that has the table of [`schema::YCSB`](super::schema::YCSB).
    pub fn new(engine: impl Engine<Statements<S>> + 'static) -> Self {
        Self(Box::new(engine))
    }
}

impl<S: Statement + 'static> YcsbEngine for Ycsb<S> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn load(&self, part: &mut dyn Iterator<Item = (u64, Vec<u8>)>) -> Result<(), TxError> {
        super::load(&*self.0, part, |sql, (key, record)| insert(sql, key, &record))
    }

    fn client(&self, _worker: usize) -> Result<Box<dyn YcsbClient + '_>, TxError> {
        Ok(Box::new(Client(self.0.client()?)))
    }

    fn visit(&self, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), TxError> {
        let mut record = Vec::new();
        Client(self.0.loader()).read_one(|sql| {
            sql.all.each(&[], |row| {
                collect(row, &mut record)?;
                each(key(row.get(FIELDS)?), &record);
                Ok(())
            })
        })
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.0.bytes()
    }
}

impl<S: Statement> YcsbClient for Client<'_, Statements<S>> {
    fn read(&mut self, key: u64, record: &mut Vec<u8>) -> Result<bool, TxError> {
        self.read_one(|sql| read(sql, key, record))
    }

    fn update(&mut self, key: u64, field: usize, content: &[u8]) -> Result<bool, TxError> {
        self.write_one(|sql| update(sql, key, field, content))
    }

    fn insert(&mut self, key: u64, record: &[u8]) -> Result<(), TxError> {
        self.write_one(|sql| insert(sql, key, record))
    }

    fn scan(&mut self, start: u64, count: usize) -> Result<ScanAnswer, TxError> {
        let mut record = Vec::with_capacity(RECORD_BYTES);
        self.read_one(|sql| {
            let mut answer = ScanAnswer::default();
            sql.scan.each(bind![rowid(start), count as i64], |row| {
                collect(row, &mut record)?;
                answer.add(key(row.get(FIELDS)?), &record);
                Ok(())
            })?;
            Ok(answer)
        })
    }

    fn read_modify_write(
        &mut self,
        key: u64,
        field: usize,
        modify: &mut dyn FnMut(&[u8], &mut [u8]),
    ) -> Result<bool, TxError> {
        self.write(|sql| {
            let mut record = Vec::with_capacity(RECORD_BYTES);
            if !read(sql, key, &mut record)? {
                return Ok((false, End::Commit));
            }
            let mut content = record
                .get(field * FIELD_BYTES..(field + 1) * FIELD_BYTES)
                .ok_or_else(|| TxError::Failed(format!("sql: field {field} of {FIELDS}")))?
                .to_vec();
            modify(&record, &mut content);
            Ok((update(sql, key, field, &content)?, End::Commit))
        })
    }
}
