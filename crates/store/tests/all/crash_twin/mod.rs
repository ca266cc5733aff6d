//! Crashes on the twin of a disk: a bank runs, the disk is cut anywhere, the store is opened again and compared in full.
//!
//! `CORUN_CRASHES=N` sets how many crashes there are (300 by default), `CORUN_SEED=S` the first seed. A failure names its
//! seed; running with that seed and one crash begins with the same choices, though threads interleave as they like.

mod bank;
mod check;
mod history;
pub(crate) mod random;
mod rows;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corun_store::storage::Twin;
use corun_store::{Options, Store, StoreError};
use parking_lot::Mutex;

use crate::clients::{Clients, MEMBERS};
use crate::crash_twin::history::{Commit, Content, explain};
use bank::{Acks, Bank};
use random::Random;

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// Counts, so that a run that never reached what it is about fails.
#[derive(Debug, Default)]
struct Seen {
    crashes: u64,
    in_recovery: u64,
    torn: u64,
    cut_commits: u64,
    kept_commits: u64,
    unknown: u64,
    checkpoints: u64,
    segments: u64,
}

impl Seen {
    /// How often the rarest of what every run must have seen was there; of commits that were kept a hundredth.
    fn least(&self) -> u64 {
        let all = [
            self.in_recovery,
            self.torn,
            self.cut_commits,
            self.kept_commits / 100,
            self.unknown,
            self.checkpoints,
        ];
        all.into_iter().min().unwrap_or(0)
    }
}

/// A disk, and what is known of the store on it.
struct World {
    disk: Twin,
    /// What it held when it was last looked at, and its newest commit then.
    content: Content,
    last: u64,
    /// What was done since.
    commits: Vec<Commit>,
    acks: Acks,
}

fn options(random: &mut Random) -> Options {
    Options {
        workers: 2,
        flush_every: Duration::from_millis(1 + random.below(5)),
        checkpoint_log_bytes: [0, 16 << 10, 64 << 10, 256 << 10][random.below(4) as usize],
        log_bytes_max: 0,
        recovery_threads: 1 + random.below(2) as usize,
        ..Options::default()
    }
}

/// Whether an error is that of a disk that has stopped, or could not sync.
fn has_stopped(error: &StoreError) -> bool {
    let said = error.to_string();
    said.contains("the disk has stopped") || said.contains("error of the medium")
}

impl World {
    fn new(seed: u64) -> World {
        World {
            disk: Twin::new(seed),
            content: Content::new(),
            last: 0,
            commits: Vec::new(),
            acks: Acks {
                ts: 0,
                counts: vec![0; bank::CLIENTS as usize],
            },
        }
    }

    /// What is found if power fails now, or if only the program dies.
    fn crashed(&self, random: &mut Random) -> World {
        let disk = if random.once_in(3) {
            self.disk.kill()
        } else {
            self.disk.crash(random.word())
        };
        World {
            disk,
            content: self.content.clone(),
            last: self.last,
            commits: self.commits.clone(),
            acks: self.acks.clone(),
        }
    }

    /// Opens the store, with crashes meanwhile, and compares it with what should be there.
    fn open(&mut self, random: &mut Random, seen: &mut Seen) -> Store {
        let store = loop {
            if random.once_in(2) {
                self.disk.stop_after(random.below(9));
            }
            match Store::open_on(Arc::new(self.disk.clone()), options(random)) {
                Ok(store) => break store,
                Err(error) => {
                    assert!(has_stopped(&error), "{error}");
                    seen.crashes += 1;
                    seen.in_recovery += 1;
                    *self = self.crashed(random);
                }
            }
        };
        if let Some(damage) = store.damage() {
            assert!(damage.torn_tail, "{damage}");
            seen.torn += 1;
        }
        let (content, last) = (check::content(&store), store.stats().last.0);
        if let Err(why) = explain(&self.content, self.last + 1, last, &self.commits, &content) {
            panic!("no prefix of what was committed explains what is there (last {last}): {why}");
        }
        check::acknowledged(&store, &self.acks);
        seen.kept_commits += last - self.last;
        let known = self.commits.iter().filter_map(|commit| commit.ts);
        seen.cut_commits += known.clone().filter(|ts| *ts > last).count() as u64;
        seen.unknown += self.commits.iter().filter(|commit| commit.ts.is_none()).count() as u64;
        self.content = content;
        self.last = last;
        self.commits.clear();
        store
    }

    /// Runs the bank until the disk stops or it is done. Returns what a crash left at some moments meanwhile.
    fn run(&mut self, store: Store, random: &mut Random, seen: &mut Seen, how: Clients) -> Vec<World> {
        let acks = Mutex::new(self.acks.clone());
        let clients = bank::clients(random);
        let bank = Bank {
            store: &store,
            acks: &acks,
            running: AtomicUsize::new(0),
        };
        let mut notes = bank::Notes::default();
        let mut images = Vec::new();
        let power_fails = random.once_in(2);
        if power_fails {
            self.disk.stop_after(random.below(250));
        } else if random.once_in(3) {
            self.disk.fail_sync_after(random.below(60));
        }
        if bank
            .set_up(&mut notes)
            .map_err(|error| assert!(has_stopped(&error), "{error}"))
            .is_ok()
        {
            bank.running.store(clients as usize, Ordering::Release);
            // The last is who does the chores.
            let mut each: Vec<(u64, u64)> = Vec::new();
            each.extend((0..clients).map(|_| (random.below(60), random.word())));
            each.push((random.below(8), random.word()));
            let meanwhile = || {
                if !power_fails {
                    for _ in 0..random.below(4) {
                        std::thread::sleep(Duration::from_micros(random.below(8000)));
                        // In this order: what is acknowledged before the crash is on the disk.
                        let acks = acks.lock().clone();
                        let disk = self.disk.crash(random.word());
                        images.push(World {
                            disk,
                            content: self.content.clone(),
                            last: self.last,
                            commits: Vec::new(),
                            acks,
                        });
                    }
                }
            };
            let client = |number: usize| match each[number] {
                (chores, seed) if number as i64 == clients => bank.chores(chores, seed),
                (transactions, seed) => bank.client(number as i64, transactions, seed),
            };
            let done = how.run(each.len(), client, meanwhile);
            notes
                .commits
                .extend(done.into_iter().flat_map(|notes| notes.commits));
        }
        let names = corun_store::storage::Storage::names(&self.disk).unwrap();
        seen.checkpoints += names.iter().filter(|name| name.starts_with("checkpoint")).count() as u64;
        seen.segments += names.iter().filter(|name| name.starts_with("log")).count() as u64;
        self.commits = notes.commits;
        self.acks = acks.into_inner();
        for image in &mut images {
            image.commits.clone_from(&self.commits);
        }
        if random.once_in(3) {
            let last = store.stats().last.0;
            match store.close() {
                Ok(()) => self.acks.ts = self.acks.ts.max(last),
                Err(error) => assert!(has_stopped(&error), "{error}"),
            }
        }
        images
    }
}

/// One disk through several crashes.
fn generations(seed: u64, seen: &mut Seen, how: Clients) {
    let mut random = Random::new(seed);
    let mut world = World::new(seed);
    for _ in 0..=random.below(6) {
        let store = world.open(&mut random, seen);
        let mut images = world.run(store, &mut random, seen, how);
        seen.crashes += images.len() as u64 + 1;
        for image in &mut images {
            drop(image.open(&mut random, seen));
        }
        world = match images.pop() {
            Some(image) if random.once_in(4) => image,
            _ => world.crashed(&mut random),
        };
    }
    drop(world.open(&mut random, seen));
}

#[test]
fn every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    crashes("twin", Clients::Threads);
}

#[test]
fn every_crash_of_teams_leaves_a_prefix_with_all_that_was_acknowledged() {
    crashes("twin of teams", MEMBERS);
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "whoever runs it wants to know"
)]
fn crashes(part: &str, how: Clients) {
    let crashes = from_environment("CORUN_CRASHES", 300);
    let mut seed = from_environment("CORUN_SEED", 1);
    let mut seen = Seen::default();
    // More where chance has not shown enough of each kind yet.
    while seen.crashes < crashes || crashes >= 300 && seen.least() <= 5 && seen.crashes < 10 * crashes {
        let run = catch_unwind(AssertUnwindSafe(|| generations(seed, &mut seen, how)));
        if let Err(panic) = run {
            eprintln!("failed with CORUN_SEED={seed}, after {seen:?}");
            resume_unwind(panic);
        }
        seed += 1;
    }
    println!(
        "{{\"part\":\"{part}\",\"crashes\":{},\"in_recovery\":{},\"torn\":{},\"commits_kept\":{},\"commits_cut\":{}}}",
        seen.crashes, seen.in_recovery, seen.torn, seen.kept_commits, seen.cut_commits
    );
    if crashes >= 300 {
        assert!(seen.least() > 5, "{seen:?}");
    }
}

#[test]
fn a_disk_that_lies_is_found_out() {
    let found = (0..40).filter(|seed| {
        let run = catch_unwind(|| {
            let (mut random, mut seen) = (Random::new(*seed), Seen::default());
            let mut world = World::new(*seed);
            let store = world.open(&mut random, &mut seen);
            world.disk.lose_syncs(true);
            world.run(store, &mut random, &mut seen, Clients::Threads);
            let mut after = world.crashed(&mut random);
            drop(after.open(&mut random, &mut seen));
        });
        run.is_err()
    });
    assert!(
        found.count() > 5,
        "what was acknowledged is gone, and nobody says so"
    );
}
