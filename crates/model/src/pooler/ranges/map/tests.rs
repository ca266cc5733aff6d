//! Maps against counting by hand: every bucket, owner and span of small domains.

use proptest::prelude::*;

use super::*;

/// Few keys, so that everything can be counted; the ends of the world among them.
const KEYS: std::ops::RangeInclusive<i64> = -70..=140;

fn maps() -> impl Strategy<Value = Map> {
    let of_splits =
        (prop::collection::btree_set(0_i64..64, 0..12), 1_usize..8).prop_map(|(splits, owners)| {
            let splits: Vec<i64> = splits.into_iter().collect();
            Map::of_splits(&splits, owners).unwrap()
        });
    let even = (0_i64..32, 0_i64..32, 0_usize..20, 1_usize..8)
        .prop_map(|(low, more, buckets, owners)| Map::even(low, low + more, buckets, owners).unwrap());
    let weighted = (
        prop::collection::btree_set(0_i64..64, 0..12),
        1_usize..8,
        prop::collection::vec(0_u64..100, 13),
    );
    let balanced = weighted.prop_map(|(splits, owners, weights)| {
        let splits: Vec<i64> = splits.into_iter().collect();
        Map::balanced(&splits, &weights[..=splits.len()], owners).unwrap()
    });
    prop_oneof![of_splits, even, balanced]
}

fn spans() -> impl Strategy<Value = Span> {
    prop::collection::vec((-2_i64..66, 0_i64..20), 0..5).prop_map(|intervals| {
        let between = intervals
            .into_iter()
            .map(|(low, more)| Span::between(low, low + more));
        between.fold(Span::NONE, Span::union)
    })
}

fn holds(bounds: (Option<i64>, Option<i64>), key: i64) -> bool {
    bounds.0.is_none_or(|low| key >= low) && bounds.1.is_none_or(|high| key < high)
}

/// The buckets of each owner that a key of the span lies in.
fn touched(map: &Map, span: &Span) -> Vec<usize> {
    let mut counts = vec![0; map.owners()];
    for bucket in 0..map.buckets() {
        let bounds = map.bounds_of_bucket(bucket);
        if KEYS.clone().any(|key| span.contains(key) && holds(bounds, key)) {
            counts[map.owner_of_bucket(bucket)] += 1;
        }
    }
    counts
}

proptest! {
    #[test]
    fn every_key_has_one_bucket_and_one_owner(map in maps(), far in any::<i64>()) {
        for key in KEYS.chain([i64::MIN, i64::MAX, far]) {
            let buckets: Vec<usize> = (0..map.buckets()).filter(|&b| holds(map.bounds_of_bucket(b), key)).collect();
            prop_assert_eq!(&buckets, &[map.bucket_of(key)]);
            let owners: Vec<usize> = (0..map.owners())
                .filter(|&o| !map.buckets_of(o).is_empty() && holds(map.bounds_of(o), key))
                .collect();
            prop_assert_eq!(&owners, &[map.owner_of(key)]);
            prop_assert_eq!(map.owner_of(key), map.owner_of_bucket(map.bucket_of(key)));
        }
    }

    #[test]
    fn owners_hold_consecutive_buckets(map in maps()) {
        let all: Vec<usize> = (0..map.owners()).flat_map(|owner| map.buckets_of(owner)).collect();
        prop_assert!(all.iter().copied().eq(0..map.buckets()));
        for owner in 0..map.owners() {
            // Something each, or one each for the first.
            prop_assert_eq!(map.buckets_of(owner).is_empty(), owner >= map.buckets());
            let (low, high) = map.bounds_of(owner);
            prop_assert_eq!(low.is_some() && low == high, owner >= map.buckets());
        }
    }

    #[test]
    fn spans_belong_to_who_holds_most(map in maps(), span in spans()) {
        let counts = touched(&map, &span);
        let sum: usize = counts.iter().sum();
        let most = counts.iter().copied().max().unwrap_or(0);
        let expected = counts.iter().position(|&count| count == most);
        let says_nothing = span.is_none() || (sum == map.buckets() && sum > 1);
        prop_assert_eq!(map.owner_of_span(&span), expected.filter(|_| !says_nothing));
        for (owner, &count) in counts.iter().enumerate() {
            let share = if sum == 0 { 0.0 } else { count as f64 / sum as f64 };
            prop_assert!((map.share_of_span(&span, owner) - share).abs() < 1e-12);
        }
        prop_assert_eq!(map.owner_of_span(&Span::ALL), None);
    }

    #[test]
    fn even_buckets_are_even(low in any::<i64>(), high in any::<i64>(), buckets in 1_usize..300, owners in 1_usize..20) {
        let (low, high) = (low.min(high), low.max(high));
        let map = Map::even(low, high, buckets, owners).unwrap();
        let keys = i128::from(high) - i128::from(low) + 1;
        prop_assert_eq!(map.buckets() as i128, keys.min(buckets.max(owners) as i128));
        let edges: Vec<i128> = [i128::from(low)]
            .into_iter()
            .chain(map.splits().iter().map(|&split| i128::from(split)))
            .chain([i128::from(high) + 1])
            .collect();
        let widths: Vec<i128> = edges.windows(2).map(|pair| pair[1] - pair[0]).collect();
        prop_assert!(widths.iter().max().unwrap() - widths.iter().min().unwrap() <= 1);
    }

    #[test]
    fn too_few_buckets_are_cut(splits in prop::collection::btree_set(any::<i64>(), 2..10), owners in 1_usize..60) {
        let splits: Vec<i64> = splits.into_iter().collect();
        let map = Map::of_splits(&splits, owners).unwrap();
        prop_assert!(map.buckets() >= owners.min(2 * splits.len()) || splits[0].abs_diff(splits[1]) < 100);
        prop_assert!(splits.iter().all(|split| map.splits().contains(split)));
        prop_assert!(map.splits().windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert_eq!(map.buckets() > splits.len() + 1, owners > splits.len() + 1);
    }
}

#[test]
fn the_widest_is_cut_and_the_ends_as_their_neighbours() {
    let map = Map::of_splits(&[0, 100], 6).unwrap();
    // Three buckets taken to be 100 wide each, all cut once.
    assert_eq!(map.splits(), [-50, 0, 50, 100, 150]);
    assert_eq!(Map::of_splits(&[7], 3).unwrap().buckets(), 2);
    let none = Map::of_splits(&[], 3).unwrap();
    assert_eq!(
        (
            none.buckets(),
            none.owner_of(5),
            none.owner_of_span(&Span::point(5))
        ),
        (1, 0, Some(0))
    );
    assert_eq!(Map::of_splits(&[7, 7, 9], 1).unwrap().splits(), [7, 9]);
    // Nothing between them to cut at.
    assert_eq!(Map::of_splits(&[i64::MIN, i64::MIN + 1], 9).unwrap().buckets(), 3);
}

#[test]
fn balanced_by_weight() {
    let map = Map::balanced(&[10, 20, 30], &[1, 1, 1, 3], 2).unwrap();
    assert_eq!(map.bounds_of(0), (None, Some(30)));
    assert_eq!(map.bounds_of(1), (Some(30), None));
    assert_eq!(map.with_owners(4).unwrap().owner_of(25), 2);
}

#[test]
fn errors() {
    assert_eq!(Map::even(0, 9, 4, 0), Err(MapError::NoOwner));
    assert_eq!(Map::even(0, 9, 4, 1025), Err(MapError::TooManyOwners(1025)));
    assert_eq!(Map::even(0, 9, 4097, 1), Err(MapError::TooManyBuckets(4097)));
    assert_eq!(
        Map::even(9, 0, 4, 1),
        Err(MapError::Empty {
            minimum: 9,
            maximum: 0
        })
    );
    assert_eq!(Map::of_splits(&[1, 3, 2], 1), Err(MapError::NotAscending(3)));
    assert_eq!(Map::of_splits(&vec![0; 5000], 1).map(|map| map.buckets()), Ok(2));
    assert_eq!(Map::balanced(&[1, 1], &[0; 3], 1), Err(MapError::NotAscending(2)));
    assert_eq!(
        Map::balanced(&[1], &[0; 3], 1),
        Err(MapError::Weights {
            weights: 3,
            buckets: 2
        })
    );
}

#[test]
fn at_the_limits() {
    let map = Map::even(i64::MIN, i64::MAX, BUCKETS_MAX, OWNERS_MAX).unwrap();
    assert_eq!((map.buckets(), map.owners()), (4096, 1024));
    assert_eq!(map.owner_of(i64::MIN), 0);
    assert_eq!(map.owner_of(i64::MAX), 1023);
    assert_eq!(map.owner_of(0), 512);
}
