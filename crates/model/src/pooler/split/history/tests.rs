//! Simulated queries with known work and overhead, with and without noise.

use proptest::prelude::*;

use super::*;
use crate::pooler::split::Parts;

/// Runs one after the other on so many free cores, with a true time for each number of parts. Answers each run's parts.
fn run(history: &mut History, runs: usize, cores: usize, mut time: impl FnMut(usize) -> f64) -> Vec<usize> {
    (0..runs)
        .map(|_| {
            let parts = Parts::choose(history, cores, PARTS_MAX);
            assert!((1..=cores.max(1)).contains(&parts));
            history.record(parts, time(parts) as u64);
            parts
        })
        .collect()
}

fn model(work: f64, overhead: f64) -> impl Fn(usize) -> f64 {
    move |parts| work / parts as f64 + overhead * parts as f64
}

/// Numbers from 1 - `percent` to 1 + `percent`.
fn noise(seed: u64, percent: f64) -> impl FnMut() -> f64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        1.0 + percent * ((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
    }
}

/// The least time of any number of parts, by the rule that whole stays unless splitting gains a tenth.
fn least(cores: usize, time: &impl Fn(usize) -> f64) -> f64 {
    let best = (1..=cores).map(time).fold(f64::INFINITY, f64::min);
    if best <= time(1) * 0.9 { best } else { time(1) }
}

fn switches(parts: &[usize]) -> usize {
    parts.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

#[test]
fn halves_pay_on_two_cores() {
    let mut history = History::new(HistorySettings::default());
    let parts = run(&mut history, 1_000, 2, model(20_000.0, 300.0));
    assert_eq!(parts[..5], [1, 1, 1, 2, 2]);
    assert_eq!(history.settled(), 2);
    assert!(switches(&parts) < 40);
    assert!(parts.iter().filter(|&&parts| parts == 1).count() < 30);
    assert!((history.overhead_us() - 300.0).abs() < 30.0);
}

#[test]
fn a_trial_that_found_no_connections_goes_on_when_there_are_some() {
    let mut history = History::new(HistorySettings::default());
    let time = model(20_000.0, 300.0);
    run(&mut history, 3, 2, &time);
    for _ in 0..50 {
        let parts = Parts::choose(&mut history, 2, 2);
        assert_eq!(parts, 2);
        history.did_not_run(parts);
        history.record(1, time(1) as u64);
    }
    let after = run(&mut history, 20, 2, &time);
    assert_eq!(after[..4], [2; 4]);
    assert!(
        after.iter().filter(|&&parts| parts == 2).count() >= 17,
        "{after:?}"
    );
}

#[test]
fn short_ones_and_busy_machines_run_whole() {
    let mut history = History::new(HistorySettings::default());
    assert!(
        run(&mut history, 1_000, 8, model(1_500.0, 10.0))
            .iter()
            .all(|&parts| parts == 1)
    );
    let mut history = History::new(HistorySettings::default());
    assert!(
        run(&mut history, 1_000, 1, model(50_000.0, 10.0))
            .iter()
            .all(|&parts| parts == 1)
    );
    assert_eq!(Parts::choose(&mut history, 0, 8), 1);
    assert_eq!(Parts::choose(&mut history, 8, 0), 1);
}

#[test]
fn fewer_free_cores_do_not_forget() {
    let mut history = History::new(HistorySettings::default());
    let time = model(1_000_000.0, 300.0);
    run(&mut history, 500, 8, &time);
    assert_eq!(history.settled(), 8);
    let parts = run(&mut history, 100, 3, &time);
    assert!(
        parts.iter().filter(|&&parts| parts == 3).count() > 80,
        "{parts:?}"
    );
    assert_eq!(history.settled(), 8);
    let parts = run(&mut history, 20, 8, &time);
    assert!(
        parts.iter().filter(|&&parts| parts == 8).count() > 15,
        "{parts:?}"
    );
}

#[test]
fn a_wrong_first_measurement_is_corrected() {
    // Halves were three times as slow when they were tried first.
    let mut history = History::new(HistorySettings::default());
    let mut halves = 0;
    let time = model(20_000.0, 300.0);
    let parts = run(&mut history, 1_000, 2, |parts| {
        halves += usize::from(parts == 2);
        if parts == 2 && halves <= 3 {
            3.0 * time(2)
        } else {
            time(parts)
        }
    });
    assert_eq!(history.settled(), 2, "{parts:?}");
    // Whole was slow, being first.
    let mut history = History::new(HistorySettings::default());
    let mut wholes = 0;
    let slow = model(20_000.0, 10_000.0);
    run(&mut history, 1_000, 2, |parts| {
        wholes += usize::from(parts == 1);
        if parts == 1 && wholes <= 3 {
            2.0 * slow(1)
        } else {
            slow(parts)
        }
    });
    assert_eq!(history.settled(), 1);
}

#[test]
fn the_world_changes() {
    let mut history = History::new(HistorySettings::default());
    run(&mut history, 2_000, 4, model(5_000.0, 3_000.0));
    assert_eq!(history.settled(), 1);
    run(&mut history, 5_000, 4, model(50_000.0, 300.0));
    assert_eq!(history.settled(), 4);
    run(&mut history, 5_000, 4, model(5_000.0, 3_000.0));
    assert_eq!(history.settled(), 1);
}

#[test]
fn runs_that_never_come_back_block_nothing() {
    let mut history = History::new(HistorySettings::default());
    let time = model(20_000.0, 300.0);
    for _ in 0..5_000 {
        let parts = Parts::choose(&mut history, 2, 2);
        if parts == 1 {
            history.record(1, time(1) as u64);
        }
    }
    assert_eq!(history.settled(), 1);
    // Not tried all the time either.
    let mut tried = 0;
    for _ in 0..5_000 {
        let parts = Parts::choose(&mut history, 2, 2);
        tried += usize::from(parts == 2);
        if parts == 1 {
            history.record(1, time(1) as u64);
        }
    }
    assert!(tried < 100, "{tried}");
}

#[test]
fn one_run_that_waited_changes_nothing() {
    let mut history = History::new(HistorySettings::default());
    let time = model(20_000.0, 300.0);
    run(&mut history, 200, 2, &time);
    history.record(2, 60_000_000);
    let parts = run(&mut history, 20, 2, &time);
    assert!(
        parts.iter().filter(|&&parts| parts == 2).count() >= 17,
        "{parts:?}"
    );
}

proptest! {
    /// Without noise: within 5 % of the best.
    #[test]
    fn converges(work in 2_000.0..5e6_f64, overhead in 1.0..20_000.0_f64, cores in 1_usize..80) {
        let time = model(work, overhead);
        let mut history = History::new(HistorySettings::default());
        run(&mut history, 2_000, cores, &time);
        let took = time(history.settled());
        let best = least(cores, &time);
        let worth = time(1) >= 2_000.0;
        prop_assert!(
            took <= best * 1.05 || !worth || (history.settled() == 1 && best > time(1) * 0.88),
            "{} parts take {took}, best {best}, whole {}", history.settled(), time(1)
        );
    }

    /// With noise of a fifth: within 12 % of the best in the mean of all runs, trials included; and no more changes than its trials
    /// and a few switches explain.
    #[test]
    fn noise_costs_little(work in 2_000.0..5e6_f64, overhead in 1.0..20_000.0_f64, cores in 1_usize..80, seed: u64) {
        let time = model(work, overhead);
        let mut history = History::new(HistorySettings::default());
        let mut noise = noise(seed, 0.2);
        let (mut settled, mut flaps) = (1, 0);
        let mut sum = 0.0;
        for run in 0..4_000 {
            let parts = Parts::choose(&mut history, cores, PARTS_MAX);
            history.record(parts, (time(parts) * noise()) as u64);
            if run >= 500 {
                flaps += usize::from(history.settled() != settled);
                sum += time(parts);
            }
            settled = history.settled();
        }
        let mean = sum / 3_500.0;
        prop_assert!(mean <= least(cores, &time) * 1.12, "{mean} instead of {}", least(cores, &time));
        prop_assert!(flaps <= 70, "{flaps}");
    }

    /// Where splitting never pays, all trials together cost less than 2 %.
    #[test]
    fn losing_is_cheap(work in 4_000.0..1e5_f64, more in 0.5..20.0_f64, cores in 2_usize..40, seed: u64) {
        let time = model(work, work * more);
        let mut noise = noise(seed, 0.2);
        let mut history = History::new(HistorySettings::default());
        let mut sum = 0.0;
        for _ in 0..5_000 {
            let parts = Parts::choose(&mut history, cores, PARTS_MAX);
            sum += time(parts);
            history.record(parts, (time(parts) * noise()) as u64);
        }
        prop_assert!(sum <= 5_000.0 * time(1) * 1.02, "{}", sum / 5_000.0 / time(1));
    }

    /// Whatever is recorded, in whatever order, numbers stay in their bounds.
    #[test]
    fn never_out_of_bounds(steps in prop::collection::vec((0_usize..20, 0_usize..200, any::<u64>(), any::<bool>()), 0..300)) {
        let mut history = History::new(HistorySettings::default());
        for (cores, other, time, own) in steps {
            let parts = Parts::choose(&mut history, cores, 12);
            prop_assert!((1..=cores.clamp(1, 12)).contains(&parts));
            history.record(if own { parts } else { other }, time);
            prop_assert!(history.predicted_us(3).is_none_or(f64::is_finite));
            prop_assert!((1..=PARTS_MAX).contains(&history.settled()));
        }
    }
}
