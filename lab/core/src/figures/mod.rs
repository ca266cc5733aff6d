//! What a report of a suite shows of its rows: figures, tables and claims as data, resolved into a page.
//!
//! ```text
//!   figures/SUITE.toml ---> spec   what is shown, by which keys, in which words
//!   rows of a run      ---> select which rows those are
//!                             |
//!              plot, say, claim, this file ---> report::page, which draws
//! ```
//!
//! [`page`] is a function of the rows: what was not run is not on it, and whether the paper is right is computed. A figure is added in the
//! suite's file: title, filter, and a plot that is like others.

mod claim;
mod expression;
mod plot;
mod say;
mod select;
mod spec;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use crate::report::finding::{Agreement, Finding};
use crate::report::page::{Page, Section, Table, Tile};
use crate::row::{Label, Row};
use select::Rows;
use spec::{FigureSpec, ReportSpec, TableSpec, TileSpec};

/// The page for the rows of a run of a suite or command; none for one without figures here. `facts` say on which machine, when and with
/// what. A `quick` run's times mean nothing: the page says so, shows none as a big number and holds none against the paper.
pub fn page(name: &str, rows: &[Row], facts: &[(String, String)], quick: bool) -> Option<Page> {
    let spec = spec::of(name)?;
    let mut page = spec.page(&Rows::new(&spec.derive, rows), quick);
    if !facts.is_empty() {
        page.sections.push(Section::machine(facts));
    }
    let command = spec.title.split(':').next().unwrap_or_default();
    page.footer =
        format!("Written by {command}. The page is complete in itself: it loads nothing from elsewhere.");
    Some(page)
}

impl ReportSpec {
    fn page(&self, rows: &Rows<'_>, quick: bool) -> Page {
        let answers = self.answers.as_ref().map(|spec| spec.answers(rows));
        let without = self.quick_without.as_ref().filter(|_| quick);
        let is_left_out = |row: &Row| without.is_some_and(|without| without.has(&|key| rows.value(row, key)));
        let rows = &rows.only(|row| !is_left_out(row));
        let mut sections = Vec::new();
        let mut verdicts = Vec::new();
        for figure in &self.figure {
            let shown = rows.all(&figure.filter);
            if shown.all(&figure.needs).rows.is_empty() {
                continue;
            }
            let findings = figure.findings(&shown, self.nothing_below);
            verdicts.extend(findings.iter().map(|finding| finding.agreement));
            let mut claims: Vec<String> = match quick {
                true => figure
                    .claim
                    .iter()
                    .map(|claim| format!("Paper: {}.", claim.paper))
                    .collect(),
                false => findings.iter().map(Finding::sentence).collect(),
            };
            claims.dedup();
            sections.push(figure.section(&shown, claims));
        }
        let judged = (!quick && !verdicts.is_empty()).then(|| Agreement::tile(&verdicts));
        let said = self.say.iter().flat_map(|say| say.sentences(rows));
        let said: String = said.map(|sentence| sentence + " ").collect();
        let tiles = self.tile.iter().filter(|_| !quick);
        let tiles = tiles.filter_map(|tile| tile.tile(rows));
        Page {
            title: self.title.clone(),
            lead: format!("{said}{}{}", self.lead, if quick { &self.quick } else { "" }),
            tiles: judged.into_iter().chain(answers).chain(tiles).collect(),
            sections,
            footer: String::new(),
        }
    }
}

impl TileSpec {
    fn answers(&self, rows: &Rows<'_>) -> Tile {
        let wrong = rows
            .rows
            .iter()
            .filter(|row| row.answer_ok == Some(false))
            .count();
        let checked = rows.all(&self.pick.filter).rows.into_iter();
        let checked = checked.filter(|row| row.answer_ok.is_some()).count();
        Tile {
            value: match wrong {
                0 => "all right".to_owned(),
                wrong => format!("{wrong} wrong"),
            },
            name: self.name.replace("{n}", &checked.to_string()),
            note: self.note.clone(),
        }
    }

    fn tile(&self, rows: &Rows<'_>) -> Option<Tile> {
        let row = rows.pick(&self.pick)?.row;
        let mut notes = vec![rows.words(row, &self.note)?];
        notes.extend(self.say.iter().flat_map(|say| say.sentences(rows)));
        Some(Tile {
            value: rows.words(row, &self.value)?,
            name: rows.words(row, &self.name)?,
            note: notes.join("; "),
        })
    }
}

impl FigureSpec {
    fn findings(&self, rows: &Rows<'_>, nothing_below: f64) -> Vec<Finding> {
        let claims = self.claim.iter();
        claims
            .filter_map(|claim| claim.finding(rows, nothing_below))
            .collect()
    }

    /// The card; what the paper claims stands first.
    fn section(&self, rows: &Rows<'_>, claims: Vec<String>) -> Section {
        let mut text = claims;
        text.extend(self.origin.then(|| origin(rows)));
        text.extend(self.text.iter().cloned());
        text.extend(self.say.iter().flat_map(|say| say.sentences(rows)));
        let mut legend = Vec::new();
        let plots = self.plot.iter();
        let figures = plots
            .flat_map(|plot| plot.figures(&self.title, rows, &mut legend))
            .collect();
        Section {
            heading: self.title.clone(),
            text,
            entries: self.entry.iter().flat_map(|entry| entry.entries(rows)).collect(),
            legend,
            figures,
            table: self.table.as_ref().and_then(|table| table.table(rows)),
        }
    }
}

impl TableSpec {
    fn table(&self, rows: &Rows<'_>) -> Option<Table> {
        let rows = rows.all(&self.filter).keep(&self.keep);
        let lines: Vec<Rows<'_>> = match self.each.is_empty() {
            true => rows.rows.iter().map(|row| rows.alone(row)).collect(),
            false => rows.each(&self.each),
        };
        let words = |line: &Rows<'_>, column: &spec::ColumnSpec| {
            let found = line.all(&column.filter);
            found.rows.iter().find_map(|row| line.words(row, &column.text))
        };
        let column = |of: &[spec::ColumnSpec]| {
            let cell = |line| of.iter().find_map(|column| words(line, column));
            let cells: Vec<_> = lines.iter().map(cell).collect();
            (of[0].name.clone(), cells)
        };
        let named = self.column.chunk_by(|one, next| one.name == next.name);
        let mut columns: Vec<_> = named.map(column).collect();
        let numbers = columns.len().saturating_sub(self.numbers);
        let is_shown = |(_, cells): &(String, Vec<Option<String>>)| cells.iter().any(Option::is_some);
        let numeric_columns = columns[numbers..]
            .iter()
            .filter(|column| is_shown(column))
            .count();
        columns.retain(is_shown);
        let line = |line: usize| {
            let cells = columns.iter().map(|(_, cells)| cells[line].clone());
            cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())).collect()
        };
        (!columns.is_empty()).then(|| Table {
            headings: columns.iter().map(|(name, _)| name.clone()).collect(),
            numeric_columns,
            rows: (0..lines.len()).map(line).collect(),
        })
    }
}

/// How the numbers came about, and why some are missing, each reason once.
fn origin(rows: &Rows<'_>) -> String {
    let has = |label: Label| rows.rows.iter().any(|row| row.label == label);
    let mut text = match (has(Label::Measured), has(Label::Simulated)) {
        (true, true) => vec!["Measured and simulated.".to_owned()],
        (true, false) => vec!["Measured.".to_owned()],
        (false, true) => vec!["Simulated.".to_owned()],
        (false, false) => Vec::new(),
    };
    let gone = rows.rows.iter().filter(|row| row.label == Label::Unavailable);
    let reasons: BTreeSet<&str> = gone.map(|row| row.text("reason")).collect();
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.into_iter().collect();
        text.push(format!("Unavailable here: {}.", reasons.join("; ")));
    }
    text.join(" ")
}
