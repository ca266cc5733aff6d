//! Parameters: which types clients are told, and that values are bound, never pasted.

use super::harness::{Collected, Server, shown};
use corun_server::session::ClientSession;
use corun_wire::error::Refusal;
use corun_wire::server::ResultFormats;
use corun_wire::values::Format;

/// The types that clients are told, and rows for parameters given as text.
fn run(
    server: &Server,
    session: &mut ClientSession,
    sql: &str,
    given: &[u32],
    values: &[Option<&str>],
) -> Result<(Vec<u32>, Vec<String>), Refusal> {
    let statement = session.one(sql)?;
    let prepared = server.block_on(session.prepare(statement, given))?;
    let types = prepared.parameters.iter().map(|of| of.oid()).collect();
    let values = values
        .iter()
        .map(|value| (Format::Text, value.map(str::as_bytes)));
    let mut portal = session.bind(&prepared, values)?;
    let mut sink = Collected::default();
    server.block_on(session.run(&mut portal, &ResultFormats::default(), None, &mut sink))?;
    Ok((types, shown(&sink.0)))
}

#[test]
fn types_are_given_found_out_or_text() {
    let server = Server::new();
    let mut session = server.session();
    let mut run = |sql: &str, given: &[u32], values: &[Option<&str>]| {
        run(&server, &mut session, sql, given, values).unwrap_or_else(|refusal| panic!("{sql}: {refusal:?}"))
    };
    assert_eq!(
        run("SELECT word FROM t WHERE n = $1", &[], &[Some("4")]),
        (vec![20], vec!["row 4".to_owned()])
    );
    assert_eq!(
        run("SELECT word FROM t WHERE n = $1", &[23], &[Some("5")]),
        (vec![23], vec!["row 5".to_owned()])
    );
    assert_eq!(
        run("SELECT n FROM t WHERE word = $1", &[0], &[Some("row 6")]),
        (vec![25], vec!["6".to_owned()])
    );
    assert_eq!(
        run("SELECT $1", &[], &[Some("it's")]),
        (vec![25], vec!["it's".to_owned()])
    );
    assert_eq!(
        run("SELECT $1::int + 1", &[], &[Some("41")]),
        (vec![23], vec!["42".to_owned()])
    );
    assert_eq!(
        run("SELECT $1 + 1", &[20], &[Some("41")]),
        (vec![20], vec!["42".to_owned()])
    );
    assert_eq!(
        run(
            "SELECT n FROM t ORDER BY n LIMIT $1 OFFSET $2",
            &[],
            &[Some("1"), Some("3")]
        )
        .1,
        ["3"]
    );
    assert_eq!(
        run(
            "SELECT count(*) FROM t WHERE n > $2 AND n < $1",
            &[],
            &[Some("9"), None]
        )
        .1,
        ["0"]
    );
    assert_eq!(
        run(
            "SELECT $1::date, $2::timestamptz",
            &[],
            &[Some("2024-02-29"), Some("2024-02-29 12:00+02")]
        )
        .1,
        ["2024-02-29|2024-02-29 10:00:00+00"]
    );
    assert_eq!(run("SELECT $1", &[1700], &[Some("-12.345")]).1, ["-12.345"]);
    assert_eq!(
        run(
            "SELECT count(*) FROM t WHERE n = ANY($1)",
            &[1016],
            &[Some("{1,2,77}")]
        )
        .1,
        ["2"]
    );
}

#[test]
fn values_are_values() {
    let server = Server::new();
    let mut session = server.session();
    let evil = "x' OR '1' = '1";
    let found = run(
        &server,
        &mut session,
        "SELECT n FROM t WHERE word = $1",
        &[],
        &[Some(evil)],
    )
    .unwrap();
    assert!(found.1.is_empty());
    let refusal = run(
        &server,
        &mut session,
        "SELECT n FROM t WHERE n = $1",
        &[],
        &[Some("four")],
    )
    .unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        ("22P02", "invalid input syntax for type bigint: \"four\"")
    );
    let refusal = run(&server, &mut session, "SELECT $1", &[600], &[None]).unwrap_err();
    assert_eq!(refusal.code, "0A000");
    let refusal = run(&server, &mut session, "SELECT $1, $2", &[], &[None]).unwrap_err();
    assert_eq!(refusal.code, "08P01");
    assert_eq!(session.one("SELECT 1; SELECT 2").unwrap_err().code, "42601");
}

#[test]
fn a_statement_is_run_again_over_files_that_changed() {
    let server = Server::new();
    let mut session = server.session();
    let statement = session.one("SELECT count(*) FROM sales.q2").unwrap();
    let prepared = server.block_on(session.prepare(statement, &[])).unwrap();
    let mut count = || {
        let mut portal = session.bind(&prepared, std::iter::empty()).unwrap();
        let mut sink = Collected::default();
        server
            .block_on(session.run(&mut portal, &ResultFormats::default(), None, &mut sink))
            .unwrap();
        shown(&sink.0)
    };
    assert_eq!(count(), ["1"]);
    assert_eq!(count(), ["1"]);
    std::fs::write(
        server.folder.path().join("sales/q2.csv"),
        "region,amount\nwest,3\neast,4\n",
    )
    .unwrap();
    assert_eq!(count(), ["2"]);
}
