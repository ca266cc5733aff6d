//! [`Classifier`]: what an event loop's requests have in common, and the [`Rules`] of a client's pool.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::auto_prepare;
use crate::config::{AutoPrepare, Doubtful, PoolMode};
use crate::core::auto_prepare::Lifting;
use crate::core::server::catalogues::{Catalogues, View};
use crate::session::catalogue::Catalogue;
use crate::session::prepared::{Statement, Statements};
use crate::session::settings::Settings;
use crate::understand::{Access, Limits, StatementKind, TransactionEffect, Understanding, Understood};
use corun_wire::error::{Refusal, code};
use corun_wire::{HEADER_BYTES, Header, frontend, header, read};

/// What an event loop's requests have in common.
pub(in crate::core) struct Classifier {
    pub understanding: Understanding,
    /// Those of all loops.
    pub statements: Arc<Statements>,
    /// Simple queries that run as prepared statements.
    pub auto: Lifting,
    /// How often definitions have changed, counted by all loops; and what this loop saw last.
    pub definitions: Arc<AtomicU64>,
    pub definitions_seen: u64,
    /// What code of databases' own may do to sessions, as this loop saw it last.
    pub catalogues: View,
    /// What is known of texts holds for this stamp, since then.
    pub stamp: u64,
    pub renewed: Duration,
}

impl Classifier {
    /// An empty one; `definitions` is what all loops count with.
    pub fn new(
        limits: Limits,
        statements: Arc<Statements>,
        definitions: Arc<AtomicU64>,
        catalogues: Arc<Catalogues>,
    ) -> Self {
        Self {
            understanding: Understanding::new(limits),
            statements,
            auto: Lifting::default(),
            definitions,
            definitions_seen: 0,
            catalogues: View::new(catalogues),
            stamp: 0,
            renewed: Duration::ZERO,
        }
    }

    /// What is known of a database's own code; `None`: nothing yet, or nothing that still holds.
    pub fn catalogue(&mut self, database: &Arc<str>) -> Option<&Arc<Catalogue>> {
        self.catalogues.of(database)
    }

    /// The statement of a Parse. `alike`: the client's server reads its text as it is read here, for certain. `known`: what was looked up
    /// already.
    pub fn intern(
        &mut self,
        parsed: &read::Parse<'_>,
        under: &[u8],
        alike: bool,
        known: Option<Arc<Understood>>,
    ) -> Arc<Statement> {
        let Self {
            understanding,
            statements,
            ..
        } = self;
        statements.intern(parsed.sql, parsed.types, under, || {
            let found = known.unwrap_or_else(|| understanding.of(parsed.sql));
            match alike || !found.ambiguous {
                true => found,
                false => doubted(&found, parsed.sql),
            }
        })
    }
}

/// What an ambiguous text means to a session that may read it otherwise.
pub(in crate::core) fn doubted(found: &Understood, sql: &[u8]) -> Arc<Understood> {
    let mut understood = found.clone();
    understood.unreadable = true;
    if sql.contains(&b'\\') {
        // Where its strings end is not known.
        understood.access = Access::Unknown;
        understood.plain = false;
        understood.keys = None;
    }
    Arc::new(understood)
}

/// What holds for a client's pool.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Rules {
    pub mode: PoolMode,
    pub auto_prepare: AutoPrepare,
    /// What follows from code that nobody can see into.
    pub doubtful: Doubtful,
    /// Reads may be on replicas, so a write must not follow them there.
    pub split: bool,
    /// BEGIN waits for the first statement, whose key says where the transaction belongs.
    pub late_begin: bool,
    /// Statements of the protocol follow the client.
    pub carry_statements: bool,
    /// As PgBouncer counts them: not where statements are nothing of the pooler's.
    pub counts_statements: bool,
    /// The simple query protocol is refused.
    pub extended_only: bool,
    pub packet_bytes_max: usize,
    /// What a client's prepared statements may take.
    pub statement_bytes_max: usize,
    pub now: Duration,
}

/// Longest message, type and length included, of the kinds that are never long. PostgreSQL has the same limit.
const SMALL_MAX: usize = 10_001;
/// Longest name of a prepared statement or portal. PostgreSQL takes longer ones and tells them apart by their first 63 bytes.
const NAME_MAX: usize = 8 << 10;

impl Rules {
    /// The header at the start of a client's `bytes`; `None` when it is not whole.
    ///
    /// # Errors
    /// When the length cannot be, or is more than is let through.
    pub fn header(&self, bytes: &[u8]) -> Result<Option<Header>, Refusal> {
        let invalid = || Refusal::new(code::PROTOCOL_VIOLATION, "invalid message length");
        let Some(head) = header(bytes).map_err(|_| invalid())? else {
            return Ok(None);
        };
        if head.total > self.packet_bytes_max {
            return Err(Refusal::new(
                code::PROGRAM_LIMIT,
                format!("message of {} bytes is too long", head.total),
            )
            .hint("Raise max_packet_size."));
        }
        if is_small(head.tag) && head.total > SMALL_MAX {
            return Err(invalid());
        }
        if has_long_name(head.tag, &bytes[HEADER_BYTES..]) {
            return Err(Refusal::new(
                code::PROGRAM_LIMIT,
                format!("the name of a prepared statement or portal has more than {NAME_MAX} bytes"),
            ));
        }
        if self.extended_only && head.tag == frontend::QUERY {
            return Err(
                Refusal::new(code::NOT_SUPPORTED, "the simple query protocol is disabled here")
                    .detail("The pooler's configuration says disable_pqexec.")
                    .hint("Use the extended protocol: prepared statements, or queries with parameters."),
            );
        }
        Ok(Some(head))
    }
}

/// Whether one of the names that a message begins with has no end within the limit. `body` may be a part: names are looked for at the
/// beginning of what is there each time more of the message arrives, so they must be short.
fn has_long_name(tag: u8, mut body: &[u8]) -> bool {
    let names = match tag {
        frontend::PARSE => 1,
        frontend::BIND => 2,
        _ => return false,
    };
    for _ in 0..names {
        match body.iter().take(NAME_MAX + 1).position(|&byte| byte == 0) {
            Some(end) => body = &body[end + 1..],
            None => return body.len() > NAME_MAX,
        }
    }
    false
}

fn is_small(tag: u8) -> bool {
    matches!(
        tag,
        frontend::CLOSE
            | frontend::DESCRIBE
            | frontend::EXECUTE
            | frontend::FLUSH
            | frontend::SYNC
            | frontend::TERMINATE
            | frontend::COPY_DONE
            | frontend::COPY_FAIL
    )
}

/// Whether something that pins a client may be gone after a text.
pub(in crate::core) fn may_unpin(understood: &Understood) -> bool {
    match understood.kind {
        // Unlocking is a function that writes.
        StatementKind::Select => understood.access != Access::Read,
        StatementKind::Transaction => matches!(
            understood.transaction,
            TransactionEffect::Commit { .. }
                | TransactionEffect::Rollback { .. }
                | TransactionEffect::RollbackTo
        ),
        StatementKind::Insert
        | StatementKind::Update
        | StatementKind::Delete
        | StatementKind::Merge
        | StatementKind::CopyIn
        | StatementKind::CopyOut
        | StatementKind::Set
        | StatementKind::Show
        | StatementKind::Execute
        | StatementKind::Empty => false,
        _ => true,
    }
}

/// The settings among a session's that decide what a text means when it is parsed, with their values. The bytes of a text beyond ASCII
/// are other letters in another encoding: `encoded`.
pub(in crate::core) fn read_when_parsed(settings: &Settings, encoded: bool) -> Vec<u8> {
    let mut under = Vec::new();
    if settings.is_empty() {
        return under;
    }
    for (name, value) in &settings.0 {
        let decides = name == "role"
            || encoded && name == "client_encoding"
            || auto_prepare::SETTINGS_READ_WHEN_PARSED
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name));
        if decides {
            under.extend(name.as_bytes());
            under.push(b'=');
            under.extend(&**value);
            under.push(0);
        }
    }
    under
}
