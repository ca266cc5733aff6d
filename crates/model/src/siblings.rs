//! Whether two CPUs behave like hardware threads of one core, judged from slow-downs.
//!
//! A hypervisor may place two virtual CPUs on the two threads of one core and not say so. Two loops that keep every
//! arithmetic unit busy then get about half the core each; on separate cores they do not notice each other.
//!
//! Not here: running the loops; that is the machine crate's job.

use serde::{Deserialize, Serialize};

/// How two CPUs behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Behaviour {
    /// They share a core's arithmetic units.
    Siblings,
    /// They do not.
    Separate,
    /// Other load on the machine, or a clock that changes, hides the answer.
    Unclear,
}

/// Below this slow-down two CPUs are separate cores: frequency and shared power explain up to about a tenth.
const SEPARATE_BELOW: f64 = 1.15;
/// From this slow-down on they are siblings: a saturated core gives each thread 50-70 % of what it gave one.
const SIBLINGS_FROM: f64 = 1.35;

/// Judges from the slow-downs of repeated trials (time beside a busy partner over time alone; 1.0 is no effect).
///
/// The least slow-down decides: other load only ever adds to it. Trials that are not positive numbers count for
/// nothing; no trials at all are unclear.
pub fn judge(slowdowns: &[f64]) -> Behaviour {
    let least = slowdowns
        .iter()
        .copied()
        .filter(|s| s.is_finite() && *s > 0.0)
        .fold(f64::INFINITY, f64::min);
    match least {
        least if least < SEPARATE_BELOW => Behaviour::Separate,
        least if least >= SIBLINGS_FROM && least.is_finite() => Behaviour::Siblings,
        _ => Behaviour::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_disturbed_trial_decides() {
        assert_eq!(judge(&[1.02, 1.9, 1.0]), Behaviour::Separate);
        assert_eq!(judge(&[1.7, 1.62, 3.4]), Behaviour::Siblings);
        assert_eq!(judge(&[1.25, 1.3]), Behaviour::Unclear);
        assert_eq!(judge(&[]), Behaviour::Unclear);
        assert_eq!(judge(&[f64::NAN, f64::INFINITY]), Behaviour::Unclear);
    }
}
