//! What never moves, what moves once, and what goes on moving at its distance.

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn map(buckets: usize, owners: usize) -> Map {
    Map::even(0, 999_999, buckets, owners).unwrap()
}

fn settings() -> RebalanceSettings {
    RebalanceSettings {
        interval_min: Duration::ZERO,
        statements_min: 0,
        ..RebalanceSettings::default()
    }
}

/// Ticks a second apart; answers the map at the end and the ticks at which it changed.
fn run(
    rebalance: &mut Rebalance,
    mut map: Map,
    ticks: u32,
    counts: impl Fn(u32, &Map) -> Vec<u64>,
) -> (Map, Vec<u32>) {
    let mut moves = Vec::new();
    for tick in 0..ticks {
        if let Some(better) = rebalance.tick(SECOND * tick, &counts(tick, &map), &map) {
            map = better;
            moves.push(tick);
        }
    }
    (map, moves)
}

fn largest(map: &Map, counts: &[u64]) -> u64 {
    (0..map.owners())
        .map(|owner| counts[map.buckets_of(owner)].iter().sum())
        .max()
        .unwrap()
}

#[test]
fn load_on_one_owner_is_shared() {
    // The first two of eight buckets have it all, and both are owner 0's.
    let counts = [500, 500, 0, 0, 0, 0, 0, 0];
    let (after, moves) = run(
        &mut Rebalance::new(RebalanceSettings::default()),
        map(8, 2),
        100,
        |_, _| counts.to_vec(),
    );
    assert_eq!(moves, [3]);
    assert_eq!(largest(&after, &counts), 500);
    assert_eq!(after.splits(), map(8, 2).splits());
}

#[test]
fn a_hot_bucket_stays_where_it_is() {
    let counts = [0, 0, 1_000, 0];
    let (after, moves) = run(&mut Rebalance::new(settings()), map(4, 2), 100, |_, _| {
        counts.to_vec()
    });
    assert_eq!((after, moves), (map(4, 2), vec![]));
}

#[test]
fn few_statements_and_short_bursts_move_nothing() {
    let few = RebalanceSettings::default();
    let (_, moves) = run(&mut Rebalance::new(few), map(8, 2), 100, |_, _| {
        vec![20, 20, 0, 0, 0, 0, 0, 0]
    });
    assert_eq!(moves, [] as [u32; 0]);
    // Three ticks of load on one side, then as much on the other.
    let (_, moves) = run(&mut Rebalance::new(settings()), map(4, 2), 500, |tick, _| {
        if tick / 3 % 2 == 0 {
            vec![400, 300, 0, 0]
        } else {
            vec![0, 0, 300, 400]
        }
    });
    assert_eq!(moves, [] as [u32; 0]);
}

#[test]
fn moves_keep_their_distance() {
    // The load is always on both ends of the owner with the most buckets: after each move it goes on.
    let counts = |_: u32, map: &Map| {
        let mut counts = vec![1; map.buckets()];
        let busiest = (0..map.owners())
            .map(|owner| map.buckets_of(owner))
            .max_by_key(|held| held.len())
            .unwrap();
        counts[busiest.start] += 500;
        counts[busiest.end - 1] += 500;
        counts
    };
    let (_, moves) = run(
        &mut Rebalance::new(RebalanceSettings::default()),
        map(64, 4),
        300,
        counts,
    );
    assert!(moves.len() >= 2, "{moves:?}");
    assert!(moves.windows(2).all(|pair| pair[1] - pair[0] >= 30), "{moves:?}");
}

#[test]
fn what_does_not_fit_is_ignored() {
    let mut rebalance = Rebalance::new(settings());
    assert_eq!(rebalance.tick(SECOND, &[1, 2], &map(4, 2)), None);
    rebalance.tick(SECOND, &[9, 9, 0, 0], &map(4, 2));
    assert_eq!(rebalance.loads().iter().sum::<f64>(), 18.0);
    // Another domain begins anew.
    rebalance.tick(SECOND, &[1, 0, 0, 0, 0], &map(5, 2));
    assert_eq!(rebalance.loads().iter().sum::<f64>(), 1.0);
}

fn loads() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(
        prop_oneof![Just(0_u64), 0_u64..10, 0_u64..1_000, 0_u64..100_000],
        2..40,
    )
}

proptest! {
    /// Constant loads: one move at most, to an assignment nothing beats, and every key keeps having one owner.
    #[test]
    fn constant_loads_move_once(counts in loads(), owners in 1_usize..8) {
        let mut counts = counts;
        counts.resize(counts.len().max(owners), 0);
        let before = map(counts.len(), owners);
        let (after, moves) = run(&mut Rebalance::new(settings()), before.clone(), 400, |_, _| counts.clone());
        prop_assert!(moves.len() <= 1, "{moves:?}");
        let best = largest(&before.reassigned(&counts), &counts);
        if moves.is_empty() {
            prop_assert_eq!(&after, &before);
            let sum: u64 = counts.iter().sum();
            let (busiest, mean) = (largest(&before, &counts) as f64, sum as f64 / owners as f64);
            prop_assert!(busiest <= mean * 1.250_001 || best as f64 >= busiest * 0.899);
        } else {
            prop_assert!(largest(&after, &counts) as f64 <= best as f64 * 1.001);
        }
        prop_assert_eq!(after.splits(), before.splits());
        let all: Vec<usize> = (0..owners).flat_map(|owner| after.buckets_of(owner)).collect();
        prop_assert!(all.iter().copied().eq(0..after.buckets()));
    }

    /// Loads that go to and fro around a balance within the patience never move anything, however far they swing.
    #[test]
    fn alternating_loads_never_move(
        side in prop::collection::vec(0_u64..=1_000, 8), period in 1_u32..4, owners in 1_u32..4, half_life in 1_u64..100,
    ) {
        // Owners with equally many buckets: whoever is above the mean on one side is below it on the other.
        let other: Vec<u64> = side.iter().map(|count| 1_000 - count).collect();
        let before = map(8, 1 << owners);
        let settings = RebalanceSettings { half_life: Duration::from_secs(half_life), ..settings() };
        let (_, moves) = run(&mut Rebalance::new(settings), before.clone(), 300, |tick, _| {
            if tick / period % 2 == 0 { side.clone() } else { other.clone() }
        });
        prop_assert_eq!(moves, Vec::<u32>::new());
    }

    /// Noise around a balance: no moves once enough is counted.
    #[test]
    fn noise_moves_nothing(noise in prop::collection::vec(80_u64..=120, 16 * 200), owners in 1_usize..8) {
        let (_, moves) = run(&mut Rebalance::new(settings()), map(16, owners), 200, |tick, _| {
            let from = 16 * tick as usize;
            noise[from..from + 16].to_vec()
        });
        // Sixteen buckets may not divide evenly: one move to the better assignment is in order.
        prop_assert!(moves.len() <= usize::from(16 % owners != 0), "{moves:?}");
    }
}
