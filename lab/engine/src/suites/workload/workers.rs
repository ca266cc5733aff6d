//! Processes of this machine that run the queries: `corun-sql worker`, as many as asked for, on the loopback interface.

use corun_cli::siblings;
use corun_datafusion::{Engine, EngineOptions};
use corun_distributed::{Address, Cluster, Scheme};
use lab_core::error::BenchError;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tokio::runtime::Runtime;

/// Bytes of files that are worth a partition at scale factor 1 and above.
const BYTES_PER_PARTITION: f64 = 1024.0 * 1024.0;

/// Workers, which end when this is dropped, and the connections to them.
pub(super) struct Workers {
    cluster: Cluster,
    processes: Vec<Process>,
    /// What drives the connections.
    _runtime: Runtime,
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Workers {
    /// Starts `count` workers that read `folder`.
    pub(super) fn start(count: usize, folder: &Path) -> Result<Workers, BenchError> {
        let program = siblings::find("corun-sql").ok_or_else(|| BenchError::Peer {
            peer: "corun-sql",
            reason: "workers are its processes, and it is neither beside this program nor on PATH".to_owned(),
        })?;
        let failed = |source| BenchError::io(format!("cannot start {} worker", program.display()), source);
        let mut processes = Vec::new();
        let mut addresses = Vec::new();
        for _ in 0..count {
            let child = Command::new(&program)
                .args(["worker", "--listen", "127.0.0.1:0"])
                .arg(folder)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(failed)?;
            let mut process = Process(child);
            let mut line = String::new();
            if let Some(out) = &mut process.0.stdout {
                BufReader::new(out).read_line(&mut line).map_err(failed)?;
            }
            let address = line.trim().strip_prefix("listening on ").unwrap_or_default();
            addresses.push(Address::parse(address, Scheme::Plain)?);
            processes.push(process);
        }
        let runtime = crate::query::runtime(1)?;
        let cluster = runtime.block_on(Cluster::connect(addresses, None))?;
        Ok(Workers {
            cluster,
            processes,
            _runtime: runtime,
        })
    }

    /// The numbers of the processes.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.processes.iter().map(|process| process.0.id()).collect()
    }

    /// An engine whose statements run on the workers, over data of a scale factor.
    pub(super) fn engine(&self, mut options: EngineOptions, scale_factor: f64) -> Result<Engine, BenchError> {
        // One worker is not worth a stage to a planner that counts bytes; here all of them are to work.
        let bytes = "distributed.file_scan_config_bytes_per_partition".to_owned();
        let most = (BYTES_PER_PARTITION * scale_factor.min(1.0)) as usize;
        options.settings.push((bytes, most.to_string()));
        Ok(self.cluster.engine(&options)?)
    }
}
