//! Statements that begin and end transactions: each is read to its end.

use super::harness::Server;
use corun_wire::TransactionStatus;

#[test]
fn all_that_postgresql_takes_is_taken() {
    let server = Server::with(|_| {});
    let mut session = server.session();
    for (begin, end) in [
        ("BEGIN", "COMMIT"),
        ("BEGIN WORK", "COMMIT WORK"),
        ("BEGIN TRANSACTION READ WRITE", "COMMIT TRANSACTION"),
        ("START TRANSACTION", "END"),
        (
            "START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY, NOT DEFERRABLE",
            "END TRANSACTION AND NO CHAIN",
        ),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            "ROLLBACK",
        ),
        ("begin isolation level read uncommitted", "ROLLBACK WORK"),
        ("BEGIN", "ABORT AND NO CHAIN"),
    ] {
        let tag = match begin.starts_with("START") {
            true => "=START TRANSACTION",
            false => "=BEGIN",
        };
        assert_eq!(server.rows(&mut session, begin), [tag], "{begin}");
        assert_eq!(session.transaction(), TransactionStatus::Open, "{begin}");
        server.rows(&mut session, end);
        assert_eq!(session.transaction(), TransactionStatus::Idle, "{end}");
    }
    assert_eq!(
        server.rows(
            &mut session,
            "BEGIN; SAVEPOINT a; SAVEPOINT savepoint; RELEASE savepoint; ROLLBACK WORK TO SAVEPOINT a; \
             ROLLBACK TO a; RELEASE SAVEPOINT a; COMMIT"
        ),
        [
            "=BEGIN",
            "=SAVEPOINT",
            "=SAVEPOINT",
            "=RELEASE",
            "=ROLLBACK",
            "=ROLLBACK",
            "=RELEASE",
            "=COMMIT"
        ]
    );
    for sql in [
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET LOCAL TRANSACTION READ ONLY",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE, ISOLATION LEVEL READ COMMITTED",
    ] {
        assert_eq!(server.rows(&mut session, sql), ["=SET"], "{sql}");
    }
}

#[test]
fn what_there_is_not_leaves_the_transaction_open_or_failed() {
    let server = Server::with(|_| {});
    let mut session = server.session();
    for (sql, code, position) in [
        ("COMMIT AND CHAIN", "0A000", None),
        ("ROLLBACK WORK AND CHAIN", "0A000", None),
        ("COMMIT PREPARED 'x'", "0A000", None),
        ("ROLLBACK PREPARED 'x'", "0A000", None),
        ("PREPARE TRANSACTION 'x'", "0A000", None),
        ("SET TRANSACTION SNAPSHOT '1-1'", "0A000", None),
        ("BEGIN nonsense", "42601", Some(7)),
        ("BEGIN READ nonsense", "42601", Some(12)),
        ("BEGIN READ ONLY,", "42601", Some(17)),
        ("BEGIN ISOLATION LEVEL READ", "42601", Some(27)),
        ("START", "42601", Some(6)),
        ("COMMIT nonsense", "42601", Some(8)),
        ("COMMIT AND", "42601", Some(11)),
        ("ROLLBACK TO a b", "42601", Some(15)),
        ("ABORT TO a", "42601", Some(7)),
        ("SAVEPOINT a b", "42601", Some(13)),
        ("RELEASE SAVEPOINT a b", "42601", Some(21)),
        ("SET TRANSACTION", "42601", Some(16)),
        ("SET TRANSACTION nonsense", "42601", Some(17)),
    ] {
        server.rows(&mut session, "BEGIN");
        let refusal = server.refused(&mut session, sql);
        assert_eq!((refusal.code, refusal.position), (code, position), "{sql}");
        assert_eq!(session.transaction(), TransactionStatus::Failed, "{sql}");
        server.rows(&mut session, "ROLLBACK");
    }
    // `transaction` is a name as any other.
    assert_eq!(
        server.rows(
            &mut session,
            "PREPARE transaction AS SELECT 7; EXECUTE transaction"
        ),
        ["=PREPARE", "7", "=SELECT 1"]
    );
}
