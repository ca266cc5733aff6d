//! [`Groups`]: control groups that limit the memory of a server, its part of the page cache included.
//!
//! Order of calls: [`Groups::find`] looks for a place where groups can be made (version 1's `memory`, version 2, or version 1 mounted on a
//! private folder for the time of the run), [`Groups::group`] makes one, [`Group::procs`] is where a server joins it when it starts,
//! [`Group::limit`] changes how much it may have. Dropped, groups are removed, and what was mounted here is unmounted; groups that a killed
//! run left behind are removed by the next one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::fixture::write;
use lab_core::error::BenchError;

/// How names of groups begin; the number of the process that made them follows.
const PREFIX: &str = "corun-bench-";
/// How often the removal of a group is tried, while its last processes go.
const REMOVALS_MAX: usize = 200;
/// How long between.
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);

/// Which files a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// A place where groups can be made.
#[derive(Debug)]
pub struct Groups {
    root: PathBuf,
    version: Version,
    mounted: bool,
}

/// A group. Its processes must have ended before it is dropped.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
    version: Version,
}

impl Groups {
    /// A place where memory can be limited. `private` is a folder on which one may be mounted.
    ///
    /// # Errors
    /// A sentence that says why there is none, for rows that say so.
    pub fn find(private: &Path) -> Result<Groups, String> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut reasons = Vec::new();
        for (root, version) in places(&mounts, "memory") {
            let groups = Groups {
                root,
                version,
                mounted: false,
            };
            match groups.tried() {
                Ok(()) => return Ok(groups),
                Err(reason) => reasons.push(reason),
            }
        }
        let mount = Command::new("mount")
            .args(["-t", "cgroup", "-o", "memory", "corun-bench"])
            .arg(private)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if mount.is_ok_and(|status| status.success()) {
            let groups = Groups {
                root: private.to_path_buf(),
                version: Version::One,
                mounted: true,
            };
            match groups.tried() {
                Ok(()) => return Ok(groups),
                Err(reason) => reasons.push(reason),
            }
        }
        if reasons.is_empty() {
            reasons.push("no memory controller is mounted, and none can be mounted".to_owned());
        }
        Err(format!(
            "memory cannot be limited by control groups here: {}",
            reasons.join("; ")
        ))
    }

    /// That a group can be made, limited and joined by others.
    fn tried(&self) -> Result<(), String> {
        self.remove_left();
        if self.version == Version::Two {
            // Refused where it is on already or may not be switched: the group below tells.
            let _ = std::fs::write(self.root.join("cgroup.subtree_control"), "+memory");
        }
        let failed = |error: BenchError| error.in_one_line();
        let group = self.group("try").map_err(failed)?;
        group.limit(Some(64 << 20)).map_err(failed)?;
        let joined = Command::new("sh")
            .args(["-c", "echo $$ >\"$0\""])
            .arg(group.procs())
            .stderr(Stdio::null())
            .status();
        match joined {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("no process may join {}", group.folder.display())),
        }
    }

    /// Removes groups of processes that are gone. A group that still has processes stays: the kernel refuses.
    fn remove_left(&self) {
        for entry in std::fs::read_dir(&self.root).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let owner = name.to_str().and_then(owner);
            if owner.is_some_and(|owner| !Path::new("/proc").join(owner.to_string()).exists()) {
                let _ = std::fs::remove_dir(entry.path());
            }
        }
    }

    /// A new group without a limit.
    pub fn group(&self, name: &str) -> Result<Group, BenchError> {
        let folder = self.root.join(format!("{PREFIX}{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|source| {
            BenchError::io(format!("could not make the group {}", folder.display()), source)
        })?;
        Ok(Group {
            folder,
            version: self.version,
        })
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.root).status();
        }
    }
}

impl Group {
    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that takes the numbers of processes.
    pub fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Limits its memory to so many bytes, or not at all. Page cache above a new limit is given up at once.
    pub fn limit(&self, bytes: Option<u64>) -> Result<(), BenchError> {
        let (file, none) = match self.version {
            Version::One => ("memory.limit_in_bytes", "-1"),
            Version::Two => ("memory.max", "max"),
        };
        let value = bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        let file = self.folder.join(file);
        write(&file, value)
    }

    /// Bytes of its memory that are no page cache of files: what its processes have of their own, and the kernel for them.
    pub fn own_bytes(&self) -> Result<u64, BenchError> {
        let read = |name: &str| {
            let file = self.folder.join(name);
            std::fs::read_to_string(&file)
                .map_err(|source| BenchError::io(format!("could not read {}", file.display()), source))
        };
        let (usage, cache, shared) = match self.version {
            Version::One => ("memory.usage_in_bytes", "total_cache", "total_shmem"),
            Version::Two => ("memory.current", "file", "shmem"),
        };
        let usage: u64 = read(usage)?.trim().parse().unwrap_or(0);
        let stat = read("memory.stat")?;
        let of = |name: &str| {
            let words = stat.lines().filter_map(|line| line.split_once(' '));
            let found = words.into_iter().find(|(known, _)| *known == name);
            found
                .and_then(|(_, bytes)| bytes.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        // Shared memory of processes is counted as cache.
        Ok(usage.saturating_sub(of(cache).saturating_sub(of(shared))))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            match std::fs::remove_dir(&self.folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(REMOVAL_PAUSE);
                }
                _ => return,
            }
        }
    }
}

/// The process whose group has this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Mounts in `mountinfo` at which a controller may be told, version 1's first: where both are, it is there.
pub(super) fn places(mountinfo: &str, controller: &str) -> Vec<(PathBuf, Version)> {
    let place = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let place = PathBuf::from(left.split(' ').nth(4)?.replace("\\040", " "));
        let mut right = right.split(' ');
        match (right.next()?, right.nth(1)?) {
            ("cgroup", options) if options.split(',').any(|option| option == controller) => {
                Some((place, Version::One))
            }
            ("cgroup2", _) => Some((place, Version::Two)),
            _ => None,
        }
    };
    let mut found: Vec<(PathBuf, Version)> = mountinfo.lines().filter_map(place).collect();
    found.sort_by_key(|(_, version)| *version == Version::Two);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_the_list_of_mounts() {
        let mounts = "\
30 25 0:26 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw
31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 25 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 25 0:29 / /tmp rw - tmpfs tmpfs rw";
        assert_eq!(
            places(mounts, "memory"),
            [
                ("/sys/fs/cgroup/memory".into(), Version::One),
                ("/sys/fs/cgroup/unified".into(), Version::Two)
            ]
        );
        assert!(places("", "memory").is_empty());
    }

    #[test]
    fn names_tell_whose_a_group_is() {
        assert_eq!(owner("corun-bench-12-a"), Some(12));
        assert_eq!(owner("corun-bench-x-a"), None);
        assert_eq!(owner("system.slice"), None);
    }

    #[test]
    fn a_group_is_made_limited_and_removed_where_that_is_possible() {
        let folder = tempfile::tempdir().expect("a folder");
        let groups = match Groups::find(folder.path()) {
            Ok(groups) => groups,
            Err(reason) => {
                assert!(reason.contains("control groups"), "{reason}");
                return;
            }
        };
        let group = groups.group("test").expect("tried before");
        group.limit(Some(100 << 20)).expect("a limit");
        assert!(group.own_bytes().expect("told") < 100 << 20);
        group.limit(None).expect("none");
        let path = group.folder.clone();
        assert!(path.is_dir());
        drop(group);
        assert!(!path.exists());
    }
}
