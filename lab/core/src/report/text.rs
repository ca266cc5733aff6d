//! A report's table for a terminal.

use corun_cli::plain;

use super::page::Table;

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
