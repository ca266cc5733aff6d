//! What a report of a suite shows of its rows: figures, tables and claims as data, resolved into a page.
//!
//! ```text
//!   figures/SUITE.toml ---> spec   what is shown, by which keys, in which words
//!   rows of a run      ---> select which rows those are
//!                             |
//!                   plot, claim, this file ---> report::page, which draws
//! ```
//!
//! [`page`] is a function of the rows: what was not run is not on it, and whether the paper is right is computed. A figure is added in the
//! suite's file: title, filter, and a plot that is like others. Figures of suites without a file are drawn in their own crates.

mod claim;
mod expression;
mod plot;
mod select;
mod spec;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use crate::report::finding::{Agreement, Finding};
use crate::report::page::{Page, Section, Table, Tile};
use crate::row::{Label, Row};
use crate::suite::Suite;
use select::Rows;
use spec::{FigureSpec, ReportSpec, TableSpec, TileSpec};

/// The page for the rows of a run; none for a suite without figures here. `facts` say on which machine, when and with what. A `quick`
/// run's times mean nothing: the page says so, and holds none against the paper.
pub fn page(suite: Suite, rows: &[Row], facts: &[(String, String)], quick: bool) -> Option<Page> {
    let spec = spec::of(suite)?;
    let mut page = spec.page(&Rows::new(&spec.derive, rows), quick);
    page.sections.push(Section::machine(facts));
    page.footer = format!(
        "Written by corun-lab bench {}. The page is complete in itself: it loads nothing from elsewhere.",
        suite.name()
    );
    Some(page)
}

impl ReportSpec {
    fn page(&self, rows: &Rows<'_>, quick: bool) -> Page {
        let answers = self.answers(rows);
        let without = self.quick_without.as_ref().filter(|_| quick);
        let is_left_out = |row: &Row| without.is_some_and(|without| without.has(&|key| rows.value(row, key)));
        let rows = &rows.only(|row| !is_left_out(row));
        let mut sections = Vec::new();
        let mut verdicts = Vec::new();
        for figure in &self.figure {
            let shown = rows.all(&figure.filter);
            if shown.rows.is_empty() {
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
        let tiles = self.tile.iter().filter_map(|tile| tile.tile(rows));
        Page {
            title: self.title.clone(),
            lead: format!("{}{}", self.lead, if quick { &self.quick } else { "" }),
            tiles: judged.into_iter().chain([answers]).chain(tiles).collect(),
            sections,
            footer: String::new(),
        }
    }

    fn answers(&self, rows: &Rows<'_>) -> Tile {
        let wrong = rows
            .rows
            .iter()
            .filter(|row| row.answer_ok == Some(false))
            .count();
        let checked = rows.all(&self.answers.pick.filter).rows.into_iter();
        let checked = checked.filter(|row| row.answer_ok.is_some()).count();
        Tile {
            value: match wrong {
                0 => "all right".to_owned(),
                wrong => format!("{wrong} wrong"),
            },
            name: self.answers.name.replace("{n}", &checked.to_string()),
            note: self.answers.note.clone(),
        }
    }
}

impl TileSpec {
    fn tile(&self, rows: &Rows<'_>) -> Option<Tile> {
        let row = rows.pick(&self.pick)?.row;
        Some(Tile {
            value: rows.words(row, &self.value)?,
            name: self.name.clone(),
            note: rows.words(row, &self.note)?,
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
        text.push(origin(rows));
        text.extend(self.text.iter().cloned());
        let mut legend = Vec::new();
        let plots = self.plot.iter();
        let figures = plots
            .flat_map(|plot| plot.figures(&self.title, rows, &mut legend))
            .collect();
        Section {
            heading: self.title.clone(),
            text,
            legend,
            figures,
            table: self.table.as_ref().and_then(|table| table.table(rows)),
            ..Section::default()
        }
    }
}

impl TableSpec {
    /// The table; none without lines.
    fn table(&self, rows: &Rows<'_>) -> Option<Table> {
        let rows = rows
            .all(&self.filter)
            .only(|row| rows.holds(row, self.when.as_deref()));
        let lines: Vec<Rows<'_>> = match self.each.is_empty() {
            true => rows.rows.iter().map(|row| rows.alone(row)).collect(),
            false => rows.each(&self.each),
        };
        let cells = |line: &Rows<'_>| {
            let cell = |column: &spec::ColumnSpec| {
                let found = line.all(&column.filter);
                let words = found.rows.iter().find_map(|row| line.words(row, &column.text));
                words.unwrap_or_else(|| "-".to_owned())
            };
            self.column.iter().map(cell).collect()
        };
        let lines: Vec<Vec<String>> = lines.iter().map(cells).collect();
        let has_any = |column: usize| lines.iter().any(|cells: &Vec<String>| cells[column] != "-");
        let shown: Vec<usize> = (0..self.column.len()).filter(|column| has_any(*column)).collect();
        let cells = |cells: &Vec<String>| shown.iter().map(|column| cells[*column].clone()).collect();
        (!shown.is_empty()).then(|| Table {
            headings: shown
                .iter()
                .map(|column| self.column[*column].name.clone())
                .collect(),
            numeric_columns: 0,
            rows: lines.iter().map(cells).collect(),
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
