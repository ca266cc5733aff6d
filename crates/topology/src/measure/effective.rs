//! How much of the last-level cache this machine really gives: two seconds, to be run by any program that needs it.
//!
//! Even draws ([`Machine::uniform_ns`]) from working sets of rising size, all sizes in turn several times over, so that a
//! noisy moment hits one round and not one size. Of the repetitions of a size within a round the shortest counts: other
//! work on the machine only ever makes them longer.

use std::time::Duration;

use corun_model::knee::{CurvePoint, EffectiveLlc, effective_llc};
use corun_model::topology::Topology;
use corun_model::units::Bytes;

use super::{Machine, MeasureError};

/// Nothing new is begun after this time, but the first round is always finished.
const BUDGET: Duration = Duration::from_millis(1500);
/// Most rounds.
const ROUNDS_MAX: usize = 9;
/// Stretches of accesses for each size and round, of which the shortest counts.
const REPETITIONS: usize = 8;
/// Largest working set; a last-level cache of up to half of it can be told from memory. In larger sets page walks make
/// memory itself slower, which the fit would take for a larger cache (on a virtual Sapphire Rapids 83 to 114 MiB from sets
/// of up to 256 MiB became 111 to 157 MiB from sets of up to 1 GiB), and touching them for the first time takes seconds.
const BYTES_MAX: Bytes = Bytes::mib(384);

/// Measures the effective last-level cache in about two seconds.
///
/// Never fails: where nothing can be measured the answer says why.
pub fn effective_llc_quick(machine: &mut dyn Machine) -> EffectiveLlc {
    let topology = machine.topology().clone();
    let private = private_cache(&topology);
    let sizes = sizes(private, bytes_max(&topology));
    match rounds(machine, &sizes) {
        Ok(points) => effective_llc(&points, private),
        Err(error) => EffectiveLlc::NotFound {
            reason: error.to_string(),
        },
    }
}

/// The largest working set [`effective_llc_quick`] uses: four times the last-level cache that is reported, but no more
/// than 384 MiB or a quarter of the memory at hand.
pub(crate) fn bytes_max(topology: &Topology) -> Bytes {
    let wanted = topology
        .last_level_cache_bytes()
        .map_or(BYTES_MAX, |llc| Bytes(llc.0.saturating_mul(4)));
    let memory = [topology.memory.available, topology.memory.limit]
        .into_iter()
        .flatten()
        .min();
    wanted
        .clamp(Bytes::mib(64), BYTES_MAX)
        .min(memory.map_or(BYTES_MAX, |bytes| Bytes(bytes.0 / 4)))
}

fn rounds(machine: &mut dyn Machine, sizes: &[Bytes]) -> Result<Vec<CurvePoint>, MeasureError> {
    let mut points: Vec<CurvePoint> = sizes
        .iter()
        .map(|&bytes| CurvePoint {
            bytes,
            ns: Vec::new(),
        })
        .collect();
    let began = machine.elapsed();
    for round in 0..ROUNDS_MAX {
        for point in &mut points {
            if round > 0 && machine.elapsed().saturating_sub(began) >= BUDGET {
                return Ok(points);
            }
            let times = machine.uniform_ns(point.bytes, REPETITIONS)?;
            point.ns.extend(times.into_iter().reduce(f64::min));
        }
    }
    Ok(points)
}

/// The outermost cache that is not the last: what the knee lies beyond.
pub(super) fn private_cache(topology: &Topology) -> Bytes {
    let last = topology
        .usable_cpus()
        .first()
        .and_then(|&cpu| topology.last_level_cache_of(cpu))
        .map(|cache| cache.level);
    last.and_then(|last| topology.cache_bytes(last.checked_sub(1)?))
        .unwrap_or(Bytes::mib(1))
}

/// Twice the private cache and up, in half octaves of whole lines.
fn sizes(private: Bytes, bytes_max: Bytes) -> Vec<Bytes> {
    let doubled = (1..)
        .map(|octave| private.0.max(1 << 16) << octave)
        .take_while(|bytes| *bytes <= bytes_max.0);
    doubled
        .flat_map(|bytes| [bytes, (bytes as f64 * std::f64::consts::SQRT_2) as u64 / 64 * 64])
        .filter(|bytes| *bytes <= bytes_max.0)
        .map(Bytes)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_beyond_the_private_cache() {
        let sizes = sizes(Bytes::mib(2), Bytes::mib(64));
        assert_eq!(
            (sizes.first(), sizes.last(), sizes.len()),
            (Some(&Bytes::mib(4)), Some(&Bytes::mib(64)), 9)
        );
        assert!(sizes.is_sorted_by(|a, b| a < b) && sizes.iter().all(|bytes| bytes.0 % 64 == 0));
        assert_eq!(super::sizes(Bytes(0), Bytes::kib(128)), [Bytes::kib(128)]);
    }

    #[test]
    fn working_sets_respect_memory() {
        let mut topology = Topology::default();
        assert_eq!(bytes_max(&topology), BYTES_MAX);
        topology.memory.available = Some(Bytes::mib(100));
        assert_eq!(bytes_max(&topology), Bytes::mib(25));
    }
}
