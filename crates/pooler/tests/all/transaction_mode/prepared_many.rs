//! Thousands of prepared statements, more than a server keeps, and drivers that use them from many tasks at once.

use tokio_postgres::types::ToSql;

use crate::common::fixture::Fixture;
use crate::common::message;
use crate::common::random::Random;
use crate::common::target::{Mode, Pooling};

#[test]
fn more_statements_than_a_server_keeps() {
    const STATEMENTS: usize = 3000;
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 2).set("max_prepared_statements", "50"));
    let (mut a, mut b) = fixture.two();
    let mut random = Random::new(7);
    for client in [&mut a, &mut b] {
        for chunk in (0..STATEMENTS).collect::<Vec<_>>().chunks(100) {
            let mut bytes = Vec::new();
            for n in chunk {
                bytes.extend(message::parse(
                    &format!("s{n}"),
                    &format!("select {n}, $1::int"),
                    &[],
                ));
            }
            bytes.extend(message::sync());
            let answer = client.ask(&bytes);
            assert_eq!(answer.len(), chunk.len() + 1, "{answer:?}");
        }
    }
    for _ in 0..STATEMENTS {
        let n = random.below(STATEMENTS);
        for (client, value) in [(&mut a, "1"), (&mut b, "2")] {
            let bytes = message::run(&format!("s{n}"), &[Some(value)]);
            let answer = client.ask(&bytes);
            assert_eq!(answer[1], format!("row [Some(\"{n}\"), Some({value:?})]"));
        }
    }
    if fixture.target.shares_servers() {
        let kept: usize = a.number("select count(*) from pg_prepared_statements");
        assert!(kept <= 60, "the server keeps {kept} statements");
    }
}

#[test]
fn the_limit_of_statements_holds_for_connections_that_are_there() {
    let fixture = Fixture::start(&Pooling::new(Mode::Transaction, 1).set("max_prepared_statements", "1"));
    if !fixture.target.shares_servers() {
        return;
    }
    let mut client = fixture.client();
    let mut kept = |limit: u32, names: std::ops::Range<u32>| {
        fixture
            .console()
            .rows(&format!("set max_prepared_statements = {limit}"));
        for n in names {
            client.ask(
                &[
                    message::parse(&format!("s{n}"), &format!("select {n}"), &[]),
                    message::sync(),
                ]
                .concat(),
            );
        }
        client.number::<u32>("select count(*) from pg_prepared_statements")
    };
    assert_eq!(kept(1, 0..3), 1);
    assert_eq!(kept(5, 3..8), 5);
    assert_eq!(kept(2, 8..9), 2);
}

/// Each task has a connection, prepares statements whose texts others prepare too, and checks every answer.
#[tokio::test]
async fn many_tasks_of_a_driver_on_few_servers() {
    let fixture = Fixture::transactions(3);
    fixture.sql("create table numbers as select n, n * n as square from generate_series(1, 200) n; grant all on numbers to public");
    let mut tasks = Vec::new();
    for task in 0..12 {
        let config = fixture.login().for_driver();
        tasks.push(tokio::spawn(async move {
            let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
                .await
                .expect("login");
            let connection = tokio::spawn(connection);
            let mut random = Random::new(task);
            let mut statements = Vec::new();
            for n in 0..10 {
                let text = format!("select square + {} from numbers where n = $1", (n + task) % 15);
                statements.push(((n + task) % 15, client.prepare(&text).await.expect("prepared")));
            }
            for _ in 0..200 {
                let (more, statement) = &statements[random.below(statements.len())];
                let n = 1 + random.below(200) as i32;
                // Two at once: the driver sends them without waiting.
                let (number, seven): (&(dyn ToSql + Sync), &(dyn ToSql + Sync)) = (&n, &7i64);
                let (numbers, sevens) = ([number], [seven]);
                let (first, second) = tokio::join!(
                    client.query_one(statement, &numbers),
                    client.query_one("select $1::int8", &sevens)
                );
                let square: i32 = first.expect("a row").get(0);
                assert_eq!(square, n * n + *more as i32);
                assert_eq!(second.expect("a row").get::<_, i64>(0), 7);
            }
            drop(statements);
            drop(client);
            connection.await.expect("not cancelled").expect("ends well");
        }));
    }
    for task in tasks {
        task.await.expect("no task fails");
    }
}
