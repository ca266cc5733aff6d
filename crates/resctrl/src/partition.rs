//! Ways to keep weak-locality queries from flushing the others out of the shared cache, chosen by what the machine can.
//!
//! | kind | what keeps the weak ones out | needs |
//! | --- | --- | --- |
//! | [`Kind::Ways`] | the cache: their fills go to few ways (paper 002, section 6, with ways for page colours) | resctrl with corun's groups applied, and the right to move tasks |
//! | [`Kind::Streaming`] | themselves: corun's operators fetch what they use once with non-temporal prefetches | x86-64 |
//! | [`Kind::None`] | nothing but who runs beside whom | nothing |
//!
//! [`choose`] takes the first that works and says why. It changes nothing: groups are made beforehand
//! ([`crate::Client::apply`], `corun partition apply`), so that an embedded engine never changes the machine on
//! its own, and can do without the right to.
//!
//! Whoever runs queries calls [`Partitioner::assign_current_thread`] on the thread before a query starts. It is a hint
//! for speed: after an error the query runs all the same.
//!
//! Not here: which query is weak ([`corun_model::cache::locality`]), what runs together ([`corun_model::cache::coschedule`]), the prefetches.

mod error;
mod ways;

use std::fmt::Debug;
use std::sync::Arc;

use corun_model::cache::partition::Class;
use corun_model::topology::Topology;
use serde::{Deserialize, Serialize};

pub use error::PartitionError;
pub use ways::Ways;

use crate::{Client, Files, ResctrlError, Settings, SystemFiles};

/// How weak queries are kept from flushing the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// By ways of the cache.
    Ways,
    /// By non-temporal prefetches of corun's own operators.
    Streaming,
    /// Not at all.
    None,
}

/// What somebody wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionChoice {
    /// The best this machine and its rights allow.
    #[default]
    Auto,
    /// Ways, or an error that says what is in the way.
    Ways,
    /// Streaming, even where ways could be had.
    Streaming,
    /// None of them.
    None,
}

/// A way to keep weak-locality queries from flushing the others.
pub trait Partitioner: Send + Sync + Debug {
    /// Which way.
    fn kind(&self) -> Kind;

    /// Whether weak queries cannot hurt the others, so that the policy `mls` (paper 002, section 6.3), which pairs them on
    /// purpose, may be used.
    ///
    /// Only ways of the cache do that, and only while threads really get into their class. Streaming does not: it tames
    /// the accesses corun's operators know to be used once, not those of the host's scans, sorts and aggregates; and
    /// beside a streaming scan a table of 4 MiB was still probed at half its speed alone (beside a plain one at less than
    /// a fifth; two cores of a virtual Sapphire Rapids). Whole queries are unmeasured.
    fn protects(&self) -> bool;

    /// Puts the calling thread into a class, until it is put into another. Cheap if it is in it already.
    ///
    /// # Errors
    /// When the thread could not be moved; it stays where it was.
    fn assign_current_thread(&self, class: Class) -> Result<(), PartitionError>;

    /// Puts all threads of another process into a class, until they are put into another: of a database server, for one.
    /// Where threads are not kept apart by where they are, nothing happens.
    ///
    /// # Errors
    /// When they could not be moved; some may have been. That the process has ended is none.
    fn assign_process(&self, pid: u32, class: Class) -> Result<(), PartitionError> {
        let _ = (pid, class);
        Ok(())
    }

    /// One line: what is used, and why this one.
    fn describe(&self) -> String;
}

/// The partitioner for this machine.
///
/// # Errors
/// When a certain kind is wanted and cannot be had.
pub fn choose(
    settings: &Settings,
    topology: &Topology,
    wish: PartitionChoice,
) -> Result<Arc<dyn Partitioner>, PartitionError> {
    let client = Client::new(SystemFiles, settings.clone());
    choose_with(client, ways::current_task, topology, wish)
}

/// Like [`choose`], with a client of any resctrl, a simulated one included. `current_task` tells the id that the calling
/// thread has there.
///
/// # Errors
/// When a certain kind is wanted and cannot be had.
pub fn choose_with<F: Files + Send + Sync + Debug + 'static>(
    client: Client<F>,
    current_task: fn() -> u32,
    topology: &Topology,
    wish: PartitionChoice,
) -> Result<Arc<dyn Partitioner>, PartitionError> {
    let not_ways = match wish {
        PartitionChoice::None => return Ok(Arc::new(Unpartitioned::because("none was asked for"))),
        PartitionChoice::Streaming => "it was asked for".to_owned(),
        PartitionChoice::Auto | PartitionChoice::Ways => match Ways::new(client, current_task) {
            Ok(ways) => return Ok(Arc::new(ways)),
            Err(error) if wish == PartitionChoice::Ways => return Err(error.into()),
            Err(error) => reason(&error),
        },
    };
    // Elsewhere `exec` compiles its prefetches to nothing.
    if topology.architecture == "x86_64" {
        Ok(Arc::new(Streaming { reason: not_ways }))
    } else if wish == PartitionChoice::Streaming {
        Err(PartitionError::NoStreaming {
            architecture: topology.architecture.clone(),
        })
    } else {
        Ok(Arc::new(Unpartitioned { reason: not_ways }))
    }
}

/// An error and what lies behind it, for the middle of a sentence.
fn reason(error: &ResctrlError) -> String {
    match error.detail() {
        Some(detail) => format!("{error}: {detail}"),
        None => error.to_string(),
    }
}

/// Nothing is done to threads: the operators' prefetches do it.
#[derive(Debug)]
struct Streaming {
    reason: String,
}

impl Partitioner for Streaming {
    fn kind(&self) -> Kind {
        Kind::Streaming
    }

    fn protects(&self) -> bool {
        false
    }

    fn assign_current_thread(&self, _: Class) -> Result<(), PartitionError> {
        Ok(())
    }

    fn describe(&self) -> String {
        format!("non-temporal streaming and co-scheduling ({})", self.reason)
    }
}

/// Nothing is done at all.
#[derive(Debug)]
struct Unpartitioned {
    reason: String,
}

impl Unpartitioned {
    fn because(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
        }
    }
}

impl Partitioner for Unpartitioned {
    fn kind(&self) -> Kind {
        Kind::None
    }

    fn protects(&self) -> bool {
        false
    }

    fn assign_current_thread(&self, _: Class) -> Result<(), PartitionError> {
        Ok(())
    }

    fn describe(&self) -> String {
        format!("co-scheduling only ({})", self.reason)
    }
}
