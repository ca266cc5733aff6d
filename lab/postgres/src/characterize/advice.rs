//! From rows to facts to advice rows: what a run's figures say corun could do.
//!
//! Order of calls: [`rows`] at the end of a run, over all its rows; [`facts`] is the part in between. The rules are
//! [`corun_model::pmu::advice`]'s. Rows of queries that answered wrongly are no facts. Where a figure was both counted and simulated, the counted
//! one is taken.

use corun_model::pmu::advice::{Facts, Figure, Host, Machine, Point, SmtRatio, Workload, advise};
use corun_model::spread::Label as ModelLabel;

use super::rows::{ADVICE, CAPABILITY, FOOTPRINT, INTERFERENCE, MISSES, RESOURCES, SPEEDUP, SUITE};
use lab_core::row::{Label, Row};
use lab_core::stats::Spread;

/// A row's number as a figure; `None` where it has none.
fn figure(row: &Row) -> Option<Figure> {
    let spread = row.spread?;
    let label = match row.label {
        Label::Measured => ModelLabel::Measured,
        Label::Simulated => ModelLabel::Simulated,
        Label::Unavailable => return None,
    };
    Some(Figure {
        value: spread.median,
        low: row.number("spread_low").unwrap_or(spread.min),
        high: row.number("spread_high").unwrap_or(spread.max),
        label,
        how: row.text("how").to_owned(),
    })
}

/// Rows that count, of a case and metric.
fn of<'a>(rows: &'a [Row], case: &'a str, metric: &'a str) -> impl Iterator<Item = &'a Row> {
    rows.iter().filter(move |row| {
        row.case == case
            && row.metric == metric
            && row.label != Label::Unavailable
            && row.spread.is_some()
            && row.answer_ok != Some(false)
    })
}

/// The figure of a workload: counted before simulated, then that of most clients.
fn best(rows: &[Row], case: &str, metric: &str, workload: &str) -> Option<Figure> {
    let order = |row: &&Row| {
        let clients = row.number("concurrency").unwrap_or(0.0) as u64;
        (row.label == Label::Measured, clients)
    };
    of(rows, case, metric)
        .filter(|row| row.text("workload") == workload)
        .max_by_key(order)
        .and_then(figure)
}

fn concurrency(row: &Row) -> Option<u32> {
    let clients = row.number("concurrency")?;
    (clients >= 1.0 && clients <= f64::from(u32::MAX)).then_some(clients as u32)
}

/// Rates and resources by concurrency, all of one SMT setting: the one the machine usually runs with.
fn points(rows: &[Row], workload: &str) -> Vec<Point> {
    let mine = |row: &&Row| row.text("workload") == workload;
    let settings = ["on", "none", "off", ""];
    let smt = settings.into_iter().find(|smt| {
        of(rows, SPEEDUP, "queries_per_s")
            .filter(mine)
            .any(|row| row.text("smt") == *smt)
    });
    let Some(smt) = smt else { return Vec::new() };
    let at = |case, metric, clients: u32| {
        of(rows, case, metric)
            .filter(mine)
            .find(|row| row.text("smt") == smt && concurrency(row) == Some(clients))
            .and_then(figure)
    };
    let mut clients: Vec<u32> = of(rows, SPEEDUP, "queries_per_s")
        .filter(mine)
        .filter(|row| row.text("smt") == smt)
        .filter_map(concurrency)
        .collect();
    clients.sort_unstable();
    clients.dedup();
    clients
        .into_iter()
        .map(|clients| Point {
            concurrency: clients,
            queries_per_s: at(SPEEDUP, "queries_per_s", clients),
            ms_per_query: at(SPEEDUP, "ms_per_query", clients),
            cpu_us_per_query: at(RESOURCES, "cpu_us_per_query", clients),
            run_delay_us_per_query: at(RESOURCES, "run_delay_us_per_query", clients),
            involuntary_switches_per_query: at(RESOURCES, "involuntary_switches_per_query", clients),
        })
        .collect()
}

/// What the rows say, as the rules want it.
pub fn facts(rows: &[Row]) -> Facts {
    let resctrl = rows
        .iter()
        .find(|row| row.case == CAPABILITY && row.text("capability") == "resctrl")
        .map(|row| row.label != Label::Unavailable && row.median().is_none_or(|number| number != 0.0));
    let caches = || of(rows, INTERFERENCE, "effective_llc_bytes");
    let llc = caches()
        .find(|row| row.text("how") == "polluter")
        .or_else(|| caches().next());
    let steal = of(rows, RESOURCES, "steal_percent").filter_map(figure);
    let machine = Machine {
        resctrl,
        llc_bytes: llc.and_then(figure),
        steal_percent: steal.max_by(|a, b| a.value.total_cmp(&b.value)),
    };
    let mut names: Vec<&str> = Vec::new();
    for case in [SPEEDUP, INTERFERENCE, MISSES, FOOTPRINT] {
        for row in rows.iter().filter(|row| row.case == case) {
            let name = row.text("workload");
            // What a synthetic check of the polluter is slowed down by, is nobody's workload.
            if !name.is_empty() && !name.starts_with("synthetic") && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let workloads = names.into_iter().map(|name| {
        let footprint = of(rows, FOOTPRINT, "bytes").find(|row| row.text("workload") == name);
        let l1i = footprint
            .and_then(|row| row.number("l1i_bytes"))
            .filter(|bytes| *bytes >= 1.0);
        Workload {
            name: name.to_owned(),
            host: if name.starts_with("embedded") {
                Host::Embedded
            } else {
                Host::Server
            },
            sensitivity_percent: best(rows, INTERFERENCE, "sensitivity_percent", name),
            llc_miss_percent: best(rows, MISSES, "llc_load_miss_percent", name),
            points: points(rows, name),
            code_bytes: footprint.and_then(figure),
            l1i_bytes: l1i.map(|bytes| bytes as u64),
            l1i_miss_percent: best(rows, MISSES, "l1i_miss_percent", name),
            smt: of(rows, SPEEDUP, "ratio")
                .filter(|row| row.text("workload") == name && row.versus.as_deref() == Some("smt_off"))
                .filter_map(|row| {
                    Some(SmtRatio {
                        concurrency: concurrency(row)?,
                        ratio: figure(row)?,
                    })
                })
                .collect(),
        }
    });
    Facts {
        machine,
        workloads: workloads.collect(),
    }
}

/// The advice of a run as rows, ranked from 1. Rows of earlier advice among `rows` are not looked at.
pub fn rows(rows: &[Row]) -> Vec<Row> {
    let ranked = advise(&facts(rows)).into_iter().zip(1u32..);
    ranked
        .map(|(advice, rank)| {
            let rank = f64::from(rank);
            let spread = Spread::one(rank);
            let row = match advice.label {
                ModelLabel::Simulated => Row::simulated(SUITE, ADVICE, "rank", "rank", spread, true),
                ModelLabel::Measured | ModelLabel::Unavailable => {
                    Row::measured(SUITE, ADVICE, "rank", "rank", spread, true)
                }
            };
            let row = row
                .with("kind", advice.kind.as_str())
                .with("subject", advice.subject)
                .with("advice", advice.kind.sentence())
                .with("evidence", advice.evidence)
                .with("command", advice.command);
            match advice.stake_percent {
                Some(stake) => row.with("stake_percent", stake),
                None => row,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::characterize::example_runs;

    fn kinds(of: &[Row]) -> Vec<String> {
        rows(of)
            .iter()
            .map(|row| format!("{} {}", row.text("kind"), row.text("subject")))
            .collect()
    }

    #[test]
    fn the_virtual_machine_is_over_subscribed_and_has_no_partitions() {
        let run = example_runs::virtual_machine();
        assert_eq!(
            kinds(&run),
            [
                "disturbed machine",
                "keep_apart uss beside utpcc",
                "over_subscription unj",
                "over_subscription uss",
                "over_subscription utpcc",
                "instruction_footprint unj",
                "instruction_footprint utpcc",
            ]
        );
        let advice = rows(&run);
        assert_eq!(advice[1].label, Label::Simulated);
        assert!(advice[1].text("command").contains("no resctrl here"));
        assert!(advice[4].text("command").contains("default_pool_size = 2"));
        assert_eq!(advice[4].median(), Some(5.0));
    }

    #[test]
    fn bare_metal_has_smt_and_partitions() {
        let run = example_runs::bare_metal();
        let kinds = kinds(&run);
        assert!(kinds.contains(&"smt_gain utpcc".to_owned()), "{kinds:?}");
        assert!(
            !kinds.iter().any(|kind| kind.starts_with("disturbed")),
            "{kinds:?}"
        );
        let facts = facts(&run);
        assert_eq!(facts.machine.resctrl, Some(true));
        let utpcc = &facts.workloads[0];
        assert_eq!(
            utpcc
                .points
                .iter()
                .map(|point| point.concurrency)
                .collect::<Vec<_>>(),
            [1, 2, 4, 6, 8, 10]
        );
    }

    #[test]
    fn wrong_answers_and_nothing_give_no_advice() {
        assert_eq!(rows(&[]), Vec::new());
        let mut run = example_runs::virtual_machine();
        for row in &mut run {
            row.answer_ok = row.answer_ok.map(|_| false);
        }
        assert_eq!(rows(&run), Vec::new());
    }

    #[test]
    fn advice_about_advice_is_the_same_advice() {
        let mut run = example_runs::virtual_machine();
        let first = rows(&run);
        run.extend(first.clone());
        assert_eq!(rows(&run), first);
    }
}
