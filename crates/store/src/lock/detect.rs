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
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One party of a circle: its slot, and the number of its wait.
type Party = (u32, u64);
/// Slots that wait: the number of the wait, and for whom.
type Graph = HashMap<u32, (u64, Vec<u32>)>;

/// Which waits a search follows.
#[derive(Clone, Copy, PartialEq)]
enum Follow {
    /// For those who hold what is waited for.
    Holders,
    /// Those, and for those who wait for it further ahead.
    Queues,
}

/// What one search need not ask twice.
#[derive(Default)]
struct Known {
    /// Who holds a row in mode S and waits.
    shared: HashMap<u64, Vec<u32>>,
    /// Up to where a row's queue was asked about; see `RowQueues::ahead`. Without it a long queue would cost its square.
    furthest: HashMap<u64, usize>,
}

impl Locks {
    /// Looks for a circle that keeps `me` waiting, and makes one party of it give way: the one with the fewest locks, of
    /// these the one that has waited for the first time last. False: another looks already, try again.
    ///
    /// Circles of holders come first, even those that `me` only waits behind. In a circle that leads through a queue somebody
    /// may stand who only happens to be ahead, and if it gave way nothing would be won.
    pub(super) fn detect(&self, me: u32) -> bool {
        let Some(_only) = self.detector.try_lock() else {
            return false;
        };
        let circle = self
            .circle(me, Follow::Holders)
            .or_else(|| self.circle(me, Follow::Queues));
        if let Some(circle) = circle.filter(|circle| self.is_real(circle)) {
            self.break_up(me, &circle);
        }
        true
    }

    /// A circle, each party waiting for the next: a shortest one through `me`; else, of holders, one that `me` leads to.
    fn circle(&self, me: u32, follow: Follow) -> Option<Vec<Party>> {
        let mut known = Known::default();
        let mut graph = Graph::new();
        // Whom the search came from, for each that was met.
        let mut from = HashMap::from([(me, me)]);
        let mut ahead = VecDeque::from([me]);
        while let Some(at) = ahead.pop_front() {
            let Some((wait, next)) = self.edges(at, follow, &mut known) else {
                continue;
            };
            if next.contains(&me) {
                let mut circle = vec![(at, wait)];
                while let Some(&(last, _)) = circle.last()
                    && last != me
                {
                    let before = from[&last];
                    circle.push((before, graph[&before].0));
                }
                circle.reverse();
                return Some(circle);
            }
            for next in &next {
                from.entry(*next).or_insert_with(|| {
                    ahead.push_back(*next);
                    at
                });
            }
            graph.insert(at, (wait, next));
        }
        if follow == Follow::Holders {
            any_circle(graph)
        } else {
            None
        }
    }

    fn is_real(&self, circle: &[Party]) -> bool {
        let next = circle.iter().cycle().skip(1);
        let edges_stand = circle.iter().zip(next).all(|(party, next)| {
            let edges = self.edges(party.0, Follow::Queues, &mut Known::default());
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

    /// The number of the slot's wait and whom it waits for, itself excepted; `None` if it does not wait, or if
    /// `known` has its edges already.
    fn edges(&self, slot: u32, follow: Follow, known: &mut Known) -> Option<(u64, Vec<u32>)> {
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
                let furthest = (follow == Follow::Queues).then_some(&mut known.furthest);
                self.rows.ahead(key, slot, furthest, &mut edges)?;
                if mode == RowMode::X {
                    edges.extend_from_slice(
                        known
                            .shared
                            .entry(key)
                            .or_insert_with(|| self.shared_holders(key)),
                    );
                }
            }
            Target::Table { lock, mode } => {
                lock.ahead(slot, follow == Follow::Queues, &mut edges);
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

/// Any circle in the graph.
fn any_circle(mut graph: Graph) -> Option<Vec<Party>> {
    // Who waits for nobody in the graph is in no circle, nor is who waits for such only.
    loop {
        let ends = |(_, next): &(u64, Vec<u32>)| !next.iter().any(|next| graph.contains_key(next));
        let out: HashSet<u32> = graph
            .iter()
            .filter(|(_, edges)| ends(edges))
            .map(|(slot, _)| *slot)
            .collect();
        if out.is_empty() {
            break;
        }
        graph.retain(|slot, _| !out.contains(slot));
    }
    // Everyone left leads to another that is left, so a walk comes back to itself.
    let mut walk: Vec<Party> = Vec::new();
    let mut at = *graph.keys().next()?;
    loop {
        if let Some(begin) = walk.iter().position(|party| party.0 == at) {
            return Some(walk.split_off(begin));
        }
        let (wait, next) = &graph[&at];
        walk.push((at, *wait));
        at = *next.iter().find(|next| graph.contains_key(next))?;
    }
}
