//! Tables and sentences for a terminal: text in, text out.
//!
//! [`table`] lays out columns, [`paragraph`] breaks lines. What is laid out and where it goes is the caller's; nothing is printed here.

/// Widest line of running text: what every terminal has.
pub const LINE_CHARS_MAX: usize = 80;

/// Lines of a table, each with its line feed: headings, a rule, rows; the last `numeric_columns` columns are aligned right.
pub fn table(headings: &[&str], numeric_columns: usize, rows: &[Vec<String>]) -> String {
    let width = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = headings.iter().map(|heading| width(heading)).collect();
    for row in rows {
        for (column, cell) in row.iter().enumerate().take(widths.len()) {
            widths[column] = widths[column].max(width(cell));
        }
    }
    let first_number = headings.len().saturating_sub(numeric_columns);
    let mut text = String::new();
    let mut write_row = |cells: &[&str]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate().take(widths.len()) {
            let padding = " ".repeat(widths[column].saturating_sub(width(cell)));
            if column > 0 {
                line.push_str("  ");
            }
            if column >= first_number {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&padding);
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    write_row(headings);
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    write_row(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        write_row(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
    text
}

/// [`table`] if its lines fit `width`; otherwise a paragraph a row, which says the heading of each cell: cutting numbers off, or having a
/// terminal wrap them, would be worse.
pub fn table_within(width: usize, headings: &[&str], numeric_columns: usize, rows: &[Vec<String>]) -> String {
    let wide = table(headings, numeric_columns, rows);
    if wide.lines().all(|line| line.chars().count() <= width) {
        return wide;
    }
    let named = headings.len().saturating_sub(numeric_columns).max(1);
    let mut text = String::new();
    for row in rows {
        let is_known = |cell: &str| !cell.is_empty() && cell != "-";
        let cells = row.iter().zip(headings).filter(|(cell, _)| is_known(cell));
        let cells: Vec<String> = cells
            .map(|(cell, heading)| format!("{heading} {cell}").trim().to_owned())
            .collect();
        let name: Vec<&str> = row
            .iter()
            .take(named)
            .map(String::as_str)
            .filter(|cell| is_known(cell))
            .collect();
        let values = cells.get(name.len()..).unwrap_or_default();
        text.push_str(&paragraph("", &name.join(", ")));
        text.push_str(&paragraph("   ", &values.join(", ")));
    }
    text
}

/// Words after `start`, broken into lines of [`LINE_CHARS_MAX`]; further lines are indented to where they began. Each ends with a line
/// feed.
pub fn paragraph(start: &str, words: &str) -> String {
    let indent = start.chars().count();
    let mut text = String::new();
    let mut line = start.to_owned();
    let mut length = indent;
    for word in words.split_whitespace() {
        let word_length = word.chars().count();
        if length > indent && length + 1 + word_length > LINE_CHARS_MAX {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
            length = indent;
        }
        if length > indent {
            line.push(' ');
            length += 1;
        }
        line.push_str(word);
        length += word_length;
    }
    text.push_str(line.trim_end());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_and_numbers_are_right() {
        let rows = vec![
            vec!["stock".to_owned(), "1.5".to_owned()],
            vec!["a longer name".to_owned(), "12.25".to_owned()],
        ];
        assert_eq!(
            table(&["side", "ms"], 1, &rows),
            "side              ms\n-------------  -----\nstock            1.5\na longer name  12.25\n"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_says_its_headings_in_each_row() {
        let rows = vec![
            ["none", "corun", "49.8k", "18.9"].map(str::to_owned).to_vec(),
            ["durable", "redb", "2274", "-"].map(str::to_owned).to_vec(),
        ];
        let headings = ["commits", "engine", "tx/s", "p50 us"];
        assert_eq!(table_within(80, &headings, 2, &rows), table(&headings, 2, &rows));
        assert_eq!(
            table_within(20, &headings, 2, &rows),
            "none, corun\n   tx/s 49.8k, p50 us 18.9\ndurable, redb\n   tx/s 2274\n"
        );
    }

    #[test]
    fn cells_beyond_the_headings_are_left_out() {
        assert_eq!(
            table(&["a"], 0, &[vec!["1".to_owned(), "2".to_owned()], vec![]]),
            "a\n-\n1\n\n"
        );
    }

    #[test]
    fn long_sentences_are_broken_and_indented() {
        let text = paragraph("  why: ", &"word ".repeat(40));
        assert!(text.lines().count() > 1);
        for (index, line) in text.lines().enumerate() {
            assert!(line.chars().count() <= LINE_CHARS_MAX);
            assert!(
                line.starts_with(if index == 0 { "  why: w" } else { "       w" }),
                "{line}"
            );
        }
        assert_eq!(paragraph("x", ""), "x\n");
    }
}
