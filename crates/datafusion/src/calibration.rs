//! The calibration of this machine: kept from an earlier process, or measured once, when it first matters.
//!
//! It matters to work that is long enough to pay for a quarter of a second of measuring: [`for_work`] measures for no
//! less, and planning never does ([`known`]); without it, the operators go by the size of the L2. A session switches it off with `corun.calibrate`, or by giving
//! its own `corun.l2_bytes`.

use crate::CorunOptions;
use corun_exec::stage::calibrate::{Scope, calibrate};
use corun_model::operators::technique::Calibration;
use corun_model::units::Bytes;
use std::sync::OnceLock;

/// Rows of an operator that are worth a calibration: a quarter of a second, once a machine, against a join of about as long.
const ROWS_MIN: usize = 2_000_000;

static KEPT: OnceLock<Option<Calibration>> = OnceLock::new();
static MEASURED: OnceLock<Option<Calibration>> = OnceLock::new();

fn is_wanted(options: &CorunOptions) -> bool {
    options.calibrate && options.l2_bytes == 0
}

/// The calibration of this machine, if there is one by now; for planning, which must not wait for one.
pub fn known(options: &CorunOptions) -> Option<&'static Calibration> {
    if !is_wanted(options) {
        return None;
    }
    let kept = KEPT.get_or_init(|| {
        let path = corun_topology::calibration::default_path()?;
        corun_topology::calibration::load(&path, crate::caches::topology())
    });
    kept.as_ref().or_else(|| MEASURED.get()?.as_ref())
}

/// The calibration of this machine, for work on this many rows. It may be measured now: not for threads that other tasks wait for.
pub fn for_work(options: &CorunOptions, rows: usize) -> Option<&'static Calibration> {
    let known = known(options);
    if known.is_some() || rows < ROWS_MIN || !is_wanted(options) {
        return known;
    }
    MEASURED.get_or_init(measure).as_ref()
}

/// Measures and keeps. `None` where there is no memory for it.
fn measure() -> Option<Calibration> {
    let topology = crate::caches::topology();
    let l2 = topology.cache_bytes(2).unwrap_or(Bytes::mib(1));
    let calibration = match calibrate(&Scope::short(l2)) {
        Ok(calibration) => calibration,
        Err(error) => {
            tracing::warn!(%error, "this machine was not calibrated; the size of its L2 decides instead");
            return None;
        }
    };
    if let Some(path) = corun_topology::calibration::default_path()
        && let Err(error) = corun_topology::calibration::store(&path, topology, &calibration)
    {
        tracing::warn!(%error, path = %path.display(), "the calibration was not kept; the next process measures again");
    }
    Some(calibration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_gives_a_size_or_wants_none_gets_none() {
        let given = CorunOptions {
            l2_bytes: 1 << 20,
            ..CorunOptions::default()
        };
        let off = CorunOptions {
            calibrate: false,
            ..CorunOptions::default()
        };
        assert!(for_work(&given, usize::MAX).is_none());
        assert!(for_work(&off, usize::MAX).is_none());
        assert!(known(&given).is_none() && known(&off).is_none());
    }
}
