//! A view as plain text.

use std::io::Write;

use super::grid::Order;
use super::view::View;
use corun_cli::out;

/// Prints it.
///
/// # Errors
/// A closed pipe.
pub fn print(place: &str, view: &View) -> anyhow::Result<()> {
    let mut out = out::stdout();
    for line in lines(place, view) {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

/// Its lines, not cut.
fn lines(place: &str, view: &View) -> Vec<String> {
    let mut lines = vec![format!("{}  {place}", view.title)];
    lines.extend(
        view.summary
            .iter()
            .map(|line| format!("{:<8} {}", line.name, line.text)),
    );
    for grid in view.grids.iter().filter(|grid| !grid.rows.is_empty()) {
        let (head, rows) = grid.lines(usize::MAX, Order::default());
        lines.extend([String::new(), grid.title.to_owned(), head]);
        lines.extend(rows);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::draw::tests::busy;
    use super::*;

    #[test]
    fn a_frame_is_readable_without_a_terminal() {
        let text = lines("127.0.0.1:6432", &busy().view()).join("\n");
        assert!(
            text.starts_with("corun 0.1.0  127.0.0.1:6432\nrate     12,000 tps, 24,000 qps, "),
            "{text}"
        );
        assert!(text.contains("clients  50 active, 12 waiting\n"), "{text}");
        assert!(text.contains("\nPools\ndatabase  user"), "{text}");
    }
}
