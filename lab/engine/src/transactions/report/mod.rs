//! The report of a run of the `oltp` suite: engines beside each other by workload and durability, and what the numbers say.
//!
//! [`page`] is a function of the rows: what was not run is not on it. Sentences are computed, and those about losses are not left out.

mod sections;
mod teams;
mod view;

use view::View;

use lab_core::report::page::{Page, Section, Tile};
use lab_core::row::Row;

/// The page for the rows of a run; `facts` say on which machine, when and with what. A `quick` run's times mean nothing, and the page
/// says so.
pub fn page(rows: &[Row], facts: &[(String, String)], quick: bool) -> Page {
    let (in_teams, rows): (Vec<Row>, Vec<Row>) = rows.iter().cloned().partition(teams::is_of_teams);
    let view = View(&rows);
    let mut cards: Vec<Section> = view
        .workloads()
        .into_iter()
        .map(|workload| sections::workload(view, workload, quick))
        .collect();
    if !quick {
        cards.extend(sections::losses(view));
    }
    cards.extend(teams::section(&in_teams, quick));
    cards.extend(sections::memory(view));
    cards.extend(sections::recovery(view));
    cards.extend(sections::engines(view));
    cards.extend(sections::missing(view));
    cards.push(Section::machine(facts));
    let warning = if quick {
        " THIS RUN WAS QUICK: its databases are tiny and its rounds too short, so only the answers mean anything."
    } else {
        ""
    };
    Page {
        title: "corun-lab bench oltp: transactions on corun's store and on other engines".to_owned(),
        lead: format!(
            "TPC-C and YCSB on the machine below. All sides have the same inputs, clients, CPUs and disk, run one at a time in turns, and \
             are compared at equal promises: none has no log, async may lose the last commits in a crash, durable waits for the disk. \
             Clients do not think between transactions. Bars are medians of rounds, whiskers the smallest and largest round; a ratio is \
             taken within a round, and above 1 corun did more. Before a run, the answers of every engine are compared with an oracle's, \
             afterwards its data must be consistent.{warning}"
        ),
        tiles: tiles(view, &in_teams, quick),
        sections: cards,
        footer:
            "Written by corun-lab bench oltp. The page is complete in itself: it loads nothing from elsewhere."
                .to_owned(),
    }
}

fn tiles(view: View<'_>, in_teams: &[Row], quick: bool) -> Vec<Tile> {
    let all = || view.0.iter().chain(in_teams);
    let checked = all().filter(|row| row.answer_ok.is_some()).count();
    let wrong = all().filter(|row| row.answer_ok == Some(false)).count();
    let answers = Tile {
        value: if wrong == 0 {
            "all right".to_owned()
        } else {
            format!("{wrong} wrong")
        },
        name: format!("answers behind {checked} rows"),
        note: "compared with an oracle, and consistent afterwards".to_owned(),
    };
    if quick {
        return vec![answers];
    }
    let extreme = |name: &str, found: Option<(f64, &Row)>| {
        found.map(|(ratio, row)| Tile {
            value: format!("{ratio:.2}x"),
            name: name.to_owned(),
            note: format!("{} versus {}", row.case, row.versus.as_deref().unwrap_or("")),
        })
    };
    let ratios = || view.ratios().filter_map(|row| Some((row.median()?, row)));
    let largest = ratios().max_by(|a, b| a.0.total_cmp(&b.0));
    let smallest = ratios().min_by(|a, b| a.0.total_cmp(&b.0));
    [
        Some(answers),
        extreme("largest ratio to another engine", largest),
        extreme("smallest ratio to another engine", smallest),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_core::stats::Spread;

    fn row(case: &str, engine: &str, metric: &str, values: &[f64]) -> Row {
        let spread = Spread::of(values).expect("values");
        let (workload, rest) = case.rsplit_once("_durable_t").expect("a durable case");
        let workers: usize = rest.parse().expect("a number");
        Row::measured("oltp", case, metric, "1/s", spread, true)
            .with("engine", engine)
            .with("workload", workload)
            .with("durability", "durable")
            .with("workers", workers)
            .with("scale", 2usize)
            .with("clients", 20usize)
            .with("transaction", "new_order")
            .with("version", "1.0")
            .with("configuration", format!("{engine} tuned"))
    }

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for (engine, tps) in [("corun", 900.0), ("sqlite", 1000.0), ("redb", 300.0)] {
            rows.push(row("tpcc_durable_t1", engine, "tps", &[tps]));
            rows.push(row(
                "tpcc_durable_t1",
                engine,
                "new_orders_per_min",
                &[tps * 27.0, tps * 28.0],
            ));
            rows.push(row("tpcc_durable_t1", engine, "p99_us", &[1e6 / tps]));
        }
        for (versus, ratio) in [("sqlite", 0.9), ("redb", 3.0)] {
            let row = row("tpcc_durable_t1", "corun", "ratio", &[ratio]).versus(versus);
            let verdict = if ratio < 1.0 { "slower" } else { "not_slower" };
            rows.push(
                row.with("verdict", verdict)
                    .with("compared", "new_orders_per_min"),
            );
        }
        let control = row("tpcc_durable_t1", "corun", "ratio", &[1.0]).versus("corun");
        rows.push(
            control
                .with("control", "a/a")
                .with("noise_low", 0.97)
                .with("noise_high", 1.03),
        );
        let gone = Row::unavailable("oltp", "tpcc_durable_t1", "tps", "1/s", "not <built>");
        rows.push(gone.with("engine", "rocksdb").with("workload", "tpcc"));
        rows
    }

    #[test]
    fn losses_are_in_words_and_in_the_tiles() {
        let html = page(&rows(), &[("processor".to_owned(), "a <test>".to_owned())], false).render();
        for wanted in [
            "TPC-C, the standard mix",
            "Where corun is slower",
            "0.9x of sqlite",
            "3x of redb",
            "0.90x",
            "sqlite tuned",
            "not &lt;built&gt;",
            "a &lt;test&gt;",
            "0.97 to 1.03",
        ] {
            assert!(html.contains(wanted), "{wanted}");
        }
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn a_quick_run_claims_nothing() {
        let html = page(&rows(), &[], true).render();
        assert!(html.contains("THIS RUN WAS QUICK"));
        for claim in [
            "Where corun is slower",
            "0.9x of",
            "3x of",
            "0.90x",
            "ratio to another",
        ] {
            assert!(!html.contains(claim), "{claim}");
        }
    }

    #[test]
    fn nothing_run_is_a_page_too() {
        let html = page(&[], &[], false).render();
        assert!(html.contains("corun-lab bench oltp") && !html.contains("Where corun is slower"));
    }
}
