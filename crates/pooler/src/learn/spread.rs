//! [`Spread`]: how much lies at which keys, and where to cut so that all parts have equal shares. Pure.
//!
//! ```text
//!  pg_stats: common values ─► points, histogram ─► evenly filled pieces    SHOW KEYS: sixteenths ─► evenly filled pieces
//!                    └──────────────┬──────────────────┘                                 │
//!                                   └──────────────── mixed ─────────────────────────────┘ ─► cuts
//! ```
//!
//! Keys between known values are taken as evenly spread. Of texts and UUIDs only known values are cut at.

use corun_model::pooler::ranges::{Kind, Map};

use crate::config::KeyType;
use crate::keys::kind_of;
use crate::understand::keys::calendar::{DAY_US, date, time_of_day};
use crate::understand::keys::key_of_text;

/// Microseconds of a second.
const SECOND_US: i64 = 1_000_000;

/// What PostgreSQL knows of a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Statistics {
    /// Part of the rows that have no value, 0 to 1.
    pub null_part: f64,
    /// Different values; if negative, as a part of the rows.
    pub distinct: f64,
    /// Common values and the part of the rows that has each.
    pub common: Vec<(String, f64)>,
    /// Values with equally many of the other rows between them.
    pub bounds: Vec<String>,
}

impl Statistics {
    /// Different values of a table with so many rows.
    pub fn distinct_of(&self, rows: u64) -> f64 {
        if self.distinct < 0.0 {
            -self.distinct * rows as f64
        } else {
            self.distinct
        }
    }
}

/// A value and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub key: i64,
    pub text: String,
}

/// Keys from `low` to `high`, evenly filled.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Piece {
    low: i64,
    high: i64,
    weight: f64,
}

/// How much lies at which keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    key_type: KeyType,
    zoned: bool,
    /// Weights add up to 1.
    pieces: Vec<Piece>,
    /// Values as PostgreSQL writes them, ascending by key, each key once.
    known: Vec<Value>,
    /// Whether PostgreSQL's order of them is that of their keys.
    pub in_order: bool,
}

impl Spread {
    /// Of a column's statistics. `None`: they say nothing.
    pub fn of(key_type: KeyType, zoned: bool, statistics: &Statistics) -> Option<Spread> {
        let kind = kind_of(key_type);
        let value = |text: &String| {
            let (key, text) = (key_of_text(kind, text.as_bytes())?, text.clone());
            Some(Value { key, text })
        };
        let common = statistics.common.iter();
        let common: Vec<(Value, f64)> = common
            .filter_map(|(text, weight)| Some((value(text)?, *weight)))
            .collect();
        let bounds: Vec<Value> = statistics.bounds.iter().filter_map(value).collect();
        let mut pieces: Vec<Piece> = common
            .iter()
            .map(|(value, weight)| Piece {
                low: value.key,
                high: value.key,
                weight: *weight,
            })
            .collect();
        let of_common: f64 = statistics.common.iter().map(|(_, weight)| weight).sum();
        let rest = (1.0 - statistics.null_part - of_common).max(0.0);
        let count = bounds.len().saturating_sub(1).max(1) as f64;
        for (at, pair) in bounds.windows(2).enumerate() {
            let last = at + 2 == bounds.len();
            let (low, next) = (pair[0].key.min(pair[1].key), pair[0].key.max(pair[1].key));
            pieces.push(Piece {
                low,
                // The next piece begins with its bound.
                high: if last {
                    next
                } else {
                    next.saturating_sub(1).max(low)
                },
                weight: rest / count,
            });
        }
        let in_order = bounds.is_sorted_by_key(|bound| bound.key);
        let common = common.into_iter().map(|(value, _)| value);
        let mut known: Vec<Value> = common.chain(bounds).collect();
        known.sort_by(|a, b| (a.key, &a.text).cmp(&(b.key, &b.text)));
        known.dedup_by_key(|value| value.key);
        Spread {
            key_type,
            zoned,
            pieces,
            known,
            in_order,
        }
        .normalised()
    }

    /// From the least to the greatest value, evenly.
    pub fn even(key_type: KeyType, zoned: bool, low: &str, high: &str) -> Option<Spread> {
        let bounds = vec![low.to_owned(), high.to_owned()];
        let statistics = Statistics {
            bounds,
            ..Statistics::default()
        };
        Spread::of(key_type, zoned, &statistics)
    }

    /// Of keys that cut those that statements had into equal shares. Where these begin and end is taken from `self`.
    pub fn of_observed(&self, observed: &[i64]) -> Option<Spread> {
        let (first, last) = (*observed.first()?, *observed.last()?);
        let mut edges = vec![self.low()?.min(first)];
        edges.extend(observed);
        edges.push(self.high()?.max(last).saturating_add(1));
        let pieces = edges
            .windows(2)
            .filter(|pair| pair[0] < pair[1])
            .map(|pair| Piece {
                low: pair[0],
                high: pair[1] - 1,
                weight: 1.0,
            });
        Spread {
            pieces: pieces.collect(),
            ..self.clone()
        }
        .normalised()
    }

    /// So much of the other and the rest of this.
    pub fn mixed(&self, other: &Spread, part: f64) -> Spread {
        let scaled = |spread: &Spread, by: f64| {
            let piece = move |piece: &Piece| Piece {
                weight: piece.weight * by,
                ..*piece
            };
            spread.pieces.iter().map(piece).collect::<Vec<Piece>>()
        };
        let mut pieces = scaled(self, 1.0 - part);
        pieces.extend(scaled(other, part));
        Spread {
            pieces,
            ..self.clone()
        }
    }

    fn normalised(mut self) -> Option<Spread> {
        let sum: f64 = self.pieces.iter().map(|piece| piece.weight).sum();
        if !(sum.is_finite() && sum > 0.0) {
            return None;
        }
        for piece in &mut self.pieces {
            piece.weight /= sum;
        }
        Some(self)
    }

    fn low(&self) -> Option<i64> {
        self.pieces.iter().map(|piece| piece.low).min()
    }

    fn high(&self) -> Option<i64> {
        self.pieces.iter().map(|piece| piece.high).max()
    }

    /// The part that lies below a key, 0 to 1.
    pub fn below(&self, key: i64) -> f64 {
        let part = |piece: &Piece| {
            if key <= piece.low {
                0.0
            } else if key > piece.high {
                piece.weight
            } else {
                let width = piece.high.abs_diff(piece.low) as f64 + 1.0;
                piece.weight * (key.abs_diff(piece.low) as f64 / width)
            }
        };
        self.pieces.iter().map(part).sum()
    }

    /// The part from a key to another, 0 to 1; `None`: no limit there.
    pub fn between(&self, from: Option<i64>, to: Option<i64>) -> f64 {
        let low = from.map_or(0.0, |key| self.below(key));
        (to.map_or(1.0, |key| self.below(key)) - low).max(0.0)
    }

    /// Where to cut, so that a map of so many owners gives all equal shares, with at most `buckets` for each.
    ///
    /// Maps give each owner the same number of buckets. So the owners' bounds are found first, and then each range is cut into as many
    /// buckets as all of them can have.
    pub fn cuts(&self, owners: usize, buckets: usize) -> Vec<Value> {
        let (Some(low), Some(high)) = (self.low(), self.high()) else {
            return Vec::new();
        };
        let end = high.saturating_add(1);
        let bounds = self.equal(low, end, owners);
        if bounds.len() + 1 < owners {
            // Some keys are too heavy: owners without any would get buckets of the others, were there more.
            return bounds;
        }
        let mut wanted = buckets;
        while wanted > 1 {
            let mut all: Vec<Value> = Vec::new();
            let mut from = low;
            for bound in bounds.iter().map(Some).chain([None]) {
                let to = bound.map_or(end, |bound| bound.key);
                let inner = self.equal(from, to, wanted);
                if inner.len() + 1 < wanted {
                    break;
                }
                all.extend(inner);
                match bound {
                    Some(bound) => {
                        all.push(bound.clone());
                        from = bound.key;
                    }
                    None => return all,
                }
            }
            wanted /= 2;
        }
        bounds
    }

    /// Keys above `from` and below `to` that cut what lies between into `parts` equal shares; fewer where keys are heavy.
    fn equal(&self, from: i64, to: i64, parts: usize) -> Vec<Value> {
        let (first, last) = (self.below(from), self.below(to));
        let mut cuts: Vec<Value> = Vec::new();
        for part in 1..parts {
            let target = first + (last - first) * part as f64 / parts as f64;
            let least = cuts.last().map_or(from, |cut| cut.key);
            if let Some(cut) = self.nearest(target, least, to) {
                cuts.push(cut);
            }
        }
        cuts
    }

    /// The value above `least` and below `to` with the part below it nearest to `target`.
    fn nearest(&self, target: f64, least: i64, to: i64) -> Option<Value> {
        let off = |key: i64| (self.below(key) - target).abs();
        if !self.is_made_up() {
            let between = self
                .known
                .iter()
                .filter(|value| value.key > least && value.key < to);
            return between.min_by(|a, b| off(a.key).total_cmp(&off(b.key))).cloned();
        }
        let (mut low, mut high) = (least.checked_add(1)?, to.checked_sub(1)?);
        if low > high {
            return None;
        }
        let first = low;
        // The least key with at least that much below it.
        while low < high {
            let middle = low + (high.abs_diff(low) / 2) as i64;
            if self.below(middle) >= target {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let key = if low > first && off(low - 1) <= off(low) {
            low - 1
        } else {
            low
        };
        // Nobody wants to read microseconds.
        let round = key - key.rem_euclid(SECOND_US);
        let key = match self.key_type {
            KeyType::Timestamp if round > least => round,
            _ => key,
        };
        Some(Value {
            key,
            text: self.written(key),
        })
    }

    /// Whether values between known ones can be written.
    fn is_made_up(&self) -> bool {
        matches!(
            kind_of(self.key_type),
            Kind::Integer | Kind::Date | Kind::Timestamp
        )
    }

    /// A key as PostgreSQL writes it; of a text or UUID, one that is known.
    pub fn written(&self, key: i64) -> String {
        match self.key_type {
            KeyType::Integer => key.to_string(),
            KeyType::Date => date(key),
            KeyType::Timestamp => {
                let (day, time) = (key.div_euclid(DAY_US), key.rem_euclid(DAY_US));
                let zone = if self.zoned { "+00" } else { "" };
                let part = match time % SECOND_US {
                    0 => String::new(),
                    part => format!(".{part:06}"),
                };
                format!("{} {}{part}{zone}", date(day), time_of_day(time / SECOND_US))
            }
            KeyType::Text | KeyType::Uuid => {
                let at = self.known.partition_point(|value| value.key < key);
                self.known
                    .get(at)
                    .map(|value| value.text.clone())
                    .unwrap_or_default()
            }
        }
    }

    /// What each owner of the map these cuts make would have, as bounds.
    pub fn bounds(cuts: &[Value], owners: usize) -> Vec<(Option<i64>, Option<i64>)> {
        let keys: Vec<i64> = cuts.iter().map(|cut| cut.key).collect();
        Map::of_splits(&keys, owners)
            .map(|map| (0..owners).map(|owner| map.bounds_of(owner)).collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn integers(common: &[(i64, f64)], bounds: &[i64]) -> Spread {
        let statistics = Statistics {
            common: common
                .iter()
                .map(|(value, part)| (value.to_string(), *part))
                .collect(),
            bounds: bounds.iter().map(i64::to_string).collect(),
            ..Statistics::default()
        };
        Spread::of(KeyType::Integer, false, &statistics).expect("a spread")
    }

    fn keys(cuts: &[Value]) -> Vec<i64> {
        cuts.iter().map(|cut| cut.key).collect()
    }

    #[test]
    fn even_keys_are_cut_evenly() {
        let spread = integers(&[], &[1, 1000]);
        assert_eq!(keys(&spread.cuts(4, 1)), [251, 501, 751]);
        assert_eq!(keys(&spread.cuts(2, 2)), [251, 501, 751]);
        assert_eq!(spread.cuts(1, 1), []);
    }

    #[test]
    fn a_heavy_key_has_a_part_of_its_own() {
        let spread = integers(&[(7, 0.5)], &[1, 1000]);
        let cuts = keys(&spread.cuts(2, 8));
        // Below 8 there is half of all and a little; below 7 only a little.
        assert!(cuts.contains(&8), "{cuts:?}");
        let all = integers(&[(7, 1.0)], &[]);
        assert!(all.cuts(4, 8).is_empty());
    }

    #[test]
    fn what_statements_ask_for_counts() {
        let rows = integers(&[], &[1, 1600]);
        let observed: Vec<i64> = (1..16).map(|part| part * 10).collect();
        let asked = rows.of_observed(&observed).expect("seen");
        assert_eq!(keys(&asked.cuts(2, 1)), [80]);
        let mixed = keys(&rows.mixed(&asked, 0.5).cuts(2, 1))[0];
        assert!((81..800).contains(&mixed), "{mixed}");
    }

    #[test]
    fn days_moments_and_texts_are_written_as_postgresql_does() {
        assert_eq!(date(0), "2000-01-01");
        assert_eq!(date(-1), "1999-12-31");
        assert_eq!(date(59), "2000-02-29");
        assert_eq!(date(9822), "2026-11-22");
        let days = Spread::even(KeyType::Date, false, "2026-01-01", "2026-01-10").expect("days");
        assert_eq!(days.cuts(2, 1)[0].text, "2026-01-06");
        let moments = Spread::even(
            KeyType::Timestamp,
            true,
            "2026-01-01 00:00:00+00",
            "2026-01-03 00:00:00.5+00",
        );
        assert_eq!(
            moments.expect("moments").cuts(2, 1)[0].text,
            "2026-01-02 00:00:00+00"
        );
        let texts = Statistics {
            bounds: ["ant", "bee", "cow", "dog", "eel"].map(str::to_owned).to_vec(),
            ..Statistics::default()
        };
        let texts = Spread::of(KeyType::Text, false, &texts).expect("texts");
        assert!(texts.in_order);
        assert_eq!(texts.cuts(2, 1)[0].text, "cow");
        assert_eq!(texts.cuts(2, 4).len(), 3, "there are no more to choose from");
    }

    #[test]
    fn nothing_known_is_no_spread() {
        assert_eq!(Spread::of(KeyType::Integer, false, &Statistics::default()), None);
        let strange = Statistics {
            common: vec![("x".to_owned(), 1.0)],
            bounds: vec!["infinity".to_owned()],
            ..Statistics::default()
        };
        assert_eq!(Spread::of(KeyType::Date, false, &strange), None);
    }

    proptest! {
        /// Days are read back as what they were.
        #[test]
        fn days_are_read_back(day in -700_000_i64..2_000_000) {
            prop_assert_eq!(key_of_text(Kind::Date, date(day).as_bytes()), Some(day));
        }

        /// Of any data, no owner has much more than its share, unless one key has; compared with counts of the data itself.
        #[test]
        fn shares_are_equal(mut data in prop::collection::vec(0_i64..2000, 400..800), owners in 2_usize..6) {
            data.sort_unstable();
            let bounds: Vec<i64> = (0..=100).map(|at| data[at * (data.len() - 1) / 100]).collect();
            let cuts = integers(&[], &bounds).cuts(owners, 8);
            prop_assert!(cuts.windows(2).all(|pair| pair[0].key < pair[1].key));
            for (from, to) in Spread::bounds(&cuts, owners) {
                let held = data.iter().filter(|&&key| from.is_none_or(|from| key >= from) && to.is_none_or(|to| key < to));
                let part = held.count() as f64 / data.len() as f64;
                prop_assert!((part - 1.0 / owners as f64).abs() < 0.06, "{part} of {owners}");
            }
        }
    }
}
