//! Keeps what a machine was measured to be good at, so that the next process need not measure again.
//!
//! One small JSON file a machine, in the user's cache folder. It names the machine it was measured on; on another one, or
//! after an update that measures differently, it counts for nothing. Losing it costs a fraction of a second, so every
//! failure here means "measure", and a file that cannot be written is only reported.
//!
//! Not here: measuring (`corun_exec::stage::calibrate`) and deciding (`corun_model::operators::technique`).

use std::io;
use std::path::{Path, PathBuf};

use corun_model::operators::technique::{Calibration, ProbePoint};
use corun_model::topology::Topology;

use crate::kept;

/// Changes when the kernel or the techniques measured change.
const VERSION: u32 = 3;

/// Where the file is kept: `corun/calibration.json` in `$XDG_CACHE_HOME`, or in `~/.cache`. `None` for a user without home.
pub fn default_path() -> Option<PathBuf> {
    kept::default_path("calibration.json")
}

/// The calibration in this file, if it is one of this machine.
pub fn load(path: &Path, topology: &Topology) -> Option<Calibration> {
    let calibration: Calibration = kept::load(path, topology, VERSION)?;
    let time = |ns: f64| ns.is_finite() && ns > 0.0;
    let staged = calibration.points.iter().all(|point| {
        time(point.plain_ns)
            && point.references.is_finite()
            && point.staged.iter().all(|staged| time(staged.ns))
    });
    let probed = |point: &ProbePoint| time(point.plain_ns) && time(point.prefetch_ns);
    let usable = staged && calibration.probes.iter().all(probed);
    usable.then_some(calibration)
}

/// Writes the calibration of this machine; another process never sees half of it.
///
/// # Errors
/// When the folder or the file cannot be written.
pub fn store(path: &Path, topology: &Topology, calibration: &Calibration) -> io::Result<()> {
    kept::store(path, topology, VERSION, calibration)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use corun_model::operators::mode::{Hiding, Schedule};
    use corun_model::operators::technique::{Point, Timing};
    use corun_model::units::Bytes;

    fn calibration() -> Calibration {
        Calibration {
            points: vec![Point {
                threads: 1,
                table: Bytes::mib(1),
                references: 4.0,
                even: true,
                plain_ns: 10.5,
                staged: vec![Timing {
                    hiding: Hiding::Prefetch {
                        schedule: Schedule::Amac,
                        distance: 32,
                    },
                    ns: 4.25,
                }],
            }],
            probes: Vec::new(),
        }
    }

    #[test]
    fn what_was_stored_is_loaded_on_the_same_machine_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("calibration.json");
        let here = Topology {
            model_name: Some("this".to_string()),
            ..Topology::default()
        };
        let there = Topology {
            model_name: Some("that".to_string()),
            ..Topology::default()
        };
        assert_eq!(load(&path, &here), None);
        store(&path, &here, &calibration()).expect("a writable folder");
        assert_eq!(load(&path, &here), Some(calibration()));
        assert_eq!(load(&path, &there), None);
        let left: Vec<_> = fs::read_dir(path.parent().expect("a parent"))
            .expect("readable")
            .collect();
        assert_eq!(left.len(), 1, "no draft stays behind");
    }

    #[test]
    fn a_damaged_file_means_measure_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("calibration.json");
        let here = Topology::default();
        store(&path, &here, &calibration()).expect("a writable folder");
        let good = fs::read_to_string(&path).expect("readable");
        for bad in [&good[..good.len() / 2], "", "{}", &good.replace("10.5", "-1.0")] {
            fs::write(&path, bad).expect("writable");
            assert_eq!(load(&path, &here), None, "{bad}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().join("calibration.json");
        assert!(store(&path, &Topology::default(), &calibration()).is_err());
    }
}
