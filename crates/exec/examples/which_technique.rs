//! Prints what the calibration kernel measures on this machine and what `auto` makes of it.
//!
//! ```text
//! cargo run --release -p corun-exec --example which_technique -- [MIB_MAX]
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use corun_exec::stage::Options;
use corun_exec::stage::calibrate::{Scope, calibrate};
use corun_model::operators::mode::{Hiding, Schedule};
use corun_model::operators::technique::{Host, Work, choose};
use corun_model::units::Bytes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mib_max = match std::env::args().nth(1) {
        Some(text) => text.parse::<u64>()?,
        None => 64,
    };
    let l2 = Bytes::mib(2);
    let scope = Scope {
        bytes_max: Bytes::mib(mib_max),
        bi_threaded: Some(&Options::default()),
        ..Scope::short(l2)
    };
    let calibration = calibrate(&scope)?;
    let host = Host { l2, siblings: false };
    for point in &calibration.points {
        let shape = if point.even { "even" } else { "uneven" };
        let mut line = format!(
            "{:>8} {:>2} references {shape:<6} {} thread(s) plain {:6.1} ns",
            point.table.to_string(),
            point.references,
            point.threads,
            point.plain_ns
        );
        for timing in &point.staged {
            let name = match timing.hiding {
                Hiding::Prefetch {
                    schedule: Schedule::Group,
                    distance,
                } => format!("group{distance}"),
                Hiding::Prefetch {
                    schedule: Schedule::Amac,
                    distance,
                } => format!("amac{distance}"),
                Hiding::Prefetch { distance, .. } => format!("pipeline{distance}"),
                _ => "other".to_string(),
            };
            line += &format!("  {name} {:.1}", timing.ns);
        }
        let work = Work {
            table: point.table,
            references: point.references,
            hit_rate: 1.0,
            even: point.even,
            tuples: 1_000_000,
            ordered: false,
            threads: point.threads,
        };
        let mode = choose(&work, &host, Some(&calibration)).mode;
        println!("{line}  -> {mode}");
    }
    for probe in &calibration.probes {
        println!(
            "join table of {:>8}: probe {:5.1} ns plain, {:5.1} ns with prefetching",
            probe.table.to_string(),
            probe.plain_ns,
            probe.prefetch_ns
        );
    }
    match calibration.prefetch_probes_from() {
        Some(bytes) => println!("probes prefetch from {bytes} on"),
        None => println!("probes do not prefetch"),
    }
    Ok(())
}
