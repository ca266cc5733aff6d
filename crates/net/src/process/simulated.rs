//! Processes that exist only in a test.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use corun_model::units::CpuId;

use super::{Processes, Rights, Status};

/// Processes in memory, with the kernel's rules for binding them.
#[derive(Debug)]
pub struct SimulatedProcesses {
    rights: Rights,
    known: Mutex<BTreeMap<u32, Process>>,
}

#[derive(Debug)]
struct Process {
    status: Status,
    group: Vec<CpuId>,
    cpus: Vec<CpuId>,
}

impl SimulatedProcesses {
    /// No processes; whoever asks has these rights.
    pub fn new(rights: Rights) -> Self {
        Self {
            rights,
            known: Mutex::default(),
        }
    }

    /// Starts a process whose control group has these CPUs, in place of the one that had its number.
    pub fn start(&self, pid: u32, status: Status, cpus: &[CpuId]) {
        let (group, cpus) = (cpus.to_vec(), cpus.to_vec());
        self.lock().insert(pid, Process { status, group, cpus });
    }

    /// Ends a process.
    pub fn end(&self, pid: u32) {
        self.lock().remove(&pid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Process>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processes for SimulatedProcesses {
    fn status(&self, pid: u32) -> io::Result<Status> {
        let known = self.lock();
        Ok(known.get(&pid).ok_or(io::ErrorKind::NotFound)?.status.clone())
    }

    fn children(&self, pid: u32) -> io::Result<Vec<u32>> {
        let known = self.lock();
        let of = |(&child, process): (&u32, &Process)| (process.status.parent == pid).then_some(child);
        Ok(known.iter().filter_map(of).collect())
    }

    fn rights(&self) -> io::Result<Rights> {
        Ok(self.rights)
    }

    fn cpus(&self, pid: u32) -> io::Result<Vec<CpuId>> {
        let known = self.lock();
        Ok(known.get(&pid).ok_or(io::ErrorKind::NotFound)?.cpus.clone())
    }

    fn set_cpus(&self, pid: u32, cpus: &[CpuId]) -> io::Result<()> {
        let mut known = self.lock();
        let process = known.get_mut(&pid).ok_or(io::ErrorKind::NotFound)?;
        let owners = [process.status.real_uid, process.status.effective_uid];
        if !self.rights.nice && !owners.contains(&self.rights.uid) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let mut wanted = process.group.clone();
        wanted.retain(|cpu| cpus.contains(cpu));
        if wanted.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        process.cpus = wanted;
        Ok(())
    }
}
