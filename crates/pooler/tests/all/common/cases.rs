//! Tables of cases as text, one case a line.

/// The cases of a table whose lines are `text => expected`. `¶` in a text stands for the end of a line; a line that begins with `#` is a
/// comment.
pub fn cases(table: &str) -> impl Iterator<Item = (String, &str)> {
    let lines = table.lines().map(str::trim);
    let cases = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    cases.map(|line| {
        let (text, expected) = line
            .rsplit_once("=>")
            .unwrap_or_else(|| panic!("no case: {line}"));
        (text.trim().replace('¶', "\n"), expected.trim())
    })
}
