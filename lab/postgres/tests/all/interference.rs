//! The interference curve and the agreement on this machine, with real polluting threads: rows are there and say what they are. Their
//! numbers are the machine's and are not asserted; with `--nocapture` they can be seen, and with `CORUN_ROUNDS=7` they are those of a
//! default run.

use std::time::Instant;

use corun_model::progress::Silent;
use corun_topology::affinity;
use lab_core::row::{Label, Row};
use lab_postgres::characterize::interference::{AgreementPlan, Plan, agreement, curve};

fn rounds() -> usize {
    let given = std::env::var("CORUN_ROUNDS").ok();
    given.and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

#[expect(
    clippy::print_stderr,
    reason = "what a test measured, for who wants to see it"
)]
fn show(rows: &[Row], began: Instant) {
    for row in rows {
        eprintln!("{}", row.to_json());
    }
    eprintln!("{:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn this_machine_gets_its_rows() {
    let topology = corun_topology::discover();
    let cpu = topology.placement_order()[0];
    let began = Instant::now();
    let plan = AgreementPlan {
        rounds_max: rounds(),
        ..AgreementPlan::of("none")
    };
    let rows = agreement(&topology, &plan, &Silent).expect("rows");
    show(&rows, began);
    assert_eq!(rows.len(), 2);
    for (row, how) in rows.iter().zip(["polluter", "pointer_chase"]) {
        assert_eq!(
            (row.metric.as_str(), row.text("how")),
            ("effective_llc_bytes", how)
        );
        match row.label {
            Label::Measured => assert!(row.number("spread_low") <= row.number("spread_high")),
            _ => assert!(!row.text("reason").is_empty()),
        }
    }

    // A workload of 8 MiB, drawn from at random.
    let words: Vec<u64> = (0..1u64 << 20).collect();
    let _pinned = affinity::pin(cpu).expect("a CPU");
    let mut work = || {
        let began = Instant::now();
        let (mut at, mut sum) = (1u64, 0u64);
        for _ in 0..300_000 {
            at = at
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1 | (sum & 1));
            sum = sum.wrapping_add(words[(at >> 44) as usize]);
        }
        std::hint::black_box(sum);
        Ok(began.elapsed().as_secs_f64())
    };
    let began = Instant::now();
    let plan = Plan {
        rounds_max: rounds(),
        ..Plan::of(&topology, "random_8_mib", "none", cpu)
    };
    let rows = curve(&mut work, &topology, &plan, &Silent).expect("rows");
    show(&rows, began);
    if rows[0].label == Label::Unavailable {
        assert_eq!(rows.len(), 1);
        return;
    }
    let slowdowns = rows.iter().filter(|row| row.metric == "slowdown").count();
    assert_eq!(slowdowns, plan.loads.len() + 1);
    assert!(rows.iter().any(|row| row.metric == "sensitivity_percent"));
}
