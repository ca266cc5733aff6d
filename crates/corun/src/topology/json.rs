//! `corun topology --json`: one object per line, told apart by `kind`. Keys are stable; new ones may come.

use corun_model::capability::capabilities;
use corun_model::cpulist;
use corun_model::knee::EffectiveLlc;
use corun_model::spread::{Label, Spread};
use corun_model::topology::Topology;
use corun_model::units::{Bytes, CpuId};
use corun_topology::effective_llc::{Effective, Source};
use corun_topology::measure::Measurement;
use serde_json::{Value, json};

fn list(cpus: &[CpuId]) -> String {
    cpulist::format(cpus)
}

fn bytes(bytes: Option<Bytes>) -> Value {
    bytes.map_or(Value::Null, |bytes| bytes.0.into())
}

/// The rows of a topology, the whole machine first.
pub fn topology_rows(topology: &Topology) -> Vec<Value> {
    let mut rows = vec![json!({
        "kind": "machine",
        "architecture": topology.architecture,
        "vendor": topology.vendor,
        "model_name": topology.model_name,
        "hypervisor": topology.hypervisor.as_ref().map(|hypervisor| &hypervisor.name),
        "hypervisor_evidence": topology.hypervisor.as_ref().map(|hypervisor| &hypervisor.evidence),
        "usable_cpus": list(&topology.usable_cpus()),
        "cpu_quota": topology.cpu_quota,
        "simd": topology.simd,
    })];
    rows.extend(
        topology
            .packages
            .iter()
            .map(|package| json!({"kind": "package", "id": package.id, "cpus": list(&package.cpus)})),
    );
    rows.extend(topology.cores.iter().map(|core| {
        let cpus = list(&core.cpus);
        json!({"kind": "core", "package": core.package, "id": core.id, "type": core.kind, "cpus": cpus})
    }));
    rows.extend(topology.cpus.iter().map(|cpu| {
        let siblings: Vec<CpuId> = topology
            .core_of(cpu.id)
            .map(|core| {
                core.cpus
                    .iter()
                    .copied()
                    .filter(|other| *other != cpu.id)
                    .collect()
            })
            .unwrap_or_default();
        json!({
            "kind": "cpu", "id": cpu.id, "online": cpu.online, "allowed": cpu.allowed, "package": cpu.package,
            "core": cpu.core, "numa_node": cpu.numa_node, "siblings": list(&siblings),
        })
    }));
    rows.extend(topology.caches.iter().map(|cache| {
        json!({
            "kind": "cache", "name": cache.name(), "level": cache.level, "type": cache.kind, "bytes": cache.size,
            "ways": cache.ways, "line_bytes": cache.line, "sets": cache.sets, "id": cache.id,
            "shared_cpus": list(&cache.shared_cpus), "source": cache.source,
        })
    }));
    let memory = &topology.memory;
    rows.push(json!({
        "kind": "memory", "bytes": bytes(memory.total), "available_bytes": bytes(memory.available),
        "limit_bytes": bytes(memory.limit), "page_bytes": bytes(memory.page),
    }));
    rows.extend(topology.numa_nodes.iter().map(|node| {
        json!({"kind": "numa_node", "id": node.id, "cpus": list(&node.cpus), "bytes": bytes(node.memory)})
    }));
    rows.push(json!({
        "kind": "huge_pages", "transparent": topology.huge_pages.transparent,
        "transparent_bytes": bytes(topology.huge_pages.transparent_page),
    }));
    rows.extend(topology.huge_pages.pools.iter().map(|pool| {
        json!({"kind": "huge_page_pool", "page_bytes": pool.page, "total": pool.total, "free": pool.free})
    }));
    let resctrl = &topology.resctrl;
    rows.push(json!({
        "kind": "resctrl", "in_kernel": resctrl.in_kernel, "mounted": resctrl.mounted,
        "cpu_flags": resctrl.cpu_flags, "resources": resctrl.resources, "missing": resctrl.missing,
    }));
    let pmu = &topology.pmu;
    rows.push(json!({
        "kind": "pmu", "devices": pmu.devices, "paranoid": pmu.paranoid, "opened": pmu.opened, "missing": pmu.missing,
    }));
    rows.extend(capabilities(topology).iter().map(|capability| {
        json!({
            "kind": "capability", "name": capability.name, "state": capability.state,
            "reason": capability.reason, "fallback": capability.fallback,
        })
    }));
    rows.extend(
        topology
            .problems
            .iter()
            .map(|problem| json!({"kind": "problem", "text": problem})),
    );
    rows
}

/// The last-level cache corun counts on, and who says so.
pub fn llc_row(effective: &Effective) -> Value {
    let label = match effective.from {
        Source::Measured => Some(Label::Measured),
        Source::Given | Source::Planned => None,
    };
    json!({"kind": "llc_to_count_on", "bytes": effective.bytes, "from": effective.from, "label": label})
}

/// The rows of measurements, in the order taken.
pub fn measurement_rows(results: &[Measurement], label: Label) -> Vec<Value> {
    results.iter().map(|result| measurement(result, label)).collect()
}

fn measurement(result: &Measurement, label: Label) -> Value {
    let row = |name: &str, prefix: &str, spread: &Spread, parameters: Value| {
        let mut row = json!({
            "kind": "measure", "name": name, "n": spread.n, "label": label,
            format!("{prefix}_min"): spread.min,
            format!("{prefix}_median"): spread.median,
            format!("{prefix}_max"): spread.max,
        });
        if let (Value::Object(row), Value::Object(parameters)) = (&mut row, parameters) {
            row.extend(parameters);
        }
        row
    };
    match result {
        Measurement::Chase { bytes, ns } => row("chase", "ns", ns, json!({"bytes": bytes})),
        Measurement::Floor {
            bytes,
            threads,
            ns_per_line,
            answer_ok,
        } => row(
            "floor",
            "ns",
            ns_per_line,
            json!({"bytes": bytes, "threads": threads, "answer_ok": answer_ok}),
        ),
        Measurement::HandOver { a, b, relation, ns } => row(
            "hand_over",
            "ns",
            ns,
            json!({"cpu_a": a, "cpu_b": b, "relation": relation}),
        ),
        Measurement::Siblings {
            a,
            b,
            slowdown,
            behaviour,
            kernel_says_siblings,
        } => row(
            "siblings",
            "slowdown",
            slowdown,
            json!({
                "cpu_a": a, "cpu_b": b, "behaviour": behaviour, "kernel_says_siblings": kernel_says_siblings,
            }),
        ),
        Measurement::EffectiveLlc(EffectiveLlc::Found {
            bytes,
            bytes_min,
            bytes_max,
            cache_ns,
            memory_ns,
            fit_error_percent,
        }) => json!({
            "kind": "effective_llc", "state": "found", "bytes": bytes, "bytes_min": bytes_min, "bytes_max": bytes_max,
            "cache_ns": cache_ns, "memory_ns": memory_ns, "fit_error_percent": fit_error_percent, "label": label,
        }),
        Measurement::EffectiveLlc(EffectiveLlc::NotFound { reason }) => json!({
            "kind": "effective_llc", "state": "not_found", "bytes": Value::Null, "reason": reason,
            "label": Label::Unavailable,
        }),
        Measurement::Skipped { what, reason } => {
            json!({"kind": "skipped", "what": what, "reason": reason, "label": Label::Unavailable})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_kind_and_the_documented_ones_exist() {
        let rows = topology_rows(&Topology::default());
        let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
        assert_eq!(kinds.len(), rows.len());
        for kind in ["machine", "memory", "huge_pages", "resctrl", "pmu", "capability"] {
            assert!(kinds.contains(&kind), "no row of kind {kind}");
        }
    }

    #[test]
    fn the_cache_to_count_on_says_where_its_size_comes_from() {
        let row = |from| {
            llc_row(&Effective {
                bytes: Bytes::kib(1),
                from,
            })
        };
        assert_eq!(
            row(Source::Measured),
            json!({"kind": "llc_to_count_on", "bytes": 1024, "from": "measured", "label": "measured"})
        );
        assert_eq!(
            row(Source::Planned),
            json!({"kind": "llc_to_count_on", "bytes": 1024, "from": "planned", "label": null})
        );
    }

    #[test]
    fn measured_rows_keep_their_keys() {
        let ns = Spread {
            n: 5,
            min: 1.0,
            median: 2.0,
            max: 3.0,
        };
        let reason = "too short".to_owned();
        let results = [
            Measurement::Chase {
                bytes: Bytes(4096),
                ns,
            },
            Measurement::Floor {
                bytes: Bytes(4096),
                threads: 2,
                ns_per_line: ns,
                answer_ok: true,
            },
            Measurement::EffectiveLlc(EffectiveLlc::NotFound { reason }),
        ];
        let rows = measurement_rows(&results, Label::Measured);
        assert_eq!(
            rows[0],
            json!({
                "kind": "measure", "name": "chase", "n": 5, "bytes": 4096,
                "ns_min": 1.0, "ns_median": 2.0, "ns_max": 3.0, "label": "measured",
            })
        );
        assert_eq!(
            (&rows[1]["threads"], &rows[1]["answer_ok"]),
            (&json!(2), &json!(true))
        );
        assert_eq!(
            (&rows[2]["state"], &rows[2]["label"]),
            (&json!("not_found"), &json!("unavailable"))
        );
    }
}
