//! TPC-C on a real folder, in a process that is killed (SIGKILL) at any moment, again and again on the same folder, while it makes
//! checkpoints, backups and an archive of its log, and this process follows it.
//!
//! `CORUN_KILLS=N` sets how many kills there are (15 by default), `CORUN_SEED=S` the seed. The last line of the output says
//! in JSON what was found.

mod acks;
mod child;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corun_store::checkpoint::CheckpointError;
use corun_store::{Follower, Options, Store, StoreError, Ts, Until, restore_to, verify};
use corun_workloads::corun::CorunTpcc;
use corun_workloads::random::Random;
use corun_workloads::tpcc::{self, LOADED_AT, Scale};

use acks::{Found, Run};
use child::{LOAD_SEED, Orders, archive_of, options};

/// Kills after which a folder is left for a fresh one: it grows.
const KILLS_PER_FOLDER: u64 = 20;

#[test]
#[ignore = "the process that the other test kills; it never ends by itself"]
fn child() {
    child::run();
}

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A follower of the child; `Err` if a checkpoint was faster than it.
type Following = Result<Follower, StoreError>;

/// Starts the child, kills it, and returns what it said, and who followed it.
fn kill_one(orders: &Orders, random: &mut Random) -> (Run, Option<Following>) {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "kill::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .envs(orders.to_environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in out.lines() {
            // After a kill there is no half line: each was one write.
            if send.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    let mut run = Run::new(orders.durable, orders.clients);
    // Sometimes while it still opens the store; mostly some time after that.
    let in_recovery = random.percent(20);
    let mut deadline = Instant::now() + Duration::from_secs(60);
    let mut is_planned = in_recovery;
    let mut following = None;
    if in_recovery {
        deadline = Instant::now() + Duration::from_micros(random.between(0, 40_000) as u64);
    }
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                run.take(&line);
                if run.was_ready && !is_planned {
                    is_planned = true;
                    let folder = orders.folder.clone();
                    following = Some(std::thread::spawn(move || {
                        Follower::open(folder, Options::default())
                    }));
                    deadline = Instant::now() + Duration::from_micros(random.between(0, 400_000) as u64);
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => break,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                panic!("the child ended by itself: {}", process.wait().unwrap());
            }
        }
    }
    assert!(is_planned, "the child was not ready in a minute");
    process.kill().unwrap();
    process.wait().unwrap();
    reader.join().unwrap();
    lines.iter().for_each(|line| run.take(&line));
    (run, following.map(|thread| thread.join().unwrap()))
}

/// What was found so far.
#[derive(Debug, Default)]
struct Report {
    kills: u64,
    in_recovery: u64,
    acks: u64,
    /// Copies that were compared with what was left: backups, followers, backups brought further by the archive.
    backups: u64,
    followers: u64,
    restored: u64,
    lost: Vec<String>,
    half_applied: Vec<String>,
    inconsistent: Vec<String>,
}

/// A folder and what was done to it.
struct Place {
    folder: tempfile::TempDir,
    /// Backups, and the archive.
    copies: tempfile::TempDir,
    archive: bool,
    scale: Scale,
    durable: bool,
    next_tag: i64,
    kills: u64,
    /// Since it was last looked at.
    runs: Vec<Run>,
    /// Copies of what followers showed last.
    followed: Vec<(Ts, PathBuf)>,
    first_tag: i64,
}

impl Place {
    fn new(random: &mut Random) -> Place {
        let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let archive = random.percent(50);
        let scale = Scale::hundredth(random.pick(1, 2));
        let durable = random.percent(50);
        let engine = open(folder.path(), durable, archive.then(|| archive_of(copies.path())));
        tpcc::load(&engine, scale, LOAD_SEED, 1, &|_| ()).unwrap();
        Place {
            folder,
            copies,
            archive,
            followed: Vec::new(),
            scale,
            durable,
            next_tag: LOADED_AT + 1,
            kills: 0,
            runs: Vec::new(),
            first_tag: LOADED_AT + 1,
        }
    }

    /// Opens the folder and looks at everything.
    fn look(&mut self, report: &mut Report) {
        let archive = self.archive.then(|| archive_of(self.copies.path()));
        let engine = open(self.folder.path(), self.durable, archive);
        let violations = tpcc::check(&engine, self.scale).unwrap();
        report
            .inconsistent
            .extend(violations.iter().map(|violation| format!("{violation:?}")));
        let found = Found::read(&engine, self.first_tag);
        let wrong = found.compare(&self.runs);
        report.lost.extend(wrong.lost);
        report.half_applied.extend(wrong.half_applied);
        self.look_at_copies(&engine, &found, report);
        self.next_tag = self.next_tag.max(found.newest() + 1);
        self.first_tag = self.next_tag;
        self.runs.clear();
    }

    /// Compares backups and what followers showed with what is left: each is a part of it, consistent, and as it was said to be.
    fn look_at_copies(&mut self, engine: &CorunTpcc, found: &Found, report: &mut Report) {
        let last = engine.store().stats().last;
        for (applied, copy) in std::mem::take(&mut self.followed) {
            report.followers += 1;
            self.compare(&copy, applied, last, found, report);
        }
        let newest = self.runs.iter().rev().find_map(|run| run.backup.clone());
        if let Some((name, ts)) = newest {
            report.backups += 1;
            let backup = self.copies.path().join(name);
            assert_eq!(verify(&backup).unwrap().last, ts);
            if self.archive {
                report.restored += 1;
                let target = self.copies.path().join("restored");
                let archive = archive_of(self.copies.path());
                let restored = restore_to(&backup, archive, Until::Newest, &target).unwrap();
                assert!(restored.last >= ts, "{} and {ts}", restored.last);
                self.compare(&target, restored.last, last, found, report);
            }
            self.compare(&backup, ts, last, found, report);
        }
        // Of the others none is taken for one that is not complete.
        for entry in std::fs::read_dir(self.copies.path()).unwrap() {
            let copy = entry.unwrap().path();
            if copy == archive_of(self.copies.path()) {
                continue;
            }
            match verify(&copy) {
                Ok(_)
                | Err(StoreError::NoStore { .. })
                | Err(StoreError::Checkpoint(CheckpointError::NoManifest { .. })) => {}
                Err(error) => report.inconsistent.push(error.to_string()),
            }
            std::fs::remove_dir_all(copy).unwrap();
        }
    }

    /// Compares a copy, whose newest commit is `ts`, with what is left.
    fn compare(&self, copy: &Path, ts: Ts, last: Ts, found: &Found, report: &mut Report) {
        if ts > last {
            report
                .lost
                .push(format!("{} has commit {ts}, {last} is left", copy.display()));
        }
        let copy = open(copy, self.durable, None);
        assert_eq!(copy.store().stats().last, ts);
        let violations = tpcc::check(&copy, self.scale).unwrap();
        report
            .inconsistent
            .extend(violations.iter().map(|violation| format!("{violation:?}")));
        report
            .lost
            .extend(Found::read(&copy, self.first_tag).beyond(found));
    }

    /// Keeps what a follower showed last.
    fn keep(&mut self, follower: &Follower) {
        let copy = self.copies.path().join(format!("followed-{}", self.kills));
        // Since it stopped to follow it says so, and shows nothing.
        if let (Ok(lag), Ok(_)) = (follower.lag(), follower.backup(&copy)) {
            // It may have applied more since; no less.
            let ts = verify(&copy).unwrap().last;
            assert!(ts >= lag.applied);
            self.followed.push((ts, copy));
        }
    }
}

fn open(folder: &Path, durable: bool, archive: Option<PathBuf>) -> CorunTpcc {
    let store = Store::open(folder, options(durable, 1 << 20, archive)).unwrap();
    if let Some(damage) = store.damage() {
        assert!(damage.torn_tail, "{damage}");
    }
    CorunTpcc::new(store).unwrap()
}

#[test]
#[expect(clippy::print_stdout, reason = "whoever runs it wants to know")]
fn a_killed_process_leaves_whole_transactions_and_all_it_reported() {
    let kills = from_environment("CORUN_KILLS", 15);
    let seed = from_environment("CORUN_SEED", 1);
    let mut random = Random::new(seed, 0);
    let started = Instant::now();
    let mut report = Report::default();
    let mut place = Place::new(&mut random);
    while report.kills < kills {
        if place.kills >= KILLS_PER_FOLDER {
            place.look(&mut report);
            place = Place::new(&mut random);
        }
        let orders = Orders {
            folder: place.folder.path().to_owned(),
            durable: place.durable,
            clients: random.pick(4, 8),
            warehouses: place.scale.warehouses,
            seed: seed << 20 | report.kills,
            first_tag: place.next_tag,
            checkpoint_log_bytes: 64 << (10 + 2 * random.between(0, 2)),
            checkpoint_every: if random.percent(50) {
                random.between(1, 40) as u64
            } else {
                0
            },
            copies: place.copies.path().to_owned(),
            archive: place.archive,
        };
        let (run, following) = kill_one(&orders, &mut random);
        match &following {
            Some(Ok(follower)) => place.keep(follower),
            // Of any kind but damage: what it read was being replaced.
            Some(Err(error @ StoreError::Damaged { .. })) => panic!("{error}"),
            Some(Err(_)) | None => {}
        }
        report.kills += 1;
        place.kills += 1;
        report.in_recovery += u64::from(!run.was_ready);
        report.acks += run.acks() as u64;
        // Far above all that this run used.
        place.next_tag += 1_000_000;
        place.runs.push(run);
        // Now and then the next process finds it as the killed one left it.
        if random.percent(75) {
            place.look(&mut report);
        }
    }
    place.look(&mut report);
    println!(
        "{{\"part\":\"kills\",\"kills\":{},\"kills_in_recovery\":{},\"acknowledged\":{},\"backups\":{},\"followers\":{},\
         \"restored\":{},\"lost\":{},\"half_applied\":{},\
         \"inconsistent\":{},\"seconds\":{},\"seed\":{seed}}}",
        report.kills,
        report.in_recovery,
        report.acks,
        report.backups,
        report.followers,
        report.restored,
        report.lost.len(),
        report.half_applied.len(),
        report.inconsistent.len(),
        started.elapsed().as_secs(),
    );
    let first = |what: &[String]| what.iter().take(5).cloned().collect::<Vec<_>>();
    assert!(
        report.lost.is_empty(),
        "seed {seed}: lost {:#?}",
        first(&report.lost)
    );
    assert!(
        report.half_applied.is_empty(),
        "seed {seed}: {:#?}",
        first(&report.half_applied)
    );
    assert!(
        report.inconsistent.is_empty(),
        "seed {seed}: {:#?}",
        first(&report.inconsistent)
    );
    assert!(report.acks > 0, "nobody did anything");
    assert!(report.backups > 0 && report.followers > 0, "{report:?}");
}
