//! `COPY ... FROM STDIN`: the statement pauses until the client has sent its rows.
//!
//! ```text
//!   run, simple ─► CopyIn ─► copy_data ... ─► copy_done ─► the rest of the text
//!                                          └► copy_failed
//! ```

use super::client::{ClientSession, Copying};
use super::portal::{Counted, Ran, Sink};
use super::statement::CopyInto;
use crate::write::CopyRows;
use corun_wire::error::{Refusal, code};
use corun_wire::values::CopyFormat;
use corun_wire::{TransactionStatus, build};

/// Rows of the client that a simple query awaits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyWanted {
    /// Whether they come in the binary format.
    pub binary: bool,
    /// How many columns they have.
    pub columns: u16,
}

/// How a copy has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyDone {
    /// Of a portal, with its tag.
    Portal(String),
    /// Of a simple query, of which all was written; `Some`: another copy of its text awaits rows.
    Simple(Option<CopyWanted>),
}

impl ClientSession {
    /// Begins: the rows come in [`ClientSession::copy_data`].
    pub(super) async fn begin_copy(&mut self, into: &CopyInto) -> Result<Ran, Refusal> {
        self.check_writes("COPY FROM")?;
        let rows = CopyRows::begin(
            self,
            &into.table,
            &into.columns,
            into.options.clone(),
            into.is_header_matched,
        );
        let rows = rows.await?;
        let ran = Ran::CopyIn {
            binary: into.options.format == CopyFormat::Binary,
            columns: rows.columns(),
        };
        self.copying = Some(Copying { rows, rest: None });
        Ok(ran)
    }

    /// Takes rows that a client sends.
    ///
    /// # Errors
    /// What is no row; what speaks against one. The statement has failed then.
    pub async fn copy_data(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Some(mut copying) = self.copying.take() else {
            return Ok(());
        };
        let taken = copying.rows.data(self, bytes).await;
        match &taken {
            Ok(()) => self.copying = Some(copying),
            Err(_) => self.copy_failed(),
        }
        taken
    }

    /// All rows were sent. Goes on with the text of a simple query.
    ///
    /// # Errors
    /// What speaks against the rows, or against a statement behind.
    pub async fn copy_done(&mut self, sink: &mut impl Sink) -> Result<CopyDone, Refusal> {
        let Some(copying) = self.copying.take() else {
            return Err(Refusal::new(code::PROTOCOL_VIOLATION, "nothing is copied in"));
        };
        let rows = match copying.rows.end(self).await {
            Ok(rows) => rows,
            Err(refusal) => {
                self.copy_failed();
                return Err(refusal);
            }
        };
        let tag = format!("COPY {rows}");
        let Some(rest) = copying.rest else {
            return Ok(CopyDone::Portal(tag));
        };
        if rest.len() == 0 && self.transaction == TransactionStatus::Idle {
            self.end_implicit(true).await?;
        }
        let mut out = Vec::new();
        build::command_complete(&mut out, &tag);
        let wanted = self.simple_rest(rest, out, &mut Counted::new(sink)).await?;
        Ok(CopyDone::Simple(wanted))
    }

    /// The client gives up, or the statement has failed.
    pub fn copy_failed(&mut self) {
        self.copying = None;
        self.fail_transaction();
        if let Some(store) = &mut self.store {
            store.statement_failed();
        }
    }
}
