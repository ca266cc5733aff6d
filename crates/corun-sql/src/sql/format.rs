//! Results as they stream in: tables or records for people, CSV, or one JSON object a row.
//!
//! Order of calls: [`ResultWriter::new`], [`ResultWriter::write`] for every batch, [`ResultWriter::finish`]. At most one
//! page of rows is held, so a result of a billion rows needs no more memory than a small one.

use std::io::Write;

use anyhow::Result;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::util::display::FormatOptions;
use unicode_width::UnicodeWidthStr;

use super::cells;
use super::display::Expanded;
use super::widths::{SEPARATOR_CHARS, Widths, cut};

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Aligned columns, in pages; a row count at the end.
    Table,
    /// A header line, then comma-separated values; NULL is empty, the empty text is "".
    Csv,
    /// One JSON object a row.
    Json,
}

/// How one result is written.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// As what.
    pub format: Format,
    /// Whether rows of a table are records instead.
    pub expanded: Expanded,
    /// Characters of a line; `None`: any number.
    pub width: Option<usize>,
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows of it.
    pub rows: u64,
    /// Its columns.
    pub columns: usize,
    /// The columns that fitted, if cells or columns were cut to the width.
    pub cut_to: Option<usize>,
}

/// Rows of one page of a table: column widths are found within a page.
const PAGE_ROWS: usize = 1000;

/// Bytes of cell text after which a page is written even if it is not full.
const PAGE_BYTES: usize = 4 << 20;

/// Writes one result.
pub struct ResultWriter<'w, W: Write> {
    out: &'w mut W,
    style: Style,
    schema: SchemaRef,
    names: Vec<String>,
    /// Cells of the page being filled, row after row.
    page: Vec<Vec<String>>,
    page_bytes: usize,
    pages: usize,
    /// Whether this table's rows are records; decided by its first page.
    as_records: Option<bool>,
    records: u64,
    written: Written,
}

impl<'w, W: Write> ResultWriter<'w, W> {
    /// Starts a result; CSV writes its header now.
    ///
    /// # Errors
    /// A closed pipe.
    pub fn new(out: &'w mut W, style: Style, schema: SchemaRef) -> Result<Self> {
        let names = match style.format {
            Format::Json => cells::distinct_names(&schema),
            Format::Table => schema
                .fields()
                .iter()
                .map(|field| cells::printable(field.name().clone()))
                .collect(),
            Format::Csv => schema.fields().iter().map(|field| field.name().clone()).collect(),
        };
        if style.format == Format::Csv && !names.is_empty() {
            let mut line = String::new();
            for (index, name) in names.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                cells::csv_cell(&mut line, name);
            }
            writeln!(out, "{line}")?;
        }
        Ok(ResultWriter {
            out,
            style,
            written: Written {
                rows: 0,
                columns: names.len(),
                cut_to: None,
            },
            schema,
            names,
            page: Vec::new(),
            page_bytes: 0,
            pages: 0,
            as_records: None,
            records: 0,
        })
    }

    /// Writes a batch, or keeps it until the page is full.
    ///
    /// # Errors
    /// A closed pipe, or a value that has no text.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.written.rows += batch.num_rows() as u64;
        match self.style.format {
            Format::Table if is_plan(&self.schema) => self.write_plan(batch),
            Format::Table => self.write_table(batch),
            Format::Csv => self.write_csv(batch),
            Format::Json => self.write_json(batch),
        }
    }

    /// Writes what is left; says what was written.
    ///
    /// # Errors
    /// A closed pipe.
    pub fn finish(mut self) -> Result<Written> {
        let columns = !self.names.is_empty() && !is_plan(&self.schema);
        if self.style.format == Format::Table && columns && (!self.page.is_empty() || self.pages == 0) {
            self.flush_page()?;
        }
        Ok(self.written)
    }

    /// Writes the rows that came before an error, without a header when there were none.
    ///
    /// # Errors
    /// A closed pipe.
    pub fn abandon(mut self) -> Result<()> {
        match self.page.is_empty() {
            true => Ok(()),
            false => self.flush_page(),
        }
    }

    fn write_table(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default().with_null("NULL");
        let formatters = cells::formatters(batch, &options)?;
        for row in 0..batch.num_rows() {
            let mut line = Vec::with_capacity(formatters.len());
            for formatter in &formatters {
                let cell = cells::printable(formatter.value(row).try_to_string()?);
                self.page_bytes += cell.len();
                line.push(cell);
            }
            self.page.push(line);
            if self.page.len() == PAGE_ROWS || self.page_bytes >= PAGE_BYTES {
                self.flush_page()?;
            }
        }
        Ok(())
    }

    /// Writes the page: with its header, or as records.
    fn flush_page(&mut self) -> Result<()> {
        let mut whole: Vec<usize> = self.names.iter().map(|name| name.width()).collect();
        for row in &self.page {
            for (width, cell) in whole.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let numeric = self.schema.fields().iter();
        let numeric: Vec<bool> = numeric
            .map(|field| cells::is_numeric(field.data_type()))
            .collect();
        let widths = Widths::within(self.style.width, &whole, &numeric);
        let as_records = *self.as_records.get_or_insert(match self.style.expanded {
            Expanded::Off => false,
            Expanded::On => true,
            Expanded::Auto => widths.is_cut(&whole),
        });
        if as_records {
            self.write_records()?;
        } else {
            if widths.is_cut(&whole) {
                self.written.cut_to = Some(widths.shown.len());
            }
            self.write_rows(&widths, &numeric)?;
        }
        self.pages += 1;
        self.page.clear();
        self.page_bytes = 0;
        Ok(())
    }

    fn write_rows(&mut self, widths: &Widths, numeric: &[bool]) -> Result<()> {
        if self.pages > 0 {
            writeln!(self.out)?;
        }
        let line = |cells: &[String], right: &dyn Fn(usize) -> bool| {
            let mut line = String::new();
            for (column, (cell, width)) in cells.iter().zip(&widths.shown).enumerate() {
                let cell = cut(cell, *width);
                let padding = width.saturating_sub(cell.width());
                line.push_str(if column == 0 { " " } else { " | " });
                if right(column) {
                    line.extend(std::iter::repeat_n(' ', padding));
                    line.push_str(&cell);
                } else {
                    line.push_str(&cell);
                    line.extend(std::iter::repeat_n(' ', padding));
                }
            }
            if widths.more {
                line.push_str(" | \u{2026}");
            }
            line.truncate(line.trim_end().len());
            line
        };
        writeln!(self.out, "{}", line(&self.names, &|_| false))?;
        let more = widths.more.then_some(&1);
        let rule: Vec<String> = widths
            .shown
            .iter()
            .chain(more)
            .map(|width| "-".repeat(width + SEPARATOR_CHARS - 1))
            .collect();
        let mut rule = rule.join("+");
        // There is no blank after the last column.
        rule.truncate(self.style.width.unwrap_or(usize::MAX));
        writeln!(self.out, "{rule}")?;
        for row in &self.page {
            writeln!(self.out, "{}", line(row, &|column| numeric[column]))?;
        }
        Ok(())
    }

    /// Each row as lines of a column's name and its value, which is whole.
    fn write_records(&mut self) -> Result<()> {
        let names = self.names.iter().map(|name| name.width()).max().unwrap_or(0);
        for row in &self.page {
            self.records += 1;
            let values = row.iter().map(|cell| cell.width()).max().unwrap_or(0);
            let width = (names + SEPARATOR_CHARS + values).min(self.style.width.unwrap_or(usize::MAX));
            let title = format!("-[ RECORD {} ]", self.records);
            writeln!(
                self.out,
                "{title}{}",
                "-".repeat(width.saturating_sub(title.len()))
            )?;
            for (name, cell) in self.names.iter().zip(row) {
                let padding = " ".repeat(names - name.width());
                writeln!(self.out, "{}", format!("{name}{padding} | {cell}").trim_end())?;
            }
        }
        Ok(())
    }

    /// A plan is a text of many lines: written as it is, below its kind.
    fn write_plan(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default();
        let formatters = cells::formatters(batch, &options)?;
        for row in 0..batch.num_rows() {
            if self.pages > 0 || row > 0 {
                writeln!(self.out)?;
            }
            writeln!(self.out, "{}:", formatters[0].value(row).try_to_string()?)?;
            for line in formatters[1].value(row).try_to_string()?.lines() {
                let indent = line.len() - line.trim_start().len();
                let text = cells::printable(line.trim_start().to_owned());
                writeln!(self.out, "  {}{text}", " ".repeat(indent))?;
            }
        }
        self.pages += 1;
        Ok(())
    }

    fn write_csv(&mut self, batch: &RecordBatch) -> Result<()> {
        let options = FormatOptions::default();
        let formatters = cells::formatters(batch, &options)?;
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            for (index, formatter) in formatters.iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                if !cells::is_null(batch.column(index).as_ref(), row) {
                    cells::csv_cell(&mut line, &formatter.value(row).try_to_string()?);
                }
            }
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn write_json(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut line = String::new();
        for row in 0..batch.num_rows() {
            line.clear();
            line.push('{');
            for (index, column) in batch.columns().iter().enumerate() {
                if index > 0 {
                    line.push(',');
                }
                cells::json_text(&mut line, &self.names[index]);
                line.push(':');
                cells::json_cell(&mut line, column.as_ref(), row)?;
            }
            line.push('}');
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }
}

/// Whether this is the answer of an EXPLAIN.
fn is_plan(schema: &SchemaRef) -> bool {
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names == ["plan_type", "plan"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use std::sync::Arc;

    fn batch(numbers: Vec<Option<i64>>, words: Vec<Option<&str>>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
        let words: ArrayRef = Arc::new(StringArray::from(words));
        RecordBatch::try_from_iter_with_nullable([("n", numbers, true), ("word", words, true)])
            .expect("same length")
    }

    fn written(format: Format, batches: &[RecordBatch]) -> (String, u64) {
        let mut out = Vec::new();
        let style = Style {
            format,
            expanded: Expanded::Off,
            width: None,
        };
        let rows = styled(&mut out, style, batches).rows;
        (String::from_utf8(out).expect("text"), rows)
    }

    fn styled(out: &mut Vec<u8>, style: Style, batches: &[RecordBatch]) -> Written {
        let mut writer = ResultWriter::new(out, style, batches[0].schema()).expect("starts");
        for batch in batches {
            writer.write(batch).expect("writes");
        }
        writer.finish().expect("finishes")
    }

    /// A table of this width, and what became of it.
    fn within(width: usize, expanded: Expanded, batch: RecordBatch) -> (String, Written) {
        let mut out = Vec::new();
        let style = Style {
            format: Format::Table,
            expanded,
            width: Some(width),
        };
        let written = styled(&mut out, style, &[batch]);
        (String::from_utf8(out).expect("text"), written)
    }

    #[test]
    fn cells_are_cut_to_the_width_text_before_numbers() {
        let rows = || batch(vec![Some(123_456_789)], vec![Some("漢字漢字漢字漢字")]);
        let (text, written) = within(22, Expanded::Off, rows());
        assert_eq!(
            text,
            " n         | word\n-----------+----------\n 123456789 | 漢字漢字\u{2026}\n"
        );
        assert_eq!(written.cut_to, Some(2));
        let (text, written) = within(80, Expanded::Auto, rows());
        assert!(text.starts_with(" n  "), "{text}");
        assert_eq!(written.cut_to, None);
        let (text, written) = within(22, Expanded::Auto, rows());
        assert_eq!(
            text,
            "-[ RECORD 1 ]---------\nn    | 123456789\nword | 漢字漢字漢字漢字\n"
        );
        assert_eq!((written.cut_to, written.rows), (None, 1));
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out() {
        let (text, written) = within(
            13,
            Expanded::Off,
            batch(vec![Some(123_456_789)], vec![Some("a word")]),
        );
        assert_eq!(
            text,
            " n        | \u{2026}\n----------+--\n 1234567\u{2026} | \u{2026}\n"
        );
        assert_eq!((written.cut_to, written.columns), (Some(1), 2));
    }

    #[test]
    fn records_are_numbered_through_pages() {
        let rows = batch((0..1001).map(Some).collect(), vec![None; 1001]);
        let (text, _) = within(80, Expanded::On, rows);
        assert!(
            text.contains("-[ RECORD 1001 ]\nn    | 1000\nword | NULL\n"),
            "{text}"
        );
    }

    #[test]
    fn tables_line_up() {
        let rows = batch(
            vec![Some(1), None, Some(-300)],
            vec![Some("漢"), Some("abc"), None],
        );
        let (text, count) = written(Format::Table, &[rows]);
        assert_eq!(
            text,
            " n    | word\n------+------\n    1 | 漢\n NULL | abc\n -300 | NULL\n"
        );
        assert_eq!(count, 3);
    }

    #[test]
    fn an_empty_result_still_has_its_header() {
        let (text, count) = written(Format::Table, &[batch(vec![], vec![])]);
        assert_eq!(text, " n | word\n---+------\n");
        assert_eq!(count, 0);
    }

    #[test]
    fn long_results_come_in_pages() {
        let rows = batch(
            (0..2500).map(Some).collect(),
            (0..2500).map(|_| Some("x")).collect(),
        );
        let (text, count) = written(Format::Table, &[rows]);
        assert_eq!(text.matches("| word").count(), 3);
        assert_eq!(count, 2500);
        let (text, _) = written(
            Format::Table,
            &[batch((0..1000).map(Some).collect(), vec![None; 1000])],
        );
        assert_eq!(
            text.matches("| word").count(),
            1,
            "a full last page is not followed by an empty one"
        );
    }

    #[test]
    fn csv_tells_null_from_empty() {
        let (text, _) = written(Format::Csv, &[batch(vec![Some(1), None], vec![Some(""), None])]);
        assert_eq!(text, "n,word\n1,\"\"\n,\n");
    }

    #[test]
    fn json_is_one_object_a_row() {
        let (text, _) = written(
            Format::Json,
            &[batch(vec![Some(1), None], vec![Some("a\"b"), None])],
        );
        assert_eq!(
            text,
            "{\"n\":1,\"word\":\"a\\\"b\"}\n{\"n\":null,\"word\":null}\n"
        );
    }
}
