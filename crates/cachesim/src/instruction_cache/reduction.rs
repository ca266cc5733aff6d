//! The paper's formula for what a team saves (paper 003, section 3.4.1).

/// Misses of one operation, and what members of a team miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// What a warm cache misses, in parts of what a cold one does: the paper's alpha, 0.373 for its index fetch.
    pub alpha: f64,
    /// What each member but the first misses, in parts of what a cold cache does: the paper's beta, 0.033.
    pub beta: f64,
}

impl Reduction {
    /// From counted misses: of one execution in a cold and in a warm cache, and of an additional member. `None` if a cold or a warm
    /// execution misses nothing, as there is nothing to reduce.
    pub fn of(cold_misses: u64, warm_misses: u64, additional_misses: f64) -> Option<Self> {
        (cold_misses > 0 && warm_misses > 0).then(|| Self {
            alpha: warm_misses as f64 / cold_misses as f64,
            beta: additional_misses / cold_misses as f64,
        })
    }

    /// By how much of a hundred a team of so many misses less than they one by one, if the cache is flushed before each:
    /// (N - 1) / N * (1 - beta). 0 for no members.
    pub fn cold_percent(&self, members: u32) -> f64 {
        others(members) * (1.0 - self.beta) * 100.0
    }

    /// The same in a warm cache: (N - 1) / N * (1 - beta / alpha). Negative where a member of a team misses more than alone.
    pub fn warm_percent(&self, members: u32) -> f64 {
        others(members) * (1.0 - self.beta / self.alpha) * 100.0
    }
}

/// (N - 1) / N.
fn others(members: u32) -> f64 {
    f64::from(members.saturating_sub(1)) / f64::from(members.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_own_figures() {
        let index_fetch = Reduction::of(985, 367, 33.0).unwrap();
        assert!((index_fetch.alpha - 0.373).abs() < 0.001, "{index_fetch:?}");
        assert!((index_fetch.beta - 0.033).abs() < 0.001, "{index_fetch:?}");
        // "a range of 82% - 87% for 10 threads, and 90% - 96% for 100 threads".
        for (members, warm, cold) in [(10, 82.0, 87.0), (100, 90.0, 96.0)] {
            assert!(
                (index_fetch.warm_percent(members) - warm).abs() < 0.6,
                "{members}"
            );
            assert!(
                (index_fetch.cold_percent(members) - cold).abs() < 0.6,
                "{members}"
            );
        }
        assert_eq!(index_fetch.cold_percent(0), 0.0);
        assert_eq!(index_fetch.warm_percent(1), 0.0);
    }

    #[test]
    fn nothing_missed_is_nothing_to_reduce() {
        assert_eq!(Reduction::of(0, 0, 0.0), None);
        assert_eq!(Reduction::of(10, 0, 0.0), None);
    }
}
