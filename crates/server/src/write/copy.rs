//! [`CopyRows`]: the rows of a `COPY ... FROM STDIN`, as a client sends them.
//!
//! ```text
//!   CopyData ─► fields of whole rows (wire) ─► rows of the store, kept ─► TOGETHER of them, or a megabyte: defaults, CHECK, written
//! ```
//!
//! Order of calls: [`CopyRows::begin`], [`CopyRows::data`] for each message, [`CopyRows::end`]. What it is not: a transaction; what was written
//! goes with that of the session.

use super::checks::Checks;
use super::insert::{
    Defaults, Deferred, Filler, Made, NewRows, Progress, TOGETHER, Uses, Writer, moment, null_refused,
    positions,
};
use super::{TableInfo, assign};
use crate::session::ClientSession;
use crate::users::WriteRight;
use corun_store::{ROW_BYTES_MAX, RowBuf};
use corun_wire::error::{Refusal, code};
use corun_wire::values::{CopyFormat, CopyIn, CopyOptions, Format, Value};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use std::sync::Arc;

/// Bytes that are cut into rows before those are written: a message may have many more.
const BYTES_TOGETHER: usize = 16 << 10;
/// Bytes of rows that are kept before they are written.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a row as it is sent. Text takes more than what the store keeps.
const SENT_BYTES_MAX: usize = 4 * ROW_BYTES_MAX;
/// Bytes of a value that errors show.
const SHOWN_BYTES_MAX: usize = 100;

/// See [`self`].
#[derive(Debug)]
pub(crate) struct CopyRows {
    writer: Writer,
    defaults: Defaults,
    reader: CopyIn,
    format: Format,
    /// The table's columns, in the order of the fields.
    columns: Vec<usize>,
    /// Columns that each row gets a value for.
    given: Vec<usize>,
    kept: Kept,
    progress: Progress,
    /// Once the first rows are written.
    deferred: Option<Deferred>,
    /// Of the next row.
    line: u64,
    /// When it began.
    now: Value<'static>,
}

/// Rows that wait to be written. Those that were written are used again.
#[derive(Debug, Default)]
struct Kept {
    rows: Vec<RowBuf>,
    lines: Vec<u64>,
    bytes: usize,
}

impl CopyRows {
    /// Begins a copy into these columns of a table; into all, if there are none. `is_header_matched`: the header must have their names.
    ///
    /// # Errors
    /// No such table or columns; rights; options that contradict each other.
    pub(crate) async fn begin(
        session: &ClientSession,
        table: &ObjectName,
        columns: &[Ident],
        options: CopyOptions,
        is_header_matched: bool,
    ) -> Result<CopyRows, Refusal> {
        let info = session.table_info(table)?;
        session.check_may_write(WriteRight::Insert, &info)?;
        options.check()?;
        let columns = positions(&info, columns.iter())?;
        let rest = (0..info.columns.len()).filter(|at| !columns.contains(at));
        let defaults = Defaults::plan(session, &info, rest).await?;
        let mut given = columns.clone();
        given.extend(defaults.columns());
        let format = match options.format {
            CopyFormat::Binary => Format::Binary,
            CopyFormat::Text | CopyFormat::Csv => Format::Text,
        };
        let has_header = options.header && format == Format::Text;
        let count = u16::try_from(columns.len())
            .map_err(|_| Refusal::new(code::PROGRAM_LIMIT, "COPY takes no more than 65535 columns"))?;
        let checks = Checks::plan(session, &info).await?;
        let mut reader = CopyIn::new(options, count, SENT_BYTES_MAX);
        if is_header_matched {
            reader.match_header(columns.iter().map(|at| info.columns[*at].name.clone()).collect());
        }
        Ok(CopyRows {
            writer: Writer::plain(info, checks),
            defaults,
            reader,
            format,
            columns,
            given,
            kept: Kept::default(),
            progress: Progress::default(),
            deferred: None,
            line: 1 + u64::from(has_header),
            now: moment()?,
        })
    }

    /// Fields of a row.
    pub(crate) fn columns(&self) -> u16 {
        self.columns.len() as u16
    }

    /// Takes a part of the data.
    ///
    /// # Errors
    /// What is no row; what speaks against one.
    pub(crate) async fn data(&mut self, session: &mut ClientSession, bytes: &[u8]) -> Result<(), Refusal> {
        for part in bytes.chunks(BYTES_TOGETHER) {
            self.read(session, Some(part))?;
            if self.kept.rows_waiting() >= TOGETHER || self.kept.bytes >= KEPT_BYTES_MAX {
                self.write(session).await?;
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// All data has come. Returns how many rows were written.
    ///
    /// # Errors
    /// As [`CopyRows::data`]; data that is cut off.
    pub(crate) async fn end(mut self, session: &mut ClientSession) -> Result<u64, Refusal> {
        self.read(session, None)?;
        self.write(session).await?;
        if let Some(deferred) = self.deferred {
            self.writer.check_deferred(session, deferred)?;
        }
        Ok(self.progress.rows)
    }

    /// Keeps the rows of a part, or, at the end, what is left.
    fn read(&mut self, session: &ClientSession, part: Option<&[u8]>) -> Result<(), Refusal> {
        let info = &self.writer.info;
        let zone = session.zone();
        let mut filler = Filler::new(info, zone, &self.given);
        let (format, columns) = (self.format, &self.columns);
        let (kept, line) = (&mut self.kept, &mut self.line);
        let mut is_placed = false;
        let mut row = |fields: &[Option<Vec<u8>>]| {
            filler.begin();
            let mut bytes = 0;
            for (field, at) in fields.iter().zip(columns) {
                let column = &info.columns[*at];
                let set = match field {
                    None => filler.set(*at, None),
                    Some(field) => {
                        bytes += field.len();
                        let value = Value::read(column.declared.of, format, field, &zone);
                        value.and_then(|value| filler.set(*at, Some(&value)))
                    }
                };
                set.map_err(|refusal| {
                    is_placed = true;
                    let shown = field
                        .as_deref()
                        .map(|field| shown(field, format))
                        .unwrap_or_default();
                    placed(refusal, info, *line, &format!(", column {}{shown}", column.name))
                })?;
            }
            filler.finish().map_err(|refusal| {
                is_placed = true;
                placed(refusal, info, *line, "")
            })?;
            kept.add(info, &mut filler, *line, bytes);
            *line += 1;
            Ok(())
        };
        let read = match part {
            Some(part) => self.reader.data(part, &mut row),
            None => self.reader.done(&mut row),
        };
        read.map_err(|refusal| match is_placed {
            true => refusal,
            false => no_row(refusal, info, columns),
        })
    }

    /// Writes the rows that are kept.
    async fn write(&mut self, session: &mut ClientSession) -> Result<(), Refusal> {
        let waiting = self.kept.rows_waiting();
        for begin in (0..waiting).step_by(TOGETHER) {
            if begin > 0 {
                tokio::task::yield_now().await;
            }
            let end = waiting.min(begin + TOGETHER);
            let info = Arc::clone(&self.writer.info);
            let defaults = self.defaults.values(end - begin, &self.now, |_| Uses::All)?;
            let zone = session.zone();
            let lines = &self.kept.lines[begin..end];
            if !defaults.is_empty() {
                for (at, row) in self.kept.rows[begin..end].iter_mut().enumerate() {
                    for (column, value) in defaults.of(at) {
                        let of = &info.columns[column];
                        let set = match value.is_none() && !of.nullable {
                            true => Err(null_refused(&info, column, row.row(), &[column], zone)),
                            false => assign(of, column, value, &zone, row),
                        };
                        set.map_err(|refusal| placed(refusal, &info, lines[at], ""))?;
                    }
                }
            }
            let mut rows = Asked {
                made: Made(&self.kept.rows[begin..end]),
                last: None,
            };
            if self.deferred.is_none() {
                self.deferred = Some(self.writer.defer(session)?);
            }
            let written = self.writer.write(session, &mut rows, &mut self.progress, &[]);
            written.map_err(|refusal| match rows.last.and_then(|at| lines.get(at)) {
                Some(line) => placed(refusal, &info, *line, ""),
                None => refusal,
            })?;
        }
        self.kept.clear();
        Ok(())
    }
}

impl Kept {
    fn rows_waiting(&self) -> usize {
        self.lines.len()
    }

    /// Keeps the row that was filled.
    fn add(&mut self, info: &TableInfo, filler: &mut Filler<'_>, line: u64, bytes: usize) {
        let at = self.lines.len();
        if at == self.rows.len() {
            self.rows.push(info.table.new_row());
        }
        filler.exchange(&mut self.rows[at]);
        self.lines.push(line);
        self.bytes += bytes;
    }

    fn clear(&mut self) {
        self.lines.clear();
        // What few long rows have taken is given back.
        if self.bytes >= KEPT_BYTES_MAX {
            self.rows.clear();
        }
        self.rows.truncate(2 * TOGETHER);
        self.bytes = 0;
    }
}

/// Rows, and which of them was asked for last: an error is about that one.
struct Asked<'a> {
    made: Made<'a>,
    last: Option<usize>,
}

impl NewRows for Asked<'_> {
    fn count(&self) -> usize {
        self.made.count()
    }

    fn row(&mut self, at: usize) -> Result<&RowBuf, Refusal> {
        self.last = Some(at);
        self.made.row(at)
    }
}

/// A field as errors show it.
fn shown(field: &[u8], format: Format) -> String {
    if format == Format::Binary {
        return String::new();
    }
    let text = String::from_utf8_lossy(field);
    match text.len() > SHOWN_BYTES_MAX {
        true => format!(": \"{}...\"", &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]),
        false => format!(": \"{text}\""),
    }
}

/// The same with the place in the data, which PostgreSQL has in the context.
fn placed(refusal: Refusal, info: &TableInfo, line: u64, rest: &str) -> Refusal {
    let place = format!("COPY {}, line {line}{rest}", info.name);
    let detail = match &refusal.detail {
        Some(detail) => format!("{detail}\n{place}"),
        None => place,
    };
    refusal.detail(detail)
}

/// What is no row: its place, and the column's name instead of its number.
fn no_row(refusal: Refusal, info: &TableInfo, columns: &[usize]) -> Refusal {
    let detail = refusal.detail.as_deref().unwrap_or_default();
    let line = detail
        .strip_prefix("Line ")
        .and_then(|rest| rest.strip_suffix(" of the data."));
    let line: Option<u64> = line.and_then(|line| line.parse().ok());
    let column = refusal.message.strip_prefix("missing data for column ");
    let column = column.and_then(|number| number.parse::<usize>().ok());
    let column = column.and_then(|number| columns.get(number.checked_sub(1)?));
    let message = match column {
        Some(at) => format!("missing data for column \"{}\"", info.columns[*at].name),
        None => refusal.message.clone(),
    };
    let refusal = Refusal { message, ..refusal };
    match line {
        Some(line) => placed(
            Refusal {
                detail: None,
                ..refusal
            },
            info,
            line,
            "",
        ),
        None => refusal,
    }
}
