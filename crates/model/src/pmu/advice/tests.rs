//! Advice on made-up workloads whose trouble is known, and on any facts.

use proptest::prelude::*;

use super::*;

fn measured(value: f64, low: f64, high: f64) -> Figure {
    Figure {
        value,
        low,
        high,
        label: Label::Measured,
        how: "clock".to_owned(),
    }
}

fn exactly(value: f64) -> Figure {
    measured(value, value, value)
}

fn simulated(value: f64) -> Figure {
    Figure {
        label: Label::Simulated,
        how: "cachegrind".to_owned(),
        ..exactly(value)
    }
}

fn workload(name: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        ..Workload::default()
    }
}

fn sensitive(name: &str, percent: f64) -> Workload {
    Workload {
        sensitivity_percent: Some(measured(percent, percent - 1.0, percent + 1.0)),
        ..workload(name)
    }
}

fn point(concurrency: u32, rate: f64, delay_us: f64) -> Point {
    Point {
        concurrency,
        queries_per_s: Some(measured(rate, rate * 0.98, rate * 1.02)),
        ms_per_query: Some(exactly(1000.0 * f64::from(concurrency) / rate)),
        cpu_us_per_query: Some(exactly(1000.0)),
        run_delay_us_per_query: Some(exactly(delay_us)),
        involuntary_switches_per_query: Some(exactly(0.0)),
    }
}

fn of(workloads: Vec<Workload>) -> Facts {
    Facts {
        machine: Machine::default(),
        workloads,
    }
}

fn kinds(facts: &Facts) -> Vec<Kind> {
    advise(facts).into_iter().map(|advice| advice.kind).collect()
}

#[test]
fn no_figures_no_advice() {
    assert_eq!(advise(&Facts::default()), Vec::new());
    assert_eq!(advise(&of(vec![workload("utpcc")])), Vec::new());
}

#[test]
fn a_sensitive_workload_gets_a_partition_or_where_there_is_none_company_of_its_kind() {
    let mut facts = of(vec![sensitive("uss", 24.0)]);
    facts.machine.llc_bytes = Some(exactly(8.0 * 1024.0 * 1024.0));
    for (resctrl, wanted) in [
        (Some(true), "corun partition plan"),
        (None, "corun partition plan"),
        (Some(false), "pool_size = 1"),
    ] {
        facts.machine.resctrl = resctrl;
        let advice = advise(&facts);
        assert_eq!(advice.len(), 1);
        assert_eq!(
            (advice[0].kind, advice[0].stake_percent),
            (Kind::CacheShare, Some(24.0))
        );
        assert!(advice[0].command.contains(wanted), "{}", advice[0].command);
        assert!(
            advice[0]
                .evidence
                .contains("uss: 24 % (23 to 25; measured, clock) slower"),
            "{}",
            advice[0].evidence
        );
        assert!(advice[0].evidence.contains("8 MiB"), "{}", advice[0].evidence);
    }
    facts.workloads[0].host = Host::Embedded;
    assert!(advise(&facts)[0].command.starts_with("corun-lab demo"));
}

#[test]
fn a_wide_spread_is_not_sensitivity() {
    let unsure = Workload {
        sensitivity_percent: Some(measured(12.0, 1.0, 30.0)),
        ..workload("uss")
    };
    assert_eq!(kinds(&of(vec![unsure])), [Kind::Nothing]);
}

#[test]
fn streams_beside_a_sensitive_workload_are_named() {
    let stream = Workload {
        llc_miss_percent: Some(simulated(3.0)),
        ..sensitive("unj", 1.5)
    };
    let quiet = Workload {
        llc_miss_percent: Some(simulated(0.01)),
        ..sensitive("utpcc", 1.5)
    };
    let advice = advise(&of(vec![stream, quiet, sensitive("uss", 24.0)]));
    assert_eq!(advice.len(), 1);
    assert_eq!(advice[0].kind, Kind::KeepApart);
    assert_eq!(advice[0].subject, "uss beside unj");
    assert_eq!(advice[0].label, Label::Simulated, "a simulated miss rate decided");
    assert!(
        advice[0].evidence.contains("simulated, cachegrind"),
        "{}",
        advice[0].evidence
    );
    assert!(
        advice[0].evidence.contains("(weak)") && advice[0].evidence.contains("(moderate)"),
        "{}",
        advice[0].evidence
    );
}

#[test]
fn the_pool_is_as_large_as_the_rate_still_rises() {
    let points = vec![
        point(1, 500.0, 5.0),
        point(2, 980.0, 20.0),
        point(4, 1000.0, 900.0),
        point(10, 990.0, 4000.0),
    ];
    let advice = advise(&of(vec![Workload {
        points,
        ..workload("utpcc")
    }]));
    assert_eq!(advice[0].kind, Kind::OverSubscription);
    assert!(
        advice[0].command.ends_with("default_pool_size = 2"),
        "{}",
        advice[0].command
    );
    assert!(
        advice[0]
            .evidence
            .contains("80 % of a query's ready time is waiting for a CPU"),
        "{}",
        advice[0].evidence
    );
}

#[test]
fn a_level_rate_without_competition_is_no_over_subscription() {
    let points = vec![
        point(1, 500.0, 5.0),
        point(2, 980.0, 20.0),
        point(8, 1000.0, 20.0),
    ];
    let calm = Workload {
        points,
        ..workload("utpcc")
    };
    assert_eq!(kinds(&of(vec![calm.clone()])), [Kind::Nothing]);
    let mut falling = calm.clone();
    falling.points[2].queries_per_s = Some(measured(700.0, 690.0, 710.0));
    let advice = advise(&of(vec![falling]));
    assert_eq!(advice[0].kind, Kind::OverSubscription);
    assert_eq!(advice[0].stake_percent.map(f64::round), Some(40.0));
    let mut rising = calm;
    rising.points[2].queries_per_s = Some(exactly(3000.0));
    rising.points[2].run_delay_us_per_query = Some(exactly(9000.0));
    assert_eq!(kinds(&of(vec![rising])), [Kind::Nothing], "the rate still rises");
}

#[test]
fn smt_gains_and_losses_beyond_their_spread() {
    let ratios = [(1, 0.90, 0.88, 0.93), (4, 1.12, 1.08, 1.15), (8, 1.3, 0.9, 1.5)];
    let smt = ratios.map(|(concurrency, value, low, high)| SmtRatio {
        concurrency,
        ratio: measured(value, low, high),
    });
    let advice = advise(&of(vec![Workload {
        smt: smt.to_vec(),
        ..workload("unj")
    }]));
    assert_eq!(
        advice.iter().map(|advice| advice.kind).collect::<Vec<_>>(),
        [Kind::SmtGain, Kind::SmtLoss],
        "12 % before 10 %"
    );
    assert!(advice[0].evidence.contains("1.12") && advice[0].evidence.contains("concurrency 4"));
    assert!(advice[1].command.contains("event_loops"));
}

#[test]
fn code_that_does_not_fit_comes_last() {
    let big = Workload {
        code_bytes: Some(simulated(96.0 * 1024.0)),
        l1i_bytes: Some(32 * 1024),
        l1i_miss_percent: Some(simulated(1.8)),
        ..sensitive("uss", 12.0)
    };
    let mut small = big.clone();
    let advice = advise(&of(vec![big]));
    assert_eq!(
        advice.iter().map(|advice| advice.kind).collect::<Vec<_>>(),
        [Kind::CacheShare, Kind::InstructionFootprint]
    );
    assert!(
        advice[1]
            .evidence
            .contains("3 times the level-one cache of 32 KiB"),
        "{}",
        advice[1].evidence
    );
    assert_eq!(advice[1].label, Label::Simulated);
    small.l1i_miss_percent = Some(simulated(0.01));
    assert_eq!(kinds(&of(vec![small.clone()])), [Kind::CacheShare]);
    small.l1i_miss_percent = Some(simulated(1.8));
    small.code_bytes = Some(simulated(20_000.0));
    assert_eq!(kinds(&of(vec![small])), [Kind::CacheShare]);
}

#[test]
fn stolen_time_is_said_first_and_beside_nothing_to_gain() {
    let mut facts = of(vec![sensitive("uss", 2.0)]);
    facts.machine.steal_percent = Some(exactly(7.5));
    assert_eq!(kinds(&facts), [Kind::Disturbed, Kind::Nothing]);
    facts.machine.steal_percent = Some(exactly(0.3));
    let advice = advise(&facts);
    assert_eq!(advice.len(), 1);
    assert_eq!(advice[0].command, "");
    assert!(
        advice[0].evidence.contains("Not known for all") && advice[0].evidence.contains("gain by SMT"),
        "{}",
        advice[0].evidence
    );
}

fn figures() -> impl Strategy<Value = Option<Figure>> {
    proptest::option::of(
        (
            prop_oneof![-50.0..5000.0f64, Just(f64::NAN), Just(0.0)],
            any::<bool>(),
        )
            .prop_map(|(value, model)| {
                if model {
                    simulated(value)
                } else {
                    measured(value, value - 1.0, value + 1.0)
                }
            }),
    )
}

prop_compose! {
    fn points()(concurrency in 0u32..20, rate in figures(), ms in figures(), cpu in figures(), delay in figures(), switches in figures())
        -> Point {
        Point {
            concurrency,
            queries_per_s: rate,
            ms_per_query: ms,
            cpu_us_per_query: cpu,
            run_delay_us_per_query: delay,
            involuntary_switches_per_query: switches,
        }
    }
}

prop_compose! {
    fn workloads()(
        name in "[a-c]",
        sensitivity_percent in figures(),
        llc_miss_percent in figures(),
        points in prop::collection::vec(points(), 0..5),
        code_bytes in figures(),
        l1i_bytes in proptest::option::of(0u64..100),
        smt in prop::collection::vec((0u32..9, figures()), 0..4),
    ) -> Workload {
        Workload {
            name,
            sensitivity_percent,
            llc_miss_percent,
            points,
            code_bytes,
            l1i_bytes,
            smt: smt
                .into_iter()
                .filter_map(|(concurrency, ratio)| Some(SmtRatio { concurrency, ratio: ratio? }))
                .collect(),
            ..Workload::default()
        }
    }
}

proptest! {
    #[test]
    fn advice_is_ranked_evident_and_has_a_command(
        workloads in prop::collection::vec(workloads(), 0..4),
        steal in figures(),
    ) {
        let mut facts = of(workloads);
        facts.machine.steal_percent = steal;
        let advice = advise(&facts);
        prop_assert_eq!(&advice, &advise(&facts));
        let ranked: Vec<&Advice> = advice.iter().filter(|advice| advice.kind != Kind::Disturbed).collect();
        for pair in ranked.windows(2) {
            let stake = |advice: &Advice| advice.stake_percent.unwrap_or(f64::NEG_INFINITY);
            prop_assert!(stake(pair[0]) >= stake(pair[1]));
        }
        for advice in &advice {
            prop_assert!(!advice.evidence.is_empty() && !advice.subject.is_empty());
            prop_assert_eq!(advice.command.is_empty(), advice.kind == Kind::Nothing);
            let programs = ["corun ", "corun-sql ", "corun-lab "];
            prop_assert!(advice.command.is_empty() || programs.iter().any(|program| advice.command.starts_with(program)));
            prop_assert!(advice.evidence.contains("measured") || advice.evidence.contains("simulated"));
            if advice.label == Label::Simulated {
                prop_assert!(advice.evidence.contains("simulated"), "{}", advice.evidence);
            }
        }
        let nothings = advice.iter().filter(|advice| advice.kind == Kind::Nothing).count();
        prop_assert!(nothings == 0 || ranked.len() == 1);
    }
}
