//! TPC-C on a real folder, in a process that is killed (SIGKILL) at any moment, again and again on the same folder.
//!
//! `CORUN_KILLS=N` sets how many kills there are (15 by default), `CORUN_SEED=S` the seed. The last line of the output says
//! in JSON what was found.

mod acks;
mod child;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use corun_store::Store;
use corun_workloads::corun::CorunTpcc;
use corun_workloads::random::Random;
use corun_workloads::tpcc::{self, LOADED_AT, Scale};

use acks::{Found, Run};
use child::{LOAD_SEED, Orders, options};

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

/// Starts the child, kills it, and returns what it said.
fn kill_one(orders: &Orders, random: &mut Random) -> Run {
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
    if in_recovery {
        deadline = Instant::now() + Duration::from_micros(random.between(0, 40_000) as u64);
    }
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                run.take(&line);
                if run.was_ready && !is_planned {
                    is_planned = true;
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
    run
}

/// What was found so far.
#[derive(Debug, Default)]
struct Report {
    kills: u64,
    in_recovery: u64,
    acks: u64,
    lost: Vec<String>,
    half_applied: Vec<String>,
    inconsistent: Vec<String>,
}

/// A folder and what was done to it.
struct Place {
    folder: tempfile::TempDir,
    scale: Scale,
    durable: bool,
    next_tag: i64,
    kills: u64,
    /// Since it was last looked at.
    runs: Vec<Run>,
    first_tag: i64,
}

impl Place {
    fn new(random: &mut Random) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let scale = Scale::hundredth(random.pick(1, 2));
        let durable = random.percent(50);
        let engine = open(folder.path(), durable);
        tpcc::load(&engine, scale, LOAD_SEED, 1, &|_| ()).unwrap();
        Place {
            folder,
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
        let engine = open(self.folder.path(), self.durable);
        let violations = tpcc::check(&engine, self.scale).unwrap();
        report
            .inconsistent
            .extend(violations.iter().map(|violation| format!("{violation:?}")));
        let found = Found::read(&engine, self.first_tag);
        let wrong = found.compare(&self.runs);
        report.lost.extend(wrong.lost);
        report.half_applied.extend(wrong.half_applied);
        self.next_tag = self.next_tag.max(found.newest() + 1);
        self.first_tag = self.next_tag;
        self.runs.clear();
    }
}

fn open(folder: &Path, durable: bool) -> CorunTpcc {
    let store = Store::open(folder, options(durable, 1 << 20)).unwrap();
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
        };
        let run = kill_one(&orders, &mut random);
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
        "{{\"part\":\"kills\",\"kills\":{},\"kills_in_recovery\":{},\"acknowledged\":{},\"lost\":{},\"half_applied\":{},\
         \"inconsistent\":{},\"seconds\":{},\"seed\":{seed}}}",
        report.kills,
        report.in_recovery,
        report.acks,
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
}
