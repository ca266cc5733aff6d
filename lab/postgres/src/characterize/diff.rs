//! Two characterisations held against each other by [`lab_core::compare`]: which parameters say what a row is of.

use super::rows::{ADVICE, CAPABILITY, MACHINE, facts};
use lab_core::compare::{self, Diff, Parameters, Run};
use lab_core::row::{Label, Row};

const PARAMETERS: Parameters = Parameters {
    identity: &[
        "workload",
        "smt",
        "how",
        "concurrency",
        "cpu",
        "cache",
        "component",
        "category",
        "level",
        "function",
        "module",
        "kind",
        "footprint_bytes",
        "streams",
        "intensity",
        "capability",
    ],
    results: &[
        "reason",
        "outliers",
        "spread_low",
        "spread_high",
        "rank",
        "scaled",
        "evidence",
        "command",
        "advice",
        "stake_percent",
        "verdict",
    ],
};

/// What differs between the rows of two runs.
pub fn diff(a: &[Row], b: &[Row]) -> Diff {
    compare::diff(&run(a), &run(b), &PARAMETERS)
}

fn run(rows: &[Row]) -> Run<'_> {
    let of_figures = |row: &&Row| ![MACHINE, ADVICE, CAPABILITY].contains(&row.case.as_str());
    Run {
        rows: rows.iter().filter(of_figures).collect(),
        facts: circumstances(rows),
    }
}

/// Facts and capabilities of a run.
fn circumstances(rows: &[Row]) -> Vec<(String, String)> {
    let capabilities = rows.iter().filter(|row| row.case == CAPABILITY).map(|row| {
        let there = row.label != Label::Unavailable && row.median().is_none_or(|number| number != 0.0);
        let value = if there { "available" } else { "unavailable" };
        (row.text("capability").to_owned(), value.to_owned())
    });
    facts(rows).into_iter().chain(capabilities).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::characterize::example_runs;
    use lab_core::stats::Spread;

    use crate::characterize::rows::{MISSES, SPEEDUP, SUITE, fact};

    fn rate(values: &[f64]) -> Row {
        let spread = Spread::of(values).expect("values");
        Row::measured(SUITE, SPEEDUP, "queries_per_s", "1/s", spread, true)
            .with("workload", "utpcc")
            .with("concurrency", 4usize)
            .with("rows", 1_000_000usize)
    }

    #[test]
    fn a_run_is_the_same_as_itself() {
        for run in [example_runs::virtual_machine(), example_runs::bare_metal()] {
            let diff = diff(&run, &run);
            assert!(diff.is_empty(), "{diff:?}");
            assert!(diff.same > 20);
        }
        assert!(diff(&[], &[]).is_empty());
    }

    #[test]
    fn only_what_is_apart_has_changed() {
        let a = [rate(&[100.0, 102.0, 104.0])];
        let of = |values: &[f64]| diff(&a, &[rate(values)]);
        assert_eq!(of(&[103.0, 110.0, 120.0]).same, 1, "spreads overlap");
        assert_eq!(of(&[104.1, 104.2, 104.3]).changed.len(), 1);
        let one = of(&[140.0]);
        assert_eq!(
            (one.changed.len(), one.unsure.len()),
            (0, 1),
            "one value says little"
        );
        let text = of(&[150.0, 153.0, 156.0]).text("a.jsonl", "b.jsonl");
        assert!(
            text.contains("Changed beyond the spreads") && text.contains("+50.0 %"),
            "{text}"
        );
        assert!(
            text.contains("speedup queries_per_s utpcc concurrency=4"),
            "{text}"
        );
    }

    #[test]
    fn one_simulated_value_is_enough_but_a_hair_is_no_change() {
        let simulated = |value: f64| {
            let spread = Spread::of(&[value]).expect("a value");
            [
                Row::simulated(SUITE, MISSES, "l1d_load_miss_percent", "%", spread, true)
                    .with("workload", "uss"),
            ]
        };
        assert_eq!(diff(&simulated(2.0), &simulated(2.5)).changed.len(), 1);
        assert_eq!(diff(&simulated(2.0), &simulated(2.01)).same, 1);
        assert!(
            diff(&simulated(0.0), &simulated(1.0))
                .text("", "")
                .contains("from 0")
        );
    }

    #[test]
    fn machines_and_settings_stand_first_and_lone_rows_last() {
        let a = [
            fact("processor", "one"),
            rate(&[1.0, 1.0, 1.0]),
            Row::unavailable(SUITE, "stalls", "cpi", "count", "no PMU"),
        ];
        let b = [
            fact("processor", "other"),
            rate(&[9.0, 9.0, 9.0]).with("rows", 10_000usize),
            rate(&[9.0, 9.0, 9.0]),
            Row::measured(
                SUITE,
                "stalls",
                "cpi",
                "count",
                Spread::of(&[1.0]).expect("one"),
                true,
            ),
        ];
        let found = diff(&a, &b);
        assert_eq!(found.machine.len(), 1);
        assert_eq!(found.settings[0].name, "rows");
        assert_eq!(found.lost, [("stalls cpi".to_owned(), "no PMU".to_owned(), 'A')]);
        assert_eq!(found.only_b, ["speedup queries_per_s utpcc concurrency=4 #2"]);
        let text = found.text("A", "B");
        let order = [
            "processor",
            "Settings that differ",
            "Changed beyond",
            "not in A: no PMU",
            "Rows of B only",
        ];
        let places = order.map(|word| text.find(word).unwrap_or_else(|| panic!("{word}\n{text}")));
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn two_machines_differ_in_what_they_can() {
        let found = diff(&example_runs::virtual_machine(), &example_runs::bare_metal());
        assert!(
            found
                .machine
                .iter()
                .any(|difference| difference.name == "pmu" && difference.a == "unavailable"),
            "{found:?}"
        );
        assert!(!found.only_a.is_empty() && !found.only_b.is_empty());
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_other_way_round_is_the_mirror(
            left in prop::collection::vec((0usize..4, prop::collection::vec(0.0f64..9.0, 1..5)), 0..8),
            right in prop::collection::vec((0usize..4, prop::collection::vec(0.0f64..9.0, 1..5)), 0..8),
        ) {
            let rows = |list: &[(usize, Vec<f64>)]| -> Vec<Row> {
                list.iter().map(|(clients, values)| rate(values).with("concurrency", *clients)).collect()
            };
            let (a, b) = (rows(&left), rows(&right));
            let there = diff(&a, &b);
            let back = diff(&b, &a);
            prop_assert_eq!(there.same + there.changed.len() + there.unsure.len() + there.only_a.len(), a.len());
            prop_assert_eq!(there.same + there.changed.len() + there.unsure.len() + there.only_b.len(), b.len());
            prop_assert_eq!(&there.only_a, &back.only_b);
        }
    }
}
