//! tokio-postgres: prepared statements, portals, pipelines, cancel requests.

use std::sync::atomic::Ordering;
use std::time::Duration;

use corun_server::front::FrontConfig;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

use crate::{Server, wait};

fn with_driver(server: &Server, run: impl AsyncFnOnce(Client)) {
    let port = server.port();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let login = format!("host=127.0.0.1 port={port} user=ann password=secret dbname=d");
        let (client, connection) = tokio_postgres::connect(&login, NoTls).await.expect("logged in");
        let connection = tokio::spawn(connection);
        let all = tokio::time::timeout(Duration::from_secs(120), run(client));
        all.await.expect("an end");
        let _ = connection.await;
    });
}

#[test]
fn prepared_statements_and_binary_values() {
    let server = Server::secured(FrontConfig::default());
    with_driver(&server, async |client| {
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
        let error = client
            .prepare("nonsense")
            .await
            .expect_err("there is no such text");
        assert_eq!(error.code().map(|code| code.code()), Some("42601"));
        let rows = client.query("rows 50000", &[]).await.expect("rows");
        assert_eq!(rows.len(), 50_000);
        assert_eq!(rows[49_999].get::<_, i64>(0), 50_000);
    });
}

#[test]
fn portals_return_their_rows_piece_by_piece() {
    let server = Server::secured(FrontConfig::default());
    with_driver(&server, async |mut client| {
        let transaction = client.transaction().await.expect("begun");
        let portal = transaction.bind("rows 10", &[]).await.expect("bound");
        for rows in [4, 4, 2] {
            let found = transaction.query_portal(&portal, 4).await.expect("rows");
            assert_eq!(found.len(), rows);
        }
        transaction.commit().await.expect("committed");
    });
}

#[test]
fn many_at_once_are_answered_in_order() {
    let server = Server::secured(FrontConfig::default());
    with_driver(&server, async |client| {
        let statement = client
            .prepare("select $1::int8, $2::text")
            .await
            .expect("prepared");
        let one = async |number: i64| {
            let row = client
                .query_one(&statement, &[&number, &None::<&str>])
                .await
                .expect("a row");
            row.get::<_, i64>(0)
        };
        let (a, b, c, d) = tokio::join!(one(1), one(2), one(3), one(4));
        assert_eq!([a, b, c, d], [1, 2, 3, 4]);
    });
}

#[test]
fn a_cancel_request_ends_what_runs_on_another_loop() {
    let config = FrontConfig {
        loops: 2,
        ..FrontConfig::default()
    };
    let server = Server::secured(config);
    with_driver(&server, async |client| {
        let cancel = client.cancel_token();
        // What is cancelled while nothing runs ends nothing. The driver does not wait for the server to have read the request.
        cancel.cancel_query(NoTls).await.expect("sent");
        wait("it is read", || server.seen.cancels.load(Ordering::SeqCst) == 1);
        client.simple_query("select 1").await.expect("a row");
        let sleeps = client.simple_query("sleep");
        let cancels = async {
            while server.seen.running.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            cancel.cancel_query(NoTls).await.expect("sent");
        };
        let (slept, ()) = tokio::join!(sleeps, cancels);
        let error = slept.expect_err("it was cancelled");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        client
            .simple_query("select 1")
            .await
            .expect("the session goes on");
    });
}
