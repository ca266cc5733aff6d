//! The report of a run of the `oltp` suite.

use crate::report::page::Page;
use crate::row::Row;

/// The page for the rows of a run.
pub fn page(_rows: &[Row], _facts: &[(String, String)], _quick: bool) -> Page {
    Page::default()
}
