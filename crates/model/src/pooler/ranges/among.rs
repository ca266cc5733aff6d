//! Who has keys while some owners are away.

use super::{Map, Span};

impl Map {
    /// The owner that has most of a span of keys, of those `alive`: one that is away lends its buckets to the others, each a run of them
    /// in order, and everybody else's stay where they are. `None`: the span says nothing, nobody is alive, or `alive` is not one for
    /// each owner.
    ///
    /// So a copy of a database that leaves makes no other read again what it has in memory, and one that comes back finds its own range
    /// as it was.
    pub fn owner_among(&self, span: &Span, alive: &[bool]) -> Option<usize> {
        let owner = self.owner_of_span(span)?;
        if alive.len() != self.owners() {
            return None;
        }
        if alive[owner] {
            return Some(owner);
        }
        let living: Vec<usize> = (0..alive.len()).filter(|&owner| alive[owner]).collect();
        let own = self.buckets_of(owner);
        let first = span.intervals().first()?.0;
        let bucket = self
            .bucket_of(first)
            .clamp(own.start, own.end.saturating_sub(1).max(own.start));
        let place = (bucket - own.start) * living.len() / own.len().max(1);
        living.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_away_lends_runs_of_its_keys_and_nobody_else_moves() {
        let map = Map::even(0, 299, 30, 3).expect("a map");
        let all = |alive: [bool; 3]| -> Vec<Option<usize>> {
            (0..300)
                .map(|key| map.owner_among(&Span::point(key), &alive))
                .collect()
        };
        let whole = all([true, true, true]);
        assert_eq!((whole[0], whole[150], whole[299]), (Some(0), Some(1), Some(2)));
        let without = all([true, false, true]);
        for key in 0..300 {
            match whole[key] {
                Some(1) => assert_eq!(without[key], Some(if key < 150 { 0 } else { 2 }), "{key}"),
                kept => assert_eq!(without[key], kept, "{key}"),
            }
        }
        assert!(all([false; 3]).iter().all(Option::is_none));
        assert_eq!(map.owner_among(&Span::ALL, &[true, true, true]), None);
        assert_eq!(map.owner_among(&Span::point(1), &[true]), None);
    }
}
