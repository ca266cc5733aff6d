//! The report of a run of `corun-lab characterize`, made from its rows alone: the cards of [`lab_core::figures`] as one HTML file, and
//! without their plots for a terminal.
//!
//! Both are functions of the rows: what was not run, or broke off, is on neither. Not here: measuring anything, or printing.

use super::rows::facts;
use lab_core::figures;
use lab_core::report::page::Page;
use lab_core::report::text;
use lab_core::row::Row;

/// The page for the rows of a run.
pub fn page(rows: &[Row]) -> Page {
    figures::page(super::SUITE, rows, &facts(rows), false).unwrap_or_default()
}

/// The same for a terminal, ending with a line feed; a sentence where there are no rows.
pub fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "There are no rows: nothing was measured.\n".to_owned();
    }
    text::page(&page(rows), corun_cli::out::line_width())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characterize::example_runs;
    use crate::characterize::rows::MISSES;

    #[test]
    fn a_machine_without_counters_says_so_once_and_shows_what_it_has() {
        let text = text(&example_runs::virtual_machine());
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for wanted in [
            "What to do, most important first",
            "hardware counters (PMU): the hypervisor hides them",
            "Not had: misses (l2 load miss percent; uTPC-C; uSS; uNJ).",
            "The paper's plan, the same: Unique > Sort > Seq Scan.",
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
        let text = text(&example_runs::bare_metal());
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
        let rows = example_runs::bare_metal();
        for end in 0..rows.len() {
            let text = text(&rows[..end]);
            assert!(text.ends_with('\n') && !text.contains("NaN"), "{text}");
        }
        assert!(text(&[]).contains("nothing was measured"));
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
        let text = text(&[gone]);
        for wanted in [
            "What could not be had here",
            "the server died\n",
            "Not had: misses (l1d load miss percent; uSS).",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
    }

    #[test]
    fn wrong_answers_are_loud() {
        let mut rows = example_runs::virtual_machine();
        for row in &mut rows {
            if row.text("workload") == "uss" && row.answer_ok.is_some() {
                row.answer_ok = Some(false);
            }
        }
        let text = text(&rows);
        assert!(
            text.contains("WRONG ANSWERS") && text.contains("WRONG ANSWER\n"),
            "{text}"
        );
    }

    #[test]
    fn the_page_has_the_plots_and_the_advice() {
        for run in [example_runs::virtual_machine(), example_runs::bare_metal()] {
            let html = page(&run).render();
            for wanted in [
                "What to do, most important first",
                "time of one client&#39;s query",
                "effective LLC, polluter",
                "Table 1",
                "<svg",
                "<code>corun ",
            ] {
                assert!(html.contains(wanted), "{wanted}");
            }
            assert!(!html.contains("NaN") && !html.contains("inf\""), "{html}");
        }
    }

    #[test]
    fn a_run_that_broke_off_has_a_page() {
        let run = example_runs::bare_metal();
        for end in (0..run.len()).step_by(7) {
            let html = page(&run[..end]).render();
            assert!(html.ends_with("</html>\n") && !html.contains("NaN"));
        }
    }

    /// Writes both pages where a person can look at them; nothing is judged.
    #[test]
    fn pages_to_look_at() {
        let Some(folder) = std::env::var_os("CORUN_PAGES") else {
            return;
        };
        let folder = std::path::PathBuf::from(folder);
        for (name, run) in [
            ("virtual_machine", example_runs::virtual_machine()),
            ("bare_metal", example_runs::bare_metal()),
        ] {
            std::fs::write(folder.join(format!("{name}.html")), page(&run).render()).expect("written");
            std::fs::write(folder.join(format!("{name}.txt")), text(&run)).expect("written");
        }
    }
}
