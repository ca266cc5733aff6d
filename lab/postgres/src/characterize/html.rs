//! The report as one HTML file that loads nothing: the sections with their plots, and the figures of the run's headline.
//!
//! [`page`] is a function of the rows; [`Page::render`] makes the file.

use super::report::{headline, sections};
use lab_core::report::page::Page;
use lab_core::row::Row;

/// The page for the rows of a run.
pub fn page(rows: &[Row]) -> Page {
    Page {
        title: "corun-lab characterize: where a database server's cycles go".to_owned(),
        lead: "The analysis of paper 001 (Hassanein, Rashid, Hammad 2008) on this server, this workload and this machine. Every figure says \
               how it came about: measured here, simulated from what ran here, or not to be had. Values of the paper stand beside and are \
               of its own machine. Whiskers are the smallest and the largest repetition."
            .to_owned(),
        tiles: headline(rows),
        sections: sections(rows),
        footer: "Written by corun-lab characterize. The page is complete in itself: it loads nothing from elsewhere.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characterize::made_up;

    #[test]
    fn the_page_has_the_plots_and_the_advice() {
        for run in [made_up::virtual_machine(), made_up::bare_metal()] {
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
        let run = made_up::bare_metal();
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
            ("virtual_machine", made_up::virtual_machine()),
            ("bare_metal", made_up::bare_metal()),
        ] {
            std::fs::write(folder.join(format!("{name}.html")), page(&run).render()).expect("written");
            std::fs::write(
                folder.join(format!("{name}.txt")),
                crate::characterize::text::report(&run),
            )
            .expect("written");
        }
    }
}
