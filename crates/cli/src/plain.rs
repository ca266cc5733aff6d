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
