//! A report for a terminal: plots are tables of what they draw.

use corun_cli::plain;

use super::page::{Figure, Page, Section, Table};

/// The sections of a page for lines of `width`, ending with a line feed. Plots of a section that has a table are left out: the
/// table has their numbers.
pub fn page(page: &Page, width: usize) -> String {
    let sections = page.sections.iter().map(|part| section(part, width));
    sections.collect::<Vec<_>>().join("\n")
}

/// A plot: its caption, then what it draws.
fn figure(figure: &Figure, width: usize) -> String {
    let caption = match figure.caption.is_empty() {
        true => String::new(),
        false => plain::paragraph("", &figure.caption),
    };
    format!("\n{caption}{}", table(&figure.plot.table(), width))
}

/// One section.
fn section(section: &Section, width: usize) -> String {
    let mut text = match section.heading.chars().count() {
        0 => String::new(),
        chars => format!("{}\n{}\n", section.heading, "=".repeat(chars)),
    };
    for sentence in &section.text {
        text.push_str(&plain::paragraph("", sentence));
    }
    for entry in &section.entries {
        text.push_str(&plain::paragraph("", &entry.heading));
        for sentence in &entry.text {
            text.push_str(&plain::paragraph("   ", sentence));
        }
        if !entry.command.is_empty() {
            // On one line, so that it can be copied.
            text.push_str(&format!("   $ {}\n", entry.command));
        }
    }
    if let Some(table) = &section.table {
        if !(section.text.is_empty() && section.entries.is_empty()) {
            text.push('\n');
        }
        text.push_str(&self::table(table, width));
    } else {
        for part in &section.figures {
            text.push_str(&figure(part, width));
        }
    }
    text
}

/// [`plain::table`] of a report's table; one without headings has no rule either.
pub fn table(table: &Table, width: usize) -> String {
    let headings: Vec<&str> = table.headings.iter().map(String::as_str).collect();
    let nameless = headings.iter().all(|heading| heading.is_empty());
    // Rows without headings are texts, which a terminal may wrap.
    let width = if nameless { usize::MAX } else { width };
    let text = plain::table_within(width, &headings, table.numeric_columns, &table.rows);
    if nameless {
        return text.lines().skip(2).map(|line| format!("{line}\n")).collect();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_headings_has_no_rule() {
        let rows = vec![
            vec!["stock".to_owned(), "1.5".to_owned()],
            vec!["a longer name".to_owned(), "12.25".to_owned()],
        ];
        let facts = Table {
            headings: vec![String::new(), String::new()],
            numeric_columns: 0,
            rows,
        };
        assert_eq!(table(&facts, 80), "stock          1.5\na longer name  12.25\n");
    }
}
