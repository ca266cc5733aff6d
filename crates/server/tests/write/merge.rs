//! MERGE through the protocol.

use crate::harness::{Client, Server};

/// Stock, and what comes in.
fn stock() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE stock (id int PRIMARY KEY, amount int NOT NULL DEFAULT 1, note text, CHECK (amount > 0))");
    client.execute("CREATE TABLE delivery (id int, amount int)");
    client.execute("INSERT INTO stock VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')");
    client.execute("INSERT INTO delivery VALUES (2, 5), (3, -30), (4, 7)");
    (server, client)
}

fn all(client: &Client) -> Vec<String> {
    client.lines("SELECT * FROM stock ORDER BY id")
}

#[test]
fn rows_are_changed_deleted_and_inserted() {
    let (_server, client) = stock();
    let merged = client.execute(
        "MERGE INTO stock AS s USING delivery AS d ON s.id = d.id \
         WHEN MATCHED AND s.amount + d.amount <= 0 THEN DELETE \
         WHEN MATCHED THEN UPDATE SET amount = s.amount + d.amount, note = DEFAULT \
         WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (d.id, d.amount)",
    );
    assert_eq!(merged, 3);
    assert_eq!(all(&client), ["1|10|a", "2|25|NULL", "4|7|NULL"]);
}

#[test]
fn clauses_may_do_nothing_and_values_of_others_are_not_computed() {
    let (_server, client) = stock();
    let merged = client.execute(
        "MERGE INTO stock USING delivery ON stock.id = delivery.id \
         WHEN MATCHED AND delivery.amount < 0 THEN DO NOTHING \
         WHEN MATCHED THEN UPDATE SET amount = 100 / (delivery.amount + 30) \
         WHEN NOT MATCHED AND delivery.id > 4 THEN INSERT DEFAULT VALUES \
         WHEN NOT MATCHED THEN DO NOTHING",
    );
    assert_eq!(merged, 1);
    assert_eq!(all(&client), ["1|10|a", "2|2|b", "3|30|c"]);
}

#[test]
fn the_source_may_be_a_query_and_rows_it_lacks_may_go() {
    let (_server, client) = stock();
    let merged = client.execute(
        "MERGE INTO stock AS s USING (SELECT id, sum(amount) AS total FROM delivery GROUP BY id) AS d ON s.id = d.id \
         WHEN NOT MATCHED BY SOURCE THEN DELETE \
         WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (d.id, d.total, 'new')",
    );
    assert_eq!(merged, 2);
    assert_eq!(all(&client), ["2|20|b", "3|30|c", "4|7|new"]);
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    let (_server, client) = stock();
    let merge = "MERGE INTO stock s USING (SELECT $1::int AS id) d ON s.id = d.id \
                 WHEN MATCHED THEN UPDATE SET note = $2, amount = $3 \
                 WHEN NOT MATCHED THEN INSERT (id, amount, note) VALUES (d.id, $3, $2)";
    assert_eq!(client.execute_with(merge, &[&1_i32, &"x", &2_i32]), Ok(1));
    assert_eq!(client.execute_with(merge, &[&9_i32, &"y", &3_i32]), Ok(1));
    assert_eq!(all(&client), ["1|2|x", "2|20|b", "3|30|c", "9|3|y"]);
}

#[test]
fn what_is_wrong_is_told_as_postgresql_does() {
    let (_server, client) = stock();
    client.execute("INSERT INTO delivery VALUES (2, 6)");
    assert_eq!(
        client.error(
            "MERGE INTO stock s USING delivery d ON s.id = d.id WHEN MATCHED THEN UPDATE SET amount = d.amount"
        ),
        (
            "21000".to_owned(),
            "MERGE command cannot affect row a second time".to_owned()
        )
    );
    let code = |sql: &str| client.error(sql).0;
    assert_eq!(
        code(
            "MERGE INTO stock s USING delivery d ON s.id = d.id AND d.amount < 0 WHEN MATCHED THEN UPDATE SET amount = d.amount"
        ),
        "23514"
    );
    assert_eq!(
        code(
            "MERGE INTO stock s USING delivery d ON s.id = d.id WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (1, 1)"
        ),
        "23505"
    );
    assert_eq!(
        code(
            "MERGE INTO stock s USING delivery d ON s.id = d.id WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (1, NULL)"
        ),
        "23502"
    );
    assert_eq!(
        code(
            "MERGE INTO stock s USING delivery d ON s.id = d.id WHEN NOT MATCHED THEN INSERT (id, x) VALUES (1, 1)"
        ),
        "42703"
    );
    assert_eq!(
        code(
            "MERGE INTO stock s USING delivery d ON s.id = d.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 1)"
        ),
        "42601"
    );
    assert_eq!(all(&client), ["1|10|a", "2|20|b", "3|30|c"]);
}

#[test]
fn it_is_undone_with_its_transaction() {
    let (_server, client) = stock();
    client.execute("BEGIN");
    client.execute("MERGE INTO stock s USING delivery d ON s.id = d.id WHEN MATCHED THEN DELETE");
    assert_eq!(all(&client), ["1|10|a"]);
    client.execute("ROLLBACK");
    assert_eq!(all(&client).len(), 3);
}
