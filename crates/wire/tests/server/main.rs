//! A server that answers constants, over the reactor, as a real client sees it: psql and tokio-postgres log in with SCRAM and TLS, run
//! simple and extended queries, fetch portals piece by piece, copy in and out, cancel.
//!
//! psql is part of what `scripts/bootstrap` installs.

mod constants;

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use constants::Running;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const SCRAM: &str = "host all all 127.0.0.1/32 scram-sha-256";

/// Runs psql against a server.
fn psql(server: &Running, options: &str, statements: &[&str], input: &str) -> Output {
    let mut psql = Command::new("psql");
    psql.arg("-XAt")
        .arg("-v")
        .arg("ON_ERROR_STOP=1")
        .arg("-v")
        .arg("VERBOSITY=verbose");
    for statement in statements {
        psql.arg("-c").arg(statement);
    }
    let port = server.port();
    psql.arg(format!(
        "host=127.0.0.1 port={port} user=ann dbname=d connect_timeout=30 {options}"
    ));
    psql.env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .env("PGPASSWORD", "secret");
    psql.stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = psql.spawn().expect("psql is installed (scripts/bootstrap)");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("psql reads");
    drop(stdin);
    child.wait_with_output().expect("psql ends")
}

/// What psql prints where it succeeds.
fn printed(server: &Running, options: &str, statements: &[&str], input: &str) -> String {
    let output = psql(server, options, statements, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options} {statements:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What psql says where it fails.
fn failed(server: &Running, options: &str, statements: &[&str]) -> String {
    let output = psql(server, options, statements, "");
    assert!(!output.status.success(), "{options} {statements:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn with_driver(server: &Running, run: impl AsyncFnOnce(Client)) {
    let port = server.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let login = format!("host=127.0.0.1 port={port} user=ann password=secret dbname=d");
        let (client, connection) = tokio_postgres::connect(&login, NoTls).await.expect("logged in");
        let connection = tokio::spawn(connection);
        let all = tokio::time::timeout(std::time::Duration::from_secs(120), run(client));
        all.await.expect("an end");
        let _ = connection.await;
    });
}

#[test]
fn psql_runs_queries() {
    let server = Running::start(SCRAM);
    let plain = "sslmode=disable";
    assert_eq!(printed(&server, plain, &["select 1"], ""), "1\n");
    assert_eq!(
        printed(&server, plain, &["begin", "select 1", "commit"], ""),
        "BEGIN\n1\nCOMMIT\n"
    );
    assert_eq!(printed(&server, plain, &["rows 3"], ""), "1|row 1\n2|row 2\n3|\n");
    assert_eq!(printed(&server, plain, &[""], ""), "");
    let told = failed(&server, plain, &["select x"]);
    assert!(
        told.contains("ERROR:  42703: column \"x\" does not exist"),
        "{told}"
    );
    // The caret stands below the character that is meant.
    assert!(told.contains("LINE 1: select x\n               ^"), "{told}");
    assert!(told.contains("HINT:  Try 1."), "{told}");
}

#[test]
fn psql_copies_in_and_out() {
    let server = Running::start(SCRAM);
    let plain = "sslmode=disable";
    assert_eq!(
        printed(&server, plain, &["copy t to stdout"], ""),
        "1\ta\\tb\n2\t\\N\n"
    );
    let copied = printed(&server, plain, &["copy t from stdin"], "7\tx\\ty\n8\t\\N\n");
    assert_eq!(copied, "COPY 2\n");
    let script = "copy t from stdin;\n1\n\\.\n";
    let output = psql(&server, plain, &[], script);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("22P04: missing data for column 2"), "{told}");
}

#[test]
fn tls_and_channel_binding() {
    let server = Running::start("hostssl all all all scram-sha-256");
    let bound = "sslmode=require channel_binding=require";
    assert_eq!(printed(&server, bound, &["select 1"], ""), "1\n");
    let told = failed(&server, "sslmode=disable", &["select 1"]);
    assert!(
        told.contains("no pg_hba.conf entry for host \"127.0.0.1\""),
        "{told}"
    );
    assert!(told.contains("no encryption"), "{told}");
    let told = failed(&server, "sslmode=require password=wrong", &["select 1"]);
    assert!(told.contains("SASL authentication failed"), "{told}");
}

#[test]
fn a_driver_s_statements_and_portals() {
    let server = Running::start(SCRAM);
    with_driver(&server, async |mut client| {
        let statement = client
            .prepare("select $1::int8, $2::text")
            .await
            .expect("prepared");
        assert_eq!(statement.params(), [Type::INT8, Type::TEXT]);
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let text = (number > 0).then_some("\u{20ac}");
            let row = client
                .query_one(&statement, &[&number, &text])
                .await
                .expect("a row");
            assert_eq!(
                (row.get::<_, i64>(0), row.get::<_, Option<&str>>(1)),
                (number, text)
            );
        }
        let error = client.prepare("select x").await.expect_err("there is no x");
        assert_eq!(error.code().map(|code| code.code()), Some("42703"));
        // The connection goes on.
        let transaction = client.transaction().await.expect("begun");
        let portal = transaction.bind("rows 10", &[]).await.expect("bound");
        for rows in [4, 4, 2] {
            let found = transaction.query_portal(&portal, 4).await.expect("rows");
            assert_eq!(found.len(), rows);
        }
        transaction.commit().await.expect("committed");
        let answer = client.simple_query("rows 2").await.expect("rows");
        let rows = answer
            .iter()
            .filter(|message| matches!(message, SimpleQueryMessage::Row(_)));
        assert_eq!(rows.count(), 2);
        // Many at once, of which the answers come in order.
        let queries = (0..50i64).map(|number| {
            let (client, statement) = (&client, &statement);
            async move {
                let row = client
                    .query_one(statement, &[&number, &None::<&str>])
                    .await
                    .expect("a row");
                assert_eq!(row.get::<_, i64>(0), number);
            }
        });
        let mut all = std::pin::pin!(async {
            for query in queries {
                query.await;
            }
        });
        all.as_mut().await;
    });
}

#[test]
fn a_query_is_cancelled_with_the_right_secret_only() {
    let server = Running::start(SCRAM);
    with_driver(&server, async |client| {
        let cancel = client.cancel_token();
        let (pid, _) = server.last_key();
        server.cancel_with_wrong_secret(pid);
        let sleeps = client.simple_query("sleep");
        let cancels = async {
            // The server counts what it sleeps over, so that the request does not come first.
            while server.sleeping() == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            cancel.cancel_query(NoTls).await.expect("sent");
        };
        let (slept, ()) = tokio::join!(sleeps, cancels);
        let error = slept.expect_err("it was cancelled");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        assert_eq!(server.refused_cancels(), 1);
    });
}
