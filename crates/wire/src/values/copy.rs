//! Rows of `COPY` in its three formats: written with [`CopyOut`], and cut out of what a client sends with [`CopyIn`].
//!
//! Fields are given and returned as bytes: in text and CSV the text of a value, in binary its binary format. `None` is NULL.

use super::row::Row;
use crate::error::{Refusal, code};

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines, fields between tabs, backslashes before what has a meaning.
    #[default]
    Text,
    /// Comma-separated values: lines, of which those within quotes are part of a value.
    Csv,
    /// PostgreSQL's binary format.
    Binary,
}

/// The options of a `COPY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// How rows are written.
    pub format: CopyFormat,
    /// Between two fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Whether the first line has the columns' names.
    pub header: bool,
    /// Around a value, in CSV.
    pub quote: u8,
    /// Before a quote within a value, in CSV.
    pub escape: u8,
}

impl CopyOptions {
    /// PostgreSQL's defaults for a format.
    pub fn of(format: CopyFormat) -> Self {
        let csv = format == CopyFormat::Csv;
        Self {
            format,
            delimiter: if csv { b',' } else { b'\t' },
            null: if csv { String::new() } else { "\\N".to_owned() },
            header: false,
            quote: b'"',
            escape: b'"',
        }
    }

    /// Checks that no option takes the place of another, as PostgreSQL does.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), Refusal> {
        let wrong = |what: &str| Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what));
        let null = self.null.as_bytes();
        if self.format == CopyFormat::Binary {
            return Ok(());
        }
        if matches!(self.delimiter, b'\n' | b'\r') || !self.delimiter.is_ascii() {
            return wrong("COPY delimiter cannot be newline or carriage return");
        }
        if null.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            return wrong("COPY null representation cannot use newline or carriage return");
        }
        if null.contains(&self.delimiter) {
            return wrong("COPY delimiter character must not appear in the NULL specification");
        }
        if self.format == CopyFormat::Csv {
            if self.delimiter == self.quote {
                return wrong("COPY delimiter and quote must be different");
            }
            if null.contains(&self.quote) {
                return wrong("CSV quote character must not appear in the NULL specification");
            }
            if !self.quote.is_ascii() || !self.escape.is_ascii() {
                return wrong("COPY quote and escape must be single one-byte characters");
            }
        } else if b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&self.delimiter) {
            return wrong("COPY delimiter cannot be a letter, a digit, a point or a backslash");
        }
        Ok(())
    }
}

/// What a binary copy begins with: signature, flags, length of extensions.
const BINARY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The count of fields behind the last row of a binary copy.
const BINARY_END: i16 = -1;

/// Writes rows. Each goes into a CopyData of its own ([`crate::build::message`] with [`crate::frontend::COPY_DATA`]).
#[derive(Clone, Debug)]
pub struct CopyOut {
    options: CopyOptions,
}

impl CopyOut {
    /// Rows with these options.
    pub fn new(options: CopyOptions) -> Self {
        Self { options }
    }

    /// Appends what stands before the first row: maybe nothing.
    pub fn begin<'n>(&self, out: &mut Vec<u8>, names: impl Iterator<Item = &'n str>) {
        match self.options.format {
            CopyFormat::Binary => out.extend(BINARY_HEADER),
            _ if self.options.header => self.row(out, names.map(|name| Some(name.as_bytes()))),
            _ => {}
        }
    }

    /// Whether the format is the binary one.
    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// Appends a row.
    pub fn row<'f>(&self, out: &mut Vec<u8>, fields: impl Iterator<Item = Option<&'f [u8]>>) {
        if self.options.format == CopyFormat::Binary {
            let mut row = Row::bare(out);
            for field in fields {
                match field {
                    None => row.null(),
                    Some(field) => row.field(|out| out.extend(field)),
                }
            }
            row.finish();
            return;
        }
        let begin = out.len();
        let mut fields = fields.peekable();
        let mut first = true;
        while let Some(field) = fields.next() {
            if !first {
                out.push(self.options.delimiter);
            }
            match field {
                None => out.extend(self.options.null.as_bytes()),
                Some(field) if self.options.format == CopyFormat::Csv => {
                    let alone = first && fields.peek().is_none();
                    self.quoted(out, field, alone);
                }
                Some(field) => escaped(out, field, self.options.delimiter),
            }
            first = false;
        }
        debug_assert!(out.len() >= begin);
        out.push(b'\n');
    }

    /// Appends what stands behind the last row: maybe nothing.
    pub fn end(&self, out: &mut Vec<u8>) {
        if self.options.format == CopyFormat::Binary {
            out.extend(BINARY_END.to_be_bytes());
        }
    }

    /// A field of CSV, in quotes where it would be read as something else.
    fn quoted(&self, out: &mut Vec<u8>, field: &[u8], alone: bool) {
        let CopyOptions {
            delimiter,
            quote,
            escape,
            ..
        } = self.options;
        let special = |byte: &u8| *byte == delimiter || *byte == quote || matches!(byte, b'\n' | b'\r');
        let end_mark = alone && field == b"\\.";
        if field != self.options.null.as_bytes() && !field.iter().any(special) && !end_mark {
            return out.extend(field);
        }
        out.push(quote);
        for byte in field {
            if *byte == quote || *byte == escape {
                out.push(escape);
            }
            out.push(*byte);
        }
        out.push(quote);
    }
}

/// A field of text.
fn escaped(out: &mut Vec<u8>, field: &[u8], delimiter: u8) {
    for byte in field {
        let escape = match byte {
            b'\x08' => b'b',
            b'\x0c' => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            b'\x0b' => b'v',
            b'\\' => b'\\',
            byte if *byte == delimiter => *byte,
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend([b'\\', escape]);
    }
}

/// Cuts rows out of what a client sends, whose parts need not end where rows do.
#[derive(Debug)]
pub struct CopyIn {
    options: CopyOptions,
    columns: u16,
    row_bytes_max: usize,
    /// What came and is no whole row yet.
    rest: Vec<u8>,
    /// How much of it was looked through, and whether that ends within quotes.
    seen: usize,
    in_quotes: bool,
    line: u64,
    state: CopyState,
    /// What the header must say.
    names: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyState {
    /// The header is awaited.
    Header,
    Rows,
    /// The mark of the end came; nothing may follow but what PostgreSQL ignores.
    Ended,
}

/// The fields of a row.
type Fields = Vec<Option<Vec<u8>>>;

impl CopyIn {
    /// Rows of so many columns, none of which may be longer than `row_bytes_max`.
    pub fn new(options: CopyOptions, columns: u16, row_bytes_max: usize) -> Self {
        let header = options.header || options.format == CopyFormat::Binary;
        Self {
            options,
            columns,
            row_bytes_max,
            rest: Vec::new(),
            seen: 0,
            in_quotes: false,
            line: 1,
            names: None,
            state: if header {
                CopyState::Header
            } else {
                CopyState::Rows
            },
        }
    }

    /// The header must have these names, one for each column.
    pub fn match_header(&mut self, names: Vec<String>) {
        self.names = Some(names);
    }

    fn check_header(&self, line: &[u8]) -> Result<(), Refusal> {
        let Some(names) = &self.names else {
            return Ok(());
        };
        let fields = match self.options.format {
            CopyFormat::Csv => self.csv_fields(line)?,
            _ => self.text_fields(line),
        };
        if fields.len() != names.len() {
            let (got, expected) = (fields.len(), names.len());
            let what = format!("wrong number of fields in header line: got {got}, expected {expected}");
            return Err(self.bad(what));
        }
        for (at, (field, name)) in fields.iter().zip(names).enumerate() {
            let number = at + 1;
            let Some(field) = field else {
                let null = &self.options.null;
                let what = format!(
                    "column name mismatch in header line field {number}: got null value (\"{null}\"), expected \"{name}\""
                );
                return Err(self.bad(what));
            };
            if field != name.as_bytes() {
                let got = String::from_utf8_lossy(field);
                let what = format!(
                    "column name mismatch in header line field {number}: got \"{got}\", expected \"{name}\""
                );
                return Err(self.bad(what));
            }
        }
        Ok(())
    }

    /// Takes the data of a CopyData, and hands each row that is whole to `row`.
    ///
    /// # Errors
    /// What is no row, with its line; or what `row` says.
    pub fn data(
        &mut self,
        data: &[u8],
        row: &mut impl FnMut(&[Option<Vec<u8>>]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        self.rest.extend(data);
        let mut used = 0;
        loop {
            match self.state {
                CopyState::Ended => {
                    used = self.rest.len();
                    break;
                }
                _ if self.options.format == CopyFormat::Binary => match self.binary(used)? {
                    None => break,
                    Some((end, fields)) => {
                        used = end;
                        if let Some(fields) = fields {
                            row(&fields)?;
                            self.line += 1;
                        }
                    }
                },
                state => {
                    let Some(end) = self.line_end(used) else { break };
                    let line = trim_line(&self.rest[used..end]);
                    used = end;
                    if state == CopyState::Header {
                        self.check_header(line)?;
                        self.state = CopyState::Rows;
                    } else if line == b"\\." {
                        self.state = CopyState::Ended;
                    } else {
                        let fields = self.fields(line)?;
                        row(&fields)?;
                    }
                    self.line += 1;
                }
            }
        }
        self.rest.drain(..used);
        self.seen = self.seen.saturating_sub(used);
        if self.rest.len() > self.row_bytes_max {
            let what = "a row of COPY is longer than this server takes";
            return Err(Refusal::new(code::PROGRAM_LIMIT, what).detail(self.place()));
        }
        Ok(())
    }

    /// Takes the end of all data: a last line need not end.
    ///
    /// # Errors
    /// What is no row, or is cut off.
    pub fn done(
        &mut self,
        row: &mut impl FnMut(&[Option<Vec<u8>>]) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if self.options.format == CopyFormat::Binary {
            // PostgreSQL takes a copy without the mark of its end where a row could begin.
            return match (self.state, self.rest.is_empty()) {
                (CopyState::Ended, _) | (CopyState::Rows, true) => Ok(()),
                _ => Err(self.bad("unexpected EOF in COPY data")),
            };
        }
        if self.in_quotes {
            return Err(self.bad("unterminated CSV quoted field"));
        }
        if self.rest.is_empty() {
            return Ok(());
        }
        self.data(b"\n", row)
    }

    fn place(&self) -> String {
        format!("Line {} of the data.", self.line)
    }

    fn bad(&self, what: impl Into<String>) -> Refusal {
        Refusal::new(code::BAD_COPY_FILE_FORMAT, what).detail(self.place())
    }

    /// Where the line that begins at `begin` ends, its end included.
    fn line_end(&mut self, begin: usize) -> Option<usize> {
        let csv = self.options.format == CopyFormat::Csv;
        let mut at = self.seen.max(begin);
        while let Some(&byte) = self.rest.get(at) {
            if csv {
                // An escape that is not the quote itself takes the next byte's meaning.
                if self.in_quotes && byte == self.options.escape && byte != self.options.quote {
                    if at + 1 == self.rest.len() {
                        break;
                    }
                    at += 2;
                    continue;
                }
                if byte == self.options.quote {
                    self.in_quotes = !self.in_quotes;
                }
            } else if byte == b'\\' {
                if at + 1 == self.rest.len() {
                    break;
                }
                at += 2;
                continue;
            }
            at += 1;
            if byte == b'\n' && !self.in_quotes {
                self.seen = at;
                return Some(at);
            }
        }
        self.seen = at.min(self.rest.len());
        None
    }

    fn fields(&self, line: &[u8]) -> Result<Fields, Refusal> {
        // PostgreSQL takes an empty line for a row of a table without columns only.
        let fields = match self.options.format {
            CopyFormat::Csv => self.csv_fields(line)?,
            _ => self.text_fields(line),
        };
        let wanted = usize::from(self.columns);
        if fields.len() < wanted {
            return Err(self.bad(format!("missing data for column {}", fields.len() + 1)));
        }
        if fields.len() > wanted {
            return Err(self.bad("extra data after last expected column"));
        }
        Ok(fields)
    }

    fn text_fields(&self, line: &[u8]) -> Fields {
        let mut fields = Vec::with_capacity(self.columns.into());
        let mut begin = 0;
        let mut at = 0;
        loop {
            match line.get(at) {
                Some(b'\\') => at += 2,
                Some(byte) if *byte != self.options.delimiter => at += 1,
                end => {
                    let raw = &line[begin..at.min(line.len())];
                    let null = raw == self.options.null.as_bytes();
                    fields.push((!null).then(|| unescaped(raw)));
                    if end.is_none() || fields.len() > usize::from(self.columns) {
                        return fields;
                    }
                    at += 1;
                    begin = at;
                }
            }
        }
    }

    fn csv_fields(&self, line: &[u8]) -> Result<Fields, Refusal> {
        let CopyOptions {
            delimiter,
            quote,
            escape,
            ..
        } = self.options;
        let mut fields = Vec::with_capacity(self.columns.into());
        let (mut field, mut quoted, mut in_quotes) = (Vec::new(), false, false);
        let mut rest = line;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if in_quotes {
                match rest.first() {
                    Some(next) if byte == escape && (*next == quote || *next == escape) => {
                        field.push(*next);
                        rest = &rest[1..];
                    }
                    _ if byte == quote => in_quotes = false,
                    _ => field.push(byte),
                }
            } else if byte == quote {
                (quoted, in_quotes) = (true, true);
            } else if byte == delimiter {
                fields.push(self.csv_field(std::mem::take(&mut field), quoted));
                quoted = false;
                if fields.len() > usize::from(self.columns) {
                    return Ok(fields);
                }
            } else {
                field.push(byte);
            }
        }
        if in_quotes {
            return Err(self.bad("unterminated CSV quoted field"));
        }
        fields.push(self.csv_field(field, quoted));
        Ok(fields)
    }

    fn csv_field(&self, field: Vec<u8>, quoted: bool) -> Option<Vec<u8>> {
        (quoted || field != self.options.null.as_bytes()).then_some(field)
    }

    /// The header, or the row, that begins at `begin`: where it ends, and the row's fields. `None`: it is not whole.
    fn binary(&mut self, begin: usize) -> Result<Option<(usize, Option<Fields>)>, Refusal> {
        let bytes = &self.rest[begin..];
        if self.state == CopyState::Header {
            return match self.binary_header(bytes)? {
                None => Ok(None),
                Some(length) => {
                    self.state = CopyState::Rows;
                    Ok(Some((begin + length, None)))
                }
            };
        }
        let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else {
            return Ok(None);
        };
        let count = i16::from_be_bytes(*count);
        if count == BINARY_END {
            self.state = CopyState::Ended;
            return Ok(Some((begin + 2, None)));
        }
        if u16::try_from(count) != Ok(self.columns) {
            let what = format!("row field count is {count}, expected {}", self.columns);
            return Err(self.bad(what));
        }
        let mut fields = Vec::with_capacity(self.columns.into());
        for _ in 0..count {
            let Some((length, after)) = rest.split_first_chunk::<4>() else {
                return Ok(None);
            };
            let length = i32::from_be_bytes(*length);
            rest = after;
            if length == -1 {
                fields.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| self.bad("invalid field size"))?;
            if length > self.row_bytes_max {
                return Err(self.bad("a field is longer than this server takes"));
            }
            let Some((field, after)) = rest.split_at_checked(length) else {
                return Ok(None);
            };
            fields.push(Some(field.to_vec()));
            rest = after;
        }
        let end = self.rest.len() - rest.len();
        Ok(Some((end, Some(fields))))
    }

    fn binary_header(&self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        let (signature, known) = (bytes.get(..11), &BINARY_HEADER[..11]);
        if signature.unwrap_or(bytes) != &known[..bytes.len().min(11)] {
            return Err(self.bad("COPY file signature not recognized"));
        }
        let Some(fixed) = bytes.get(11..19) else {
            return Ok(None);
        };
        let word = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        if word(0) & 0xffff_0000 != 0 {
            return Err(self.bad("unrecognized critical flags in COPY file header"));
        }
        let length = 19 + word(4) as usize;
        if length > self.row_bytes_max.max(19) {
            return Err(self.bad("invalid COPY file header (wrong length)"));
        }
        Ok((bytes.len() >= length).then_some(length))
    }
}

/// A line without its end.
fn trim_line(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A field of text without its backslashes.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            field.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            field.push(b'\\');
            break;
        };
        rest = after;
        field.push(match escape {
            b'b' => b'\x08',
            b'f' => b'\x0c',
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => b'\x0b',
            b'0'..=b'7' => digits(&mut rest, u32::from(escape - b'0'), 8, 2),
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => digits(&mut rest, 0, 16, 2),
            other => other,
        });
    }
    field
}

/// Up to so many more digits of a character's number.
fn digits(rest: &mut &[u8], first: u32, base: u32, most: usize) -> u8 {
    let mut value = first;
    for _ in 0..most {
        let digit = rest.first().and_then(|byte| char::from(*byte).to_digit(base));
        let Some(digit) = digit else { break };
        value = value * base + digit;
        *rest = &rest[1..];
    }
    value as u8
}

#[cfg(test)]
mod tests;
