//! [`Console`]: a login at a running proxy's console, and the tables asked there.

use std::time::{Duration, Instant};

use super::address::Address;
use super::sample::Sample;
use crate::admin::{Row, VersionRow};
use crate::talk::{Conversation, TalkError, Target};
use corun_wire::tls::{TlsClient, TlsError, TlsFiles, TlsMode};

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The connection, the login or a command failed.
    #[error("{}", shown(.0))]
    Talk(#[from] TalkError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What answers is no console of ours, or one of another kind.
    #[error(
        "{command} returned what this program does not understand: column {column}\nhint: is this a corun pooler, of about the same version?"
    )]
    Strange {
        /// What was asked.
        command: &'static str,
        /// The column that is missing or holds something else.
        column: &'static str,
    },
}

/// The error with what to do about it.
fn shown(error: &TalkError) -> String {
    let hint = match error {
        TalkError::Unreachable { .. } => {
            "is the pooler running, and does it listen there? See listen_addr and listen_port"
        }
        TalkError::Refused(said) if said.code == "3D000" => {
            "is it a pooler? corun-sql serve is asked with --url, at the address of its --metrics"
        }
        error if error.is_password() => {
            "give the password in PGPASSWORD; the user must be in admin_users or stats_users"
        }
        TalkError::Refused(_) => "the user must be in admin_users or stats_users of the pooler",
        _ => return error.to_string(),
    };
    format!("{error}\nhint: {hint}")
}

impl WatchError {
    /// Whether trying again is of no use before a person has done something.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Talk(error) => error.is_password(),
            Self::Tls(_) | Self::Strange { .. } => true,
        }
    }
}

/// A console that is logged in to.
pub struct Console {
    conversation: Conversation,
    /// Name and version of the proxy.
    version: String,
    connected: Instant,
}

impl Console {
    /// Logs in. `limit` bounds this and each answer.
    ///
    /// # Errors
    /// Nobody there, not let in, or something else than a console.
    pub fn connect(address: &Address, limit: Duration) -> Result<Self, WatchError> {
        let mode = Some(address.tls).filter(|mode| *mode != TlsMode::Disable);
        let load = |mode| {
            TlsClient::load(&TlsFiles {
                mode,
                ..TlsFiles::default()
            })
        };
        let mut conversation = Conversation::open(&Target {
            endpoint: address.endpoint.clone(),
            database: address.database.clone(),
            user: address.user.clone(),
            credentials: address.credentials.clone(),
            tls: mode.map(load).transpose()?,
            parameters: vec![("application_name".to_owned(), "corun top".to_owned())],
            limit,
        })?;
        let version: Vec<VersionRow> = ask(&mut conversation, "SHOW VERSION")?;
        let version = version.into_iter().next().map(|row| row.version);
        Ok(Self {
            conversation,
            version: version.unwrap_or_default(),
            connected: Instant::now(),
        })
    }

    /// Asks for one table, as `SHOW KEYS`.
    ///
    /// # Errors
    /// The connection ended, or an answer is not understood.
    pub fn ask<R: Row>(&mut self, command: &'static str) -> Result<Vec<R>, WatchError> {
        ask(&mut self.conversation, command)
    }

    /// Asks for all tables once. Times of samples count from the login: compare only those of one console.
    ///
    /// # Errors
    /// The connection ended, or an answer is not understood.
    pub fn sample(&mut self) -> Result<Sample, WatchError> {
        let talk = &mut self.conversation;
        // Counters first, and the time between them.
        let stats = ask(talk, "SHOW STATS_TOTALS")?;
        let cores = ask(talk, "SHOW CORES")?;
        let cohorts = ask(talk, "SHOW COHORTS")?;
        let ranges = ask(talk, "SHOW RANGES")?;
        let keys = ask(talk, "SHOW KEYS")?;
        let splits = ask(talk, "SHOW SPLITS")?;
        let at = self.connected.elapsed();
        Ok(Sample {
            at,
            version: self.version.clone(),
            stats,
            cores,
            cohorts,
            pools: ask(talk, "SHOW POOLS")?,
            hosts: ask(talk, "SHOW HOSTS")?,
            ranges,
            keys,
            splits,
            queue: ask(talk, "SHOW QUEUE")?,
            slowdowns: ask(talk, "SHOW HEAVY_QUEUE")?,
        })
    }
}

fn ask<R: Row>(conversation: &mut Conversation, command: &'static str) -> Result<Vec<R>, WatchError> {
    let found = conversation.query(command)?;
    let (first, _) = R::COLUMNS[0];
    if !found.columns.iter().any(|name| name == first) {
        return Err(WatchError::Strange {
            command,
            column: first,
        });
    }
    found
        .rows
        .iter()
        .map(|row| R::read(&found.columns, row).map_err(|column| WatchError::Strange { command, column }))
        .collect()
}
