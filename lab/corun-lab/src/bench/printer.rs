//! Rows for people, as they come: wide tables where there is room, else a block for each case; or JSON.

use std::io::Write;

use corun_cli::{out, plain};
use lab_core::row::{Label, Row, format_number};

/// A terminal that is narrower than this gets blocks.
const WIDE: usize = 132;
/// Widths of a block's columns: who, metric, median; the spread follows.
const BLOCK: [usize; 3] = [31, 18, 9];

/// Prints rows. Columns of wide tables grow with their widest cell so far, because a suite runs for minutes.
pub struct Printer {
    form: Form,
    widths: Vec<usize>,
    /// The case of the row before.
    case: String,
    /// Why nothing is printed any more.
    pub closed: Option<std::io::Error>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Wide,
    Blocks,
}

impl Printer {
    /// For JSON, or for what stdout is.
    pub fn new(json: bool) -> Printer {
        let narrow = out::terminal_width().is_some_and(|width| width < WIDE);
        let form = match (json, narrow) {
            (true, _) => Form::Json,
            (false, false) => Form::Wide,
            (false, true) => Form::Blocks,
        };
        Printer::in_form(form)
    }

    fn in_form(form: Form) -> Printer {
        Printer {
            form,
            // Wide enough for most names, so that few columns move while rows come in.
            widths: vec![28, 22, 16, 22, 3, 9, 9, 9, 6, 8],
            case: String::new(),
            closed: None,
        }
    }

    /// Prints a row, unless stdout was closed.
    pub fn print(&mut self, row: &Row) {
        if self.closed.is_some() {
            return;
        }
        let text = match self.form {
            Form::Json => row.to_json() + "\n",
            Form::Wide => self.wide(row),
            Form::Blocks => self.block(row),
        };
        self.case = heading(row);
        let mut out = out::stdout();
        self.closed = out.write_all(text.as_bytes()).and_then(|()| out.flush()).err();
    }

    fn wide(&mut self, row: &Row) -> String {
        let mut text = match self.case.is_empty() {
            true => self.line(&Row::CELL_HEADINGS.map(str::to_owned)) + "\n",
            false => String::new(),
        };
        let cells = row.cells();
        for (width, cell) in self.widths.iter_mut().zip(&cells) {
            *width = (*width).max(cell.chars().count());
        }
        text += &self.line(&cells);
        if let Some(reason) = row.parameter("reason") {
            text += &format!("  ({reason})");
        }
        text + "\n"
    }

    /// Cells side by side; the five numbers in the middle are aligned right.
    fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            match (4..8).contains(&column) {
                true => line.push_str(&format!("{cell:>width$}  ")),
                false => line.push_str(&format!("{cell:<width$}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// The case once, and a line below it: who, what, the median and the spread; what is unusual below that.
    fn block(&self, row: &Row) -> String {
        let [_, who, metric, versus, ..] = row.cells();
        let case = heading(row);
        let mut text = match self.case == case {
            true => String::new(),
            false => format!("{case}\n"),
        };
        let who = match versus.is_empty() {
            true => who,
            false => format!("{who} / {versus}"),
        };
        let [who_width, metric_width, number_width] = BLOCK;
        text += &format!("  {who:<who_width$}");
        if who.chars().count() > who_width {
            text += &format!("\n  {:<who_width$}", "");
        }
        text += &format!(" {metric:<metric_width$}");
        match row.spread {
            Some(spread) => {
                let [least, median, most] = [spread.min, spread.median, spread.max].map(format_number);
                text += &format!(" {median:>number_width$}");
                if spread.n > 1 {
                    text += &format!("  {least}..{most}");
                }
            }
            None => text += " unavailable",
        }
        text += "\n";
        if row.answer_ok == Some(false) {
            text += "    WRONG ANSWER\n";
        }
        if let Some(reason) = row.parameter("reason") {
            text += &plain::paragraph("    ", &reason.to_string());
        }
        text
    }
}

/// What stands above the block of a row: its case, and how its numbers came about if they were not measured.
fn heading(row: &Row) -> String {
    match row.label {
        Label::Simulated => format!("{}, simulated", row.case),
        Label::Measured | Label::Unavailable => row.case.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_core::stats::Spread;

    #[test]
    fn columns_never_shrink_and_numbers_are_aligned_right() {
        let printer = Printer {
            widths: vec![6, 2, 2, 2, 5],
            ..Printer::in_form(Form::Wide)
        };
        let cells = ["case", "e", "m", "v", "7"].map(str::to_owned);
        assert_eq!(printer.line(&cells), "case    e   m   v       7");
    }

    #[test]
    fn a_block_fits_eighty_characters_and_names_its_case_once() {
        let mut printer = Printer::in_form(Form::Blocks);
        let spread = Spread::of(&[1.2345, 2.5, 1234567.0]).expect("values");
        let row = Row::measured(
            "join",
            "sparse_16m_x_16m_hit100_t2",
            "ns_per_probe_row",
            "ns",
            spread,
            false,
        )
        .versus("datafusion_forced_hash")
        .with("engine", "corun");
        let first = printer.wide(&row);
        assert!(first.lines().any(|line| line.chars().count() > 80));
        let block = printer.block(&row);
        assert!(block.starts_with("sparse_16m_x_16m_hit100_t2\n  corun / datafusion_forced_hash"));
        assert!(block.ends_with("WRONG ANSWER\n"));
        assert!(block.lines().all(|line| line.chars().count() <= 80), "{block}");
        printer.case.clone_from(&row.case);
        assert!(printer.block(&row).starts_with("  corun"));
    }
}
