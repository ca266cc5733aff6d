//! [`Backend`]: a connection to the server itself whose process has a CPU of its own, timed by the clock and by its processor time.
//!
//! Order of calls: [`Backend::start`], [`Backend::prefer`] and [`Backend::time`] as often as wanted. No product code: the CPU is set as
//! `taskset` would. Not for poolers, behind which the process is anybody's.

use std::time::{Duration, Instant};

use corun_model::units::CpuId;
use corun_net::process::{Processes, SystemProcesses};

use super::query::{Form, Query};
use crate::fixture::address::Address;
use crate::fixture::client::Client;
use crate::fixture::failed;
use lab_core::error::BenchError;

/// What one run took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Took {
    /// Seconds by the clock.
    pub clock: f64,
    /// Seconds the process was on a processor.
    pub cpu: f64,
}

/// A connection and its process.
pub struct Backend {
    client: Client,
    process: u32,
    form: Form,
}

impl Backend {
    /// Connects, and puts the process on `cpu` if one is given.
    pub fn start(address: &Address, cpu: Option<CpuId>) -> Result<Backend, BenchError> {
        let mut client = Client::connect(address, super::PATIENCE)?;
        let process = client.numbers("select pg_backend_pid()")?[0];
        let process =
            u32::try_from(process).map_err(|_| failed("postgres", format!("has no process {process}")))?;
        if let Some(cpu) = cpu {
            SystemProcesses.set_cpus(process, &[cpu]).map_err(|source| {
                BenchError::io(format!("could not put process {process} on CPU {cpu}"), source)
            })?;
        }
        Ok(Backend {
            client,
            process,
            form: Form::Free,
        })
    }

    /// One on each of two CPUs.
    pub fn pair(address: &Address, cpus: [CpuId; 2]) -> Result<[Backend; 2], BenchError> {
        Ok([
            Backend::start(address, Some(cpus[0]))?,
            Backend::start(address, Some(cpus[1]))?,
        ])
    }

    /// The connection.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Sets the planner so that joins take this form.
    pub fn prefer(&mut self, form: Form) -> Result<(), BenchError> {
        if form == self.form {
            return Ok(());
        }
        for statement in form.statements() {
            self.client.run(&statement)?;
        }
        self.form = form;
        Ok(())
    }

    /// Runs a query once: what it took, and what was wrong with its answer.
    ///
    /// # Errors
    /// When the connection breaks. An error of the server is a wrong answer.
    pub fn time(&mut self, query: &Query) -> Result<(Took, Option<String>), BenchError> {
        self.prefer(query.form)?;
        let before = self.on_processor()?;
        let start = Instant::now();
        let said = self.client.simple(&query.sql)?;
        let clock = start.elapsed();
        let cpu = self.on_processor()?.saturating_sub(before);
        let took = Took {
            clock: clock.as_secs_f64(),
            cpu: cpu.as_secs_f64(),
        };
        Ok((took, query.wrong(&said)))
    }

    /// The process's time on processors so far: the first number of `schedstat`, in nanoseconds.
    fn on_processor(&self) -> Result<Duration, BenchError> {
        let file = format!("/proc/{}/schedstat", self.process);
        let text = std::fs::read_to_string(&file)
            .map_err(|source| BenchError::io(format!("could not read {file}"), source))?;
        let first = text
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok());
        first
            .map(Duration::from_nanos)
            .ok_or_else(|| failed("kernel", format!("{file} has no number")))
    }
}
