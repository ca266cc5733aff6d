//! [`Map`]: buckets of a key domain and who owns them (the paper's range index, Fig. 2).

use std::collections::BinaryHeap;
use std::ops::Range;

use super::partition;
use super::span::Span;

/// Buckets of a map at most.
pub const BUCKETS_MAX: usize = 4096;
/// Owners of a map at most.
pub const OWNERS_MAX: usize = 1024;

/// Why there is no such map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Nobody to own the keys.
    #[error("ranges need at least one owner")]
    NoOwner,
    /// More than [`OWNERS_MAX`].
    #[error("ranges have at most {OWNERS_MAX} owners, not {0}")]
    TooManyOwners(usize),
    /// More than [`BUCKETS_MAX`].
    #[error("ranges have at most {BUCKETS_MAX} buckets, not {0}")]
    TooManyBuckets(usize),
    /// A split point is below the one before.
    #[error("split point number {0} is below the one before: split points must ascend")]
    NotAscending(usize),
    /// The domain is empty.
    #[error("the minimum {minimum} is above the maximum {maximum}")]
    Empty {
        /// Lowest key.
        minimum: i64,
        /// Highest key.
        maximum: i64,
    },
    /// There must be a weight for each bucket.
    #[error("{weights} weights for {buckets} buckets")]
    Weights {
        /// Weights handed in.
        weights: usize,
        /// Buckets of the map.
        buckets: usize,
    },
}

/// Split points between buckets, and for each owner its first bucket.
///
/// `n` split points make `n + 1` buckets: bucket `i` holds keys at or above `splits[i - 1]` and below `splits[i]`; the first and the
/// last bucket have no bound outward, so that every key has exactly one bucket and one owner. Owners hold consecutive buckets.
/// Where there are fewer buckets than owners, the last owners hold nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    splits: Box<[i64]>,
    /// One for each owner, ascending from 0; the number of buckets for owners that hold nothing.
    first_bucket: Box<[usize]>,
    /// The first keys of the second and all further owners that hold something: what a key is looked up in.
    bounds: Box<[i64]>,
}

impl Map {
    /// Buckets of equal width over `minimum..=maximum`, equally many for each owner. There are at least as many buckets as owners,
    /// unless there are fewer keys.
    ///
    /// # Errors
    /// [`MapError`]: an empty domain, or too many buckets or owners.
    pub fn even(minimum: i64, maximum: i64, buckets: usize, owners: usize) -> Result<Map, MapError> {
        if minimum > maximum {
            return Err(MapError::Empty { minimum, maximum });
        }
        check(buckets, owners)?;
        let buckets = buckets.max(owners) as i128;
        let width = i128::from(maximum) - i128::from(minimum) + 1;
        let splits = (1..buckets).map(|i| (i128::from(minimum) + width * i / buckets) as i64);
        let mut splits: Vec<i64> = splits.filter(|&split| split > minimum).collect();
        splits.dedup();
        Ok(Map::shared_evenly(splits, owners))
    }

    /// Buckets between these split points, equally many for each owner. Equal split points count once. If there are fewer buckets
    /// than owners, the widest are cut in halves until there are enough, an outer bucket being taken to be as wide as its neighbour;
    /// a single split point or none tells no width, and the last owners hold nothing.
    ///
    /// # Errors
    /// [`MapError`]: split points that descend, too many buckets or owners.
    pub fn of_splits(splits: &[i64], owners: usize) -> Result<Map, MapError> {
        ascending(splits)?;
        let mut splits = splits.to_vec();
        splits.dedup();
        check(splits.len() + 1, owners)?;
        cut_until(&mut splits, owners);
        Ok(Map::shared_evenly(splits, owners))
    }

    /// Buckets between these split points, shared so that the largest sum of weights of an owner is as small as consecutive
    /// buckets allow. Weights are what each bucket costs: statements, rows, bytes.
    ///
    /// # Errors
    /// [`MapError`]: split points that do not strictly ascend, a wrong number of weights, too many buckets or owners.
    pub fn balanced(splits: &[i64], weights: &[u64], owners: usize) -> Result<Map, MapError> {
        ascending(splits)?;
        if let Some(equal) = splits.windows(2).position(|pair| pair[0] == pair[1]) {
            return Err(MapError::NotAscending(equal + 2));
        }
        check(splits.len() + 1, owners)?;
        if weights.len() != splits.len() + 1 {
            return Err(MapError::Weights {
                weights: weights.len(),
                buckets: splits.len() + 1,
            });
        }
        // Of the assignments that are equally good, the one nearest to equal numbers of buckets.
        let even = Map::shared_evenly(splits.to_vec(), owners);
        Ok(even.reassigned(weights))
    }

    fn shared_evenly(splits: Vec<i64>, owners: usize) -> Map {
        let buckets = splits.len() + 1;
        let first = |owner: usize| {
            if buckets < owners {
                owner.min(buckets)
            } else {
                owner * buckets / owners
            }
        };
        let first_bucket = (0..owners).map(first).collect();
        Map::assembled(splits.into(), first_bucket)
    }

    fn assembled(splits: Box<[i64]>, first_bucket: Box<[usize]>) -> Map {
        debug_assert!(first_bucket.first() == Some(&0));
        debug_assert!(
            first_bucket
                .windows(2)
                .all(|pair| pair[0] < pair[1] || pair[0] > splits.len())
        );
        let held = first_bucket[1..].iter().filter(|&&bucket| bucket <= splits.len());
        let bounds = held.map(|&bucket| splits[bucket - 1]).collect();
        Map {
            splits,
            first_bucket,
            bounds,
        }
    }

    /// The same buckets for another number of owners (a worker or replica came or left), equally many each.
    ///
    /// # Errors
    /// [`MapError`]: no owner, or too many.
    pub fn with_owners(&self, owners: usize) -> Result<Map, MapError> {
        Map::of_splits(&self.splits, owners)
    }

    /// The same buckets and owners, assigned so that the largest sum of weights of an owner is as small as can be, and of such
    /// assignments the one that moves the fewest buckets. A missing weight counts as 0.
    pub(super) fn reassigned(&self, weights: &[u64]) -> Map {
        let weights: Vec<u64> = (0..self.buckets())
            .map(|bucket| weights.get(bucket).copied().unwrap_or(0))
            .collect();
        let held: Vec<Range<usize>> = (0..self.owners()).map(|owner| self.buckets_of(owner)).collect();
        Map::assembled(self.splits.clone(), partition::balance(&weights, &held).into())
    }

    /// The bucket `key` lies in.
    pub fn bucket_of(&self, key: i64) -> usize {
        self.splits.partition_point(|&split| split <= key)
    }

    /// Whose `key` is.
    pub fn owner_of(&self, key: i64) -> usize {
        self.bounds.partition_point(|&bound| bound <= key)
    }

    /// Whose `bucket` is; the last owner's for buckets that do not exist.
    pub fn owner_of_bucket(&self, bucket: usize) -> usize {
        let bucket = bucket.min(self.splits.len());
        self.first_bucket.partition_point(|&first| first <= bucket) - 1
    }

    /// The owner that holds most buckets of `span`, the lower one of equals. `None` for a span that says nothing: no key, or keys of
    /// all buckets where there is more than one; what reads everything is at home nowhere.
    pub fn owner_of_span(&self, span: &Span) -> Option<usize> {
        let (&(low, _), &(_, high)) = (span.intervals().first()?, span.intervals().last()?);
        let owner = self.owner_of(low);
        // Nearly all statements end here: one owner has it all.
        if low == high || (!self.bounds.is_empty() && owner == self.owner_of(high)) {
            return Some(owner);
        }
        let mut best = None;
        let mut touched = 0;
        self.each_share(span, |owner, buckets| {
            touched += buckets;
            if best.is_none_or(|(_, most)| buckets > most) {
                best = Some((owner, buckets));
            }
        });
        let says_nothing = span.is_all() || (touched == self.buckets() && touched > 1);
        best.filter(|_| !says_nothing).map(|(owner, _)| owner)
    }

    /// How much of `span` is `owner`'s: its share of the buckets the span touches, 0 to 1. 0 of no key.
    pub fn share_of_span(&self, span: &Span, owner: usize) -> f64 {
        let (mut touched, mut owned) = (0, 0);
        self.each_share(span, |other, buckets| {
            touched += buckets;
            if other == owner {
                owned = buckets;
            }
        });
        if touched == 0 {
            return 0.0;
        }
        owned as f64 / touched as f64
    }

    /// Calls `share(owner, buckets)` for each owner the span touches, ascending, with how many of its buckets the span touches.
    fn each_share(&self, span: &Span, mut share: impl FnMut(usize, usize)) {
        let mut current: Option<(usize, usize)> = None;
        // Two intervals may touch one bucket: it counts once.
        let mut from = 0;
        for &(low, high) in span.intervals() {
            let mut bucket = self.bucket_of(low).max(from);
            let end = self.bucket_of(high) + 1;
            if bucket >= end {
                continue;
            }
            from = end;
            let mut owner = self.owner_of_bucket(bucket);
            while bucket < end {
                let until = self.buckets_of(owner).end.min(end);
                match &mut current {
                    Some((counting, buckets)) if *counting == owner => *buckets += until - bucket,
                    _ => {
                        if let Some((done, buckets)) = current.replace((owner, until - bucket)) {
                            share(done, buckets);
                        }
                    }
                }
                bucket = until;
                owner += 1;
            }
        }
        if let Some((done, buckets)) = current {
            share(done, buckets);
        }
    }

    /// The split points, strictly ascending.
    pub fn splits(&self) -> &[i64] {
        &self.splits
    }

    /// How many buckets there are, at least one.
    pub fn buckets(&self) -> usize {
        self.splits.len() + 1
    }

    /// How many owners there are, at least one.
    pub fn owners(&self) -> usize {
        self.first_bucket.len()
    }

    /// The buckets `owner` holds; empty for owners that hold nothing or do not exist.
    pub fn buckets_of(&self, owner: usize) -> Range<usize> {
        let first = |owner: usize| self.first_bucket.get(owner).copied().unwrap_or(self.buckets());
        first(owner)..first(owner.saturating_add(1))
    }

    /// The keys `owner` holds: from the first included to the second not included; `None`: no bound there. Two equal bounds: it holds
    /// nothing.
    pub fn bounds_of(&self, owner: usize) -> (Option<i64>, Option<i64>) {
        let buckets = self.buckets_of(owner);
        if buckets.is_empty() {
            return (Some(i64::MAX), Some(i64::MAX));
        }
        (
            self.bounds_of_bucket(buckets.start).0,
            self.bounds_of_bucket(buckets.end - 1).1,
        )
    }

    /// The keys of `bucket`: from the first included to the second not included; `None`: no bound there.
    pub fn bounds_of_bucket(&self, bucket: usize) -> (Option<i64>, Option<i64>) {
        let low = bucket
            .checked_sub(1)
            .and_then(|before| self.splits.get(before).copied());
        (low, self.splits.get(bucket).copied())
    }
}

fn check(buckets: usize, owners: usize) -> Result<(), MapError> {
    if owners == 0 {
        return Err(MapError::NoOwner);
    }
    if owners > OWNERS_MAX {
        return Err(MapError::TooManyOwners(owners));
    }
    if buckets > BUCKETS_MAX {
        return Err(MapError::TooManyBuckets(buckets));
    }
    Ok(())
}

fn ascending(splits: &[i64]) -> Result<(), MapError> {
    match splits.windows(2).position(|pair| pair[0] > pair[1]) {
        Some(place) => Err(MapError::NotAscending(place + 2)),
        None => Ok(()),
    }
}

/// Cuts the widest buckets in halves until there are `buckets` of them, or none can be cut.
fn cut_until(splits: &mut Vec<i64>, buckets: usize) {
    let missing = buckets.saturating_sub(splits.len() + 1);
    let (&[low, second, ..], &[.., second_last, high]) = (&splits[..], &splits[..]) else {
        return;
    };
    if missing == 0 {
        return;
    }
    let before = low.saturating_sub(second.saturating_sub(low));
    let after = high.saturating_add(high.saturating_sub(second_last));
    let mut edges = vec![before];
    edges.extend_from_slice(splits);
    edges.push(after);
    let mut widest: BinaryHeap<(u64, i64)> = edges
        .windows(2)
        .map(|pair| (pair[1].abs_diff(pair[0]), pair[0]))
        .collect();
    for _ in 0..missing {
        let Some((width @ 2.., edge)) = widest.pop() else {
            break;
        };
        let half = width / 2;
        let middle = edge.saturating_add_unsigned(half);
        splits.push(middle);
        widest.push((half, edge));
        widest.push((width - half, middle));
    }
    splits.sort_unstable();
}

#[cfg(test)]
mod tests;
