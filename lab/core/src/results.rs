//! The page of published results, made from the records: the list of what is published in, Markdown out.
//!
//! ```text
//!   records/published.toml ---> published   which rows, in which order, with which words
//!   records/DATE-HOST/*    ---> recorded    rows of suites, turns taken by hand, sides of the teams example
//!                                   |
//!                                 page ---> docs/src/research/results.md
//! ```
//!
//! Order of calls: [`generate`], or [`render`] with files that are in memory. The page is pure text of its inputs: no date, no path of
//! a machine, no measurement. An entry of the list whose filter finds no row or several rows is an error that names the entry, so that
//! no number on the page can come from anywhere but one row of one record. It is not a report of a run: [`crate::report`] is.

mod page;
mod published;
mod recorded;

use std::path::Path;

use crate::row::RowError;

/// The list of published results, from the root of the repository.
pub const PUBLISHED: &str = "records/published.toml";
/// The folder of the records, from the root of the repository.
pub const RECORDS: &str = "records";
/// The page, from the root of the repository.
pub const PAGE: &str = "docs/src/research/results.md";
/// What a person types to make the page again.
pub const REGENERATE: &str = "corun-lab results";

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file, from the root of the repository.
        path: String,
        /// What the operating system says.
        #[source]
        source: std::io::Error,
    },
    /// The list of published results is not what it must be.
    #[error("{PUBLISHED}: {0}")]
    List(#[from] toml::de::Error),
    /// A line of a record is no row.
    #[error("{RECORDS}/{file}, line {line}: {source}")]
    Line {
        /// The file, below the records.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with the line.
        #[source]
        source: RowError,
    },
    /// A section of the list cannot be shown.
    #[error(
        "{PUBLISHED}: the section \"{section}\" names the machine \"{machine}\", which [machines] does not have"
    )]
    Machine {
        /// The section's title.
        section: String,
        /// The machine's name.
        machine: String,
    },
    /// An entry of the list cannot be shown.
    #[error("{PUBLISHED}: the result \"{entry}\": {problem}")]
    Entry {
        /// The entry: what, and versus what.
        entry: String,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with an entry of the list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The filter finds nothing.
    #[error("no row of {RECORDS}/{file} has {filter}")]
    NoRow {
        /// The file, below the records.
        file: String,
        /// The filter.
        filter: String,
    },
    /// The filter finds more than one row.
    #[error("{count} rows of {RECORDS}/{file} have {filter}; they differ in {differ}")]
    SeveralRows {
        /// The file, below the records.
        file: String,
        /// The filter.
        filter: String,
        /// How many rows it finds.
        count: usize,
        /// The keys that tell the rows apart.
        differ: String,
    },
    /// The row has no number.
    #[error("the row of {RECORDS}/{file} with {filter} is unavailable")]
    Unavailable {
        /// The file, below the records.
        file: String,
        /// The filter.
        filter: String,
    },
    /// The row's answer was wrong, which nobody may publish.
    #[error("the row of {RECORDS}/{file} with {filter} has a wrong answer")]
    WrongAnswer {
        /// The file, below the records.
        file: String,
        /// The filter.
        filter: String,
    },
    /// A number that is written in the list must say where it stands in its record.
    #[error("a number that is `shown` needs `quotes` of its record, {RECORDS}/{0}")]
    NoQuotes(String),
    /// The quoted line is not in the record, or more than once.
    #[error("\"{quote}\" stands {count} times in {RECORDS}/{file}, not once")]
    Quote {
        /// The file, below the records.
        file: String,
        /// The words looked for.
        quote: String,
        /// How often they were found.
        count: usize,
    },
    /// Neither a record nor a number.
    #[error("it has neither a `file` nor a number that is `shown`")]
    NoSource,
    /// A unit that is not in the table of units.
    #[error("there is no unit \"{0}\"")]
    Unit(String),
}

/// The text of the page, from the files below `root`, the root of the repository.
///
/// # Errors
/// When a file is missing, a record is damaged, or an entry of the list does not find exactly its one row.
pub fn generate(root: &Path) -> Result<String, ResultsError> {
    let read = |path: &str| {
        std::fs::read_to_string(root.join(path)).map_err(|source| ResultsError::Io {
            path: path.to_owned(),
            source,
        })
    };
    let list = read(PUBLISHED)?;
    render(&list, &|file| read(&format!("{RECORDS}/{file}")))
}

/// Writes the page below `root`, the root of the repository.
///
/// # Errors
/// As [`generate`], and when the page cannot be written.
pub fn write(root: &Path) -> Result<(), ResultsError> {
    let page = generate(root)?;
    let path = root.join(PAGE);
    let folder = path.parent().unwrap_or(root);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, page))
        .map_err(|source| ResultsError::Io {
            path: PAGE.to_owned(),
            source,
        })
}

/// The text of the page, from the text of the list and a reader of records, which is given names below [`RECORDS`].
///
/// # Errors
/// As [`generate`].
pub fn render(
    list: &str,
    read: &dyn Fn(&str) -> Result<String, ResultsError>,
) -> Result<String, ResultsError> {
    let published: published::Published = toml::from_str(list)?;
    let records = recorded::Records::read(published.files(), read)?;
    page::page(&published, &records)
}

#[cfg(test)]
mod tests;
