//! [`Merger`]: rows of the parts in, rows of the client out.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::confirmed::{Confirmed, Lead, RowOrder, Steps};
use super::kinds;
use super::partial::{ROWS, name};
use corun_wire::{backend, build};

/// Most rows, and bytes of them, that are handed to a final statement. Unmeasured.
const FINAL_ROWS_MAX: usize = 10_000;
const FINAL_BYTES_MAX: usize = 4 << 20;

/// What memory a row takes beside its bytes, roughly.
const ROW_BYTES: usize = 64;

/// Why rows cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A row that is not what the part was asked for.
    #[error("a part's row is not understood")]
    Row,
    /// A part that is not there or had ended.
    #[error("a row of a part that has ended")]
    Part,
    /// Too much for a final statement; nothing has gone to the client, so the query may run whole.
    #[error(
        "the parts returned more than {FINAL_ROWS_MAX} rows or {FINAL_BYTES_MAX} bytes for a final statement"
    )]
    TooMany,
    /// Parts are still running, or there is no final statement.
    #[error("the parts have not all ended")]
    Early,
}

/// A row of a part.
struct Row {
    /// The body of its DataRow.
    body: Vec<u8>,
    /// Where the client's columns end.
    visible: usize,
    /// Where the hidden columns are; `None` is NULL.
    keys: Vec<Option<(usize, usize)>>,
}

impl Row {
    fn bytes(&self) -> usize {
        self.body.len() + self.keys.len() * size_of::<Option<(usize, usize)>>() + ROW_BYTES
    }

    fn key(&self, number: usize) -> Option<&[u8]> {
        let (start, end) = (*self.keys.get(number)?)?;
        self.body.get(start..end)
    }
}

#[derive(Default)]
struct Part {
    rows: VecDeque<Row>,
    ended: bool,
}

/// Takes the rows of the parts of one execution.
pub struct Merger<'a> {
    confirmed: &'a Confirmed,
    lead: &'a Lead,
    // Changing:
    parts: Vec<Part>,
    bytes: usize,
    rows: usize,
    skipped: u64,
    sent: u64,
}

impl<'a> Merger<'a> {
    /// For one execution in this many parts.
    pub fn new(confirmed: &'a Confirmed, lead: &'a Lead, parts: usize) -> Self {
        Merger {
            confirmed,
            lead,
            parts: (0..parts).map(|_| Part::default()).collect(),
            bytes: 0,
            rows: 0,
            skipped: 0,
            sent: 0,
        }
    }

    /// A row of a part: the body of its DataRow, in the formats of [`Confirmed::part_formats`].
    ///
    /// # Errors
    /// The execution has failed.
    pub fn push(&mut self, part: usize, body: &[u8]) -> Result<(), MergeError> {
        let (visible, hidden) = match &self.confirmed.steps {
            Steps::Concat => (self.confirmed.columns().len(), 0),
            Steps::Sorted(orders) => (self.confirmed.columns().len(), orders.len()),
            Steps::Final { types, .. } => (types.len(), 0),
        };
        let row = row(body, visible, hidden).ok_or(MergeError::Row)?;
        if self.is_done() {
            return Ok(());
        }
        let bytes = row.bytes();
        self.running(part)?.rows.push_back(row);
        self.bytes += bytes;
        self.rows += 1;
        let collects = matches!(self.confirmed.steps, Steps::Final { .. });
        if collects && (self.rows > FINAL_ROWS_MAX || self.bytes > FINAL_BYTES_MAX) {
            return Err(MergeError::TooMany);
        }
        Ok(())
    }

    /// A part has answered completely.
    ///
    /// # Errors
    /// It is not there or had ended.
    pub fn end(&mut self, part: usize) -> Result<(), MergeError> {
        self.running(part)?.ended = true;
        Ok(())
    }

    fn running(&mut self, part: usize) -> Result<&mut Part, MergeError> {
        let part = self.parts.get_mut(part).filter(|part| !part.ended);
        part.ok_or(MergeError::Part)
    }

    /// Whether the client has all it wanted, so that what the parts still send is of no use.
    pub fn is_done(&self) -> bool {
        !matches!(self.confirmed.steps, Steps::Final { .. })
            && self.lead.limit.is_some_and(|limit| self.sent >= limit)
    }

    /// Whether every part has ended.
    pub fn all_ended(&self) -> bool {
        self.parts.iter().all(|part| part.ended)
    }

    /// Appends the DataRow messages that are certain by now; none where there is a final statement.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        let confirmed = self.confirmed;
        let orders: &[RowOrder] = match &confirmed.steps {
            Steps::Final { .. } => return,
            Steps::Concat => {
                for part in 0..self.parts.len() {
                    while let Some(row) = self.parts[part].rows.pop_front() {
                        self.emit(row, out);
                    }
                }
                return;
            }
            Steps::Sorted(orders) => orders,
        };
        loop {
            let mut first: Option<(usize, &Row)> = None;
            for (number, part) in self.parts.iter().enumerate() {
                match part.rows.front() {
                    Some(row) => {
                        if first.is_none_or(|(_, best)| compare(orders, row, best).is_lt()) {
                            first = Some((number, row));
                        }
                    }
                    None if part.ended => {}
                    None => return,
                }
            }
            let Some(number) = first.map(|first| first.0) else {
                return;
            };
            match self.parts[number].rows.pop_front() {
                Some(row) => self.emit(row, out),
                None => return,
            }
        }
    }

    fn emit(&mut self, row: Row, out: &mut Vec<u8>) {
        self.bytes -= row.bytes();
        if self.skipped < self.lead.offset {
            self.skipped += 1;
            return;
        }
        if self.is_done() {
            return;
        }
        self.sent += 1;
        let columns = self.confirmed.columns().len() as u16;
        build::message(out, backend::DATA_ROW, |out| {
            out.extend(columns.to_be_bytes());
            out.extend(&row.body[2..row.visible]);
        });
    }

    /// The tag of CommandComplete, once everything has been drained.
    pub fn command_tag(&self) -> String {
        format!("SELECT {}", self.sent)
    }

    /// The final statement over what the parts answered, in the encoding the parts answered in.
    ///
    /// # Errors
    /// Too early, or a row that is not understood.
    pub fn final_sql(&self) -> Result<Vec<u8>, MergeError> {
        let Steps::Final { types, query } = &self.confirmed.steps else {
            return Err(MergeError::Early);
        };
        if !self.all_ended() {
            return Err(MergeError::Early);
        }
        let type_name = |kind: &u32| kinds::literal_name(*kind).ok_or(MergeError::Row);
        let names: Vec<String> = (0..types.len()).map(name).collect();
        let mut sql = format!("WITH {ROWS} ({}) AS (", names.join(", ")).into_bytes();
        let mut first = true;
        for row in self.parts.iter().flat_map(|part| &part.rows) {
            sql.extend(if first { &b"VALUES ("[..] } else { b", (" });
            let values = corun_wire::read::data_row(&row.body).ok_or(MergeError::Row)?;
            for (number, (value, kind)) in values.iter().zip(types).enumerate() {
                if number > 0 {
                    sql.push(b',');
                }
                match value {
                    None => sql.extend(b"NULL"),
                    Some(value) => {
                        if !kinds::literal(&mut sql, *kind, value) {
                            return Err(MergeError::Row);
                        }
                    }
                }
                // The types of the first row are those of the others.
                if first {
                    sql.extend(b"::");
                    sql.extend(type_name(kind)?.bytes());
                }
            }
            sql.push(b')');
            first = false;
        }
        if first {
            let columns = types
                .iter()
                .map(|kind| type_name(kind).map(|name| format!("NULL::{name}")));
            let columns: Vec<String> = columns.collect::<Result<_, _>>()?;
            sql.extend(format!("SELECT {} WHERE false", columns.join(", ")).bytes());
        }
        sql.extend(b") ");
        sql.extend(self.confirmed.query_over(query, self.lead).bytes());
        Ok(sql)
    }
}

fn compare(orders: &[RowOrder], one: &Row, other: &Row) -> Ordering {
    for (number, order) in orders.iter().enumerate() {
        let by = match (one.key(number), other.key(number)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) if order.nulls_first => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) if order.nulls_first => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(one), Some(other)) => {
                let by = order.order.compare(one, other);
                if order.descending { by.reverse() } else { by }
            }
        };
        if by != Ordering::Equal {
            return by;
        }
    }
    Ordering::Equal
}

/// Finds the hidden columns of a row, which follow this many visible ones.
fn row(body: &[u8], shown: usize, hidden: usize) -> Option<Row> {
    let count = u16::from_be_bytes(*body.first_chunk::<2>()?);
    if usize::from(count) != shown + hidden {
        return None;
    }
    let mut at = 2;
    let mut visible = 2;
    let mut keys = Vec::with_capacity(hidden);
    for column in 0..shown + hidden {
        let length = i32::from_be_bytes(*body.get(at..)?.first_chunk::<4>()?);
        at += 4;
        let place = match usize::try_from(length) {
            Ok(length) => {
                let end = at.checked_add(length).filter(|end| *end <= body.len())?;
                let place = (at, end);
                at = end;
                Some(place)
            }
            Err(_) if length == -1 => None,
            Err(_) => return None,
        };
        if column < shown {
            visible = at;
        } else {
            keys.push(place);
        }
    }
    (at == body.len()).then(|| Row {
        body: body.to_vec(),
        visible,
        keys,
    })
}
