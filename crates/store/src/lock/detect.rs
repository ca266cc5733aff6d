//! Deadlocks: circles in the graph of who waits for whom.
//!
//! Only holders that wait can be part of a circle, and what a holder has does not change while it waits. So each hands its
//! [`super::held::Held`] over when it begins to wait, and the graph is read from those and from the queues; holders that do not
//! wait pay nothing.
//!
//! The graph is not read in one step, so a circle found is read once more. Waits are numbered; if every party was in the same
//! wait at both readings, then each edge of the second was read while its two ends waited. Such edges last until one of them
//! stops waiting: the circle was real.

use super::locks::Locks;
use super::mode::{RowMode, TableMode};
use super::slot::Target;
use super::table::TableLock;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One party of a circle: its slot, and the number of its wait.
type Party = (u32, u64);

impl Locks {
    /// Looks for a circle through `me`, which waits, and makes one party of it give way: the one with the fewest locks, of
    /// these the one that has waited for the first time last. False: another looks already, try again.
    pub(super) fn detect(&self, me: u32) -> bool {
        let Some(_only) = self.detector.try_lock() else {
            return false;
        };
        if let Some(circle) = self.circle(me).filter(|circle| self.is_real(circle)) {
            self.break_up(me, &circle);
        }
        true
    }

    /// A shortest circle through `me`, each party waiting for the next.
    fn circle(&self, me: u32) -> Option<Vec<Party>> {
        let mut shared = HashMap::new();
        // Whom the search came from, for each that was met.
        let mut from = HashMap::from([(me, me)]);
        let mut waits = HashMap::new();
        let mut ahead = VecDeque::from([me]);
        while let Some(at) = ahead.pop_front() {
            let Some((wait, next)) = self.edges(at, &mut shared) else {
                continue;
            };
            waits.insert(at, wait);
            for next in next {
                if next == me {
                    let mut circle = vec![(at, wait)];
                    while let Some(&(last, _)) = circle.last()
                        && last != me
                    {
                        let before = from[&last];
                        circle.push((before, waits[&before]));
                    }
                    circle.reverse();
                    return Some(circle);
                }
                from.entry(next).or_insert_with(|| {
                    ahead.push_back(next);
                    at
                });
            }
        }
        None
    }

    fn is_real(&self, circle: &[Party]) -> bool {
        let next = circle.iter().cycle().skip(1);
        let edges_stand = circle.iter().zip(next).all(|(party, next)| {
            let edges = self.edges(party.0, &mut HashMap::new());
            edges.is_some_and(|(wait, edges)| wait == party.1 && edges.contains(&next.0))
        });
        edges_stand && circle.iter().all(|party| self.waits(*party))
    }

    fn waits(&self, (slot, wait): Party) -> bool {
        let slot = &self.slots[slot as usize];
        let same = slot
            .waiting
            .lock()
            .as_ref()
            .is_some_and(|waiting| waiting.wait == wait);
        same && !slot.is_granted(wait) && !slot.is_doomed(wait)
    }

    /// The number of the slot's wait and whom it waits for, itself excepted; `None` if it does not wait. `shared` remembers
    /// who holds a row in mode S.
    fn edges(&self, slot: u32, shared: &mut HashMap<u64, Vec<u32>>) -> Option<(u64, Vec<u32>)> {
        let (wait, target) = {
            let waiting = self.slots[slot as usize].waiting.lock();
            let waiting = waiting.as_ref()?;
            (waiting.wait, waiting.target.clone())
        };
        if !self.waits((slot, wait)) {
            return None;
        }
        let mut edges = Vec::new();
        match target {
            Target::Row { key, mode } => {
                self.rows.ahead(key, slot, &mut edges);
                if mode == RowMode::X {
                    edges.extend_from_slice(shared.entry(key).or_insert_with(|| self.shared_holders(key)));
                }
            }
            Target::Table { lock, mode } => {
                lock.ahead(slot, &mut edges);
                self.intention_holders(&lock, mode, &mut edges);
            }
            Target::Key { ranges, .. } => ranges.ahead(slot, &mut edges),
        }
        edges.retain(|other| *other != slot);
        Some((wait, edges))
    }

    /// Those who wait and hold the row in mode S.
    fn shared_holders(&self, key: u64) -> Vec<u32> {
        let holds = |slot: &u32| {
            let waiting = self.slots[*slot as usize].waiting.lock();
            waiting
                .as_ref()
                .is_some_and(|waiting| waiting.held.has_shared(key))
        };
        (0..self.slots_used.load(Ordering::Acquire))
            .filter(holds)
            .collect()
    }

    /// Those who wait and hold an intention on the table that does not go with `mode`.
    fn intention_holders(&self, lock: &Arc<TableLock>, mode: TableMode, out: &mut Vec<u32>) {
        if mode.is_intention() {
            return;
        }
        let holds = |slot: &u32| {
            let waiting = self.slots[*slot as usize].waiting.lock();
            let held = waiting.as_ref().map(|waiting| &waiting.held.tables);
            held.is_some_and(|tables| {
                let table = tables.iter().find(|table| Arc::ptr_eq(&table.lock, lock));
                table
                    .and_then(|table| table.mode)
                    .is_some_and(|held| held.is_intention() && !held.goes_with(mode))
            })
        };
        out.extend((0..self.slots_used.load(Ordering::Acquire)).filter(holds));
    }

    fn break_up(&self, me: u32, circle: &[Party]) {
        let cost = |&(slot, _): &Party| {
            let waiting = self.slots[slot as usize].waiting.lock();
            waiting.as_ref().map_or((usize::MAX, Reverse(0)), |waiting| {
                (waiting.held.len(), Reverse(waiting.birth))
            })
        };
        let Some(&(victim, wait)) = circle.iter().min_by_key(|party| cost(party)) else {
            return;
        };
        let park = {
            let mut waiting = self.slots[victim as usize].waiting.lock();
            let Some(waiting) = waiting.as_mut().filter(|waiting| waiting.wait == wait) else {
                return;
            };
            waiting.parties = circle.iter().map(|party| party.0).collect();
            self.slots[victim as usize].doom(wait);
            Arc::clone(&waiting.park)
        };
        if victim != me {
            park.unpark();
        }
    }
}
