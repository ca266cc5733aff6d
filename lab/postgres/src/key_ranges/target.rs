//! [`Target`]: a side of a comparison, running: the server itself, or a proxy in front of it.

use std::path::Path;
use std::time::Duration;

use super::configuration::{self, Layout};
use super::ground::Ground;
use super::ways::{Kind, Spec, Split};
use crate::pooler::address::{Address, Transport, free_port};
use crate::pooler::client::Client;
use crate::pooler::guarded::{Guarded, Signal, command};
use crate::pooler::sides::CORUN;
use crate::pooler::{configuration as poolers, failed};
use lab_core::contest::Gone;
use lab_core::error::BenchError;

/// Longest wait for a proxy that starts.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Where a side listens, and its process if it is a proxy.
struct Running {
    address: Address,
    process: Option<Guarded>,
}

/// A side.
pub struct Target {
    /// What it is.
    pub spec: Spec,
    running: Result<Running, Gone>,
}

impl Target {
    /// Starts it. What fails is kept, for its rows.
    pub fn start(spec: &Spec, ground: &Ground, layout: &Layout) -> Target {
        let running = match (&spec.kind, ground.corun()) {
            (Kind::Corun(_), Err(reason)) => Err(Gone::Unavailable(reason.clone())),
            _ => run(spec, ground, layout).map_err(|error| gone(spec, &error)),
        };
        Target {
            spec: spec.clone(),
            running,
        }
    }

    /// Why it does not run.
    pub fn gone(&self) -> Option<&Gone> {
        self.running.as_ref().err()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When it does not run.
    pub fn address(&self) -> Result<&Address, BenchError> {
        match &self.running {
            Ok(running) => Ok(&running.address),
            Err(_) => Err(failed(CORUN, "it does not run")),
        }
    }

    /// How many runs of queries that may be split were split, and how many were whole, since it started. `None` where nothing may be.
    ///
    /// # Errors
    /// When its console does not answer.
    pub fn splits(&self) -> Result<Option<(i64, i64)>, BenchError> {
        match &self.spec.kind {
            Kind::Corun(ways) if ways.split != Split::Off => {}
            _ => return Ok(None),
        }
        let mut console = Client::connect_to("pgbouncer", self.address()?, READY_WITHIN)?;
        let shown = console.run("show splits")?;
        let columns = shown.columns.first().map(Vec::as_slice).unwrap_or_default();
        let sum = |name: &str| {
            let at = columns.iter().position(|(column, _)| column == name);
            let cells = shown.rows.iter().filter_map(|row| row.get(at?)?.as_deref());
            cells.map(|cell| cell.parse().unwrap_or(0)).sum::<i64>()
        };
        Ok(Some((sum("split_count"), sum("whole_count"))))
    }

    /// That its process still runs.
    ///
    /// # Errors
    /// When it has ended: its last words.
    pub fn alive(&mut self) -> Result<(), BenchError> {
        match &mut self.running {
            Ok(Running {
                process: Some(process),
                ..
            }) => process.alive(),
            _ => Ok(()),
        }
    }
}

/// What a failure of a side is: ours must work, and the server may collapse under too many clients.
pub fn gone(spec: &Spec, error: &BenchError) -> Gone {
    match spec.kind {
        Kind::Direct(_) => Gone::Unavailable(error.in_one_line()),
        Kind::Corun(_) => Gone::Failed(error.in_one_line()),
    }
}

fn run(spec: &Spec, ground: &Ground, layout: &Layout) -> Result<Running, BenchError> {
    let Kind::Corun(ways) = &spec.kind else {
        return Ok(Running {
            address: layout.server.clone(),
            process: None,
        });
    };
    let words = |listen: &Address, users: &Path| configuration::corun(listen, users, layout, ways);
    let (address, process) = launch(ground, &spec.name, &words)?;
    Ok(Running {
        address,
        process: Some(process),
    })
}

/// Starts the proxy of the side `name`; `words` is given where it listens and its file of users, and gives its configuration.
///
/// # Errors
/// When there is no program, or it does not answer in time.
pub fn launch(
    ground: &Ground,
    name: &str,
    words: &dyn Fn(&Address, &Path) -> String,
) -> Result<(Address, Guarded), BenchError> {
    let program = ground
        .corun()
        .as_ref()
        .map_err(|reason| failed(CORUN, reason.clone()))?;
    let folder = ground.server_folder(&format!("side-{name}"))?;
    let address = Address {
        transport: Transport::Tcp,
        folder: folder.clone(),
        port: free_port()?,
    };
    let (users, file) = (folder.join("users.txt"), folder.join("corun.toml"));
    let write = |file: &Path, content: &str| {
        std::fs::write(file, content)
            .map_err(|source| BenchError::io(format!("could not write {}", file.display()), source))
    };
    write(&users, &poolers::users())?;
    write(&file, &words(&address, &users))?;
    // Terminated, it would wait for its clients.
    let mut command = command(program, ground.account(), Signal::Quit);
    command.args(["proxy", "--config"]).arg(&file);
    let mut process = Guarded::start(command, CORUN, Signal::Quit, folder.join("words"))?;
    process.until(READY_WITHIN, || {
        Client::connect(&address, READY_WITHIN)?.run("select 1").map(drop)
    })?;
    Ok((address, process))
}
