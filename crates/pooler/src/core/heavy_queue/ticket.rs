//! [`Ticket`]: a query's place in the queue of the machine.

use std::sync::Arc;

use corun_model::cache::coschedule::{QueryId, Start};
use corun_model::cache::slowdown::StatementId;

use crate::core::shared::Shared;

/// A query that waits or runs. Dropped, it leaves the queue: its run teaches nothing.
pub(in crate::core) struct Ticket {
    shared: Arc<Shared>,
    id: QueryId,
    statement: StatementId,
    /// It failed: what it took is not what it takes.
    pub failed: bool,
    /// It has its place because somebody said so, which says nothing about whether places pay.
    pub hinted: bool,
    gone: bool,
}

impl Ticket {
    /// The place of a query that the queue_state know.
    pub(super) fn new(shared: &Arc<Shared>, id: QueryId, statement: StatementId) -> Self {
        Self {
            shared: Arc::clone(shared),
            id,
            statement,
            failed: false,
            hinted: false,
            gone: false,
        }
    }

    /// Its name.
    pub(super) fn id(&self) -> QueryId {
        self.id
    }

    /// Whose shape's times it teaches.
    pub(super) fn statement(&self) -> StatementId {
        self.statement
    }

    /// Where it runs; `None` while it waits.
    pub(super) fn start(&self) -> Option<Start> {
        self.shared.heavy_queue.start_of(self.id)
    }

    /// The query ended by itself. Others are told to start.
    pub(super) fn finish(mut self, now_ns: u64) {
        self.gone = true;
        self.shared.heavy_queue.end(&self.shared, self.id, Some(now_ns));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.gone {
            self.shared.heavy_queue.end(&self.shared, self.id, None);
        }
    }
}
