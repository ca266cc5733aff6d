//! Prints what a query whose table fits the shared cache loses to a neighbour on the next core, and whether the neighbour
//! asking for its lines once ([`Reuse::Once`]) spares it.
//!
//! ```text
//! cargo run --release -p corun-exec --example neighbour [-- VICTIM_MIB,VICTIM_MIB.. NEIGHBOUR_MIB REPETITIONS]
//! ```
//!
//! Two victims: a chain of dependent reads, and probes of a join table. Neighbours: probes of a far larger join table, lookups in
//! a large tree with the row found, and a scan. CPU nanoseconds of either thread, medians of interleaved repetitions, answers
//! checked. `loss` is what the victim takes beside this neighbour relative to alone.
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use corun_exec::csb::CsbTree;
use corun_exec::operators::{Matches, lookup_matches};
use corun_exec::prefetch::Once;
use corun_exec::stage::Context;
use corun_exec::{BuildOptions, Chunk, Codes, HugeBuf, JoinTable, Kind, Pairs, ProbeCursor, Serial, gather};
use corun_model::cache::reuse::Reuse;
use corun_model::operators::mode::{Hiding, Schedule};
use corun_model::units::Bytes;

const BATCH_ROWS: usize = 8192;
/// Keys looked up together in a tree.
const WINDOW_KEYS: usize = 2048;
/// Bytes of a join table's index a row of random 64-bit keys takes, roughly.
const TABLE_BYTES_PER_ROW: usize = 20;
/// Bytes of tree and payload a row takes, roughly.
const INDEXED_BYTES_PER_ROW: usize = 17;
/// What a tree keeps in the outer caches: the levels that fit.
const KEPT: Bytes = Bytes::mib(48);

/// A bijective scramble: distinct inputs give distinct, random-looking outputs.
fn scrambled(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d);
    mixed ^ mixed >> 33
}

/// CPU seconds this thread has used: the core may be taken by other programs meanwhile.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local that outlives the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "the CPU clock of a thread is always there");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Binds the calling thread to the `number`-th CPU it may use; where that cannot be, it runs anywhere.
fn bind(number: usize) {
    // SAFETY: the set is a local of the size told, and zero bytes are an empty one.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) != 0 {
            return;
        }
        let mut cpus = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        if let Some(cpu) = cpus.nth(number) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one);
        }
    }
}

/// Work that goes on for ever, a batch at a time.
trait Work: Send {
    /// Does one more batch, checks its answer and returns its rows.
    fn batch(&mut self) -> usize;
}

/// Reads that depend on each other, once round all lines of a buffer.
struct Chain {
    next: HugeBuf<u64>,
    at: usize,
}

impl Chain {
    fn new(bytes: usize) -> Chain {
        let lines = (bytes / 64).next_power_of_two();
        let mut next = HugeBuf::<u64>::zeroed(lines * 8).expect("memory for a chain");
        // A full cycle: multiplier 1 more than a multiple of 4, odd increment; bits swapped so that neighbours are apart.
        let place = |number: usize| (scrambled_within(number, lines)) * 8;
        for number in 0..lines {
            next[place(number)] = place((number + 1) % lines) as u64;
        }
        Chain { next, at: place(0) }
    }
}

/// A permutation of the numbers below a power of two.
fn scrambled_within(number: usize, count: usize) -> usize {
    let bits = count.trailing_zeros().max(2);
    let mut mixed = number;
    for odd in [0x9e37_79b1, 0x85eb_ca6b] {
        mixed = mixed.wrapping_mul(odd) & (count - 1);
        mixed ^= mixed >> (bits / 2).max(1);
    }
    mixed
}

impl Work for Chain {
    fn batch(&mut self) -> usize {
        let mut at = self.at;
        for _ in 0..BATCH_ROWS {
            at = self.next[at] as usize;
        }
        self.at = at;
        BATCH_ROWS
    }
}

/// A column of codes and what each batch of them must find.
struct Keys<K> {
    keys: Vec<K>,
    sums: Vec<u64>,
    next: usize,
}

impl<K> Keys<K> {
    /// Keys of `count` random numbers below `below`; a batch must find the sum of its numbers.
    fn new(count: usize, below: u64, key: impl Fn(u64) -> K) -> Self {
        let numbers: Vec<u64> = (0..count.next_multiple_of(BATCH_ROWS) as u64)
            .map(|probe| scrambled(probe + (1 << 40)) % below)
            .collect();
        Keys {
            sums: numbers
                .chunks(BATCH_ROWS)
                .map(|batch| batch.iter().sum())
                .collect(),
            keys: numbers.into_iter().map(key).collect(),
            next: 0,
        }
    }

    fn batch(&mut self) -> (&[K], u64) {
        let batch = self.next % self.sums.len();
        self.next = batch + 1;
        (&self.keys[batch * BATCH_ROWS..][..BATCH_ROWS], self.sums[batch])
    }
}

/// Probes of a join table, every one of which finds a row.
struct Probing {
    table: JoinTable,
    keys: Keys<u64>,
    cursor: ProbeCursor,
    pairs: Pairs,
}

impl Probing {
    fn new(bytes: usize, probes: usize) -> Probing {
        let rows = (bytes / TABLE_BYTES_PER_ROW).max(1) as u64;
        let build: Vec<u64> = (0..rows).map(scrambled).collect();
        let chunk = Chunk {
            codes: Codes::U64 {
                values: &build,
                bias: 0,
            },
            valid: None,
            first_row: 0,
        };
        let options = BuildOptions {
            force: Some(Kind::Buckets64),
            prefetch_from_bytes: 1 << 20,
            l2_bytes: 2 << 20,
            ..BuildOptions::default()
        };
        let table = JoinTable::build(&[chunk], &options, &Serial, &AtomicBool::new(false));
        Probing {
            table: table.expect("memory for a join table"),
            keys: Keys::new(probes, rows, scrambled),
            cursor: ProbeCursor::default(),
            pairs: Pairs::default(),
        }
    }
}

impl Work for Probing {
    fn batch(&mut self) -> usize {
        let (values, sum) = self.keys.batch();
        self.cursor.reset();
        let codes = Codes::U64 { values, bias: 0 };
        let Probing {
            table, cursor, pairs, ..
        } = self;
        let finished = table.probe(&codes, None, None, cursor, BATCH_ROWS + 1, pairs);
        let found: u64 = pairs.build.iter().map(|&row| u64::from(row)).sum();
        assert!(
            finished && pairs.len() == BATCH_ROWS && found == sum,
            "a wrong pair"
        );
        BATCH_ROWS
    }
}

/// Lookups in a tree, and the column behind it.
struct Indexed {
    tree: CsbTree<u32>,
    column: HugeBuf<u64>,
    keys: Keys<u32>,
    rows: Vec<u32>,
    found: Vec<u64>,
    tree_kept: Option<Bytes>,
    column_reuse: Reuse,
}

impl Indexed {
    fn new(bytes: usize, probes: usize) -> Indexed {
        let rows = (bytes / INDEXED_BYTES_PER_ROW).next_power_of_two();
        let keys: Vec<u32> = (0..rows as u32).collect();
        let rids: Vec<u32> = (0..rows).map(|key| scrambled_within(key, rows) as u32).collect();
        let mut column = HugeBuf::<u64>::zeroed(rows).expect("memory for a column");
        for (&key, &rid) in keys.iter().zip(&rids) {
            column[rid as usize] = u64::from(key);
        }
        Indexed {
            tree: CsbTree::bulk_load(&keys, &rids, 1.0).expect("memory for a tree"),
            column,
            keys: Keys::new(probes, rows as u64, |number| number as u32),
            rows: Vec::new(),
            found: Vec::new(),
            tree_kept: None,
            column_reuse: Reuse::Keep,
        }
    }
}

/// The rows of each key, in whatever order the keys are done.
struct Rows<'r>(&'r mut Vec<u32>);

impl<'a> Matches<'a> for Rows<'_> {
    fn take<C: Context<'a>>(&mut self, _: usize, _: u32, inner: impl Iterator<Item = u32>, _: &mut C) {
        self.0.extend(inner);
    }
}

impl Work for Indexed {
    fn batch(&mut self) -> usize {
        let (keys, sum) = self.keys.batch();
        let hiding = Hiding::Prefetch {
            schedule: Schedule::Group,
            distance: 32,
        };
        self.rows.clear();
        for window in keys.chunks(WINDOW_KEYS) {
            lookup_matches(
                &self.tree,
                window,
                &mut Rows(&mut self.rows),
                hiding,
                self.tree_kept,
            )
            .expect("a group of 32");
        }
        gather(&self.column, &self.rows, self.column_reuse, &mut self.found);
        assert_eq!(self.found.iter().sum::<u64>(), sum, "a wrong row");
        BATCH_ROWS
    }
}

/// A column read from end to end.
struct Scanning {
    column: HugeBuf<u64>,
    next: usize,
    ahead: bool,
}

impl Work for Scanning {
    fn batch(&mut self) -> usize {
        let from = self.next;
        let to = self.column.len().min(from + (1 << 16));
        self.next = if to == self.column.len() { 0 } else { to };
        let values = &self.column[from..to];
        let sum: u64 = if self.ahead {
            Once::new(values).sum()
        } else {
            values.iter().sum()
        };
        assert_eq!(sum, 0);
        to - from
    }
}

/// How often a measurement is repeated because other programs took one of the cores meanwhile.
const ATTEMPTS_MAX: usize = 200;

/// A thread that had less of its core's time was disturbed.
const SHARE_MIN: f64 = 0.97;

/// What a stretch of work took.
#[derive(Clone, Copy)]
struct Stretch {
    ns_per_row: f64,
    /// CPU time of wall time, 0 to 1.
    share: f64,
}

/// Works while `going` says so; it is told the seconds passed.
fn work_while(work: &mut dyn Work, mut going: impl FnMut(f64) -> bool) -> Stretch {
    let (begin, start) = (Instant::now(), cpu_seconds());
    let mut rows = 0;
    loop {
        rows += work.batch();
        let (wall, cpu) = (begin.elapsed().as_secs_f64(), cpu_seconds() - start);
        if !going(wall) {
            return Stretch {
                ns_per_row: cpu * 1e9 / rows as f64,
                share: cpu / wall,
            };
        }
    }
}

/// Victim and neighbour, nanoseconds a row each, after a warm-up; 0 for a neighbour that is not there. `None`: disturbed.
fn side_by_side(victim: &mut dyn Work, neighbour: Option<&mut dyn Work>, seconds: f64) -> Option<(f64, f64)> {
    let (started, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (victim, neighbour) = std::thread::scope(|scope| {
        let running = neighbour.map(|neighbour| {
            scope.spawn(|| {
                bind(1);
                work_while(neighbour, |_| {
                    started.store(true, Ordering::Relaxed);
                    !stop.load(Ordering::Relaxed)
                })
            })
        });
        while running.as_ref().is_some_and(|running| !running.is_finished())
            && !started.load(Ordering::Relaxed)
        {
            std::thread::yield_now();
        }
        let warm = work_while(victim, |passed| passed < seconds);
        let taken = work_while(victim, |passed| passed < seconds);
        stop.store(true, Ordering::Relaxed);
        let neighbour = running.map(|running| running.join().expect("the neighbour's answers are right"));
        let share = warm.share.min(taken.share);
        (Stretch { share, ..taken }, neighbour)
    });
    let share = neighbour.map_or(victim.share, |neighbour| neighbour.share.min(victim.share));
    let neighbour_ns = neighbour.map_or(0.0, |neighbour| neighbour.ns_per_row);
    (share >= SHARE_MIN).then_some((victim.ns_per_row, neighbour_ns))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What runs beside the victim.
const NEIGHBOURS: [&str; 8] = [
    "alone",
    "probe keep",
    "probe once",
    "probe once, keys once",
    "index keep",
    "index once",
    "scan",
    "scan once",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let sizes = arguments.next().unwrap_or("32,64,96,128".to_owned());
    let mut number = |default: usize| {
        arguments
            .next()
            .map_or(default, |given| given.parse().expect("a number"))
    };
    let (mib, repetitions) = (number(1024), number(5));
    let seconds = if mib < 64 { 0.002 } else { 0.2 };
    bind(0);
    let probes = if mib < 64 { 1 << 16 } else { 1 << 24 };
    let mut probing = Probing::new(mib << 20, probes);
    let mut indexed = Indexed::new(mib << 20, probes);
    let mut scanning = Scanning {
        column: HugeBuf::zeroed(mib << 17).expect("memory for a column"),
        next: 0,
        ahead: false,
    };
    println!("CPU ns a row, medians of {repetitions}, measured here; neighbours' structures: {mib} MiB");
    println!("victim   MiB  neighbour                 victim   loss  neighbour");
    for size in sizes
        .split(',')
        .map(|size| size.parse::<usize>().expect("a number of MiB"))
    {
        let (mut chain, mut probed) = (Chain::new(size << 20), Probing::new(size << 20, probes / 8));
        let victims: [(&str, &mut dyn Work); 2] = [("chain", &mut chain), ("probe", &mut probed)];
        for (name, victim) in victims {
            let mut times = vec![(Vec::new(), Vec::new()); NEIGHBOURS.len()];
            for _ in 0..repetitions {
                for (number, neighbour) in NEIGHBOURS.iter().enumerate() {
                    let once = neighbour.contains("once");
                    let reuse = if once { Reuse::Once } else { Reuse::Keep };
                    let work: Option<&mut dyn Work> = match neighbour.split(' ').next() {
                        Some("probe") => {
                            probing.table.set_reuse(reuse);
                            probing.cursor = if neighbour.ends_with("keys once") {
                                ProbeCursor::read_once()
                            } else {
                                ProbeCursor::default()
                            };
                            Some(&mut probing)
                        }
                        Some("index") => {
                            indexed.tree_kept = once.then_some(KEPT);
                            indexed.column_reuse = reuse;
                            Some(&mut indexed)
                        }
                        Some("scan") => {
                            scanning.ahead = once;
                            Some(&mut scanning)
                        }
                        _ => None,
                    };
                    let mut work = work;
                    let measured = (0..ATTEMPTS_MAX).find_map(|_| {
                        let work = work.as_mut().map(|work| &mut **work as &mut dyn Work);
                        side_by_side(victim, work, seconds)
                    });
                    if let Some((victim_ns, neighbour_ns)) = measured {
                        times[number].0.push(victim_ns);
                        times[number].1.push(neighbour_ns);
                    }
                }
            }
            let times: Vec<(f64, f64)> = times
                .into_iter()
                .map(|(victim, neighbour)| (median(victim), median(neighbour)))
                .collect();
            for (neighbour, (victim_ns, neighbour_ns)) in NEIGHBOURS.iter().zip(&times) {
                let loss = victim_ns / times[0].0;
                println!(
                    "{name:<6} {size:>5}  {neighbour:<24} {victim_ns:>7.1} {loss:>6.2} {neighbour_ns:>10.2}"
                );
            }
        }
    }
}
