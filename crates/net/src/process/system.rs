//! The processes of this machine, from `/proc`.

use std::fs;
use std::io;
use std::path::PathBuf;

use corun_model::units::CpuId;

use super::{Processes, Rights, Status};
use corun_topology::affinity;

/// The bit of `CAP_SYS_NICE` in a set of capabilities.
const CAP_SYS_NICE: u32 = 23;

/// Looks at the threads of a process are repeated this often, for threads that were started meanwhile. A PostgreSQL backend
/// has one.
const THREAD_ROUNDS_MAX: usize = 4;

/// The processes of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemProcesses;

impl Processes for SystemProcesses {
    fn status(&self, pid: u32) -> io::Result<Status> {
        let status = read(pid, "status")?;
        if number(&status, "Tgid", 0)? != u64::from(pid) {
            // A thread of another process.
            return Err(io::ErrorKind::NotFound.into());
        }
        let title: Vec<String> = read(pid, "cmdline")?
            .split('\0')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let narrow = |value: u64| u32::try_from(value).map_err(|_| malformed("status"));
        Ok(Status {
            parent: narrow(number(&status, "PPid", 0)?)?,
            real_uid: narrow(number(&status, "Uid", 0)?)?,
            effective_uid: narrow(number(&status, "Uid", 1)?)?,
            title: title.join(" "),
            started: started(&read(pid, "stat")?).ok_or_else(|| malformed("stat"))?,
            nested: field(&status, "NSpid")
                .is_some_and(|numbers| numbers.split_ascii_whitespace().count() > 1),
        })
    }

    fn children(&self, pid: u32) -> io::Result<Vec<u32>> {
        let path = format!("/proc/{pid}/task/{pid}/children");
        let list = fs::read_to_string(path).map_err(gone)?;
        Ok(list
            .split_ascii_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect())
    }

    fn rights(&self) -> io::Result<Rights> {
        let status = fs::read_to_string("/proc/self/status")?;
        let uid = u32::try_from(number(&status, "Uid", 1)?).map_err(|_| malformed("status"))?;
        let capabilities = field(&status, "CapEff").and_then(|text| u64::from_str_radix(text, 16).ok());
        let capabilities = capabilities.ok_or_else(|| malformed("status"))?;
        let nice = capabilities >> CAP_SYS_NICE & 1 == 1;
        Ok(Rights { uid, nice })
    }

    fn cpus(&self, pid: u32) -> io::Result<Vec<CpuId>> {
        affinity::thread_cpus(pid).map_err(gone)
    }

    fn set_cpus(&self, pid: u32, cpus: &[CpuId]) -> io::Result<()> {
        let mut done: Vec<u32> = Vec::new();
        for _ in 0..THREAD_ROUNDS_MAX {
            let mut new: Vec<u32> = threads(pid)?;
            new.retain(|thread| !done.contains(thread));
            if new.is_empty() {
                break;
            }
            for thread in new {
                match affinity::allow_thread(thread, cpus).map_err(gone) {
                    // A thread may end; the process is asked below.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && thread != pid => {}
                    other => other?,
                }
                done.push(thread);
            }
        }
        Ok(())
    }
}

fn read(pid: u32, name: &str) -> io::Result<String> {
    let path: PathBuf = ["/proc", &pid.to_string(), name].iter().collect();
    // Titles may hold names in any encoding.
    let bytes = fs::read(path).map_err(gone)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task")).map_err(gone)? {
        threads.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    Ok(threads)
}

/// The kernel's two ways to say that a process has ended.
fn gone(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(libc::ESRCH) {
        return io::ErrorKind::NotFound.into();
    }
    error
}

fn malformed(file: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("/proc/…/{file} is not as expected"),
    )
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::trim))
}

fn number(status: &str, key: &str, index: usize) -> io::Result<u64> {
    field(status, key)
        .and_then(|text| text.split_ascii_whitespace().nth(index)?.parse().ok())
        .ok_or_else(|| malformed("status"))
}

/// The start time, the twenty-second value. The second, the name, is in brackets and may hold anything.
fn started(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_are_no_trouble() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1";
        assert_eq!(started(stat), Some(4242));
        assert_eq!(started("7"), None);
    }

    #[test]
    fn this_process() {
        let processes = SystemProcesses;
        let status = processes.status(std::process::id()).unwrap();
        assert_eq!(status.parent, std::os::unix::process::parent_id());
        assert_eq!(processes.rights().unwrap().uid, status.effective_uid);
        assert!(!status.nested && status.started > 0 && !status.title.is_empty());
        for nobody in [0, u32::MAX, 1 << 30] {
            assert_eq!(
                processes.status(nobody).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
            assert_eq!(
                processes.cpus(nobody).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
            assert_eq!(
                processes.set_cpus(nobody, &[CpuId(0)]).unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
    }
}
