//! Two threads going round the shared array of a work-ahead set, as discrete events (paper 000, sections 4.2 to 4.4).
//!
//! ```text
//!             line 0            line 1            line 2            line d - 1
//!   array  [ e  e  e  e ]    [ e  e  e  e ]    [ e  e  e  e ]  ...  [ e  e  e  e ]    round and round
//!               ▲                                  ▲
//!              main: retrieves and posts,         helper: reads and loads, forward or backward;
//!              always forward                     with `spin` it waits at an entry it has seen
//! ```
//!
//! Each thread takes a time for each entry that depends on whether the other *interferes*, which is decided anew whenever either
//! takes a step; an entry half done goes on at the new speed. Nothing else has a duration: the four speeds are given, and whether
//! a preload came in time is counted but does not feed back into `m`. Speeds are in cache lines of the array per second, as in
//! [`corun_model::operators::work_ahead`], so an entry takes `1 / (speed * entries_per_line)` seconds.
//!
//! Steps. The main thread comes to an entry, takes out what was there and writes the new reference, then works for the entry's
//! time. The helper comes to an entry, reads it and issues its load, then is busy for the entry's time. With `spin` it waits at an
//! entry that has not changed since it was last there, until the main thread writes that entry. Without, it loads the same address
//! again, at the same speed: that such a load hits the cache and is quicker is left to the given `h`.
//!
//! **Interference events** stand for memory-order machine clears, which no simulation of caches yields. One is counted when a thread
//! touches a line of the array that the other is on: a write of the main thread, a read of the helper, and the read with which a
//! waiting helper gets back a line that the main thread has just written to.
//!
//! **What "on the same line" means** is [`Contact`], because the formulas of section 4.3 silently take another meaning than the
//! machine: see there.
//!
//! Not here: the caches the preloads go into ([`crate::hierarchy`]), and real threads.

use corun_model::operators::mode::Direction;
use corun_model::operators::work_ahead::{Speeds, WorkAheadError};

use crate::random::SplitMix64;

/// Most entries of a simulated array.
const ENTRIES_MAX: u64 = 1 << 20;
/// Most entries posted in one simulation.
const POSTS_MAX: u64 = 1 << 32;
/// Largest ratio between two of the speeds: it bounds the helper's steps in one of the main thread's.
const SPEED_RATIO_MAX: f64 = 1e4;

/// When the threads interfere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// While both are within one line of the array, as on a machine.
    SameLine,
    /// While the helper is less than a line's entries ahead of the main thread, wherever line borders lie.
    ///
    /// This is what the formulas of section 4.3 assume when they charge one whole line of distance at the slow speeds; with many
    /// entries in a line the simulation then agrees with them. With borders that stand still, two threads less than a line apart
    /// are in contact only part of the time, and close in or part at their undisturbed speeds for the rest. Going forward with
    /// `h'` near `m'` that frees them sooner than the formulas say. Going backward it matters little on arrays of many lines; on
    /// those of few, and without jitter, the threads may meet at one place of a line for ever, and the exact speeds decide.
    LessThanALineAhead,
}

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedArray {
    /// The array's size `d`, in cache lines.
    pub lines: u32,
    /// Entries in a line.
    pub entries_per_line: u32,
    /// `m`, `m'`, `h`, `h'`.
    pub speeds: Speeds,
    /// Which way the helper goes.
    pub direction: Direction,
    /// Whether it waits at entries that have not changed.
    pub spin: bool,
    /// When the threads interfere.
    pub contact: Contact,
    /// Entry the helper starts at; the main thread starts at entry 0.
    pub helper_start: u32,
    /// How long before its retrieval a reference must be loaded to be of use: the latency of the memory behind it, in seconds.
    pub latency_s: f64,
    /// By how much the work of each entry varies, evenly: 0.1 is from 10 % less to 10 % more. At least 0, below 1.
    pub jitter: f64,
    /// Of the jitter. Equal seeds give equal outcomes.
    pub seed: u64,
    /// Entries the main thread posts while everything is counted; those of one round before, which fill the array, are not.
    pub posts: u64,
}

/// What happened, after the first round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The main thread's speed in cache lines of the array per second, to be set beside [`corun_model::operators::work_ahead::net_speed`].
    pub net_lines_per_second: f64,
    /// Interference events for each entry the main thread posted.
    pub interference_events_per_entry: f64,
    /// Of the references retrieved, the part the helper had issued the load of at least the latency before: 0 to 1.
    pub useful_preload_share: f64,
    /// Loads the helper issued for each entry the main thread posted. Above 1, it loaded some again.
    pub helper_loads_per_entry: f64,
}

/// A simulation that cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CoherenceError {
    /// A speed that is none, or no lines.
    #[error(transparent)]
    Model(#[from] WorkAheadError),
    /// Speeds too far apart to simulate.
    #[error(
        "speeds of a simulated work-ahead set must be within a factor of {SPEED_RATIO_MAX} of each other, not {0}"
    )]
    SpeedRatio(f64),
    /// No entries, or too many.
    #[error("a simulated work-ahead set has 1 to {ENTRIES_MAX} entries, not {0}")]
    Entries(u64),
    /// The helper would start outside.
    #[error("the helper cannot start at entry {start} of {entries}")]
    Start {
        /// Where it should start.
        start: u32,
        /// How many entries there are.
        entries: u64,
    },
    /// A latency that is no duration.
    #[error("the latency must be a finite number of seconds, at least 0, not {0}")]
    Latency(f64),
    /// Work would be negative or not a number.
    #[error("the jitter must be at least 0 and below 1, not {0}")]
    Jitter(f64),
    /// Nothing to count, or too much.
    #[error("1 to {POSTS_MAX} posted entries can be simulated, not {0}")]
    Posts(u64),
}

impl SharedArray {
    /// Runs it.
    ///
    /// Takes time in proportion to `posts` and to the helper's speed over the main thread's.
    ///
    /// # Errors
    /// [`CoherenceError`], which names the number that is out of range.
    pub fn simulate(&self) -> Result<Outcome, CoherenceError> {
        self.check()?;
        Ok(Simulation::new(self).run())
    }

    fn entries(&self) -> u64 {
        u64::from(self.lines) * u64::from(self.entries_per_line)
    }

    fn check(&self) -> Result<(), CoherenceError> {
        self.speeds.check()?;
        if self.lines == 0 {
            return Err(WorkAheadError::NoLines.into());
        }
        let speeds = [
            self.speeds.main,
            self.speeds.main_interfering,
            self.speeds.helper,
            self.speeds.helper_interfering,
        ];
        let ratio =
            speeds.iter().copied().fold(0.0, f64::max) / speeds.iter().copied().fold(f64::MAX, f64::min);
        if ratio > SPEED_RATIO_MAX {
            return Err(CoherenceError::SpeedRatio(ratio));
        }
        let entries = self.entries();
        if !(1..=ENTRIES_MAX).contains(&entries) {
            return Err(CoherenceError::Entries(entries));
        }
        if u64::from(self.helper_start) >= entries {
            return Err(CoherenceError::Start {
                start: self.helper_start,
                entries,
            });
        }
        if !(self.latency_s.is_finite() && self.latency_s >= 0.0) {
            return Err(CoherenceError::Latency(self.latency_s));
        }
        if !(0.0..1.0).contains(&self.jitter) {
            return Err(CoherenceError::Jitter(self.jitter));
        }
        if !(1..=POSTS_MAX).contains(&self.posts) {
            return Err(CoherenceError::Posts(self.posts));
        }
        Ok(())
    }
}

/// One entry of the array.
#[derive(Clone, Copy)]
struct Entry {
    /// How often it was written; 0 while it is empty.
    version: u64,
    /// The version the helper last found.
    seen: u64,
    /// When the helper issued the load of this version, in seconds; infinite if it has not.
    loaded_at: f64,
}

/// A thread at an entry.
struct Agent {
    entry: u32,
    /// Work left there, in entries' worth.
    left: f64,
}

struct Simulation<'a> {
    // Fixed.
    given: &'a SharedArray,
    entries: u32,
    // Changing.
    array: Vec<Entry>,
    main: Agent,
    helper: Agent,
    waiting: bool,
    now: f64,
    random: SplitMix64,
    // Counted; cleared when the first round is over.
    events: u64,
    loads: u64,
    useful: u64,
}

impl<'a> Simulation<'a> {
    fn new(given: &'a SharedArray) -> Self {
        let entries = given.entries() as u32;
        let empty = Entry {
            version: 0,
            seen: 0,
            loaded_at: f64::INFINITY,
        };
        Self {
            given,
            entries,
            array: vec![empty; entries as usize],
            main: Agent { entry: 0, left: 0.0 },
            helper: Agent {
                entry: given.helper_start,
                left: 0.0,
            },
            waiting: false,
            now: 0.0,
            random: SplitMix64::new(given.seed),
            events: 0,
            loads: 0,
            useful: 0,
        }
    }

    fn run(mut self) -> Outcome {
        self.main_arrives();
        self.helper_arrives();
        let per_line = f64::from(self.given.entries_per_line);
        let speeds = &self.given.speeds;
        let mut posted = 1;
        let mut started_at = 0.0;
        let warm_up = u64::from(self.entries);
        loop {
            let (main_speed, helper_speed) = if self.in_contact() {
                (speeds.main_interfering, speeds.helper_interfering)
            } else {
                (speeds.main, speeds.helper)
            };
            let (main_rate, helper_rate) = (main_speed * per_line, helper_speed * per_line);
            let main_time = self.main.left / main_rate;
            let helper_time = if self.waiting {
                f64::INFINITY
            } else {
                self.helper.left / helper_rate
            };
            if main_time <= helper_time {
                self.now += main_time;
                if !self.waiting {
                    self.helper.left = (self.helper.left - main_time * helper_rate).max(0.0);
                }
                if posted == warm_up {
                    started_at = self.now;
                    (self.events, self.loads, self.useful) = (0, 0, 0);
                } else if posted == warm_up + self.given.posts {
                    break;
                }
                self.main.entry = self.after(self.main.entry);
                self.main_arrives();
                posted += 1;
            } else {
                self.now += helper_time;
                self.main.left = (self.main.left - helper_time * main_rate).max(0.0);
                self.helper.entry = match self.given.direction {
                    Direction::Forward => self.after(self.helper.entry),
                    Direction::Backward => self.before(self.helper.entry),
                };
                self.helper_arrives();
            }
        }
        let posts = self.given.posts as f64;
        Outcome {
            net_lines_per_second: posts / per_line / (self.now - started_at),
            interference_events_per_entry: self.events as f64 / posts,
            useful_preload_share: self.useful as f64 / posts,
            helper_loads_per_entry: self.loads as f64 / posts,
        }
    }

    fn in_contact(&self) -> bool {
        let per_line = self.given.entries_per_line;
        match self.given.contact {
            Contact::SameLine => self.main.entry / per_line == self.helper.entry / per_line,
            Contact::LessThanALineAhead => {
                let ahead = (self.helper.entry + self.entries - self.main.entry) % self.entries;
                ahead < per_line
            }
        }
    }

    /// The main thread is at its entry: takes out, writes, begins its work there.
    fn main_arrives(&mut self) {
        let contact = self.in_contact();
        let entry = &mut self.array[self.main.entry as usize];
        self.useful += u64::from(entry.loaded_at + self.given.latency_s <= self.now);
        entry.version += 1;
        entry.loaded_at = f64::INFINITY;
        self.events += u64::from(contact);
        self.main.left = self.work();
        if self.waiting {
            if self.helper.entry == self.main.entry {
                self.waiting = false;
                self.helper_reads();
            } else {
                // It polls another entry of the line that was just taken away from it.
                self.events += u64::from(contact);
            }
        }
    }

    /// The helper is at its entry: waits if it knows it, else reads it.
    fn helper_arrives(&mut self) {
        let entry = self.array[self.helper.entry as usize];
        if self.given.spin && entry.version == entry.seen {
            self.waiting = true;
            self.events += u64::from(self.in_contact());
        } else {
            self.helper_reads();
        }
    }

    fn helper_reads(&mut self) {
        self.events += u64::from(self.in_contact());
        let entry = &mut self.array[self.helper.entry as usize];
        entry.seen = entry.version;
        // An empty entry names nothing to load; passing it takes time all the same.
        if entry.version > 0 {
            entry.loaded_at = entry.loaded_at.min(self.now);
            self.loads += 1;
        }
        self.helper.left = self.work();
    }

    fn after(&self, entry: u32) -> u32 {
        if entry + 1 == self.entries { 0 } else { entry + 1 }
    }

    fn before(&self, entry: u32) -> u32 {
        entry.checked_sub(1).unwrap_or(self.entries - 1)
    }

    /// Work of one entry: 1, give or take the jitter.
    fn work(&mut self) -> f64 {
        if self.given.jitter == 0.0 {
            return 1.0;
        }
        // The upper 53 bits, as -1 up to 1.
        let even = (self.random.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        1.0 + self.given.jitter * even
    }
}
