//! Measures.
#![allow(clippy::print_stdout)]
use exec::HugeBuf;
use exec::operators::*;
use exec::stage::{Options, run};
use model::mode::*;
use std::time::Instant;

struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545F4914F6CDD1D)
    }
    fn below(&mut self, n: usize) -> u32 {
        (((self.next() >> 32) * n as u64) >> 32) as u32
    }
}

fn main() {
    let arg: Vec<String> = std::env::args().collect();
    let what = arg.get(1).map(String::as_str).unwrap_or("hash");
    let n: usize = arg.get(2).and_then(|s| s.parse().ok()).unwrap_or(8 << 20);
    let reps: usize = arg.get(3).and_then(|s| s.parse().ok()).unwrap_or(3);
    let keys = arg.get(4).map(String::as_str).unwrap_or("random");
    let filter = arg.get(5).cloned().unwrap_or_default();
    let mut rng = Rng(88172645463325252);
    let mut rows = || {
        let mut b = HugeBuf::<Row>::zeroed(n).unwrap();
        for (i, r) in b.iter_mut().enumerate() {
            r.key = if keys == "unique" {
                i as u32
            } else {
                rng.below(n) + 1
            };
            r.payload[0] = i as u32;
        }
        if keys == "unique" {
            for i in (1..n).rev() {
                let j = rng.below(i + 1) as usize;
                let k = b[i].key;
                b[i].key = b[j].key;
                b[j].key = k;
            }
        }
        b
    };
    let build = rows();
    let probe = rows();
    let mut order: Vec<u32> = (0..n as u32).collect();
    for i in (1..n).rev() {
        let j = rng.below(i + 1) as usize;
        order.swap(i, j);
    }
    let mut out = HugeBuf::<OutputRow>::zeroed(n + n / 8).unwrap();
    let mut modes = vec![Mode::PLAIN, Mode::staged(Threads::One, Hiding::None)];
    for schedule in [Schedule::Group, Schedule::Pipeline, Schedule::Amac] {
        for distance in [8, 16, 32, 64, 128] {
            modes.push(Mode::staged(
                Threads::One,
                Hiding::Prefetch { schedule, distance },
            ));
        }
    }
    modes.push(Mode {
        threads: Threads::BiThreaded(2),
        ..Mode::PLAIN
    });
    for schedule in [Schedule::Group, Schedule::Pipeline, Schedule::Amac] {
        for distance in [16, 32] {
            modes.push(Mode::staged(
                Threads::BiThreaded(2),
                Hiding::Prefetch { schedule, distance },
            ));
        }
    }
    modes.retain(|m| filter.split(',').any(|f| m.to_string().contains(f)) || *m == Mode::PLAIN);
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap());
    if what == "hash" {
        let table = PaperTable::build(&build, n).unwrap();
        let join = HashJoin::new(&table, &probe, Stream::unclustered(&order, n).unwrap()).unwrap();
        measure(&join, &modes, &mut out, n, reps);
    } else if what == "table" {
        let table = RowTable::build(
            &build,
            &exec::BuildOptions {
                force: arg.get(6).map(|_| exec::Kind::Buckets32),
                ..Default::default()
            },
            &exec::Serial,
            &std::sync::atomic::AtomicBool::new(false),
        )
        .unwrap();
        println!("{:?}", table.table().kind());
        let join = TableJoin::new(&table, &probe, Stream::unclustered(&order, n).unwrap()).unwrap();
        measure(&join, &modes, &mut out, n, reps);
    } else if what == "index" {
        let sorted: Vec<u32> = (0..n as u32).collect();
        let tree: exec::csb::CsbTree<u32> = exec::csb::CsbTree::bulk_load(&sorted, &sorted, 0.75).unwrap();
        println!("{tree:?}");
        let keys: Vec<u32> = (0..n).map(|_| rng.below(n)).collect();
        let mut rids = vec![0; n];
        let mut best = vec![f64::MAX; modes.len()];
        for _ in 0..reps {
            for (i, m) in modes.iter().enumerate() {
                if m.workers() > 1 || (i > 0 && m.hiding == Hiding::None) {
                    continue;
                }
                let c0 = cpu();
                lookup_batch(&tree, &keys, &mut rids, m.hiding).unwrap();
                best[i] = best[i].min(cpu() - c0);
                assert_eq!(rids, keys);
            }
        }
        for (m, b) in modes.iter().zip(&best) {
            println!(
                "  {:28} cpu {:6.1} ns  {:.2}x",
                m.to_string(),
                b * 1e9 / n as f64,
                best[0] / b
            );
        }
        let mut best = [f64::MAX; 2];
        let map: std::collections::BTreeMap<u32, u32> = (0..n as u32).map(|k| (k, k)).collect();
        for _ in 0..reps {
            let c0 = cpu();
            for (k, r) in keys.iter().zip(&mut rids) {
                *r = tree.get(*k).unwrap();
            }
            best[0] = best[0].min(cpu() - c0);
            assert_eq!(rids, keys);
            let c0 = cpu();
            for (k, r) in keys.iter().zip(&mut rids) {
                *r = map[k];
            }
            best[1] = best[1].min(cpu() - c0);
            assert_eq!(rids, keys);
        }
        println!(
            "  get {:.1} ns, BTreeMap {:.1} ns",
            best[0] * 1e9 / n as f64,
            best[1] * 1e9 / n as f64
        );
    } else {
        let mut pairs = HugeBuf::<RidPair>::zeroed(n).unwrap();
        for p in pairs.iter_mut() {
            *p = RidPair {
                outer: rng.below(n),
                inner: rng.below(n),
            };
        }
        let join = JoinIndex::inner(&pairs, &build, &probe).unwrap();
        measure(&join, &modes, &mut out, n, reps);
    }
}

fn measure<'a, const M: usize, O: exec::stage::Staged<'a, M, Output = RowSink<'a>>>(
    op: &O,
    modes: &[Mode],
    out: &mut [OutputRow],
    n: usize,
    reps: usize,
) {
    let mut small = vec![OutputRow::default(); 8192];
    for recycled in [false, true] {
        let mut best = vec![f64::MAX; modes.len()];
        let mut bcpu = best.clone();
        let mut bcpu = best.clone();
        let mut count = 0;
        for _ in 0..reps {
            for (i, m) in modes.iter().enumerate() {
                // SAFETY: test code; the sinks end before the next run.
                let (o, s): (&'a mut [OutputRow], &'a mut [OutputRow]) = unsafe {
                    (
                        std::slice::from_raw_parts_mut(out.as_mut_ptr(), out.len()),
                        std::slice::from_raw_parts_mut(small.as_mut_ptr(), small.len()),
                    )
                };
                let half = o.len() / 2;
                let mut outs: Vec<RowSink<'a>> = match (m.workers(), recycled) {
                    (1, false) => vec![RowSink::new(o)],
                    (1, true) => vec![RowSink::recycling(&mut s[..4096])],
                    (_, false) => {
                        let (a, b) = o.split_at_mut(half);
                        vec![RowSink::new(a), RowSink::new(b)]
                    }
                    _ => {
                        let (a, b) = s.split_at_mut(4096);
                        vec![RowSink::recycling(a), RowSink::recycling(b)]
                    }
                };
                let t = Instant::now();
                let c0 = cpu();
                let c0 = cpu();
                run(*m, &[op], &mut outs, &Options::default()).unwrap();
                best[i] = best[i].min(t.elapsed().as_secs_f64());
                bcpu[i] = bcpu[i].min((cpu() - c0) / m.workers() as f64);
                bcpu[i] = bcpu[i].min((cpu() - c0) / m.workers() as f64);
                let c: usize = outs.iter().map(|s| s.finish().unwrap()).sum();
                if count == 0 {
                    count = c;
                }
                assert_eq!(c, count);
            }
        }
        println!("recycled {recycled} rows {count}");
        for ((m, b), c) in modes.iter().zip(&best).zip(&bcpu) {
            println!(
                "  {:28} {:6.1} ns  {:.2}x   cpu/worker {:6.1} {:.2}x",
                m.to_string(),
                b * 1e9 / n as f64,
                best[0] / b,
                c * 1e9 / n as f64,
                bcpu[0] / c
            );
        }
    }
}

fn cpu() -> f64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}
