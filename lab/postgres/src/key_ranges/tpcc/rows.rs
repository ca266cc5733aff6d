//! Rows of TPC-C to and from PostgreSQL's text: lines of `copy`, and the columns of an answer.

use std::convert::Infallible;

use corun_workloads::engine::TxError;
use corun_workloads::text::Text;
use corun_workloads::tpcc::columns::{ColumnReader, ColumnWriter, Integer};
use corun_workloads::tpcc::{Row, TableName};

use crate::fixture::lines::Lines;

impl ColumnWriter for Lines {
    type Error = Infallible;

    fn integer<T: Integer>(&mut self, value: T) -> Result<(), Infallible> {
        self.put(value);
        Ok(())
    }

    fn integer_or_null<T: Integer>(&mut self, value: Option<T>) -> Result<(), Infallible> {
        self.put_or_null(value);
        Ok(())
    }

    fn flag(&mut self, value: bool) -> Result<(), Infallible> {
        self.put(value);
        Ok(())
    }

    fn text<const MAX: usize>(&mut self, text: &Text<MAX>) -> Result<(), Infallible> {
        self.put(text);
        Ok(())
    }
}

/// Adds a row as a line of `copy`.
pub fn write(row: &Row, lines: &mut Lines) {
    let Ok(()) = row.write(lines);
    lines.end();
}

/// Reads the columns of an answer one after the other.
pub struct Columns<'r> {
    values: std::slice::Iter<'r, Option<String>>,
}

impl<'r> Columns<'r> {
    /// From the first column on.
    pub fn of(row: &'r [Option<String>]) -> Columns<'r> {
        Columns { values: row.iter() }
    }

    /// The next column as it is; `None` for NULL.
    fn next(&mut self) -> Result<Option<&'r str>, TxError> {
        let value = self.values.next();
        value
            .map(|value| value.as_deref())
            .ok_or_else(|| TxError::failed("a row with fewer columns than asked for"))
    }
}

impl ColumnReader for Columns<'_> {
    fn integer<T: Integer>(&mut self) -> Result<T, TxError> {
        let text = self.next()?;
        text.and_then(|text| text.parse().ok())
            .ok_or_else(|| TxError::failed(format!("{text:?} is not the number asked for")))
    }

    fn integer_or_null<T: Integer>(&mut self) -> Result<Option<T>, TxError> {
        match self.next()? {
            None => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| TxError::failed(format!("\"{text}\" is not the number asked for"))),
        }
    }

    fn flag(&mut self) -> Result<bool, TxError> {
        Ok(self.next()? == Some("t"))
    }

    fn text<const MAX: usize>(&mut self) -> Result<Text<MAX>, TxError> {
        let text = self.next()?;
        let text = text.ok_or_else(|| TxError::failed("NULL where a text was asked for"))?;
        Ok(Text::new(text)?)
    }
}

/// A row of a table from its columns.
///
/// # Errors
/// When a column is not what it must be.
pub fn read(table: TableName, row: &[Option<String>]) -> Result<Row, TxError> {
    Row::read(table, &mut Columns::of(row))
}

#[cfg(test)]
mod tests {
    use super::super::schema::columns;
    use super::*;
    use corun_workloads::tpcc::{Rows, Scale};

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let scale = Scale::hundredth(1);
        for row in Rows::part(scale, 1, 0).chain(Rows::part(scale, 1, 1)) {
            let mut line = Lines::default();
            write(&row, &mut line);
            let values: Vec<Option<String>> = line
                .as_str()
                .trim_end_matches('\n')
                .split('\t')
                .map(|value| (value != "\\N").then(|| value.to_owned()))
                // What PostgreSQL shows of a truth value.
                .map(|value| {
                    value.map(|value| match value.as_str() {
                        "true" => "t".to_owned(),
                        "false" => "f".to_owned(),
                        _ => value,
                    })
                })
                .collect();
            assert_eq!(values.len(), columns(row.table()).len(), "{}", row.table());
            assert_eq!(read(row.table(), &values), Ok(row));
        }
    }

    #[test]
    fn what_is_no_row_is_an_error() {
        assert!(read(TableName::NewOrder, &[]).is_err());
        let row = |last: Option<&str>| {
            let value = |text: &str| Some(text.to_owned());
            vec![value("1"), value("2"), last.map(str::to_owned)]
        };
        assert!(read(TableName::NewOrder, &row(Some("3"))).is_ok());
        assert!(read(TableName::NewOrder, &row(Some("x"))).is_err());
        assert!(read(TableName::NewOrder, &row(None)).is_err());
    }
}
