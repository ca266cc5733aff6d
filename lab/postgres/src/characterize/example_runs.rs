//! Runs for tests: a virtual machine that has next to nothing, and a machine that has everything. Their numbers are plausible and nobody's.

use super::advice;
use super::rows::{
    CAPABILITY, DISTRIBUTION, FOOTPRINT, FUNCTIONS, INTERFERENCE, MISSES, MIX, PLAN, RESOURCES, SPEEDUP,
    STALLS, SUITE, fact, missing,
};
use lab_core::row::Row;
use lab_core::stats::Spread;

const CLIENTS: [usize; 6] = [1, 2, 4, 6, 8, 10];
const MIB: f64 = 1024.0 * 1024.0;

/// One of DBmbench's queries on both machines.
struct Query {
    name: &'static str,
    /// Queries a second of one client.
    rate: f64,
    /// Effect of SMT.
    gain: f64,
    plan: &'static str,
    /// Selectivity in percent, wanted and found.
    selected: [f64; 2],
    /// Simulated misses in percent: L1-D loads, last level, L1-I.
    misses: [f64; 3],
    /// Largest slow-down beside the polluter.
    slowdown: f64,
    functions: &'static [&'static str],
}

const QUERIES: [Query; 3] = [
    Query {
        name: "utpcc",
        rate: 820.0,
        gain: 1.12,
        plan: "Aggregate > Bitmap Heap Scan > Bitmap Index Scan",
        selected: [0.1, 0.0998],
        misses: [2.4, 0.9, 1.9],
        slowdown: 1.012,
        functions: &[
            "heap_hot_search_buffer",
            "hash_search_with_hash_value",
            "LWLockAcquire",
            "HeapTupleSatisfiesMVCC",
            "tbm_iterate",
            "PinBuffer",
            "__memcpy_evex_unaligned_erms",
        ],
    },
    Query {
        name: "uss",
        rate: 1.9,
        gain: 1.07,
        plan: "Unique > Sort > Seq Scan",
        selected: [10.0, 10.02],
        misses: [1.1, 0.22, 0.02],
        slowdown: 1.24,
        functions: &[
            "ExecInterpExpr",
            "heapgettup_pagemode",
            "slot_deform_heap_tuple",
            "comparetup_datum",
            "qsort_tuple",
        ],
    },
    Query {
        name: "unj",
        rate: 1.1,
        gain: 1.2,
        plan: "Aggregate > Nested Loop > Seq Scan > Index Scan",
        selected: [20.0, 19.97],
        misses: [1.6, 0.4, 0.8],
        slowdown: 1.07,
        functions: &[
            "_bt_compare",
            "LWLockAcquire",
            "hash_search_with_hash_value",
            "ExecInterpExpr",
            "FunctionCall2Coll",
        ],
    },
];

/// Five values around `middle`, within `percent` of it.
fn around(middle: f64, percent: f64) -> Spread {
    let values = [-1.0, -0.4, 0.0, 0.5, 1.0].map(|step| middle * (1.0 + step * percent / 100.0));
    Spread::of(&values).expect("five values")
}

fn measured(case: &str, (metric, unit): (&str, &str), spread: Spread, how: &str, workload: &str) -> Row {
    let row = Row::measured(SUITE, case, metric, unit, spread, true);
    row.with("workload", workload).with("how", how)
}

fn simulated(case: &str, (metric, unit): (&str, &str), value: f64, workload: &str) -> Row {
    let row = Row::simulated(SUITE, case, metric, unit, Spread::one(value), true);
    row.with("workload", workload).with("how", "cachegrind")
}

fn available(name: &str) -> Row {
    let row = Row::measured(SUITE, CAPABILITY, "available", "bool", Spread::one(1.0), true);
    row.with("capability", name)
}

fn plans() -> impl Iterator<Item = Row> {
    QUERIES.iter().map(|query| {
        let [wanted, found] = query.selected;
        let what = ("selectivity_percent", "%");
        measured(PLAN, what, Spread::one(found), "explain", query.name)
            .with("plan", query.plan)
            .with("wanted_percent", wanted)
            .with("paper_plan", query.plan)
    })
}

/// Rates that rise until `cpus` are busy, times, and what the kernel says.
fn sweep(rows: &mut Vec<Row>, smt: &str, cpus: f64, pays: bool) {
    for query in &QUERIES {
        let alone = query.rate;
        for clients in CLIENTS {
            let many = clients as f64;
            let gain = if pays && clients > 1 { query.gain } else { 1.0 };
            let rate = alone * many.min(cpus) * (1.0 + 0.002 * many) * gain;
            let place = |row: Row| row.with("smt", smt).with("concurrency", clients);
            let timed = |metric, unit, value, percent| {
                let spread = around(value, percent);
                place(measured(SPEEDUP, (metric, unit), spread, "clock", query.name))
            };
            let time = timed("ms_per_query", "ms", 1000.0 * many / rate, 2.0);
            rows.push(time.with("outliers", usize::from(clients == 6)));
            rows.push(timed("queries_per_s", "1/s", rate, 2.0));
            if clients > 1 {
                rows.push(timed("ratio", "x", rate / alone, 2.5).versus("alone"));
            }
            if pays {
                rows.push(timed("ratio", "x", gain * 1.004, 1.5).versus("smt_off"));
            }
            let cpu = 1e6 / alone;
            let waits = (many / cpus - 1.0).max(0.01) * cpu;
            for (metric, unit, value) in [
                ("cpu_us_per_query", "us", cpu),
                ("user_us_per_query", "us", cpu * 0.93),
                ("system_us_per_query", "us", cpu * 0.07),
                ("run_delay_us_per_query", "us", waits),
                ("involuntary_switches_per_query", "count", waits / 4000.0),
                ("minor_faults_per_query", "count", 3.0),
            ] {
                let spread = Spread::one(value);
                rows.push(place(measured(
                    RESOURCES,
                    (metric, unit),
                    spread,
                    "kernel",
                    query.name,
                )));
            }
        }
    }
}

fn simulation(rows: &mut Vec<Row>) {
    for query in &QUERIES {
        let [l1d, llc, l1i] = query.misses;
        for (metric, value) in [
            ("l1d_load_miss_percent", l1d),
            ("llc_load_miss_percent", llc),
            ("l1i_miss_percent", l1i),
            ("branch_mispredict_percent", l1d * 1.3),
        ] {
            let row = simulated(MISSES, (metric, "%"), value, query.name).with("smt", "none");
            rows.push(row.with("cache", "48k/12/64, LL 1M/16/64"));
        }
        for (kind, share) in [("load", 27.5), ("store", 14.0), ("branch", 18.6), ("other", 39.9)] {
            let share = share + l1d / 10.0 - 0.2;
            let row = simulated(MIX, ("percent", "%"), share, query.name).with("smt", "none");
            rows.push(row.with("kind", kind));
        }
        let bytes = 88_000.0 + l1d * 9000.0;
        let row = simulated(FOOTPRINT, ("bytes", "bytes"), bytes, query.name);
        rows.push(row.with("l1i_bytes", 32_768usize));
    }
}

/// The functions of each query: simulated, or sampled.
fn functions(rows: &mut Vec<Row>, is_simulated: bool) {
    let metrics: &[(&str, f64)] = match is_simulated {
        true => &[
            ("instructions_percent", 1.0),
            ("l1i_miss_share_percent", 0.6),
            ("ll_miss_share_percent", 1.7),
        ],
        false => &[("time_percent", 1.0)],
    };
    for query in &QUERIES {
        for (rank, name) in query.functions.iter().enumerate() {
            let share = 19.0 / (1.0 + rank as f64 * 0.55);
            let is_library = name.starts_with("__");
            for (metric, factor) in metrics {
                let (what, value) = ((*metric, "%"), share * factor);
                let row = match is_simulated {
                    true => simulated(FUNCTIONS, what, value, query.name).with("smt", "none"),
                    false => measured(FUNCTIONS, what, Spread::one(value), "sampling", query.name),
                };
                let row = row.with("function", *name).with("rank", rank + 1);
                rows.push(row.with("module", if is_library { "libraries" } else { "server" }));
            }
        }
    }
}

fn interference(rows: &mut Vec<Row>, cache_mib: f64) {
    let beside =
        |metric, unit, spread, workload| measured(INTERFERENCE, (metric, unit), spread, "polluter", workload);
    for query in &QUERIES {
        let most = query.slowdown - 1.0;
        for mib in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
            let share = ((mib / cache_mib).min(2.0) / 2.0_f64).powi(2);
            let spread = around(1.0 + most * share, 0.8);
            let row = beside("slowdown", "x", spread, query.name).with("smt", "none");
            let row = row.with("footprint_bytes", (mib * MIB) as u64);
            rows.push(row.with("streams", 1usize));
        }
        let spread = around(100.0 * most, 6.0);
        rows.push(beside("sensitivity_percent", "%", spread, query.name).with("smt", "none"));
    }
    for (how, mib) in [("polluter", cache_mib), ("pointer_chase", cache_mib * 1.12)] {
        let (what, bytes) = (("effective_llc_bytes", "bytes"), mib * MIB);
        let row = measured(INTERFERENCE, what, Spread::one(bytes), how, "synthetic");
        let row = row
            .with("spread_low", bytes * 0.85)
            .with("spread_high", bytes * 1.2);
        rows.push(row.with("agrees", true));
    }
    rows.push(beside(
        "bandwidth_bytes_per_s",
        "bytes/s",
        around(9.6e9, 3.0),
        "synthetic",
    ));
}

fn facts(processor: &str, caches: &str) -> Vec<Row> {
    [
        ("processor", processor),
        ("caches", caches),
        ("server", "PostgreSQL 17.2, shared_buffers = 1GB, jit = off"),
        ("rows of T1", "1000000"),
        ("date", "2026-01-31 (UTC)"),
    ]
    .map(|(name, value)| fact(name, value))
    .to_vec()
}

/// Two CPUs of a virtual machine: no PMU, no SMT, no resctrl; valgrind and the kernel's own figures.
pub(super) fn virtual_machine() -> Vec<Row> {
    let hidden = "the hypervisor hides them";
    let mut rows = facts(
        "a processor (2 CPUs)",
        "L1d 48.0 KiB, L2 1.0 MiB, L3 32.0 MiB shared by 2",
    );
    for (name, reason) in [
        ("pmu", hidden),
        ("smt", "each core has one hardware thread"),
        ("smt_control", "the kernel says notsupported"),
        ("resctrl", "the CPU has no cat_l3 flag"),
        (
            "sampling",
            "perf_event_open: permission denied; lower kernel.perf_event_paranoid",
        ),
    ] {
        rows.push(missing(name, reason));
    }
    rows.extend(["valgrind", "symbols", "perf_events", "resources"].map(available));
    rows.extend(plans());
    sweep(&mut rows, "none", 2.0, false);
    let place = |row: Row, clients: usize| row.with("smt", "none").with("concurrency", clients);
    for query in &QUERIES {
        for cpu in 0..2usize {
            let spread = around(4900.0 + 60.0 * cpu as f64, 1.0);
            let row = measured(DISTRIBUTION, ("busy_ms", "ms"), spread, "kernel", query.name);
            rows.push(place(row, 10).with("cpu", cpu));
        }
        let row = Row::unavailable(SUITE, MISSES, "l2_load_miss_percent", "%", hidden);
        rows.push(row.with("workload", query.name));
    }
    simulation(&mut rows);
    functions(&mut rows, true);
    interference(&mut rows, 9.0);
    let stolen = measured(
        RESOURCES,
        ("steal_percent", "%"),
        Spread::one(3.4),
        "kernel",
        "uss",
    );
    rows.push(place(stolen, 4));
    rows.extend(advice::rows(&rows));
    rows
}

/// A machine with SMT, counters, resctrl and permission.
pub(super) fn bare_metal() -> Vec<Row> {
    let mut rows = facts(
        "a processor (4 cores, 8 CPUs)",
        "L1d 48.0 KiB, L2 2.0 MiB, L3 30.0 MiB shared by 8",
    );
    let all = "pmu smt smt_control resctrl valgrind symbols perf_events sampling resources";
    rows.extend(all.split(' ').map(available));
    rows.extend(plans());
    sweep(&mut rows, "off", 4.0, false);
    sweep(&mut rows, "on", 4.0, true);
    for query in &QUERIES {
        for clients in CLIENTS {
            for (smt, more, cpus) in [("off", 1.0_f64, 4_usize), ("on", 1.04, 8)] {
                let counted = |case, metric, unit, value| {
                    let spread = around(value, 1.5);
                    let row = measured(case, (metric, unit), spread, "counters", query.name);
                    row.with("smt", smt).with("concurrency", clients)
                };
                for (metric, value) in [
                    ("l1d_load_miss_percent", 3.1 * more),
                    ("l2_load_miss_percent", 21.0 / more.powi(6)),
                    ("l1i_miss_percent", 1.4 * more),
                    ("itlb_miss_percent", 0.011),
                    ("dtlb_miss_percent", 0.21 * more),
                    ("branch_mispredict_percent", 1.1),
                ] {
                    let value = value * (1.0 + 0.01 * clients as f64);
                    rows.push(counted(MISSES, metric, "%", value).with("scaled", clients == 10));
                }
                rows.push(counted(STALLS, "cpi", "count", 0.9 * more));
                rows.push(counted(STALLS, "uops_per_instruction", "count", 1.12));
                for (component, value) in [
                    ("l2", 0.24),
                    ("l1d", 0.16),
                    ("dtlb", 0.03),
                    ("l1i", 0.05),
                    ("branch", 0.06),
                    ("itlb", 0.001),
                ] {
                    let row = counted(STALLS, "stall_cpi", "count", value / more);
                    rows.push(row.with("component", component));
                }
                if clients != 10 {
                    continue;
                }
                for cpu in 0..cpus {
                    let value = 8.1e9 / cpus as f64 * (1.0 + 0.01 * cpu as f64);
                    rows.push(counted(DISTRIBUTION, "instructions", "count", value).with("cpu", cpu));
                }
                for (category, value) in [
                    ("retiring", 34.0),
                    ("bad_speculation", 7.0),
                    ("frontend_bound", 24.0),
                    ("backend_bound", 35.0),
                ] {
                    let row = counted(STALLS, "topdown_percent", "%", value);
                    rows.push(row.with("category", category).with("level", 1usize));
                }
            }
        }
    }
    functions(&mut rows, false);
    for query in &QUERIES {
        for (kind, share) in [("load", 27.0), ("store", 14.2), ("branch", 19.3), ("other", 39.5)] {
            let spread = around(share, 0.5);
            rows.push(measured(MIX, ("percent", "%"), spread, "counters", query.name).with("kind", kind));
        }
    }
    interference(&mut rows, 24.0);
    rows.extend(advice::rows(&rows));
    rows
}
