//! A frame as plain text.

use std::io::Write;

use super::frame::Frame;
use super::grid::Order;
use super::tables::{summary, tables};
use corun_cli::out;

/// Prints it.
///
/// # Errors
/// A closed pipe.
pub fn print(frame: &Frame) -> anyhow::Result<()> {
    let mut out = out::stdout();
    for line in lines(frame) {
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

/// Its lines, not cut.
fn lines(frame: &Frame) -> Vec<String> {
    let mut lines = vec![format!("{}  {}", frame.sample.version, frame.place)];
    lines.extend(summary(frame).map(|(name, text)| format!("{name:<8} {text}")));
    for grid in tables(frame).iter().filter(|grid| !grid.rows.is_empty()) {
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
        let text = lines(&busy()).join("\n");
        assert!(
            text.starts_with("corun 0.1.0  127.0.0.1:6432\nrate     12,000 tps, 24,000 qps, "),
            "{text}"
        );
        assert!(text.contains("clients  50 active, 12 waiting\n"), "{text}");
        assert!(text.contains("\nPools\ndatabase  user"), "{text}");
    }
}
