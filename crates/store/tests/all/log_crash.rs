//! Crashes: whatever a power failure leaves, the log reads back an exact prefix that has every durable commit, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corun_store::Ts;
use corun_store::log::{Damage, Log, LogEnd, LogError, LogOptions, LogReader, OnDamage};
use corun_store::park::ThreadPark;
use corun_store::storage::Twin;

const STORE: u64 = 0x5eed;

fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 4096,
        buffer_bytes: 4096,
        flush_every: Duration::from_micros(200),
        ..LogOptions::default()
    }
}

/// What commit `ts` of life number `life` writes: of any length, and told apart from all others.
fn payload(life: u64, ts: u64) -> Vec<u8> {
    let length = (ts.wrapping_mul(2_654_435_761) >> 7) % if ts.is_multiple_of(13) { 3000 } else { 200 };
    let mut bytes = Vec::from(life.to_le_bytes());
    bytes.extend((0..length).map(|at| (at ^ ts ^ life) as u8));
    bytes
}

/// Blocks, where the log goes on, and what was broken.
type ReadBack = (Vec<Vec<u8>>, LogEnd, Option<Damage>);

/// Everything that a log holds after `after`.
fn read(storage: &Twin, after: Ts, on_damage: OnDamage) -> Result<ReadBack, LogError> {
    let mut reader = LogReader::open(Arc::new(storage.clone()), STORE, after, on_damage)?;
    let mut blocks = Vec::new();
    while let Some(segment) = reader.next_segment()? {
        for (ts, range) in &segment.blocks {
            assert_eq!(ts.0, after.0 + blocks.len() as u64 + 1, "timestamps are dense");
            blocks.push(segment.bytes[range.clone()].to_vec());
        }
    }
    let end = reader.end()?;
    assert_eq!(end.last().0, after.0 + blocks.len() as u64);
    Ok((blocks, end, reader.damage().cloned()))
}

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Lives one life after the other on a disk: commits of some threads, some durable, a power failure or a kill at any moment,
/// and checks each restart against what was appended and what was acknowledged.
fn lives(seed: u64, lives: u64, threads: u64) -> [u64; 2] {
    let mut random = Random(seed * 2 + 1);
    let mut disk = Twin::new(seed);
    // What each commit wrote, from the first on.
    let mut history: Vec<Vec<u8>> = Vec::new();
    let mut checkpoint = 0;
    let mut acknowledged = 0;
    let mut torn = 0;
    let mut checkpoints = 0;
    for life in 0..lives {
        let (blocks, end, damage) = read(&disk, Ts(checkpoint), OnDamage::Refuse)
            .unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        let last = end.last().0;
        assert!(
            last >= acknowledged,
            "seed {seed}, life {life}: {acknowledged} was durable, {last} is left"
        );
        assert!(last <= history.len() as u64, "seed {seed}, life {life}");
        assert!(
            blocks[..] == history[checkpoint as usize..last as usize],
            "seed {seed}, life {life}: no exact prefix"
        );
        if let Some(damage) = damage {
            assert!(
                damage.torn_tail && damage.first_lost.0 == last + 1,
                "seed {seed}, life {life}: {damage}"
            );
            torn += 1;
        }
        history.truncate(last as usize);

        // A crash while the log starts.
        if random.below(4) == 0 {
            disk.stop_after(random.below(6));
            if Log::start(Arc::new(disk.clone()), STORE, end, small()).is_err() {
                disk = disk.crash(random.below(u64::MAX));
                // What was read and not acknowledged may still get lost.
                continue;
            }
            // What it went on from may not.
            acknowledged = last;
            disk = disk.crash(random.below(u64::MAX));
            continue;
        }

        let log = Log::start(Arc::new(disk.clone()), STORE, end, small()).unwrap();
        if random.below(2) == 0 {
            disk.slow_sync(Duration::from_micros(random.below(500)));
        }
        match random.below(12) {
            0 => disk.fail_sync_after(random.below(10)),
            1 => disk.full_at(Some(random.below(100_000))),
            _ => {}
        }
        // How many commits in 30 wait until they are durable.
        let waiting = [0, 1, 10][random.below(3) as usize];
        let kill = random.below(4) == 0;
        let commits = random.below(120);
        let new_acknowledged = AtomicU64::new(last);
        let crash_at = random.below(commits * threads * 3 / 2 + 1);
        let crash_seed = random.below(u64::MAX);
        let written = parking_lot::Mutex::new(Vec::new());
        let crashed = parking_lot::Mutex::new(None);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let mut random = Random(random.below(u64::MAX - 1) + 1);
                let (log, written, crashed, new_acknowledged, disk) =
                    (&log, &written, &crashed, &new_acknowledged, &disk);
                scope.spawn(move || {
                    let park = ThreadPark::current();
                    for number in 0..commits {
                        let bytes = payload(life, thread * 1000 + number);
                        let mut mine = Ts(0);
                        let appended = log.append(&bytes, &park, |ts| {
                            mine = ts;
                            written.lock().push((ts, bytes.clone()));
                        });
                        // A fault ended the log.
                        let Ok(ts) = appended else { break };
                        assert_eq!(ts, mine);
                        if written.lock().len() as u64 > crash_at {
                            // Acknowledged is what was so before the disk stopped.
                            let mut crashed = crashed.lock();
                            if crashed.is_none() {
                                let before = new_acknowledged.load(Ordering::SeqCst).max(log.durable().0);
                                *crashed =
                                    Some((before, if kill { disk.kill() } else { disk.crash(crash_seed) }));
                            }
                        }
                        if random.below(30) < waiting {
                            if log.wait_durable(ts, &park).is_err() {
                                break;
                            }
                            assert!(log.durable() >= ts);
                            new_acknowledged.fetch_max(ts.0, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        let written = written.into_inner();
        for (at, (ts, bytes)) in written.into_iter().enumerate() {
            assert_eq!(ts.0, last + at as u64 + 1, "`in_order` ran in order");
            history.push(bytes);
        }
        // Sometimes a checkpoint of something that is durable, or only in memory.
        if random.below(5) == 0 && crashed.lock().is_none() {
            checkpoint += random.below(log.last().0 - checkpoint + 1);
            log.remove_before(Ts(checkpoint)).unwrap();
            checkpoints += 1;
        }
        match (random.below(3), crashed.into_inner()) {
            (_, Some((before, after))) => {
                acknowledged = before;
                drop(log);
                disk = after;
            }
            // Closed, and the power fails or not.
            (how @ (0 | 1), None) => {
                acknowledged = match log.close() {
                    Ok(()) => log.last(),
                    Err(_) => log.durable(),
                }
                .0;
                disk = if how == 0 {
                    disk.kill()
                } else {
                    disk.crash(crash_seed)
                };
            }
            (_, None) => {
                acknowledged = new_acknowledged
                    .load(Ordering::SeqCst)
                    .max(log.durable().0)
                    .max(checkpoint);
                let after = disk.crash(crash_seed);
                drop(log);
                disk = after;
            }
        }
        // A checkpoint holds commits whose log may be lost: they count as there.
        acknowledged = acknowledged.max(checkpoint);
    }
    [torn, checkpoints]
}

fn many_lives(seeds: std::ops::Range<u64>, threads: u64) {
    let [torn, checkpoints] = seeds
        .map(|seed| lives(seed, 10, threads))
        .fold([0, 0], |sum, life| [sum[0] + life[0], sum[1] + life[1]]);
    assert!(
        torn > 20 && checkpoints > 20,
        "torn ends and checkpoints are met: {torn}, {checkpoints}"
    );
}

#[test]
fn thousands_of_crashes_lose_nothing_durable_1_thread() {
    many_lives(1..160, 1);
}

#[test]
fn thousands_of_crashes_lose_nothing_durable_2_threads() {
    many_lives(1000..1130, 2);
}

#[test]
fn thousands_of_crashes_lose_nothing_durable_5_threads() {
    many_lives(2000..2080, 5);
}
