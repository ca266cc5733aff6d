//! Made-up runs for tests: a virtual machine that has next to nothing, and a machine that has everything. Their numbers are plausible
//! and nobody's.

use super::advice;
use super::rows::{
    CAPABILITY, DISTRIBUTION, FOOTPRINT, FUNCTIONS, INTERFERENCE, MISSES, MIX, PLAN, RESOURCES, SPEEDUP,
    STALLS, SUITE, fact,
};
use lab_core::row::Row;
use lab_core::stats::Spread;

const CLIENTS: [usize; 6] = [1, 2, 4, 6, 8, 10];
const MIB: f64 = 1024.0 * 1024.0;

/// Workload, rate of one client, effect of SMT, plan.
const WORKLOADS: [(&str, f64, f64, &str); 3] = [
    (
        "utpcc",
        820.0,
        1.12,
        "Aggregate > Bitmap Heap Scan > Bitmap Index Scan",
    ),
    ("uss", 1.9, 1.07, "Unique > Sort > Seq Scan"),
    ("unj", 1.1, 1.2, "Aggregate > Nested Loop > Seq Scan > Index Scan"),
];

/// Five values around `middle`, within `percent` of it.
fn around(middle: f64, percent: f64) -> Spread {
    let values = [-1.0, -0.4, 0.0, 0.5, 1.0].map(|step| middle * (1.0 + step * percent / 100.0));
    Spread::of(&values).expect("five values")
}

fn one(value: f64) -> Spread {
    Spread::of(&[value]).expect("a value")
}

fn measured(case: &str, metric: &str, unit: &str, spread: Spread, how: &str, workload: &str) -> Row {
    Row::measured(SUITE, case, metric, unit, spread, true)
        .with("workload", workload)
        .with("how", how)
}

fn simulated(case: &str, metric: &str, value: f64, workload: &str) -> Row {
    Row::simulated(SUITE, case, metric, "%", one(value), true)
        .with("workload", workload)
        .with("how", "cachegrind")
        .with("smt", "none")
}

fn available(name: &str) -> Row {
    Row::measured(SUITE, CAPABILITY, "available", "bool", one(1.0), true).with("capability", name)
}

fn missing(name: &str, reason: &str) -> Row {
    Row::unavailable(SUITE, CAPABILITY, "available", "bool", reason).with("capability", name)
}

fn plans(rows: &mut Vec<Row>) {
    for ((workload, _, _, plan), (wanted, found)) in
        WORKLOADS
            .into_iter()
            .zip([(0.1, 0.0998), (10.0, 10.02), (20.0, 19.97)])
    {
        rows.push(
            measured(PLAN, "selectivity_percent", "%", one(found), "explain", workload)
                .with("plan", plan)
                .with("wanted_percent", wanted)
                .with("paper_plan", plan),
        );
    }
}

/// Rates that rise until `cpus` are busy, times, and what the kernel says.
fn sweep(rows: &mut Vec<Row>, smt: &str, cpus: f64, factor: f64) {
    for (workload, alone, gain, _) in WORKLOADS {
        for clients in CLIENTS {
            let busy = (clients as f64).min(cpus);
            let level = 1.0 + 0.002 * clients as f64;
            let gain = if factor > 1.0 && clients > 1 { gain } else { 1.0 };
            let rate = alone * busy * level * gain;
            let place = |row: Row| row.with("smt", smt).with("concurrency", clients);
            let timed = |metric, unit, value, percent| {
                place(measured(
                    SPEEDUP,
                    metric,
                    unit,
                    around(value, percent),
                    "clock",
                    workload,
                ))
            };
            rows.push(
                timed("ms_per_query", "ms", 1000.0 * clients as f64 / rate, 2.0)
                    .with("outliers", usize::from(clients == 6)),
            );
            rows.push(timed("queries_per_s", "1/s", rate, 2.0));
            if clients > 1 {
                rows.push(timed("ratio", "x", rate / alone, 2.5).versus("alone"));
            }
            if factor > 1.0 {
                rows.push(timed("ratio", "x", gain * 1.004, 1.5).versus("smt_off"));
            }
            let cpu = 1e6 / alone;
            let used = |metric, unit, value| {
                place(measured(RESOURCES, metric, unit, one(value), "kernel", workload))
            };
            rows.push(used("cpu_us_per_query", "us", cpu));
            rows.push(used("user_us_per_query", "us", cpu * 0.93));
            rows.push(used("system_us_per_query", "us", cpu * 0.07));
            let waits = (clients as f64 / cpus - 1.0).max(0.01) * cpu;
            rows.push(used("run_delay_us_per_query", "us", waits));
            rows.push(used("involuntary_switches_per_query", "count", waits / 4000.0));
            rows.push(used("minor_faults_per_query", "count", 3.0));
        }
    }
}

fn simulation(rows: &mut Vec<Row>) {
    for (workload, l1d, llc, l1i) in [
        ("utpcc", 2.4, 0.9, 1.9),
        ("uss", 1.1, 0.22, 0.02),
        ("unj", 1.6, 0.4, 0.8),
    ] {
        for (metric, value) in [
            ("l1d_load_miss_percent", l1d),
            ("llc_load_miss_percent", llc),
            ("l1i_miss_percent", l1i),
            ("branch_mispredict_percent", l1d * 1.3),
        ] {
            rows.push(simulated(MISSES, metric, value, workload).with("cache", "48k/12/64, LL 1M/16/64"));
        }
        for (kind, share) in [("load", 27.5), ("store", 14.0), ("branch", 18.6), ("other", 39.9)] {
            rows.push(simulated(MIX, "percent", share + l1d / 10.0 - 0.2, workload).with("kind", kind));
        }
        rows.push(
            Row::simulated(
                SUITE,
                FOOTPRINT,
                "bytes",
                "bytes",
                one(88_000.0 + l1d * 9000.0),
                true,
            )
            .with("workload", workload)
            .with("how", "cachegrind")
            .with("l1i_bytes", 32_768usize),
        );
    }
}

fn functions(rows: &mut Vec<Row>, metric: &str, how: &str, model: bool) {
    let lists: [(&str, &[&str]); 3] = [
        (
            "utpcc",
            &[
                "heap_hot_search_buffer",
                "hash_search_with_hash_value",
                "LWLockAcquire",
                "HeapTupleSatisfiesMVCC",
                "tbm_iterate",
                "PinBuffer",
                "__memcpy_evex_unaligned_erms",
            ],
        ),
        (
            "uss",
            &[
                "ExecInterpExpr",
                "heapgettup_pagemode",
                "slot_deform_heap_tuple",
                "comparetup_datum",
                "qsort_tuple",
            ],
        ),
        (
            "unj",
            &[
                "_bt_compare",
                "LWLockAcquire",
                "hash_search_with_hash_value",
                "ExecInterpExpr",
                "FunctionCall2Coll",
            ],
        ),
    ];
    for (workload, names) in lists {
        for (rank, name) in names.iter().enumerate() {
            let share = 19.0 / (1.0 + rank as f64 * 0.55);
            let module = if name.starts_with("__") {
                "libraries"
            } else {
                "server"
            };
            let metrics: &[(&str, f64)] = if model {
                &[
                    ("instructions_percent", 1.0),
                    ("l1i_miss_share_percent", 0.6),
                    ("ll_miss_share_percent", 1.7),
                ]
            } else {
                &[("time_percent", 1.0)]
            };
            for (other, factor) in metrics {
                let value = share * factor;
                let row = if model {
                    simulated(FUNCTIONS, other, value, workload)
                } else {
                    measured(FUNCTIONS, metric, "%", one(value), how, workload)
                };
                rows.push(
                    row.with("function", *name)
                        .with("rank", rank + 1)
                        .with("module", module),
                );
            }
        }
    }
}

fn interference(rows: &mut Vec<Row>, cache_mib: f64) {
    for (workload, most) in [("utpcc", 1.012), ("uss", 1.24), ("unj", 1.07)] {
        for mib in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
            let share = ((mib / cache_mib).min(2.0) / 2.0).powi(2);
            rows.push(
                measured(
                    INTERFERENCE,
                    "slowdown",
                    "x",
                    around(1.0 + (most - 1.0) * share, 0.8),
                    "polluter",
                    workload,
                )
                .with("smt", "none")
                .with("footprint_bytes", (mib * MIB) as u64)
                .with("streams", 1usize),
            );
        }
        let percent = 100.0 * (most - 1.0);
        rows.push(
            measured(
                INTERFERENCE,
                "sensitivity_percent",
                "%",
                around(percent, 6.0),
                "polluter",
                workload,
            )
            .with("smt", "none"),
        );
    }
    for (how, mib) in [("polluter", cache_mib), ("pointer_chase", cache_mib * 1.12)] {
        rows.push(
            measured(
                INTERFERENCE,
                "effective_llc_bytes",
                "bytes",
                one(mib * MIB),
                how,
                "synthetic",
            )
            .with("spread_low", mib * MIB * 0.85)
            .with("spread_high", mib * MIB * 1.2)
            .with("agrees", true),
        );
    }
    rows.push(measured(
        INTERFERENCE,
        "bandwidth_bytes_per_s",
        "bytes/s",
        around(9.6e9, 3.0),
        "polluter",
        "synthetic",
    ));
}

fn facts(processor: &str, caches: &str) -> Vec<Row> {
    vec![
        fact("processor", processor),
        fact("caches", caches),
        fact("server", "PostgreSQL 17.2, shared_buffers = 1GB, jit = off"),
        fact("rows of T1", "1000000"),
        fact("date", "2026-01-31 (UTC)"),
    ]
}

/// Two CPUs of a virtual machine: no PMU, no SMT, no resctrl; valgrind and the kernel's own figures.
pub(super) fn virtual_machine() -> Vec<Row> {
    let hidden = "the hypervisor hides them";
    let mut rows = facts(
        "a processor (2 CPUs)",
        "L1d 48.0 KiB, L2 1.0 MiB, L3 32.0 MiB shared by 2",
    );
    rows.push(missing("pmu", hidden));
    rows.push(missing("smt", "each core has one hardware thread"));
    rows.push(missing("smt_control", "the kernel says notsupported"));
    rows.push(missing("resctrl", "the CPU has no cat_l3 flag"));
    rows.push(missing(
        "sampling",
        "perf_event_open: permission denied; lower kernel.perf_event_paranoid",
    ));
    for name in ["valgrind", "symbols", "perf_events", "resources"] {
        rows.push(available(name));
    }
    plans(&mut rows);
    sweep(&mut rows, "none", 2.0, 1.0);
    for (workload, ..) in WORKLOADS {
        for cpu in 0..2usize {
            rows.push(
                measured(
                    DISTRIBUTION,
                    "busy_ms",
                    "ms",
                    around(4900.0 + 60.0 * cpu as f64, 1.0),
                    "kernel",
                    workload,
                )
                .with("smt", "none")
                .with("concurrency", 10usize)
                .with("cpu", cpu),
            );
        }
        rows.push(
            Row::unavailable(SUITE, MISSES, "l2_load_miss_percent", "%", hidden).with("workload", workload),
        );
    }
    simulation(&mut rows);
    functions(&mut rows, "", "", true);
    interference(&mut rows, 9.0);
    rows.push(
        measured(RESOURCES, "steal_percent", "%", one(3.4), "kernel", "uss")
            .with("smt", "none")
            .with("concurrency", 4usize),
    );
    rows.extend(advice::rows(&rows));
    rows
}

/// A machine with SMT, counters, resctrl and permission.
pub(super) fn bare_metal() -> Vec<Row> {
    let mut rows = facts(
        "a processor (4 cores, 8 CPUs)",
        "L1d 48.0 KiB, L2 2.0 MiB, L3 30.0 MiB shared by 8",
    );
    for name in [
        "pmu",
        "smt",
        "smt_control",
        "resctrl",
        "valgrind",
        "symbols",
        "perf_events",
        "sampling",
        "resources",
    ] {
        rows.push(available(name));
    }
    plans(&mut rows);
    sweep(&mut rows, "off", 4.0, 1.0);
    sweep(&mut rows, "on", 4.0, 1.1);
    for (workload, ..) in WORKLOADS {
        for clients in CLIENTS {
            for smt in ["off", "on"] {
                let place = |row: Row| row.with("smt", smt).with("concurrency", clients);
                let counted = |case, metric, unit, value| {
                    place(measured(
                        case,
                        metric,
                        unit,
                        around(value, 1.5),
                        "counters",
                        workload,
                    ))
                };
                let more: f64 = if smt == "on" { 1.04 } else { 1.0 };
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
                    rows.push(
                        counted(STALLS, "stall_cpi", "count", value / more).with("component", component),
                    );
                }
                let cpus: usize = if smt == "on" { 8 } else { 4 };
                if clients == 10 {
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
                        rows.push(
                            counted(STALLS, "topdown_percent", "%", value)
                                .with("category", category)
                                .with("level", 1usize),
                        );
                    }
                }
            }
        }
    }
    functions(&mut rows, "time_percent", "sampling", false);
    for (workload, ..) in WORKLOADS {
        for (kind, share) in [("load", 27.0), ("store", 14.2), ("branch", 19.3), ("other", 39.5)] {
            rows.push(
                measured(MIX, "percent", "%", around(share, 0.5), "counters", workload).with("kind", kind),
            );
        }
    }
    interference(&mut rows, 24.0);
    rows.extend(advice::rows(&rows));
    rows
}
