//! Measuring a simulated machine: everything drawn from the numbers is checked without a clock.

use std::time::Duration;

use crate::fixture::{hybrid, small_vm, smt_server};
use corun_model::knee::EffectiveLlc;
use corun_model::siblings::Behaviour;
use corun_model::spread::Label;
use corun_model::topology::{Relation, Topology};
use corun_model::units::{Bytes, CpuId};
use corun_topology::measure::{CampaignOptions, LatencyModel, Machine, Measurement, Simulated, run};

fn latencies() -> LatencyModel {
    LatencyModel {
        l1_ns: 1.5,
        l2_ns: 5.0,
        llc_ns: 35.0,
        memory_ns: 130.0,
        effective_llc: Bytes::mib(24),
        lines_in_flight: 12.0,
        noise_percent: 3.0,
        hidden_siblings: vec![],
        seed: 1,
    }
}

fn campaign(topology: Topology, model: LatencyModel, budget: Duration) -> (Vec<Measurement>, Vec<f64>) {
    let options = CampaignOptions {
        budget,
        ..CampaignOptions::of(&topology)
    };
    let mut fractions = Vec::new();
    let mut machine = Simulated::new(topology, model);
    assert_eq!(machine.label(), Label::Simulated);
    let results = run(&mut machine, &options, &mut |progress| {
        fractions.push(progress.fraction)
    });
    (results, fractions)
}

fn effective(results: &[Measurement]) -> &EffectiveLlc {
    let found = results.iter().find_map(|result| match result {
        Measurement::EffectiveLlc(answer) => Some(answer),
        _ => None,
    });
    found.expect("every campaign ends with an answer")
}

const AMPLE: Duration = Duration::from_secs(60);

#[test]
fn the_effective_cache_is_found_whatever_the_kernel_says() {
    for (seed, mib) in [(1, 12), (2, 24), (3, 80)] {
        let model = LatencyModel {
            effective_llc: Bytes::mib(mib),
            seed,
            ..latencies()
        };
        let (results, fractions) = campaign(small_vm().discover(), model, AMPLE);
        let EffectiveLlc::Found {
            bytes,
            bytes_min,
            bytes_max,
            ..
        } = effective(&results)
        else {
            panic!("{:?}", effective(&results));
        };
        let off = bytes.0 as f64 / Bytes::mib(mib).0 as f64;
        assert!((0.85..1.2).contains(&off), "{bytes} instead of {mib} MiB");
        assert!(bytes_min <= bytes && bytes <= bytes_max);
        assert!(fractions.is_sorted() && fractions.iter().all(|f| (0.0..=1.0).contains(f)));
        assert!(
            !results
                .iter()
                .any(|result| matches!(result, Measurement::Skipped { .. })),
            "{results:?}"
        );
    }
}

#[test]
fn siblings_the_kernel_hides_are_found() {
    let hidden = LatencyModel {
        hidden_siblings: vec![(CpuId(1), CpuId(0))],
        ..latencies()
    };
    for (model, expected) in [(hidden, Behaviour::Siblings), (latencies(), Behaviour::Separate)] {
        let (results, _) = campaign(small_vm().discover(), model, AMPLE);
        let found = results.iter().find_map(|result| match result {
            Measurement::Siblings {
                behaviour,
                kernel_says_siblings,
                ..
            } => Some((*behaviour, *kernel_says_siblings)),
            _ => None,
        });
        assert_eq!(found, Some((expected, false)));
    }
}

#[test]
fn every_relation_is_measured_and_orders_as_modelled() {
    for (tree, expected) in [
        (
            smt_server(),
            vec![Relation::SmtSiblings, Relation::SameLlc, Relation::OtherPackage],
        ),
        (
            hybrid(),
            vec![Relation::SmtSiblings, Relation::SameL2, Relation::SameLlc],
        ),
    ] {
        let (results, _) = campaign(tree.discover(), latencies(), AMPLE);
        let times: Vec<(Relation, f64)> = results
            .iter()
            .filter_map(|result| match result {
                Measurement::HandOver { relation, ns, .. } => Some((*relation, ns.median)),
                _ => None,
            })
            .collect();
        assert_eq!(times.len(), 12);
        let mut met: Vec<Relation> = times.iter().map(|(relation, _)| *relation).collect();
        met.sort_unstable();
        met.dedup();
        assert_eq!(met, expected);
    }
}

#[test]
fn a_short_budget_costs_the_largest_sizes_and_says_so() {
    let budget = Duration::from_secs(4);
    let (full, _) = campaign(small_vm().discover(), latencies(), AMPLE);
    let (short, _) = campaign(small_vm().discover(), latencies(), budget);
    let chased = |results: &[Measurement]| -> Vec<Bytes> {
        let sizes = results.iter().filter_map(|result| match result {
            Measurement::Chase { bytes, .. } => Some(*bytes),
            _ => None,
        });
        sizes.collect()
    };
    let (all, some) = (chased(&full), chased(&short));
    assert!(
        !some.is_empty() && some.len() < all.len() && all.starts_with(&some),
        "{} of {}",
        some.len(),
        all.len()
    );
    let reasons: Vec<&String> = short
        .iter()
        .filter_map(|result| match result {
            Measurement::Skipped { reason, .. } => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(reasons, ["it would exceed the time budget"]);

    let (none, _) = campaign(small_vm().discover(), latencies(), Duration::ZERO);
    assert!(
        none.iter()
            .all(|r| matches!(r, Measurement::Skipped { .. } | Measurement::EffectiveLlc(_)))
    );
    assert!(matches!(effective(&none), EffectiveLlc::NotFound { .. }));
}

#[test]
fn one_usable_cpu_has_no_pairs() {
    let tree = small_vm();
    tree.allowed("1");
    let (results, _) = campaign(tree.discover(), latencies(), AMPLE);
    let first = results.first();
    assert!(
        matches!(first, Some(Measurement::Skipped { what, .. }) if what == "pairs of CPUs"),
        "{first:?}"
    );
    assert!(matches!(effective(&results), EffectiveLlc::Found { .. }));
}

#[test]
fn working_sets_respect_memory() {
    let mut topology = small_vm().discover();
    assert_eq!(CampaignOptions::of(&topology).bytes_max, Bytes::gib(1));
    topology.memory.limit = Some(Bytes::mib(100));
    assert_eq!(CampaignOptions::of(&topology).bytes_max, Bytes::mib(25));
    topology.caches.clear();
    topology.memory.limit = None;
    assert_eq!(CampaignOptions::of(&topology).bytes_max, Bytes::mib(256));
}
