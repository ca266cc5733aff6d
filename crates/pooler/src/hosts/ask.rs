//! From what a text is to what the rules of the split ask about it.

use corun_model::pooler::replicas::split::{Modes, Statement};

use crate::understand::{Access, Isolation, StatementKind, TransactionEffect, Understood};

/// What a text does, for the rules of the split: a read only if it is one statement that reads data and leaves nothing behind.
pub fn statement(text: &Understood) -> Statement {
    if text.statements != 1 {
        return Statement::Doubtful;
    }
    match text.transaction {
        TransactionEffect::None => {}
        TransactionEffect::Begin {
            read_only, isolation, ..
        } => {
            let serializable = isolation.map(|level| level == Isolation::Serializable);
            return Statement::Begin(Modes {
                read_only,
                serializable,
            });
        }
        _ => return Statement::Doubtful,
    }
    match text.kind {
        // A copy may be long; where it began it must end, and a replica ends what is in the way of its replay.
        StatementKind::CopyIn | StatementKind::CopyOut | StatementKind::Unknown => Statement::Doubtful,
        _ if text.access == Access::Read && text.pins.is_empty() && !text.settings && !text.opaque => {
            Statement::Read
        }
        _ => Statement::Write,
    }
}
