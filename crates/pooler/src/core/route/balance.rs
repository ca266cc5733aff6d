//! [`Balance`]: which of several `host`s without replicas a pool connects to next.
//!
//! `round-robin` takes them in turn, `disable` stays with one until it fails. Those that failed are left out until one has worked or
//! all have failed, so that a client is refused only after every host was tried.

use crate::config::{Effective, LoadBalance};

/// A pool's place in its list of hosts.
#[derive(Debug)]
pub(in crate::core) struct Balance {
    /// Hosts in the list; 1 where `corun_model::pooler::replicas` decides.
    hosts: usize,
    in_turn: bool,
    next: usize,
    /// Connections begun: the turn among several addresses of one name.
    begun: usize,
    /// Failed since one has worked; fewer than `hosts`.
    failed: Vec<usize>,
}

impl Balance {
    /// At the first host.
    pub fn of(effective: &Effective) -> Self {
        let hosts = match effective.replicas.is_empty() {
            true => effective.hosts.len().max(1),
            false => 1,
        };
        Self::new(hosts, effective.load_balance_hosts)
    }

    fn new(hosts: usize, how: LoadBalance) -> Self {
        Self {
            hosts,
            in_turn: how == LoadBalance::RoundRobin,
            next: 0,
            begun: 0,
            failed: Vec::new(),
        }
    }

    /// The number of the host to connect to, from 0.
    pub fn next(&self) -> usize {
        (0..self.hosts)
            .map(|further| (self.next + further) % self.hosts)
            .find(|host| !self.failed.contains(host))
            .unwrap_or(self.next)
    }

    /// Which of a host's several addresses is used.
    pub fn turn(&self) -> usize {
        self.begun / self.hosts
    }

    /// A connection to [`Balance::next`] has begun.
    pub fn used(&mut self) {
        self.begun = self.begun.wrapping_add(1);
        let host = self.next();
        self.next = match self.in_turn {
            true => (host + 1) % self.hosts,
            false => host,
        };
    }

    /// A host let somebody in.
    pub fn worked(&mut self) {
        self.failed.clear();
    }

    /// A host could not be connected to. Whether another one is left to try at once.
    pub fn failed(&mut self, host: usize) -> bool {
        if !self.failed.contains(&host) {
            self.failed.push(host);
        }
        if self.failed.len() < self.hosts {
            return true;
        }
        // All have: the next attempt begins a new round behind this one.
        self.failed.clear();
        self.next = (host + 1) % self.hosts;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(balance: &mut Balance) -> usize {
        let host = balance.next();
        balance.used();
        host
    }

    #[test]
    fn in_turn_or_the_same_until_it_fails() {
        let mut balance = Balance::new(3, LoadBalance::RoundRobin);
        let hosts: Vec<usize> = (0..7).map(|_| connect(&mut balance)).collect();
        assert_eq!(hosts, [0, 1, 2, 0, 1, 2, 0]);
        let mut balance = Balance::new(3, LoadBalance::Disable);
        assert_eq!([connect(&mut balance), connect(&mut balance)], [0, 0]);
        // Two connections to the same host fail.
        assert!(balance.failed(0) && balance.failed(0));
        assert_eq!([connect(&mut balance), connect(&mut balance)], [1, 1]);
        balance.worked();
        assert_eq!(connect(&mut balance), 1, "it stays there");
    }

    #[test]
    fn every_host_is_tried_before_it_is_given_up() {
        for how in [LoadBalance::RoundRobin, LoadBalance::Disable] {
            let mut balance = Balance::new(3, how);
            for _ in 0..4 {
                let mut tried = Vec::new();
                while {
                    let host = connect(&mut balance);
                    tried.push(host);
                    balance.failed(host)
                } {}
                tried.sort_unstable();
                assert_eq!(tried, [0, 1, 2], "{how:?}");
            }
        }
    }

    #[test]
    fn a_single_host_leaves_no_choice_and_its_addresses_take_turns() {
        let mut balance = Balance::new(1, LoadBalance::Disable);
        let turns: Vec<usize> = (0..3)
            .map(|_| {
                assert_eq!(connect(&mut balance), 0);
                balance.turn()
            })
            .collect();
        assert_eq!(turns, [1, 2, 3]);
        assert!(!balance.failed(0));
    }
}
