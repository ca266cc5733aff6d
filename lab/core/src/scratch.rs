//! [`Scratch`]: the folder of a run, which disappears with the run however it ends.
//!
//! When this process ends in order, the folder is removed on drop. When it is interrupted or killed nothing of it runs any more; so a
//! small shell process waits for the end of a pipe that only we hold open, and removes the folder then.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

use crate::error::BenchError;

/// Waits for the end of its input, then removes the folder. It tries again for a while: peers that still write may be on their way out.
const CLEANER: &str = r#"trap "" INT TERM HUP QUIT
cat >/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$1" 2>/dev/null
    [ -e "$1" ] || exit 0
    sleep 1
done"#;

/// A folder of our own below one that was given.
pub struct Scratch {
    folder: Option<TempDir>,
    cleaner: Option<(Child, ChildStdin)>,
}

impl Scratch {
    /// A new folder below `parent`, or below the system's temporary folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(parent: Option<&Path>) -> Result<Scratch, BenchError> {
        Scratch::named("corun-oltp-", parent)
    }

    /// The same, with a name that begins otherwise.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn named(prefix: &str, parent: Option<&Path>) -> Result<Scratch, BenchError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let folder = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(&parent)
            .map_err(|source| {
                BenchError::io(
                    format!("could not make a folder below {}", parent.display()),
                    source,
                )
            })?;
        let cleaner = start_cleaner(folder.path());
        Ok(Scratch {
            folder: Some(folder),
            cleaner,
        })
    }

    /// A new, empty folder in it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn folder(&self, name: &str) -> Result<PathBuf, BenchError> {
        let path = self.path().join(name);
        let made = remove(&path).and_then(|()| std::fs::create_dir_all(&path));
        made.map_err(|source| BenchError::io(format!("could not make {}", path.display()), source))?;
        Ok(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        // Taken in `drop` only.
        self.folder.as_ref().map_or(Path::new("."), TempDir::path)
    }
}

/// Removes a folder with all that is in it, if it is there.
///
/// # Errors
/// When the system refuses.
pub fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Without a shell there is no cleaner, and only an orderly end removes the folder.
fn start_cleaner(folder: &Path) -> Option<(Child, ChildStdin)> {
    let folder = std::path::absolute(folder).ok()?;
    let mut child = Command::new("sh")
        .args(["-c", CLEANER, "corun-cleaner"])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let input = child.stdin.take()?;
    Some((child, input))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Ours first, then the cleaner finds nothing left and ends at once.
        drop(self.folder.take());
        if let Some((mut child, input)) = self.cleaner.take() {
            drop(input);
            let _ = child.wait();
        }
    }
}

/// The type of the file system a path is on, as the kernel calls it: `ext4`, `tmpfs`; `None` where it does not tell.
pub fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    type_of(&path, &std::fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// The last mount in `mountinfo` whose place is the longest beginning of `path`.
fn type_of(path: &Path, mountinfo: &str) -> Option<String> {
    let mut found: Option<(usize, &str)> = None;
    for line in mountinfo.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let Some(place) = left.split(' ').nth(4) else {
            continue;
        };
        let place = place.replace("\\040", " ");
        let depth = Path::new(&place).components().count();
        if path.starts_with(&place) && found.is_none_or(|(deepest, _)| depth >= deepest) {
            found = right.split(' ').next().map(|kind| (depth, kind));
        }
    }
    found.map(|(_, kind)| kind.to_owned())
}

/// Whether files there are in memory only, so that waiting for the disk costs nothing.
pub fn is_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
23 22 0:5 / /dev rw - devtmpfs devtmpfs rw
24 23 0:21 / /dev/shm rw shared:3 - tmpfs tmpfs rw
25 22 254:1 / /mnt/two\\040words rw - xfs /dev/b rw
26 22 0:30 / /dev/shm/over rw - ext4 /dev/c rw";

    #[test]
    fn the_deepest_mount_decides() {
        let of = |path: &str| type_of(Path::new(path), MOUNTS);
        assert_eq!(of("/data/a").as_deref(), Some("ext4"));
        assert_eq!(of("/dev/shm/a").as_deref(), Some("tmpfs"));
        assert_eq!(of("/dev/shm/over/a").as_deref(), Some("ext4"));
        assert_eq!(of("/dev/shmall").as_deref(), Some("devtmpfs"));
        assert_eq!(of("/mnt/two words/a").as_deref(), Some("xfs"));
        assert_eq!(type_of(Path::new("/a"), ""), None);
        assert!(is_memory("tmpfs") && !is_memory("ext4"));
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let scratch = Scratch::new(None).expect("a folder");
        let folder = scratch.folder("side").expect("a folder in it");
        std::fs::write(folder.join("file"), "text").expect("writable");
        // Asked for again it is empty again.
        let folder = scratch.folder("side").expect("a folder in it");
        assert!(!folder.join("file").exists());
        let path = scratch.path().to_path_buf();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn the_cleaner_removes_what_a_killed_owner_left() {
        let folder = TempDir::new().expect("a folder");
        std::fs::write(folder.path().join("file"), "text").expect("writable");
        let (mut child, input) = start_cleaner(folder.path()).expect("a shell");
        assert!(folder.path().exists());
        drop(input);
        assert!(child.wait().expect("it ends").success());
        assert!(!folder.path().exists());
    }
}
