//! Where programs of others, and corun's own pooler, are found. They are run, never quoted, and may be absent.

use std::path::{Path, PathBuf};

/// The folder that `scripts/bootstrap --peers` builds into, if it is not the usual one.
pub const PEERS_VARIABLE: &str = "CORUN_PEERS";

/// Where a program that `scripts/bootstrap --peers` builds may be, the most specific first.
pub fn places(program: &str) -> Vec<PathBuf> {
    let program = |folder: &Path| folder.join("bin").join(program);
    if let Some(folder) = std::env::var_os(PEERS_VARIABLE) {
        // Who names a folder means that one.
        return vec![program(Path::new(&folder))];
    }
    let mut candidates = Vec::new();
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        candidates.push(program(&Path::new(&folder).join("peers")));
    }
    candidates.push(program(Path::new("target/peers")));
    // This program usually lies in target/release: its peers are beside that folder.
    if let Ok(corun) = std::env::current_exe() {
        candidates.extend(
            corun
                .ancestors()
                .skip(2)
                .take(2)
                .map(|folder| program(&folder.join("peers"))),
        );
    }
    candidates
}
