//! [`Bound`]: a server whose new backends run on some processors only, until it is let go.

use corun_model::units::CpuId;
use corun_net::process::{Processes, SystemProcesses};

use lab_core::error::BenchError;

/// A process and where it ran before. Let go when dropped, too.
pub struct Bound {
    process: u32,
    before: Vec<CpuId>,
}

impl Bound {
    /// Binds a process. What it starts from now on inherits that.
    pub fn to(process: u32, cpus: &[CpuId]) -> Result<Bound, BenchError> {
        let refused = |source| BenchError::io(format!("could not bind process {process}"), source);
        let before = SystemProcesses.cpus(process).map_err(refused)?;
        SystemProcesses.set_cpus(process, cpus).map_err(refused)?;
        Ok(Bound { process, before })
    }

    /// Lets it go.
    pub fn let_go(mut self) -> Result<(), BenchError> {
        let process = self.process;
        let before = std::mem::take(&mut self.before);
        SystemProcesses
            .set_cpus(process, &before)
            .map_err(|source| BenchError::io(format!("could not unbind process {process}"), source))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if !self.before.is_empty() {
            // A server that has ended needs nothing.
            let _ = SystemProcesses.set_cpus(self.process, &self.before);
        }
    }
}
