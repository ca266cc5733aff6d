//! [`Change`]: what a message under way does to the statements its client and its server have, so that it can be taken back.
//!
//! ```text
//!  sent:      Parse a   Bind b   Close c   Parse d   Sync      the client's names are at once as they will be if all of it succeeds
//!  happens:   done      ERROR    skipped   skipped   Z         what the server skipped is taken back, newest first: d, then c; a stays
//! ```
//!
//! Prepared statements are not transactional: what was done before an error stays, whatever becomes of the transaction. A message that
//! would name a statement while an earlier batch, not answered to its end, may still change which there are, waits (`Expects::unsure`);
//! so a change of a name that is taken back has no later one behind it in another batch. Only the unnamed statement is replaced without
//! waiting, and [`Unnamed`] says what was before each replacement.

use crate::session::prepared::{ClientStatements, Prepared, ServerStatements};

/// What a message changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core) enum Change {
    /// Nothing that is noted.
    Nothing,
    /// A Parse of a statement with a name.
    Parsed {
        /// Number of the server's copy, and the stamp of the one it had before. `None`: the client's own name is all there is.
        copy: Option<(u64, Option<u64>)>,
        /// The client's name, where the Parse is the client's own.
        name: Option<Name>,
    },
    /// The server's copy with this number and stamp makes room for another.
    Evicted { id: u64, stamp: u64 },
    /// The client closes one of its own.
    Closed { name: Box<[u8]>, prepared: Prepared },
    /// Another unnamed statement, or none.
    Unnamed(Unnamed),
}

/// A name that a client gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::core) struct Name {
    pub name: Box<[u8]>,
    /// The statement that has it until one under way has taken it away with all others.
    pub before: Option<Prepared>,
}

/// The unnamed statement before a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct Unnamed {
    /// The client's.
    pub client: Option<Prepared>,
    /// Whose the server had: client and stamp.
    pub server: Option<(u64, u64)>,
}

impl Change {
    /// Whether the statements with names are others after it.
    pub fn is_of_named(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Unnamed(_))
    }

    /// Bytes of names it holds.
    pub fn name_bytes(&self) -> usize {
        match self {
            Self::Parsed {
                name: Some(given), ..
            } => given.name.len(),
            Self::Closed { name, .. } => name.len(),
            _ => 0,
        }
    }

    /// What must be taken back when the server did not skip the message but refused it. A Parse that fails takes the statement that was
    /// there with it: the unnamed one, or the copy that was closed to make place. `injected`: the client did not ask for it.
    pub fn refused(self, injected: bool) -> Self {
        match self {
            Self::Parsed { copy, name } => Self::Parsed {
                copy: copy.map(|(id, _)| (id, None)),
                name,
            },
            Self::Unnamed(before) => Self::Unnamed(Unnamed {
                client: before.client.filter(|_| injected),
                server: None,
            }),
            other => other,
        }
    }

    /// Takes it back. Changes must be taken back newest first.
    pub fn take_back(self, client: Option<&mut ClientStatements>, server: &mut ServerStatements) {
        match self {
            Self::Nothing => {}
            Self::Parsed { copy, name } => {
                match copy {
                    Some((id, Some(before))) => server.put_back(id, before),
                    Some((id, None)) => server.forget(id),
                    None => {}
                }
                if let (Some(Name { name, before }), Some(client)) = (name, client) {
                    match before {
                        Some(before) => client.define(name, before),
                        None => client.remove(&name),
                    };
                }
            }
            Self::Evicted { id, stamp } => server.put_back(id, stamp),
            Self::Closed { name, prepared } => {
                if let Some(client) = client {
                    client.define(name, prepared);
                }
            }
            Self::Unnamed(before) => {
                server.unnamed = before.server;
                if let Some(client) = client {
                    client.unnamed = before.client;
                }
            }
        }
    }
}
