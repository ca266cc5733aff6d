//! Small files of what was measured, in the user's cache folder: one JSON file a purpose, which names the machine it was
//! measured on. On another machine, or after an update that measures differently, it counts for nothing; losing it costs
//! measuring again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use corun_model::topology::Topology;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What a measurement depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Fingerprint {
    version: u32,
    model_name: Option<String>,
    l2_bytes: Option<u64>,
    llc_bytes: Option<u64>,
    cpus: usize,
}

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    machine: Fingerprint,
    measured: T,
}

fn fingerprint(topology: &Topology, version: u32) -> Fingerprint {
    Fingerprint {
        version,
        model_name: topology.model_name.clone(),
        l2_bytes: topology.cache_bytes(2).map(|bytes| bytes.0),
        llc_bytes: topology.last_level_cache_bytes().map(|bytes| bytes.0),
        cpus: topology.usable_cpus().len(),
    }
}

/// Where a file is kept: `corun/NAME` in `$XDG_CACHE_HOME`, or in `~/.cache`. `None` for a user without home.
pub(crate) fn default_path(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("corun").join(name))
}

/// What is in this file, if it is about this machine and of this version.
pub(crate) fn load<T: DeserializeOwned>(path: &Path, topology: &Topology, version: u32) -> Option<T> {
    let text = fs::read(path).ok()?;
    let kept: Kept<T> = serde_json::from_slice(&text).ok()?;
    (kept.machine == fingerprint(topology, version)).then_some(kept.measured)
}

/// Writes what was measured on this machine; another process never sees half of it.
///
/// # Errors
/// When the folder or the file cannot be written.
pub(crate) fn store<T: Serialize>(
    path: &Path,
    topology: &Topology,
    version: u32,
    measured: &T,
) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let kept = Kept {
        machine: fingerprint(topology, version),
        measured,
    };
    // A name of this process, so that two do not write into one file.
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&draft, serde_json::to_vec_pretty(&kept)?)?;
    fs::rename(&draft, path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}
