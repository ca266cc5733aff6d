//! Simple queries: a text of statements, each run to its end before the next one begins.
//!
//! Order of calls: [`ClientSession::simple`] for each text. What it is not: what a statement does ([`super::run`]), nor the short way of texts
//! that were seen before ([`super::short`]).

use super::ClientSession;
use crate::session::copying::CopyWanted;
use crate::session::portal::{Counted, Portal, Ran, Sink};
use crate::session::statement::{Kind, Parsed};
use corun_wire::error::Refusal;
use corun_wire::server::ResultFormats;
use corun_wire::{TransactionStatus, backend, build};

impl ClientSession {
    /// Runs the text of a simple query and writes everything but errors, effects and ReadyForQuery.
    ///
    /// # Errors
    /// That of the statement that fails. Those before it have run, and what they have written is undone, unless a transaction was begun or ended.
    /// `Some`: rows of the client are awaited, as by [`Ran::CopyIn`].
    pub async fn simple(&mut self, sql: &str, sink: &mut impl Sink) -> Result<Option<CopyWanted>, Refusal> {
        // A cancel between two statements counts, too.
        let _running = self.cancel.begin();
        if let Some(lifted) = self.lifted(sql).await {
            self.simple_lifted(lifted, sink).await?;
            return Ok(None);
        }
        Box::pin(self.simple_anew(sql, sink)).await
    }

    /// A simple query that is not compiled.
    async fn simple_anew(&mut self, sql: &str, sink: &mut impl Sink) -> Result<Option<CopyWanted>, Refusal> {
        let mut out = Vec::new();
        let statements = match self.split(sql) {
            Ok(statements) => statements,
            Err(refusal) => {
                self.fail_transaction();
                return Err(refusal);
            }
        };
        if statements.is_empty() {
            build::bare(&mut out, backend::EMPTY_QUERY);
        }
        let mut sink = Counted::new(sink);
        self.simple_rest(statements.into_iter(), out, &mut sink).await
    }

    /// The statements of a simple query that are left.
    pub(in crate::session) async fn simple_rest(
        &mut self,
        mut statements: std::vec::IntoIter<Parsed>,
        mut out: Vec<u8>,
        sink: &mut Counted<'_, impl Sink>,
    ) -> Result<Option<CopyWanted>, Refusal> {
        while let Some(statement) = statements.next() {
            let running = self.running(&statement.text);
            let is_last = statements.len() == 0;
            let ran = self.simple_one(statement, is_last, &mut out, sink).await;
            self.work.bytes = std::mem::take(&mut sink.bytes);
            running.end(&self.work, ran.as_ref().err().map(|refusal| refusal.code));
            let wanted = match ran {
                Ok(wanted) => wanted,
                Err(refusal) => {
                    self.fail_implicit();
                    return Err(refusal);
                }
            };
            if wanted.is_some() {
                if let Some(copying) = &mut self.copying {
                    copying.rest = Some(statements);
                }
                return Ok(wanted);
            }
        }
        self.flush(&mut out, sink).await?;
        Ok(None)
    }

    async fn simple_one(
        &mut self,
        statement: Parsed,
        is_last: bool,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Option<CopyWanted>, Refusal> {
        let formats = ResultFormats::default();
        let prepared = self.prepare_uncounted(statement, &[]).await?;
        self.texts.keep_frame(&prepared);
        if !prepared.parameters.is_empty() && !matches!(prepared.statement.kind, Kind::Prepare { .. }) {
            self.fail_transaction();
            return Err(
                Refusal::new("42P02", "there is no parameter $1").hint("A simple query has no parameters.")
            );
        }
        if let Some(columns) = &prepared.columns {
            build::row_description_of(out, columns, &formats);
        }
        let portal = self.bind_uncounted(&prepared, std::iter::empty())?;
        self.simple_portal(portal, is_last, out, sink).await
    }

    /// Runs a portal of a simple query, whose columns were described.
    pub(super) async fn simple_portal(
        &mut self,
        mut portal: Portal,
        is_last: bool,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Option<CopyWanted>, Refusal> {
        let formats = ResultFormats::default();
        let ran = self.run_into(&mut portal, &formats, None, out, sink).await?;
        // Nobody is told of it before it is there.
        if is_last && self.transaction == TransactionStatus::Idle && !matches!(ran, Ran::CopyIn { .. }) {
            self.end_implicit(true).await?;
        }
        match ran {
            Ran::Complete(tag) => build::command_complete(out, &tag),
            Ran::CopyIn { binary, columns } => {
                self.flush(out, sink).await?;
                return Ok(Some(CopyWanted { binary, columns }));
            }
            Ran::Empty | Ran::Suspended => build::bare(out, backend::EMPTY_QUERY),
        }
        self.flush(out, sink).await?;
        Ok(None)
    }
}
