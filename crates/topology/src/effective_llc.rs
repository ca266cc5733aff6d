//! The last-level cache to count on: given by somebody, else measured before on this machine, else planned.
//!
//! In a virtual machine the reported size is not what a query gets, and measuring takes two seconds, too long for every
//! start of a program. So what [`crate::measure::effective_llc_quick`] finds is kept beside the calibration, by
//! `corun topology --measure` or by [`measure_and_keep`], and [`effective_llc`] reads it. It goes by the machine's
//! fingerprint; neighbours of a virtual machine come and go, and only measuring again notices.

use std::io;
use std::path::{Path, PathBuf};

use corun_model::knee::EffectiveLlc;
use corun_model::topology::Topology;
use corun_model::units::Bytes;
use serde::Serialize;

use crate::kept;
use crate::measure::{self, Real};

/// Changes when it is measured in another way.
const VERSION: u32 = 1;
/// Largest error of a fit that is kept. On a virtual Sapphire Rapids the fits of a machine at rest or with two or three busy
/// threads were off by 4 to 8 %, and of 17 on two cores by 10 to 14 %, with sizes from 30 to 87 MiB.
const FIT_ERROR_PERCENT_MAX: f64 = 10.0;
/// Planned with where no cache is described.
const UNKNOWN: Bytes = Bytes::mib(16);

/// A last-level cache to count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// Its size.
    pub bytes: Bytes,
    /// Who says so.
    pub from: Source,
}

/// Where the size of the last-level cache comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A setting.
    Given,
    /// Measured on this machine, maybe by an earlier process.
    Measured,
    /// [`Topology::planning_llc_bytes`]: reported, and cut to a cautious share in a virtual machine; 16 MiB where nothing
    /// is reported.
    Planned,
}

/// The size to count on, without measuring: `given` if it is something, else what was kept, else what is planned.
pub fn effective_llc(topology: &Topology, given: Option<Bytes>) -> Effective {
    effective_llc_at(default_path().as_deref(), topology, given)
}

/// Like [`effective_llc`], with the file that keeps the measurement; without one nothing was measured.
pub fn effective_llc_at(path: Option<&Path>, topology: &Topology, given: Option<Bytes>) -> Effective {
    let found = |answer: EffectiveLlc| match answer {
        EffectiveLlc::Found { bytes, .. } => Some(bytes),
        EffectiveLlc::NotFound { .. } => None,
    };
    if let Some(bytes) = given.filter(|bytes| bytes.0 > 0) {
        let from = Source::Given;
        Effective { bytes, from }
    } else if let Some(bytes) = path.and_then(|path| load(path, topology)).and_then(found) {
        let from = Source::Measured;
        Effective { bytes, from }
    } else {
        let bytes = topology.planning_llc_bytes().unwrap_or(UNKNOWN);
        let from = Source::Planned;
        Effective { bytes, from }
    }
}

/// Where the file is kept: `corun/effective_llc.json` in `$XDG_CACHE_HOME`, or in `~/.cache`. `None` for a user without
/// home.
pub fn default_path() -> Option<PathBuf> {
    kept::default_path("effective_llc.json")
}

/// The fit in this file, if it is one of this machine.
pub fn load(path: &Path, topology: &Topology) -> Option<EffectiveLlc> {
    let fit: EffectiveLlc = kept::load(path, topology, VERSION)?;
    // A damaged number must not size anything.
    matches!(fit, EffectiveLlc::Found { bytes, .. } if bytes.0 > 0).then_some(fit)
}

/// Keeps a fit of this machine; another process never sees half of it. Says whether it did: an answer without a number, or
/// one whose fit is off by more than a tenth because the machine was busy, is not kept, and leaves an earlier one in place.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn store(path: &Path, topology: &Topology, fit: &EffectiveLlc) -> io::Result<bool> {
    let good = |error: f64| error <= FIT_ERROR_PERCENT_MAX;
    if !matches!(fit, EffectiveLlc::Found { fit_error_percent, .. } if good(*fit_error_percent)) {
        return Ok(false);
    }
    kept::store(path, topology, VERSION, fit).map(|()| true)
}

/// What was kept; where nothing was, measures this machine, which takes about two seconds, and keeps it.
///
/// # Errors
/// When what was measured could not be kept. [`effective_llc`] works all the same.
pub fn measure_and_keep(topology: &Topology) -> io::Result<()> {
    let Some(path) = default_path() else {
        return Ok(());
    };
    if load(&path, topology).is_some() {
        return Ok(());
    }
    let mut machine = Real::new(topology.clone(), measure::effective_llc_bytes_max(topology));
    store(&path, topology, &measure::effective_llc_quick(&mut machine)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(name: &str) -> Topology {
        Topology {
            model_name: Some(name.to_owned()),
            ..Topology::default()
        }
    }

    fn fit(bytes: Bytes) -> EffectiveLlc {
        EffectiveLlc::Found {
            bytes,
            bytes_min: bytes,
            bytes_max: bytes,
            cache_ns: 40.5,
            memory_ns: 120.0,
            fit_error_percent: 5.0,
        }
    }

    #[test]
    fn given_comes_before_measured_before_planned() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("effective_llc.json");
        let here = machine("this");
        let ask = |topology: &Topology, given| {
            let effective = effective_llc_at(Some(&path), topology, given);
            (effective.bytes, effective.from)
        };
        assert_eq!(ask(&here, None), (Bytes::mib(16), Source::Planned));
        store(&path, &here, &fit(Bytes::mib(80))).expect("a writable folder");
        assert_eq!(load(&path, &here), Some(fit(Bytes::mib(80))));
        assert_eq!(ask(&here, None), (Bytes::mib(80), Source::Measured));
        assert_eq!(ask(&here, Some(Bytes::mib(3))), (Bytes::mib(3), Source::Given));
        assert_eq!(ask(&here, Some(Bytes(0))), (Bytes::mib(80), Source::Measured));
        assert_eq!(ask(&machine("that"), None), (Bytes::mib(16), Source::Planned));
        assert_eq!(effective_llc_at(None, &here, None).from, Source::Planned);
    }

    #[test]
    fn an_answer_that_is_none_or_unsure_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("effective_llc.json");
        let here = machine("this");
        let none = EffectiveLlc::NotFound {
            reason: "flat".to_owned(),
        };
        let unsure = EffectiveLlc::Found {
            bytes: Bytes::mib(30),
            bytes_min: Bytes::mib(30),
            bytes_max: Bytes::mib(87),
            cache_ns: 40.0,
            memory_ns: 120.0,
            fit_error_percent: 13.0,
        };
        let keep = |fit: &EffectiveLlc| store(&path, &here, fit).expect("a writable folder");
        assert!(!keep(&none) && !keep(&unsure) && !path.exists());
        assert!(keep(&fit(Bytes::mib(80))));
        assert!(!keep(&none) && !keep(&unsure));
        assert_eq!(load(&path, &here), Some(fit(Bytes::mib(80))));
    }

    #[test]
    fn a_damaged_file_counts_for_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("effective_llc.json");
        let here = machine("this");
        store(&path, &here, &fit(Bytes::mib(80))).expect("a writable folder");
        let good = fs::read_to_string(&path).expect("readable");
        let zero = good.replace(&Bytes::mib(80).0.to_string(), "0");
        for bad in [&good[..good.len() / 2], "", "{}", zero.as_str()] {
            fs::write(&path, bad).expect("writable");
            assert_eq!(load(&path, &here), None, "{bad}");
        }
    }
}
