//! PostgreSQL's own pg_dump of this server: what it writes is loaded by a real PostgreSQL, and here again.

use super::drivers::{QUESTIONS, SHOP, alike, script};
use super::harness::{Output, Server, postgres_programs};
use super::postgres::Postgres;
use std::process::Command;

fn pg_dump(server: &Server, options: &[&str]) -> Output {
    let programs = postgres_programs().expect("there are some");
    let mut command = Command::new(programs.join("pg_dump"));
    command.args(["--no-owner", "--no-privileges"]).args(options);
    server.program(command)
}

/// A dump without comments, and without the word that makes each its own.
fn statements(dump: &str) -> Vec<&str> {
    let counts = |line: &&str| {
        let restrict = line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        !line.is_empty() && !line.starts_with("--") && !restrict
    };
    dump.lines().filter(counts).collect()
}

/// Runs a script on a new database of a real PostgreSQL.
fn load(postgres: &Postgres, database: &str, scripts: &[&str]) {
    postgres.create(database);
    for text in scripts {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script.sql");
        std::fs::write(&file, text).expect("a script");
        let file = file.to_str().expect("UTF-8");
        let arguments = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file];
        postgres.program("psql", database, &arguments).expect();
    }
}

#[test]
fn a_dump_of_this_server_is_loaded_by_postgresql_and_here() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    postgres.create("shop");
    let said = postgres.client("shop").query(SHOP).expect("an answer");
    assert_eq!(said.error, None);
    let theirs = postgres.program("pg_dump", "shop", &["--no-owner", "--no-privileges"]);
    let server = Server::start();
    let loaded = script(&server, &theirs.expect(), &[]);
    assert!(loaded.success, "{}", loaded.err);

    let whole = pg_dump(&server, &[]).expect();
    let schema = pg_dump(&server, &["--schema-only"]).expect();
    let data = pg_dump(&server, &["--data-only"]).expect();
    for (database, scripts) in [("whole", &[whole.as_str()][..]), ("parts", &[&schema, &data])] {
        load(&postgres, database, scripts);
        let again = Server::start();
        for text in scripts {
            let loaded = script(&again, text, &[]);
            assert!(loaded.success, "{database}: {}", loaded.err);
        }
        // Of the copy here comes the same dump.
        assert_eq!(
            statements(&pg_dump(&again, &[]).expect()),
            statements(&whole),
            "{database}"
        );
        let (mut own, mut theirs) = (again.wire_client(), postgres.client(database));
        for client in [&mut own, &mut theirs] {
            client.query("set timezone = 'UTC'").expect("an answer");
        }
        for sql in QUESTIONS {
            alike(&mut own, &mut theirs, sql, database);
        }
    }
}

#[test]
fn a_sequence_is_read_as_a_table() {
    let server = Server::start();
    let client = server.client();
    client.execute("create sequence tickets start with 100 increment by 5");
    let read = "select last_value, is_called from public.tickets";
    assert_eq!(client.lines(read), ["100|f"]);
    client.execute("select nextval('tickets'), nextval('tickets')");
    assert_eq!(client.lines(read), ["105|t"]);
    assert_eq!(client.error("insert into tickets values (1)").0, "42P01");
}

#[test]
fn comparisons_of_poolers_name_their_schema() {
    let server = Server::start();
    let client = server.client();
    client.execute("create table tickets (id int)");
    for condition in [
        "operator(pg_catalog.=) any (array['tickets'])",
        "OPERATOR(pg_catalog.=) 'tickets'",
    ] {
        let found = client.lines(&format!(
            "select relname from pg_catalog.pg_class where relname {condition}"
        ));
        assert_eq!(found, ["tickets"], "{condition}");
    }
}
