//! A report without its plots, for a terminal.

use corun_cli::plain;

use super::page::{Page, Section, Table};

/// The sections of a page, ending with a line feed. Tables wider than a terminal are wider than it: cutting numbers off would be worse.
pub fn page(page: &Page) -> String {
    page.sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// One section.
fn section(section: &Section) -> String {
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
        text.push_str(&self::table(table));
    }
    text
}

/// [`plain::table`] of a report's table; one without headings has no rule either.
pub fn table(table: &Table) -> String {
    let headings: Vec<&str> = table.headings.iter().map(String::as_str).collect();
    let text = plain::table(&headings, table.numeric_columns, &table.rows);
    if headings.iter().all(|heading| heading.is_empty()) {
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
        assert_eq!(table(&facts), "stock          1.5\na longer name  12.25\n");
    }
}
