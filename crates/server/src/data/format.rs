//! [`Format`]: what kind of file a name stands for, and how a text file is cut into columns.

use super::config::TableOptions;
use super::error::DataError;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::arrow::ArrowFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Rows of a text file that its columns' types are taken from; unmeasured.
const ROWS_LOOKED_AT: usize = 100_000;
/// Bytes of a text file that its delimiter and header are taken from.
const BYTES_LOOKED_AT: u64 = 64 << 10;
/// Lines of them.
const LINES_LOOKED_AT: usize = 100;
/// Delimiters that are tried; of two that fit equally, the first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Parquet,
    Csv,
    Json,
    Arrow,
}

/// What a file's name says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) kind: Kind,
    pub(crate) gzip: bool,
    /// The end of the name that says so, as written: `.csv.gz`.
    pub(crate) ending: String,
}

const ENDINGS: &[(&str, Kind)] = &[
    ("parquet", Kind::Parquet),
    ("parq", Kind::Parquet),
    ("pq", Kind::Parquet),
    ("csv", Kind::Csv),
    ("tsv", Kind::Csv),
    ("json", Kind::Json),
    ("jsonl", Kind::Json),
    ("ndjson", Kind::Json),
    ("arrow", Kind::Arrow),
    ("feather", Kind::Arrow),
];

impl Format {
    /// The name without the ending, and the format; `None` for names of other files.
    pub(crate) fn of(name: &str) -> Option<(&str, Format)> {
        let is_gz = |ending: &str| ending.eq_ignore_ascii_case("gz");
        let (plain, gzip) = match name.rsplit_once('.') {
            Some((plain, ending)) if is_gz(ending) => (plain, true),
            _ => (name, false),
        };
        let (stem, ending) = plain.rsplit_once('.')?;
        let known = ENDINGS
            .iter()
            .find(|(known, _)| ending.eq_ignore_ascii_case(known))?;
        let text = matches!(known.1, Kind::Csv | Kind::Json);
        if stem.is_empty() || (gzip && !text) {
            return None;
        }
        let ending = name[stem.len()..].to_owned();
        let format = Format {
            kind: known.1,
            gzip,
            ending,
        };
        Some((stem, format))
    }

    /// What reads files of this format; `sample` is one of them.
    ///
    /// # Errors
    /// A text file whose beginning cannot be read.
    pub(crate) fn reader(
        &self,
        sample: &Path,
        options: &TableOptions,
    ) -> Result<Arc<dyn FileFormat>, DataError> {
        let compression = match self.gzip {
            true => FileCompressionType::GZIP,
            false => FileCompressionType::UNCOMPRESSED,
        };
        Ok(match self.kind {
            Kind::Parquet => Arc::new(ParquetFormat::default()),
            Kind::Arrow => Arc::new(ArrowFormat),
            Kind::Json => {
                let beginning = self.beginning(sample)?;
                let first = beginning.iter().find(|byte| !byte.is_ascii_whitespace());
                let format = JsonFormat::default()
                    .with_newline_delimited(first != Some(&b'['))
                    .with_schema_infer_max_rec(ROWS_LOOKED_AT)
                    .with_file_compression_type(compression);
                Arc::new(format)
            }
            Kind::Csv => {
                let beginning = self.beginning(sample)?;
                let quote = options.quote.unwrap_or(b'"');
                let found = sniff(&beginning, quote, options.delimiter);
                let format = CsvFormat::default()
                    .with_delimiter(found.delimiter)
                    .with_has_header(options.header.unwrap_or(found.header))
                    .with_quote(quote)
                    .with_escape(options.escape)
                    .with_null_regex(options.null.as_deref().map(exactly))
                    // Quoted texts may have ends of lines in them; such a file is read by one task.
                    .with_newlines_in_values(found.newlines_in_values)
                    .with_schema_infer_max_rec(ROWS_LOOKED_AT)
                    .with_file_compression_type(compression);
                Arc::new(format)
            }
        })
    }

    /// The first bytes of a text file.
    fn beginning(&self, path: &Path) -> Result<Vec<u8>, DataError> {
        let unreadable = |error: std::io::Error| {
            DataError::unreadable(format!("cannot read {}", path.display())).detail(error.to_string())
        };
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        match self.gzip {
            true => flate2::read::MultiGzDecoder::new(file)
                .take(BYTES_LOOKED_AT)
                .read_to_end(&mut bytes),
            false => file.take(BYTES_LOOKED_AT).read_to_end(&mut bytes),
        }
        .map_err(unreadable)?;
        Ok(bytes)
    }
}

/// A regular expression that this text and nothing else fits.
fn exactly(text: &str) -> String {
    let mut regex = String::from("^");
    for c in text.chars() {
        if !c.is_alphanumeric() && c.is_ascii() {
            regex.push('\\');
        }
        regex.push(c);
    }
    regex + "$"
}

/// What the beginning of a file of separated values shows.
#[derive(Debug, PartialEq, Eq)]
struct Sniffed {
    delimiter: u8,
    header: bool,
    newlines_in_values: bool,
}

/// The delimiter that cuts every line into as many fields, most fields first; a first line of names is a header.
fn sniff(beginning: &[u8], quote: u8, given: Option<u8>) -> Sniffed {
    let whole = (beginning.len() as u64) < BYTES_LOOKED_AT;
    let candidates = given.map_or(DELIMITERS.to_vec(), |given| vec![given]);
    let mut best: Option<(usize, u8, Cut)> = None;
    for delimiter in candidates {
        let mut cut = cut(beginning, delimiter, quote);
        if !whole && cut.lines.len() > 1 {
            // The last line may end anywhere.
            cut.lines.pop();
        }
        let fields = cut.lines.first().map_or(0, Vec::len);
        let same = cut.lines.iter().all(|line| line.len() == fields);
        let score = if same { fields } else { 0 };
        if best.as_ref().is_none_or(|(known, ..)| score > *known) {
            best = Some((score, delimiter, cut));
        }
    }
    let Some((_, delimiter, cut)) = best else {
        return Sniffed {
            delimiter: b',',
            header: true,
            newlines_in_values: false,
        };
    };
    Sniffed {
        delimiter,
        header: is_header(&cut.lines),
        newlines_in_values: cut.newlines_in_values,
    }
}

struct Cut {
    lines: Vec<Vec<String>>,
    newlines_in_values: bool,
}

fn cut(text: &[u8], delimiter: u8, quote: u8) -> Cut {
    let mut lines = Vec::new();
    let (mut line, mut field) = (Vec::new(), Vec::new());
    let (mut quoted, mut newlines_in_values) = (false, false);
    for &byte in text {
        match byte {
            _ if byte == quote => quoted = !quoted,
            b'\n' if !quoted => {
                line.push(
                    String::from_utf8_lossy(&std::mem::take(&mut field))
                        .trim()
                        .to_owned(),
                );
                lines.push(std::mem::take(&mut line));
                if lines.len() == LINES_LOOKED_AT {
                    break;
                }
            }
            _ if byte == delimiter && !quoted => {
                line.push(
                    String::from_utf8_lossy(&std::mem::take(&mut field))
                        .trim()
                        .to_owned(),
                );
            }
            _ => {
                newlines_in_values |= byte == b'\n';
                field.push(byte);
            }
        }
    }
    if !field.is_empty() || !line.is_empty() {
        line.push(String::from_utf8_lossy(&field).trim().to_owned());
        lines.push(line);
    }
    Cut {
        lines,
        newlines_in_values,
    }
}

/// Names are texts, no two are the same, and none looks like a value.
fn is_header(lines: &[Vec<String>]) -> bool {
    let Some(first) = lines.first() else {
        return true;
    };
    let looks_like_a_value = |field: &String| {
        field.parse::<f64>().is_ok()
            || matches!(field.to_ascii_lowercase().as_str(), "true" | "false" | "null")
            || is_date(field)
    };
    let unique: std::collections::BTreeSet<&String> = first.iter().collect();
    let unnamed = first.iter().skip(1).any(String::is_empty);
    unique.len() == first.len() && !unnamed && !first.iter().any(looks_like_a_value)
}

fn is_date(field: &str) -> bool {
    let date = field.as_bytes();
    date.len() >= 10
        && date[..10].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (char, bool) {
        let found = sniff(text.as_bytes(), b'"', None);
        (char::from(found.delimiter), found.header)
    }

    #[test]
    fn delimiters_and_headers_are_found() {
        assert_eq!(of("a,b\n1,2\n"), (',', true));
        assert_eq!(of("a;b\n1,5;2,5\n"), (';', true));
        assert_eq!(of("1\t2\n3\t4\n"), ('\t', false));
        assert_eq!(of("x|\"1|2\"|y\n3|4|5\n"), ('|', true));
        assert_eq!(of("2024-01-01,a\n2024-01-02,b\n"), (',', false));
        assert_eq!(of("name\nAda\n"), (',', true));
        assert_eq!(of(""), (',', true));
    }

    #[test]
    fn ends_of_lines_in_quotes_are_seen() {
        assert!(sniff(b"a,b\n\"x\ny\",2\n", b'"', None).newlines_in_values);
    }

    #[test]
    fn names_are_formats() {
        let of = |name| Format::of(name).map(|(stem, format)| (stem, format.kind, format.gzip));
        assert_eq!(of("a.b.csv.gz"), Some(("a.b", Kind::Csv, true)));
        assert_eq!(of("A.PARQUET"), Some(("A", Kind::Parquet, false)));
        assert_eq!(of("a.parquet.gz"), None);
        assert_eq!(of(".csv"), None);
        assert_eq!(of("readme.md"), None);
    }
}
