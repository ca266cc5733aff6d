//! Foreign keys that wait: `DEFERRABLE INITIALLY DEFERRED`, `SET CONSTRAINTS`.

use super::harness::{Client, Server};

fn tables() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE p (id int PRIMARY KEY);
         CREATE TABLE c (id serial PRIMARY KEY, p_id int REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE d (id serial PRIMARY KEY, p_id int, CONSTRAINT fk FOREIGN KEY (p_id) REFERENCES p (id) DEFERRABLE);
         CREATE TABLE e (id serial PRIMARY KEY, p_id int CONSTRAINT at_once REFERENCES p (id))",
    );
    (server, client)
}

#[test]
fn keys_that_are_deferred_wait_for_the_commit() {
    let (mut server, client) = tables();
    let rounds = |client: &Client, first: i32| {
        client.execute(&format!(
            "BEGIN; INSERT INTO c (p_id) VALUES ({first}); INSERT INTO p VALUES ({first}); COMMIT"
        ));
        client.execute("BEGIN; INSERT INTO c (p_id) VALUES (999)");
        let (code, said) = client.error("COMMIT");
        assert_eq!(code, "23503");
        assert!(said.contains("\"c_p_id_fkey\""), "{said}");
        // A statement of its own commits at its end.
        assert_eq!(client.error("INSERT INTO c (p_id) VALUES (999)").0, "23503");
        // Others do not wait, not even until the end of a transaction.
        for table in ["d", "e"] {
            client.execute("BEGIN");
            assert_eq!(
                client
                    .error(&format!("INSERT INTO {table} (p_id) VALUES (999)"))
                    .0,
                "23503"
            );
            client.execute("ROLLBACK");
        }
        // Rows that are referred to may go, and come back.
        client.execute(&format!(
            "BEGIN; DELETE FROM p WHERE id = {first}; INSERT INTO p VALUES ({first}); COMMIT"
        ));
        client.execute(&format!("BEGIN; UPDATE p SET id = -id WHERE id = {first}"));
        assert_eq!(client.error("COMMIT").0, "23503");
        assert_eq!(
            client.one("SELECT count(*) FROM c JOIN p ON p.id = c.p_id"),
            client.one("SELECT count(*) FROM c")
        );
    };
    rounds(&client, 1);
    // Whoever comes later, and after a restart.
    rounds(&server.client(), 2);
    drop(client);
    server.restart();
    rounds(&server.client(), 3);
}

#[test]
fn a_table_that_a_transaction_makes_has_its_keys_deferred_in_it() {
    let (_server, client) = tables();
    client.execute(
        "BEGIN;
         CREATE TABLE f (p_id int, CONSTRAINT of_f FOREIGN KEY (p_id) REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO f VALUES (50); INSERT INTO p VALUES (50);
         COMMIT;
         BEGIN; INSERT INTO f VALUES (51); INSERT INTO p VALUES (51); COMMIT",
    );
    assert_eq!(client.one("SELECT count(*) FROM f"), "2");
}

#[test]
fn set_constraints_says_which_keys_wait() {
    let (_server, client) = tables();
    client.execute("BEGIN; SET CONSTRAINTS fk DEFERRED; INSERT INTO d (p_id) VALUES (7); INSERT INTO p VALUES (7); COMMIT");
    client.execute("BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO d (p_id) VALUES (8); INSERT INTO p VALUES (8); COMMIT");
    let refused = |before: &str, sql: &str| {
        client.execute(&format!("BEGIN; {before}"));
        let told = client.error(sql);
        client.execute("ROLLBACK");
        told
    };
    let insert = "INSERT INTO c (p_id) VALUES (99)";
    // It is forgotten at the end of the transaction.
    assert_eq!(refused("", "INSERT INTO d (p_id) VALUES (9)").0, "23503");
    // Keys that are not deferrable are checked all the same.
    assert_eq!(
        refused("SET CONSTRAINTS ALL DEFERRED", "INSERT INTO e (p_id) VALUES (9)").0,
        "23503"
    );
    for all in ["ALL", "c_p_id_fkey", "public.c_p_id_fkey, fk"] {
        let set = format!("SET CONSTRAINTS {all} IMMEDIATE");
        assert_eq!(refused(&set, insert).0, "23503", "{all}");
        // What has waited is checked now.
        assert_eq!(refused(insert, &set).0, "23503", "{all}");
    }
    // Another key goes on to wait.
    client.execute(&format!(
        "BEGIN; {insert}; SET CONSTRAINTS fk IMMEDIATE; INSERT INTO p VALUES (99); COMMIT"
    ));
    // As Django asks whether all is well.
    client.execute(
        "BEGIN; INSERT INTO c (p_id) VALUES (100); INSERT INTO p VALUES (100);
         SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED;
         INSERT INTO c (p_id) VALUES (101); INSERT INTO p VALUES (101); COMMIT",
    );
    assert_eq!(refused("", "SET CONSTRAINTS nosuch DEFERRED").0, "42704");
    assert_eq!(
        refused("", "SET CONSTRAINTS at_once DEFERRED"),
        (
            "42809".to_owned(),
            "constraint \"at_once\" is not deferrable".to_owned()
        )
    );
}

#[test]
fn going_back_to_a_savepoint_keeps_what_has_to_be_checked() {
    let (_server, client) = tables();
    client.execute("BEGIN; INSERT INTO c (p_id) VALUES (6); SAVEPOINT s");
    assert_eq!(client.error("SET CONSTRAINTS ALL IMMEDIATE").0, "23503");
    client.execute("ROLLBACK TO s; INSERT INTO p VALUES (6); SET CONSTRAINTS ALL IMMEDIATE; COMMIT");
    client.execute(
        "BEGIN; INSERT INTO c (p_id) VALUES (16); SAVEPOINT s; INSERT INTO p VALUES (16); ROLLBACK TO s",
    );
    assert_eq!(client.error("COMMIT").0, "23503");
    assert_eq!(client.lines("SELECT p_id FROM c"), ["6"]);
}
