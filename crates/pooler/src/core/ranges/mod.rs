//! [`Ranges`]: which core has which keys of a database (paper 004, section 2), known to all event loops.
//!
//! ```text
//!  loops count statements by bucket ─► each tick added up here ─► the first loop asks `corun_model::pooler::ranges` whether buckets should move
//!                                                                       └─► a new map, which loops take over at their next tick
//! ```
//!
//! A loop works with its own copies of the maps, so a statement takes no lock. Not here: which statement has which key
//! (`understand::keys`) and what a loop does with it (`dispatch`).

pub(in crate::core) mod bind;
pub(in crate::core) mod copies;
pub(in crate::core) mod dispatch;
mod explained;
pub(in crate::core) mod range_rows;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corun_model::pooler::ranges::{Map, Rebalance, RebalanceSettings, Sketch, Span};
use parking_lot::Mutex;

use crate::config::{Config, KeyType, Range};
use crate::keys::{Column, kind_of, map_of};
use crate::understand::keys::{KeyKind, KeyPlan};

/// Of the choice which of the keys seen are remembered: any will do.
const SEED: u64 = 0x5eed;

/// All domains of one database.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub domains: Vec<Domain>,
    /// Changes with every map.
    version: AtomicU64,
}

/// One domain of keys, its maps and what was counted.
#[derive(Debug)]
pub(crate) struct Domain {
    // Fixed.
    pub name: String,
    pub kind: KeyKind,
    pub columns: Vec<Column>,
    settings: Range,
    // Changing, each by itself.
    state: Mutex<State>,
    /// Statements that went to another core than the one of their range, because it was busy.
    pub overflowed: AtomicU64,
}

#[derive(Debug)]
struct State {
    workers: Arc<Map>,
    rebalance: Rebalance,
    /// The same for copies of the database; one owner until their number is known.
    hosts: Arc<Map>,
    hosts_rebalance: Rebalance,
    /// Since the last look at the balance, by bucket.
    fresh: Vec<u64>,
    /// Since the start, by bucket.
    counted: Vec<u64>,
    /// Times that buckets moved.
    moves: u64,
    sketch: Sketch,
}

impl Ranges {
    /// The ranges of a database for this many workers; `None` where the configuration has none.
    pub fn of(config: &Config, database: &str, workers: usize) -> Option<Ranges> {
        let domain = |(name, range): (&String, &Range)| {
            // The check of the configuration has refused what gives no map.
            let map = Arc::new(map_of(range, workers).ok()?);
            Some(Domain {
                name: name.clone(),
                kind: kind_of(range.key_type),
                columns: range
                    .columns
                    .iter()
                    .filter_map(|text| Column::parse(text))
                    .collect(),
                settings: range.clone(),
                state: Mutex::new(State {
                    rebalance: Rebalance::new(RebalanceSettings::default()),
                    hosts: Arc::clone(&map),
                    // What moves must be read from disk again.
                    hosts_rebalance: Rebalance::new(RebalanceSettings {
                        imbalance_min: 1.5,
                        interval_min: Duration::from_secs(60),
                        ..RebalanceSettings::default()
                    }),
                    fresh: vec![0; map.buckets()],
                    counted: vec![0; map.buckets()],
                    moves: 0,
                    sketch: Sketch::new(SEED),
                    workers: map,
                }),
                overflowed: AtomicU64::new(0),
            })
        };
        let own = config
            .ranges
            .iter()
            .filter(|(_, range)| range.database == database);
        let domains: Vec<Domain> = own.filter_map(domain).collect();
        (!domains.is_empty()).then_some(Ranges {
            domains,
            version: AtomicU64::new(1),
        })
    }

    /// Whether the configuration still says the same of this database.
    pub fn is_of(&self, config: &Config, database: &str) -> bool {
        let own = config
            .ranges
            .iter()
            .filter(|(_, range)| range.database == database);
        own.eq(self.domains.iter().map(|domain| (&domain.name, &domain.settings)))
    }

    /// A number that changes with the maps.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// There are so many copies.
    fn set_hosts(&self, hosts: usize) {
        for domain in &self.domains {
            let mut state = domain.state.lock();
            if state.hosts.owners() != hosts
                && let Ok(map) = state.workers.with_owners(hosts)
            {
                state.hosts = Arc::new(map);
                self.version.fetch_add(1, Ordering::Release);
            }
        }
    }

    /// Moves buckets between cores where that pays. Called by one loop.
    pub fn rebalance(&self, now: Duration) {
        for domain in &self.domains {
            let mut state = domain.state.lock();
            let fresh = std::mem::take(&mut state.fresh);
            let map = Arc::clone(&state.workers);
            if let Some(moved) = state.rebalance.tick(now, &fresh, &map) {
                state.workers = Arc::new(moved);
                state.moves += 1;
                self.version.fetch_add(1, Ordering::Release);
            }
            let map = Arc::clone(&state.hosts);
            if let Some(moved) = state.hosts_rebalance.tick(now, &fresh, &map) {
                state.hosts = Arc::new(moved);
                self.version.fetch_add(1, Ordering::Release);
            }
            state.fresh = fresh;
            state.fresh.fill(0);
        }
    }
}

impl Domain {
    /// What its keys are, as the configuration says.
    pub fn key_type(&self) -> KeyType {
        self.settings.key_type
    }

    /// The map in use.
    pub fn workers(&self) -> Arc<Map> {
        Arc::clone(&self.state.lock().workers)
    }

    fn hosts(&self) -> Arc<Map> {
        Arc::clone(&self.state.lock().hosts)
    }

    /// Adds what a loop has counted by bucket, and empties it.
    fn count(&self, counts: &mut [u64], sketch: &mut Sketch) {
        let mut state = self.state.lock();
        for (bucket, count) in counts.iter_mut().enumerate() {
            let count = std::mem::take(count);
            if let Some(fresh) = state.fresh.get_mut(bucket) {
                *fresh += count;
            }
            if let Some(counted) = state.counted.get_mut(bucket) {
                *counted += count;
            }
        }
        state.sketch.merge(sketch);
        *sketch = Sketch::new(SEED);
    }

    /// What `SHOW RANGES` tells.
    pub fn view(&self) -> DomainView {
        let state = self.state.lock();
        let map = Arc::clone(&state.workers);
        let statements = (0..map.owners())
            .map(|owner| map.buckets_of(owner).map(|bucket| state.counted[bucket]).sum())
            .collect();
        DomainView {
            map,
            statements,
            moves: state.moves,
            observed: state.sketch.splits(16),
        }
    }
}

/// A domain as the console tells of it.
#[derive(Debug)]
pub(crate) struct DomainView {
    pub map: Arc<Map>,
    /// By worker, since the start.
    pub statements: Vec<u64>,
    pub moves: u64,
    /// Sixteenths of the keys seen, for `corun proxy learn`.
    pub observed: Vec<i64>,
}

/// What one event loop keeps of a database's ranges.
#[derive(Debug)]
pub(in crate::core) struct LoopRanges {
    pub shared: Arc<Ranges>,
    version: u64,
    /// By domain.
    maps: Vec<Arc<Map>>,
    hosts: Vec<Arc<Map>>,
    counts: Vec<Vec<u64>>,
    sketches: Vec<Sketch>,
    /// Which column and domain a plan's key is of, by the address of the plan, which is kept so that it stays that one's.
    resolved: HashMap<usize, (Arc<KeyPlan>, Option<Resolved>)>,
}

/// Which of a plan's columns belongs to which domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) struct Resolved {
    pub column: usize,
    pub domain: usize,
}

/// Plans whose columns are remembered.
const RESOLVED_MAX: usize = 4096;

/// Where a statement belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) struct Key {
    pub domain: usize,
    pub span: Span,
    /// The worker that has most of it.
    pub worker: usize,
}

impl LoopRanges {
    pub fn new(shared: Arc<Ranges>) -> Self {
        let maps: Vec<Arc<Map>> = shared.domains.iter().map(Domain::workers).collect();
        Self {
            version: shared.version(),
            counts: maps.iter().map(|map| vec![0; map.buckets()]).collect(),
            sketches: maps.iter().map(|_| Sketch::new(SEED)).collect(),
            maps,
            hosts: shared.domains.iter().map(Domain::hosts).collect(),
            resolved: HashMap::new(),
            shared,
        }
    }

    /// Hands in what was counted and takes over maps that changed.
    pub fn tick(&mut self) {
        for (index, domain) in self.shared.domains.iter().enumerate() {
            domain.count(&mut self.counts[index], &mut self.sketches[index]);
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let version = self.shared.version();
        if version != self.version {
            self.version = version;
            self.maps = self.shared.domains.iter().map(Domain::workers).collect();
            self.hosts = self.shared.domains.iter().map(Domain::hosts).collect();
            for (counts, map) in self.counts.iter_mut().zip(&self.maps) {
                counts.resize(map.buckets(), 0);
            }
        }
    }

    /// Which column of a plan has keys of these ranges.
    pub fn resolve(&mut self, plan: &Arc<KeyPlan>) -> Option<Resolved> {
        let address = Arc::as_ptr(plan) as usize;
        if let Some((_, resolved)) = self.resolved.get(&address) {
            return *resolved;
        }
        if self.resolved.len() >= RESOLVED_MAX {
            self.resolved.clear();
        }
        let domains = &self.shared.domains;
        let of = |schema: Option<&str>, table: &str, column: &str| {
            domains
                .iter()
                .position(|domain| domain.columns.iter().any(|known| known.is(schema, table, column)))
        };
        let resolved = plan
            .resolve(of)
            .map(|(column, domain)| Resolved { column, domain });
        self.resolved.insert(address, (Arc::clone(plan), resolved));
        resolved
    }

    /// How many workers a domain is shared out to.
    pub fn owners(&self, domain: usize) -> usize {
        self.maps[domain].owners()
    }

    /// What the keys of a domain are.
    pub fn kind(&self, domain: usize) -> KeyKind {
        self.shared.domains[domain].kind
    }

    /// Where a span of keys belongs; `None`: anywhere.
    pub fn locate(&self, domain: usize, span: Span) -> Option<Key> {
        let worker = self.maps[domain].owner_of_span(&span)?;
        Some(Key { domain, span, worker })
    }

    /// Which copy has a key, of those that are alive.
    pub fn host(&mut self, key: &Key, alive: &[bool]) -> Option<usize> {
        if self.hosts[key.domain].owners() != alive.len() && !alive.is_empty() {
            self.shared.set_hosts(alive.len());
            self.refresh();
        }
        self.hosts[key.domain].owner_among(&key.span, alive)
    }

    /// Counts a statement that was sent where it belongs.
    pub fn count(&mut self, key: &Key) {
        if let Some((first, _)) = key.span.intervals().first() {
            let bucket = self.maps[key.domain].bucket_of(*first);
            self.counts[key.domain][bucket] += 1;
            self.sketches[key.domain].observe(*first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKERS: usize = 4;

    fn ranges() -> Arc<Ranges> {
        let text = "[proxy]\nauth_type = \"any\"\n[databases.a]\nhost = \"h\"\nuser = \"u\"\n\
            [ranges.keys]\ndatabase = \"a\"\ncolumns = [\"t.k\"]\nminimum = 1\nmaximum = 1000\nbuckets = 100\n";
        let config = Config::parse(text, "corun.toml").expect("a configuration").config;
        Arc::new(Ranges::of(&config, "a", WORKERS).expect("ranges"))
    }

    fn key(ranges: &LoopRanges, key: i64) -> Key {
        ranges.locate(0, Span::point(key)).expect("a worker for each key")
    }

    /// Two loops count statements with these keys for a while; the first one looks at the balance.
    fn run(loops: &mut [LoopRanges; 2], seconds: std::ops::Range<u64>, keys: impl Fn(u64) -> i64) {
        for second in seconds {
            for turn in 0..1000 {
                let counter = &mut loops[turn as usize % 2];
                let key = key(counter, keys(turn));
                counter.count(&key);
            }
            for counter in loops.iter_mut() {
                counter.tick();
            }
            let shared = Arc::clone(&loops[0].shared);
            shared.rebalance(Duration::from_secs(second));
        }
        for counter in loops.iter_mut() {
            counter.tick();
        }
    }

    #[test]
    fn skew_moves_boundaries_and_all_loops_follow() {
        let shared = ranges();
        let mut loops = [
            LoopRanges::new(Arc::clone(&shared)),
            LoopRanges::new(Arc::clone(&shared)),
        ];
        assert_eq!(key(&loops[0], 200).worker, 0);
        assert_eq!(key(&loops[0], 1000).worker, WORKERS - 1);
        // Even load stays where it is.
        run(&mut loops, 0..100, |turn| 1 + (turn as i64 * 37) % 1000);
        assert_eq!(shared.domains[0].view().moves, 0);
        // All of it on the first worker's keys.
        run(&mut loops, 100..400, |turn| 1 + (turn as i64 * 37) % 200);
        let view = shared.domains[0].view();
        assert!(view.moves > 0);
        assert_eq!(view.statements.iter().sum::<u64>(), 400_000);
        let mut by_worker = [0; WORKERS];
        for number in 1..=1000 {
            let (one, other) = (key(&loops[0], number), key(&loops[1], number));
            assert_eq!(one, other, "loops agree");
            by_worker[one.worker] += u32::from(number <= 200);
        }
        // Nobody has more of the busy keys than whole buckets make necessary: three of ten, which are 60 keys.
        assert!(
            by_worker.iter().all(|&keys| (1..=60).contains(&keys)),
            "{by_worker:?}"
        );
        // Keys outside belong to the ends.
        assert_eq!(key(&loops[0], i64::MIN).worker, 0);
        assert_eq!(key(&loops[0], i64::MAX).worker, WORKERS - 1);
        let moves = view.moves;
        run(&mut loops, 400..500, |turn| 1 + (turn as i64 * 37) % 200);
        assert_eq!(shared.domains[0].view().moves, moves, "it stays once it is even");
    }

    #[test]
    fn a_copy_that_leaves_is_replaced_and_gets_its_range_back() {
        let mut ranges = LoopRanges::new(ranges());
        let low = key(&ranges, 1);
        let high = key(&ranges, 1000);
        let mut hosts = |alive: &[bool]| (ranges.host(&low, alive), ranges.host(&high, alive));
        assert_eq!(hosts(&[true, true]), (Some(0), Some(1)));
        assert_eq!(hosts(&[true, false]), (Some(0), Some(0)));
        assert_eq!(hosts(&[false, true]), (Some(1), Some(1)));
        assert_eq!(hosts(&[false, false]), (None, None));
        assert_eq!(hosts(&[true, true]), (Some(0), Some(1)));
        assert_eq!(hosts(&[]), (None, None));
        // A third one.
        assert_eq!(hosts(&[true, true, true]), (Some(0), Some(2)));
    }
}
