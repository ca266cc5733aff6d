//! [`Throttle`]: reads a second that the processes of a memory group may ask of a disk, as cloud volumes allow so many.
//!
//! A fast local disk hides what misses of the page cache cost elsewhere; with a throttle the same experiment is also run on a disk of stated
//! speed. Version 1 has a hierarchy of its own for it (`blkio`), version 2 a file in the same group (`io.max`).

use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::cgroup::{Version, places};
use lab_core::error::BenchError;

/// A group whose reads are throttled. Removed when dropped, its processes going back to the root.
#[derive(Debug)]
pub struct Throttle {
    /// The group of version 1; `None` where the memory group itself is told.
    own: Option<PathBuf>,
    /// The file that takes the limit.
    file: PathBuf,
    device: String,
}

impl Throttle {
    /// Lets the processes of the memory group `group` read so many times a second from the disk that `folder` is on.
    ///
    /// # Errors
    /// A sentence that says why that is not possible here.
    pub fn new(group: &Path, folder: &Path, reads_per_s: u64) -> Result<Throttle, String> {
        let device = device_of(folder)?;
        let (own, file, limit) = if group.join("io.max").exists() {
            (
                None,
                group.join("io.max"),
                format!("{device} riops={reads_per_s}"),
            )
        } else {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let root = blkio(&mounts)
                .ok_or("reads cannot be throttled here: no control group has io.max or blkio")?;
            let name = group.file_name().ok_or("a group has a name")?;
            let own = root.join(name);
            std::fs::create_dir(&own)
                .map_err(|error| format!("could not make {}: {error}", own.display()))?;
            let file = own.join("blkio.throttle.read_iops_device");
            (Some(own), file, format!("{device} {reads_per_s}"))
        };
        let throttle = Throttle { own, file, device };
        write(&throttle.file, &limit)?;
        if let Some(own) = &throttle.own {
            let processes = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            for process in processes.lines() {
                // One that has ended meanwhile reads nothing.
                let _ = std::fs::write(own.join("cgroup.procs"), process);
            }
        }
        Ok(throttle)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        match &self.own {
            None => drop(write(&self.file, &format!("{} riops=max", self.device))),
            Some(own) => {
                let processes = std::fs::read_to_string(own.join("cgroup.procs")).unwrap_or_default();
                let root = own.parent().map(|root| root.join("cgroup.procs"));
                for process in processes.lines() {
                    if let Some(root) = &root {
                        let _ = std::fs::write(root, process);
                    }
                }
                let _ = std::fs::remove_dir(own);
            }
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|error| {
        let error = BenchError::io(format!("could not write {text} to {}", file.display()), error);
        error.in_one_line()
    })
}

/// The number of the whole disk that a folder is on, such as `8:0`.
fn device_of(folder: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let device = metadata.st_dev();
    let number = format!("{}:{}", libc_major(device), libc_minor(device));
    let block = PathBuf::from("/sys/dev/block").join(&number);
    if !block.exists() {
        return Err(format!(
            "{} is on no disk that reads can be throttled of",
            folder.display()
        ));
    }
    if !block.join("partition").exists() {
        return Ok(number);
    }
    let whole = std::fs::canonicalize(&block).ok();
    let whole = whole.and_then(|path| std::fs::read_to_string(path.parent()?.join("dev")).ok());
    whole
        .map(|number| number.trim().to_owned())
        .ok_or_else(|| format!("the disk of {} was not found", folder.display()))
}

/// The parts of a device's number as Linux packs them (`makedev(3)`).
fn libc_major(device: u64) -> u64 {
    (device >> 8 & 0xfff) | (device >> 32 & !0xfff)
}

fn libc_minor(device: u64) -> u64 {
    (device & 0xff) | (device >> 12 & !0xff)
}

/// Where version 1's `blkio` is mounted.
fn blkio(mountinfo: &str) -> Option<PathBuf> {
    let (place, version) = places(mountinfo, "blkio").into_iter().next()?;
    (version == Version::One).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_place_and_the_disk_are_found() {
        let mounts = "\
37 31 0:34 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio";
        assert_eq!(blkio(mounts), Some("/sys/fs/cgroup/blkio".into()));
        assert_eq!(blkio("29 25 0:29 / /tmp rw - tmpfs tmpfs rw"), None);
        assert_eq!((libc_major(0xfe02), libc_minor(0xfe02)), (254, 2));
        // Process files are on no disk.
        assert!(device_of(Path::new("/proc")).is_err_and(|error| error.contains("no disk")));
    }
}
