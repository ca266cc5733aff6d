//! A folder of this process's own for temporary files, so that those of a process that was killed are known for what they are.
//!
//! ```text
//! $TMPDIR/corun-sql-Xy12ab/
//!   lock            locked as long as the process lives
//!   .tmpQ7w3zz/     what a query writes
//! ```
//!
//! Who starts removes the folders of its user that nobody locks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "corun-sql-";
const LOCK: &str = "lock";

/// The folder; removed with this value.
pub struct Scratch {
    // Before the lock, so that nobody sees the folder without one.
    _folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Removes what killed processes have left, and has temporary files made in a folder of their own from now on.
    ///
    /// # Errors
    /// The system's folder for temporary files is not writable, or another one was chosen already.
    pub fn begin() -> io::Result<Scratch> {
        let root = std::env::temp_dir();
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&root)?;
        // It gets its name when it is locked: a lock that is free belongs to nobody.
        let unnamed = folder.path().join("new");
        let lock = File::create_new(&unnamed)?;
        lock.try_lock()?;
        fs::rename(unnamed, folder.path().join(LOCK))?;
        sweep(&root, folder.path());
        if tempfile::env::override_temp_dir(folder.path()).is_err() {
            return Err(io::Error::other("there is another folder for temporary files"));
        }
        Ok(Scratch {
            _folder: folder,
            _lock: lock,
        })
    }
}

/// Removes the folders beside `ours` that nobody locks, as far as that is possible.
fn sweep(root: &Path, ours: &Path) {
    let Ok(user) = fs::metadata(ours).map(|found| found.uid()) else {
        return;
    };
    for entry in root.read_dir().into_iter().flatten().flatten() {
        let path = entry.path();
        let is_theirs = entry.file_name().to_string_lossy().starts_with(PREFIX) && path != ours;
        // Not a link's target, and of nobody else.
        let is_folder_of_user =
            || fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir() && found.uid() == user);
        if is_theirs && is_folder_of_user() && is_left(&path) {
            // Another process may be about it, too.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn is_left(folder: &Path) -> bool {
    File::open(folder.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}
