//! What BEGIN, COMMIT and their kin do to the transaction block.

use pg_query::protobuf as pb;

use super::constant::{is_true, options, string};
use super::{Isolation, TransactionEffect};

/// The effect of one of these statements.
pub(super) fn transaction(statement: &pb::TransactionStmt) -> TransactionEffect {
    use pb::TransactionStmtKind as Kind;
    let chain = statement.chain;
    match statement.kind() {
        Kind::TransStmtBegin | Kind::TransStmtStart => {
            let (mut read_only, mut isolation, mut deferrable) = (None, None, None);
            for (name, value) in options(&statement.options) {
                match name {
                    "transaction_read_only" => read_only = value.map(is_true),
                    "transaction_deferrable" => deferrable = value.map(is_true),
                    "transaction_isolation" => {
                        isolation = match value.and_then(string) {
                            Some("read uncommitted") => Some(Isolation::ReadUncommitted),
                            Some("read committed") => Some(Isolation::ReadCommitted),
                            Some("repeatable read") => Some(Isolation::RepeatableRead),
                            Some("serializable") => Some(Isolation::Serializable),
                            _ => isolation,
                        }
                    }
                    _ => {}
                }
            }
            TransactionEffect::Begin {
                read_only,
                isolation,
                deferrable,
            }
        }
        Kind::TransStmtCommit => TransactionEffect::Commit { chain },
        Kind::TransStmtRollback => TransactionEffect::Rollback { chain },
        Kind::TransStmtSavepoint => TransactionEffect::Savepoint,
        Kind::TransStmtRelease => TransactionEffect::Release,
        Kind::TransStmtRollbackTo => TransactionEffect::RollbackTo,
        Kind::TransStmtPrepare => TransactionEffect::Prepare,
        Kind::TransStmtCommitPrepared => TransactionEffect::CommitPrepared,
        Kind::TransStmtRollbackPrepared => TransactionEffect::RollbackPrepared,
        Kind::Undefined => TransactionEffect::Mixed,
    }
}
