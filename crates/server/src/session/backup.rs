//! `CALL corun.backup('folder')`: a copy of the store that the database is, while it serves.
//!
//! What it is not: checks and the way back, for which nobody may have the folder open (`corun-sql verify`, `corun-sql restore`).

use super::client::ClientSession;
use super::error::more;
use super::plan::read_only;
use super::refusal_of;
use corun_store::StoreError;
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};

impl ClientSession {
    /// Writes the copy; returns when it is on disk. A session that goes away meanwhile does not end it.
    pub(super) async fn backup(&self, to: &str) -> Result<(), Refusal> {
        if !self.engine.rights.is_superuser(&self.shared.who.user) {
            let what = "permission denied for procedure corun.backup";
            return Err(Refusal::new(code::INSUFFICIENT_PRIVILEGE, what).hint("Superusers may call it."));
        }
        if self.transaction != TransactionStatus::Idle {
            let what = "CALL corun.backup cannot run inside a transaction block";
            return Err(Refusal::new(more::ACTIVE_TRANSACTION, what));
        }
        let Some(store) = &self.store else {
            return Err(read_only("CALL"));
        };
        let store = store.view().store().clone();
        let folder = self.engine.data.folder_to_write(to)?;
        // Waiting for the disk takes a thread that has nothing else to do.
        let copied = tokio::task::spawn_blocking(move || store.backup(folder)).await;
        let copied = copied.map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))?;
        copied.map(drop).map_err(|error| match error {
            StoreError::Exists { name, .. } => {
                Refusal::new("58P02", format!("there is something in \"{name}\" already"))
            }
            other => refusal_of(&other),
        })
    }
}
