//! [`Span`]: the keys a statement may touch.

use std::fmt;

/// Intervals of a [`Span`] at most. What does not fit is joined where the gap is smallest.
pub const INTERVALS_MAX: usize = 4;

/// Sorted, disjoint intervals of keys, both ends included. Touching intervals are one, so equal sets of up to [`INTERVALS_MAX`]
/// intervals are equal spans.
///
/// It may hold more keys than a statement touches, never fewer: [`Span::union`] and [`Span::intersect`] of spans that would need
/// more intervals close the smallest gaps.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Beyond `count`: zeros, so that equality can be derived.
    intervals: [(i64, i64); INTERVALS_MAX],
    count: u8,
}

impl Span {
    /// Every key: nothing is known of the statement.
    pub const ALL: Span = Span::one(i64::MIN, i64::MAX);
    /// No key: predicates that exclude each other.
    pub const NONE: Span = Span {
        intervals: [(0, 0); INTERVALS_MAX],
        count: 0,
    };

    const fn one(low: i64, high: i64) -> Span {
        let mut intervals = [(0, 0); INTERVALS_MAX];
        intervals[0] = (low, high);
        Span { intervals, count: 1 }
    }

    /// `key = k`.
    pub const fn point(key: i64) -> Span {
        Span::one(key, key)
    }

    /// `key >= k`.
    pub const fn at_least(key: i64) -> Span {
        Span::one(key, i64::MAX)
    }

    /// `key <= k`.
    pub const fn at_most(key: i64) -> Span {
        Span::one(i64::MIN, key)
    }

    /// `key > k`, of keys that are exact; see [`super::Kind::is_exact`].
    pub const fn above(key: i64) -> Span {
        match key.checked_add(1) {
            Some(low) => Span::at_least(low),
            None => Span::NONE,
        }
    }

    /// `key < k`, of keys that are exact; see [`super::Kind::is_exact`].
    pub const fn below(key: i64) -> Span {
        match key.checked_sub(1) {
            Some(high) => Span::at_most(high),
            None => Span::NONE,
        }
    }

    /// `key between low and high`, both included; [`Span::NONE`] if `low` is above `high`.
    pub const fn between(low: i64, high: i64) -> Span {
        if low > high {
            Span::NONE
        } else {
            Span::one(low, high)
        }
    }

    /// `key in (...)`.
    pub fn any_of(keys: impl IntoIterator<Item = i64>) -> Span {
        keys.into_iter()
            .fold(Span::NONE, |span, key| span.union(Span::point(key)))
    }

    /// The intervals, ascending, both ends included.
    pub fn intervals(&self) -> &[(i64, i64)] {
        &self.intervals[..usize::from(self.count)]
    }

    /// Whether it is every key.
    pub fn is_all(&self) -> bool {
        self.count == 1 && self.intervals[0] == (i64::MIN, i64::MAX)
    }

    /// Whether it is no key.
    pub fn is_none(&self) -> bool {
        self.count == 0
    }

    /// The key, if it is one.
    pub fn as_point(&self) -> Option<i64> {
        (self.count == 1 && self.intervals[0].0 == self.intervals[0].1).then_some(self.intervals[0].0)
    }

    /// Whether `key` is in it.
    pub fn contains(&self, key: i64) -> bool {
        self.intervals()
            .iter()
            .any(|&(low, high)| low <= key && key <= high)
    }

    /// Keys of either, and perhaps some between them (OR).
    pub fn union(self, other: Span) -> Span {
        if self.is_none() || other.is_all() {
            return other;
        }
        if other.is_none() || self.is_all() {
            return self;
        }
        let mut list = List::default();
        let (mut left, mut right) = (self.intervals(), other.intervals());
        loop {
            let from = match (left.first(), right.first()) {
                (Some(a), Some(b)) if a.0 <= b.0 => &mut left,
                (_, Some(_)) => &mut right,
                (Some(_), None) => &mut left,
                (None, None) => return list.span(),
            };
            if let Some((&interval, rest)) = from.split_first() {
                list.add(interval);
                *from = rest;
            }
        }
    }

    /// Keys of both, and perhaps some between them (AND).
    pub fn intersect(self, other: Span) -> Span {
        if self.is_all() || other.is_none() {
            return other;
        }
        if other.is_all() || self.is_none() {
            return self;
        }
        let mut list = List::default();
        let (left, right) = (self.intervals(), other.intervals());
        let (mut i, mut j) = (0, 0);
        while i < left.len() && j < right.len() {
            let low = left[i].0.max(right[j].0);
            let high = left[i].1.min(right[j].1);
            if low <= high {
                list.add((low, high));
            }
            // The one that ends first has nothing in common with what follows in the other.
            if left[i].1 < right[j].1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        list.span()
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({self})")
    }
}

/// `5, 7..9, 20..` with ends that are included; `all` and `none`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("all");
        }
        if self.is_none() {
            return f.write_str("none");
        }
        for (place, &(low, high)) in self.intervals().iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            match (low, high) {
                (low, high) if low == high => write!(f, "{low}")?,
                (i64::MIN, high) => write!(f, "..{high}")?,
                (low, i64::MAX) => write!(f, "{low}..")?,
                (low, high) => write!(f, "{low}..{high}")?,
            }
        }
        Ok(())
    }
}

/// Intervals being collected in the order of their lower ends: of two spans at most.
#[derive(Default)]
struct List {
    intervals: [(i64, i64); 2 * INTERVALS_MAX],
    count: usize,
}

impl List {
    /// Adds one that begins no earlier than the last.
    fn add(&mut self, (low, high): (i64, i64)) {
        if let Some(last) = self.intervals[..self.count].last_mut()
            && low <= last.1.saturating_add(1)
        {
            last.1 = last.1.max(high);
            return;
        }
        self.intervals[self.count] = (low, high);
        self.count += 1;
    }

    fn span(mut self) -> Span {
        while self.count > INTERVALS_MAX {
            let gap_after = |i: usize| {
                let (end, next) = (self.intervals[i].1, self.intervals[i + 1].0);
                next.abs_diff(end)
            };
            let smallest = (0..self.count - 1).min_by_key(|&i| gap_after(i)).unwrap_or(0);
            self.intervals[smallest].1 = self.intervals[smallest + 1].1;
            self.intervals.copy_within(smallest + 2..self.count, smallest + 1);
            self.count -= 1;
        }
        let mut span = Span::NONE;
        span.intervals[..self.count].copy_from_slice(&self.intervals[..self.count]);
        span.count = self.count as u8;
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Keys of the tests lie in 0..=63; one beside each end stands for all beyond.
    fn keys(span: Span) -> BTreeSet<i64> {
        (-1..=64).filter(|&k| span.contains(k)).collect()
    }

    fn canonical(span: Span) -> bool {
        let intervals = span.intervals();
        intervals.iter().all(|&(low, high)| low <= high)
            && intervals
                .windows(2)
                .all(|pair| pair[0].1 < pair[1].0 && pair[1].0.abs_diff(pair[0].1) > 1)
    }

    fn spans() -> impl Strategy<Value = Span> {
        let leaf = prop_oneof![
            1 => Just(Span::ALL),
            1 => Just(Span::NONE),
            8 => (0_i64..64).prop_map(Span::point),
            1 => (0_i64..64).prop_map(Span::at_least),
            1 => (0_i64..64).prop_map(Span::at_most),
            1 => (0_i64..64).prop_map(Span::above),
            1 => (0_i64..64).prop_map(Span::below),
            4 => (0_i64..64, 0_i64..8).prop_map(|(low, more)| Span::between(low, low + more)),
        ];
        prop::collection::vec(leaf, 1..6).prop_map(|leaves| leaves.into_iter().fold(Span::NONE, Span::union))
    }

    proptest! {
        #[test]
        fn nothing_is_lost(a in spans(), b in spans()) {
            let (left, right) = (keys(a), keys(b));
            let both = a.intersect(b);
            let either = a.union(b);
            prop_assert!(canonical(both) && canonical(either));
            prop_assert!(left.intersection(&right).all(|&k| both.contains(k)));
            prop_assert!(left.union(&right).all(|&k| either.contains(k)));
            prop_assert_eq!(both, b.intersect(a));
            prop_assert_eq!(either, b.union(a));
        }

        /// As long as the answer needs no more than `INTERVALS_MAX` intervals it is exact.
        #[test]
        fn what_fits_is_exact(a in spans(), b in spans()) {
            let exact = |wanted: BTreeSet<i64>, span: Span| {
                let sorted: Vec<i64> = wanted.iter().copied().collect();
                let runs = sorted.chunk_by(|x, y| y - x == 1).count();
                runs > INTERVALS_MAX || keys(span) == wanted
            };
            let (left, right) = (keys(a), keys(b));
            prop_assert!(exact(left.intersection(&right).copied().collect(), a.intersect(b)));
            prop_assert!(exact(left.union(&right).copied().collect(), a.union(b)));
        }

        #[test]
        fn units(a in spans()) {
            prop_assert_eq!(a.intersect(Span::ALL), a);
            prop_assert_eq!(a.union(Span::NONE), a);
            prop_assert!(a.union(Span::ALL).is_all());
            prop_assert!(a.intersect(Span::NONE).is_none());
            prop_assert_eq!(a.union(a), a);
            prop_assert_eq!(a.intersect(a), a);
        }

        #[test]
        fn lists_keep_every_key(list in prop::collection::vec(any::<i64>(), 0..40)) {
            let span = Span::any_of(list.iter().copied());
            prop_assert!(canonical(span));
            prop_assert!(list.iter().all(|&k| span.contains(k)));
        }
    }

    #[test]
    fn the_smallest_gap_is_closed() {
        let span = Span::any_of([0, 100, 110, 200, 300]);
        assert_eq!(span.intervals(), [(0, 0), (100, 110), (200, 200), (300, 300)]);
        assert_eq!(span.to_string(), "0, 100..110, 200, 300");
        let far = Span::any_of([i64::MIN, i64::MAX, 0, 5, 7]);
        assert_eq!(
            far.intervals(),
            [(i64::MIN, i64::MIN), (0, 0), (5, 7), (i64::MAX, i64::MAX)]
        );
    }

    #[test]
    fn ends_of_the_world() {
        assert!(Span::above(i64::MAX).is_none());
        assert!(Span::below(i64::MIN).is_none());
        assert!(Span::at_most(0).union(Span::above(0)).is_all());
        assert!(Span::between(2, 1).is_none());
        assert_eq!(Span::point(3).as_point(), Some(3));
        assert_eq!(Span::between(3, 4).as_point(), None);
        assert_eq!(Span::NONE.as_point(), None);
        assert_eq!(Span::at_least(3).to_string(), "3..");
        assert_eq!(Span::ALL.to_string(), "all");
    }
}
