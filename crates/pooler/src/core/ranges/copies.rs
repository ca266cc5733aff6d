//! Reads to the copy whose memory has their keys: ranges one level up from cores (after paper 004, and Tashkent+, EuroSys 2007).
//!
//! Which hosts may answer a read is decided as ever (`corun_model::pooler::replicas`); the key only decides among those, by telling that the host
//! of its range has nothing to do. So lag limits, bans and failover hold, and without the host of a range any other host takes the read.

use corun_model::pooler::replicas::Role;
use corun_net::reactor::Reactor;

use crate::config::ReplicaDispatch;
use crate::core::event_loop::EventLoop;
use crate::core::pool::PoolKey;
use crate::core::ranges::Key;

impl<R: Reactor> EventLoop<R> {
    /// How busy each host of a database is, as the choice of a copy is to see it.
    pub(in crate::core) fn loads_by_key(&mut self, key: &PoolKey, of: Option<Key>) -> Vec<u32> {
        let mut loads = self.loads(key);
        let Some(first) = self.pool_of.get(key).and_then(|&pool| self.pools.get(pool)) else {
            return loads;
        };
        match first.effective.replica_dispatch {
            ReplicaDispatch::Least => {}
            ReplicaDispatch::RoundRobin => {
                // Equals take turns.
                loads.fill(0);
            }
            ReplicaDispatch::Range => {
                if let Some(of) = of
                    && let Some(host) = self.host_of(key, of)
                {
                    for load in &mut loads {
                        *load = load.saturating_add(1);
                    }
                    loads[host] = 0;
                }
            }
        }
        loads
    }

    /// The host that has a key's range among those that can answer.
    fn host_of(&mut self, key: &PoolKey, of: Key) -> Option<usize> {
        let fleet = self.hosts.fleets.get_mut(&key.database)?.view.fleet();
        let primary = fleet.primary();
        let hosts = fleet.hosts();
        let copies: Vec<usize> = (0..hosts.len()).filter(|&host| Some(host) != primary).collect();
        let alive: Vec<bool> = copies
            .iter()
            .map(|&host| {
                let host = &hosts[host];
                host.role() == Role::Replica && !host.is_banned() && !host.is_lagging()
            })
            .collect();
        let dispatcher = self.ranges.dispatchers.get_mut(&key.database)?.as_mut()?;
        let owner = dispatcher.ranges.host(&of, &alive)?;
        copies.get(owner).copied()
    }
}
