//! [`Rebalance`]: when boundaries between owners move, and where to.
//!
//! Order of calls: [`Rebalance::tick`] again and again, at regular times, with the statements each bucket had since; a map it answers
//! is used from then on and handed to the next tick.
//!
//! It moves boundaries between owners along the buckets there are. It cannot cut a bucket: one that has more than an owner's fair
//! share stays the busiest owner's, and only a map with finer buckets ([`super::Sketch::splits`]) helps; a single key that hot stays
//! one owner's in any map, and [`super::Overflow`] is what takes the pressure off.

use std::time::Duration;

use super::map::Map;

/// What it takes to move boundaries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebalanceSettings {
    /// An owner is too busy with more than so many times the mean.
    pub imbalance_min: f64,
    /// So many ticks in a row, at least 1.
    pub patience: u32,
    /// The time between moves at least.
    pub interval_min: Duration,
    /// Statements counted, faded ones by what is left of them, at least.
    pub statements_min: u64,
    /// The largest load must fall by this part of it.
    pub gain_min: f64,
    /// The time in which what was counted fades to a half.
    pub half_life: Duration,
}

impl Default for RebalanceSettings {
    /// A quarter above the mean for 4 ticks, every half minute at most, of 1,000 statements, for a tenth less; counts halve in 10 s.
    /// Unmeasured.
    fn default() -> Self {
        RebalanceSettings {
            imbalance_min: 1.25,
            patience: 4,
            interval_min: Duration::from_secs(30),
            statements_min: 1_000,
            gain_min: 0.10,
            half_life: Duration::from_secs(10),
        }
    }
}

/// The state of one map's rebalancing.
///
/// *Why it does not swing.* An owner counts as too busy in a tick only if it is above the bound by what is remembered and above the
/// mean by that tick alone. So load that goes to and fro, back before `patience` ticks are over, never moves anything. After a move
/// loads are as equal as the buckets allow; as long as they stay what they are, nothing is better by `gain_min`.
#[derive(Clone, Debug)]
pub struct Rebalance {
    settings: RebalanceSettings,
    /// Of the map that the rest is about.
    splits: Box<[i64]>,
    /// Faded statements of each bucket.
    loads: Vec<f64>,
    /// For each owner, the ticks in a row in which it was too busy.
    busy_ticks: Vec<u32>,
    ticked_at: Option<Duration>,
    moved_at: Option<Duration>,
}

impl Rebalance {
    /// Nothing counted yet.
    pub fn new(settings: RebalanceSettings) -> Rebalance {
        Rebalance {
            settings,
            splits: Box::default(),
            loads: Vec::new(),
            busy_ticks: Vec::new(),
            ticked_at: None,
            moved_at: None,
        }
    }

    /// Other settings from now on.
    pub fn set_settings(&mut self, settings: RebalanceSettings) {
        self.settings = settings;
    }

    /// The statements remembered of each bucket, faded.
    pub fn loads(&self) -> &[f64] {
        &self.loads
    }

    /// Takes in the statements of each bucket of `map` since the last tick; answers a map with the same buckets and owners that is
    /// better, if it is time for one. Counts that do not fit the map's buckets are ignored; a map with other split points begins
    /// anew.
    pub fn tick(&mut self, now: Duration, counts: &[u64], map: &Map) -> Option<Map> {
        if counts.len() != map.buckets() {
            return None;
        }
        self.count(now, counts, map);
        let owner_loads = by_owner(map, |bucket| self.loads[bucket]);
        let tick_loads = by_owner(map, |bucket| counts[bucket] as f64);
        let (mean, tick_mean) = (mean(&owner_loads), mean(&tick_loads));
        self.busy_ticks.resize(map.owners(), 0);
        for (owner, ticks) in self.busy_ticks.iter_mut().enumerate() {
            let too_busy =
                owner_loads[owner] > self.settings.imbalance_min * mean && tick_loads[owner] > tick_mean;
            *ticks = if too_busy { ticks.saturating_add(1) } else { 0 };
        }
        let patient = self
            .busy_ticks
            .iter()
            .any(|&ticks| ticks >= self.settings.patience.max(1));
        let rested = self
            .moved_at
            .is_none_or(|moved| now.saturating_sub(moved) >= self.settings.interval_min);
        let enough = self.loads.iter().sum::<f64>() >= self.settings.statements_min as f64;
        if !(patient && rested && enough) {
            return None;
        }
        // Whole numbers, so that the partition is exact and the same loads always give the same one.
        let weights: Vec<u64> = self
            .loads
            .iter()
            .map(|load| (load * 1024.0).round() as u64)
            .collect();
        let proposed = map.reassigned(&weights);
        let largest = |loads: &[f64]| loads.iter().copied().fold(0.0, f64::max);
        let before = largest(&owner_loads);
        let after = largest(&by_owner(&proposed, |bucket| self.loads[bucket]));
        if after > before * (1.0 - self.settings.gain_min) {
            // Better maps need finer buckets. Patience begins anew, so that this is not computed at every tick.
            self.busy_ticks.fill(0);
            return None;
        }
        self.busy_ticks.fill(0);
        self.moved_at = Some(now);
        Some(proposed)
    }

    fn count(&mut self, now: Duration, counts: &[u64], map: &Map) {
        if *self.splits != *map.splits() || self.loads.len() != counts.len() {
            self.splits = map.splits().into();
            self.loads = vec![0.0; counts.len()];
            self.busy_ticks.clear();
        }
        let passed = now.saturating_sub(self.ticked_at.unwrap_or(now));
        self.ticked_at = Some(now);
        let half_life = self.settings.half_life.as_secs_f64().max(f64::MIN_POSITIVE);
        let left = (-passed.as_secs_f64() / half_life).exp2();
        for (load, &count) in self.loads.iter_mut().zip(counts) {
            *load = *load * left + count as f64;
        }
    }
}

fn by_owner(map: &Map, load: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..map.owners())
        .map(|owner| map.buckets_of(owner).map(&load).sum())
        .collect()
}

fn mean(loads: &[f64]) -> f64 {
    loads.iter().sum::<f64>() / loads.len().max(1) as f64
}

#[cfg(test)]
mod tests;
