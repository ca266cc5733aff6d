//! Who runs which statement when: a pure function of the seed, so that both sides of a round do the same work in the
//! same order.

use super::mix::Class;
use corun_workloads::numbers::{draw, permutation};

/// One client of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRole {
    /// What it runs.
    pub class: Class,
    /// Its number within the turn.
    pub client: usize,
}

/// The clients of a turn.
pub fn roles(analytic: usize, short: usize) -> Vec<ClientRole> {
    let classes =
        std::iter::repeat_n(Class::Analytic, analytic).chain(std::iter::repeat_n(Class::Short, short));
    classes
        .enumerate()
        .map(|(client, class)| ClientRole { class, client })
        .collect()
}

/// The endless order in which a client takes its class's statements: every cycle is one permutation of all of them.
pub fn order(seed: u64, round: usize, client: usize, statements: usize) -> impl Iterator<Item = usize> {
    let stream = (round as u64) << 32 | client as u64;
    (0u64..)
        .flat_map(move |cycle| permutation(draw(seed, stream, cycle), statements))
        .map(|index| index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn analytic_clients_come_first() {
        let roles = roles(2, 1);
        assert_eq!(roles.len(), 3);
        assert_eq!(
            roles[1],
            ClientRole {
                class: Class::Analytic,
                client: 1
            }
        );
        assert_eq!(
            roles[2],
            ClientRole {
                class: Class::Short,
                client: 2
            }
        );
    }

    #[test]
    fn every_cycle_runs_every_statement_once() {
        let taken: Vec<usize> = order(3, 0, 0, 10).take(30).collect();
        for cycle in taken.chunks(10) {
            let mut sorted = cycle.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        assert_ne!(taken[..10], taken[10..20], "cycles differ");
    }

    #[test]
    fn orders_depend_on_round_and_client_only() {
        let first = |round, client| order(3, round, client, 50).take(50).collect::<Vec<_>>();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(2, 2));
        assert_ne!(first(1, 2), first(1, 1));
    }
}
