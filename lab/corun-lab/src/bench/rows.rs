//! Rows as they come: printed at once, kept, and recorded as soon as the cases they are of are finished.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use corun_cli::progress::Bars;
use corun_model::progress::Progress;
use lab_core::BenchError;
use lab_core::record::Record;
use lab_core::row::Row;
use lab_core::run::Sink;

use super::printer::Printer;

/// Between two sentences about how far a run is.
const SENTENCE_EVERY: Duration = Duration::from_secs(120);

/// Where the rows of a run go.
pub struct Rows<'r> {
    bars: &'r Bars,
    printer: Printer,
    rows: Vec<Row>,
    record: Option<(&'r Path, Record)>,
    written: Option<Result<PathBuf, BenchError>>,
    /// How many cases are to run.
    cases: usize,
    started: Instant,
    said: Instant,
}

impl<'r> Rows<'r> {
    /// For a run of so many cases; `record` goes below the folder.
    pub fn new(bars: &'r Bars, json: bool, record: Option<(&'r Path, Record)>, cases: usize) -> Rows<'r> {
        let now = Instant::now();
        Rows {
            bars,
            printer: Printer::new(json),
            rows: Vec::new(),
            record,
            written: None,
            cases,
            started: now,
            said: now,
        }
    }

    /// The record's folder, if there is one.
    ///
    /// # Errors
    /// Rows that could not be printed, or a record that could not be written.
    pub fn written(&mut self) -> Result<Option<PathBuf>> {
        if let Some(error) = self.printer.closed.take() {
            return Err(error).context("cannot print rows");
        }
        Ok(self.written.take().transpose()?)
    }

    /// All rows.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    /// How far the run is, now and then.
    fn say(&mut self) {
        if self.said.elapsed() < SENTENCE_EVERY {
            return;
        }
        let finished: BTreeSet<&str> = self.rows.iter().map(|row| row.case.as_str()).collect();
        let (finished, cases) = (finished.len(), self.cases);
        if finished >= cases {
            return;
        }
        self.said = Instant::now();
        let spent = self.started.elapsed().as_secs_f64() / 60.0;
        let left = spent / finished as f64 * (cases - finished) as f64;
        self.bars.note(&format!(
            "{finished} of {cases} cases after {spent:.0} min; about {left:.0} min to go if the others are like them"
        ));
    }
}

impl Sink for Rows<'_> {
    fn row(&mut self, row: Row) {
        self.bars.suspend(|| self.printer.print(&row));
        self.rows.push(row);
    }

    fn cases_are_finished(&mut self) {
        if let (Some((folder, record)), false) = (&self.record, matches!(self.written, Some(Err(_)))) {
            self.written = Some(record.write(folder, &self.rows));
        }
        self.say();
    }
}
