//! The report for a terminal: headings, sentences, tables.
//!
//! [`report`] is text in, text out; the program prints it. Tables wider than a terminal are wider than it: cutting numbers off would be
//! worse.

use super::report::sections;
use corun_cli::plain;
use lab_core::report::page::Section;
use lab_core::row::Row;

/// The whole report of a run's rows, ending with a line feed; a sentence where there are none.
pub fn report(rows: &[Row]) -> String {
    let sections = sections(rows);
    if sections.is_empty() {
        return "There are no rows: nothing was measured.\n".to_owned();
    }
    sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

/// One section.
fn section(section: &Section) -> String {
    let mut text = format!(
        "{}\n{}\n",
        section.heading,
        "=".repeat(section.heading.chars().count())
    );
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
        text.push_str(&lab_core::report::text::table(table));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characterize::made_up;
    use crate::characterize::rows::MISSES;

    #[test]
    fn a_machine_without_counters_says_so_once_and_shows_what_it_has() {
        let text = report(&made_up::virtual_machine());
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "What to do, most important first",
            "hardware counters (PMU): the hypervisor hides them",
            "Would have filled: counted instructions by CPU (Figs. 3b, 9)",
            "Time and speed-up against concurrency (Figs. 3a, 8)",
            "Instruction mix (Tables 1, 2)",
            "36 (4, Table 1)",
            "simulated, cachegrind",
            "measured, clock",
            "they agree within their spreads",
            "72 % of L2 misses",
            "processor",
        ] {
            assert!(in_one_line.contains(wanted), "{wanted}\n{text}");
        }
        assert_eq!(text.matches("the hypervisor hides them").count(), 1, "{text}");
        for absent in ["Stall components", "Top-down", "NaN", "x SMT off"] {
            assert!(!text.contains(absent), "{absent}\n{text}");
        }
    }

    #[test]
    fn a_machine_with_everything_stands_beside_the_paper() {
        let text = report(&made_up::bare_metal());
        for wanted in [
            "x SMT off",
            "up to 1.16 by SMT (4.1, Fig. 3a)",
            "3.5 to 5.4 % more with SMT (4.3, Fig. 4a)",
            "1.81 (4)",
            "largest; less with SMT (4.6, Fig. 7a)",
            "scaled",
            "Top-down",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("What could not be had"), "{text}");
    }

    #[test]
    fn a_run_that_broke_off_reports_what_it_has() {
        let rows = made_up::bare_metal();
        for end in 0..rows.len() {
            let text = report(&rows[..end]);
            assert!(text.ends_with('\n') && !text.contains("NaN"), "{text}");
        }
        assert!(report(&[]).contains("nothing was measured"));
    }

    #[test]
    fn reasons_that_are_no_capability_are_said_with_their_figures() {
        let gone = Row::unavailable(
            "characterize",
            MISSES,
            "l1d_load_miss_percent",
            "%",
            "the server died",
        )
        .with("workload", "uss");
        let text = report(&[gone]);
        assert!(
            text.contains("Not had: misses (l1d load miss percent; uSS): the server died."),
            "{text}"
        );
    }

    #[test]
    fn wrong_answers_are_loud() {
        let mut rows = made_up::virtual_machine();
        for row in &mut rows {
            if row.text("workload") == "uss" && row.answer_ok.is_some() {
                row.answer_ok = Some(false);
            }
        }
        let text = report(&rows);
        assert!(
            text.contains("WRONG ANSWERS") && text.contains("WRONG ANSWER\n"),
            "{text}"
        );
    }
}
