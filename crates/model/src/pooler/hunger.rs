//! [`Hunger`]: which event loop gets a free connection while the clients of several wait for it.

use std::time::Duration;

/// A connection goes to another loop's client only if that has waited a quarter and so much longer than its own loop's: one that moves
/// serves nobody until the other loop's turn comes. Unmeasured.
const PATIENCE: Duration = Duration::from_millis(5);
/// Beyond four times and so much longer it goes whatever the loops' loads are. Unmeasured.
const IMPATIENCE: Duration = Duration::from_millis(100);

/// What a loop's clients wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hunger {
    /// Since when the first of them waits, by the clock all loops share.
    pub since: Duration,
    /// How many wait.
    pub waiting: usize,
    /// Connections the loop has.
    pub servers: usize,
}

impl Hunger {
    /// Whether a connection of another loop, whose clients wait for it as well, should come here. How long clients have waited tells of
    /// the past: by that alone all connections would go to one loop and back. So this one must not be better off with it than the other.
    pub fn comes_before(&self, other: &Hunger, now: Duration) -> bool {
        let (here, there) = (now.saturating_sub(self.since), now.saturating_sub(other.since));
        let loaded = self.servers == 0
            || self.waiting.saturating_mul(other.servers)
                >= other.waiting.saturating_mul(self.servers.saturating_add(1));
        let limit = if loaded {
            there.saturating_mul(5) / 4 + PATIENCE
        } else {
            there.saturating_mul(4).saturating_add(IMPATIENCE)
        };
        here > limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_that_wait_alike_share_the_connections() {
        let now = Duration::from_secs(10);
        let hunger = |since, waiting, servers| Hunger {
            since: Duration::from_secs(since),
            waiting,
            servers,
        };
        for (here, there, comes) in [
            ((500, 0), (500, 8), true),
            ((500, 3), (500, 5), true),
            ((500, 4), (500, 4), false),
            ((500, 7), (500, 1), false),
            ((10, 4), (500, 4), false),
            ((1, 0), (500, 1), true),
        ] {
            let here = hunger(5, here.0, here.1);
            let there = hunger(7, there.0, there.1);
            assert_eq!(here.comes_before(&there, now), comes, "{here:?} {there:?}");
        }
        // However few wait: nobody starves.
        assert!(hunger(5, 1, 4).comes_before(&hunger(9, 500, 4), now));
    }
}
