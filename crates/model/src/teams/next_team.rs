//! [`NextTeam`]: which operation's list becomes the next team.
//!
//! Chosen from a snapshot of the lists somebody waits in. No list waits for ever, whatever the policy: one that has been passed
//! over [`PASSED_OVER_MAX`] times goes first, the oldest of them.

/// A list that was passed over so often goes before what the policy says. Unmeasured; more than the operations of a
/// transaction, so that the policy decides as long as all lists move.
pub const PASSED_OVER_MAX: u64 = 64;

/// Who chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextTeam {
    /// The operation that the last member to join a list asked for (paper 003, section 4.1.1, footnote).
    #[default]
    LastMember,
    /// The list with the most members; of equals the one that waits longer.
    Largest,
    /// The list that waits longest.
    Oldest,
}

/// One list that has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamList {
    /// What its members want to do.
    pub operation: u16,
    /// How many wait in it; at least 1.
    pub members: u32,
    /// How many teams had run when it was last empty or a team left it.
    pub since: u64,
}

impl NextTeam {
    /// The place in `lists` of the one that runs next; `None` only if there is none. `teams` teams have run so far and
    /// `last_joined` is the operation that the last member to join any list wants.
    pub fn choose(self, lists: &[TeamList], teams: u64, last_joined: Option<u16>) -> Option<usize> {
        if let [_] = lists {
            return Some(0);
        }
        let oldest = (0..lists.len()).min_by_key(|&place| lists[place].since)?;
        if teams.saturating_sub(lists[oldest].since) >= PASSED_OVER_MAX {
            return Some(oldest);
        }
        let largest = || {
            (0..lists.len())
                .max_by_key(|&place| (lists[place].members, std::cmp::Reverse(lists[place].since)))
        };
        match self {
            NextTeam::Oldest => Some(oldest),
            NextTeam::Largest => largest(),
            NextTeam::LastMember => last_joined
                .and_then(|operation| lists.iter().position(|list| list.operation == operation))
                .or_else(largest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(operation: u16, members: u32, since: u64) -> TeamList {
        TeamList {
            operation,
            members,
            since,
        }
    }

    #[test]
    fn each_policy_takes_its_list() {
        let lists = [list(3, 5, 10), list(7, 9, 12), list(9, 1, 11), list(4, 9, 13)];
        assert_eq!(NextTeam::LastMember.choose(&lists, 14, Some(9)), Some(2));
        assert_eq!(NextTeam::LastMember.choose(&lists, 14, Some(8)), Some(1));
        assert_eq!(NextTeam::LastMember.choose(&lists, 14, None), Some(1));
        assert_eq!(NextTeam::Largest.choose(&lists, 14, Some(9)), Some(1));
        assert_eq!(NextTeam::Oldest.choose(&lists, 14, Some(9)), Some(0));
        assert_eq!(NextTeam::Oldest.choose(&[], 14, Some(9)), None);
        let teams = 10 + PASSED_OVER_MAX;
        assert_eq!(NextTeam::LastMember.choose(&lists, teams, Some(9)), Some(0));
        assert_eq!(NextTeam::Largest.choose(&lists, teams, Some(9)), Some(0));
        assert_eq!(NextTeam::Largest.choose(&lists, teams - 1, Some(9)), Some(1));
    }

    proptest! {
        /// Whatever joins between two teams, a list is passed over a bounded number of times.
        #[test]
        fn no_list_waits_for_ever(
            policy in prop_oneof![Just(NextTeam::LastMember), Just(NextTeam::Largest), Just(NextTeam::Oldest)],
            joins in prop::collection::vec(prop::collection::vec((0_u16..8, 1_u32..9), 0..6), 200..400),
        ) {
            let mut lists = vec![list(100, 1, 0)];
            let mut ran = None;
            for (teams, joining) in joins.iter().enumerate() {
                let teams = teams as u64;
                let mut last = None;
                for &(operation, members) in joining {
                    match lists.iter_mut().find(|list| list.operation == operation) {
                        Some(found) => found.members += members,
                        None => lists.push(list(operation, members, teams)),
                    }
                    last = Some(operation);
                }
                if let Some(place) = policy.choose(&lists, teams, last)
                    && lists.swap_remove(place).operation == 100
                {
                    ran = Some(teams);
                    break;
                }
            }
            prop_assert!(ran.expect("it ran") <= PASSED_OVER_MAX + 9);
        }
    }
}
