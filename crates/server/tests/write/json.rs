//! Operators that look into JSON, and patterns with an escape, beside a real PostgreSQL, in questions, conditions and changes.
//!
//! Where PostgreSQL is not installed, the test beside it says so and does nothing.

use super::harness::Server;
use super::postgres::Postgres;
use super::system::shows_the_same;

const TABLE: &str = r#"
CREATE TABLE doc (id int PRIMARY KEY, j json, b jsonb, t varchar(20));
INSERT INTO doc VALUES
  (1, '{"a": {"b" : [1, "x,]", {"c":null}]}, "n": 1.50, "s": "q\"u\u00e9", "t": true, "z": null}', '{"a": [1, 2, 3], "s": "one"}', 'b/cde'),
  (2, '[10, [20, 21], "x", null]', '[{"k": "v"}, 2]', 'a%cde'),
  (3, '"text"', '12', 'b##cde'),
  (4, NULL, NULL, 'bxcde');
"#;

#[test]
fn json_is_looked_into_as_postgresql_does() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    postgres.create("docs");
    let made = postgres.client("docs").query(TABLE).expect("an answer");
    assert_eq!(made.error, None);
    let server = Server::start();
    server.client().execute(TABLE);
    let commands = [
        "SELECT id, j -> 'a', j -> 's', j -> 'z', j -> 'none' FROM doc ORDER BY id",
        "SELECT id, j ->> 'a', j ->> 's', j ->> 'n', j ->> 't', j ->> 'z' FROM doc ORDER BY id",
        "SELECT id, j -> 0, j -> -1, j ->> 2, j ->> -4, j -> 4, j -> -5 FROM doc ORDER BY id",
        "SELECT id, b -> 's', b ->> 's', b -> 1, b -> 'a' -> 2, (b -> 0) ->> 'k' FROM doc ORDER BY id",
        "SELECT id, j #> '{a,b,1}', j #>> '{a,b,1}', j #>> '{a,b,-1,c}', j #> '{1,0}', j #> '{x}' FROM doc ORDER BY id",
        "SELECT id, j #> ARRAY['a','b'], j #>> ARRAY['1','-1'], j #> '{}' FROM doc ORDER BY id",
        "SELECT id FROM doc WHERE j ->> 's' LIKE 'q%' OR (j ->> 0)::int = 10 ORDER BY id",
        "SELECT CAST(j ->> 'n' AS numeric(10, 2)) + 1, (j ->> 't')::boolean FROM doc WHERE id = 1",
        "UPDATE doc SET t = b ->> 's' WHERE b ->> 's' = 'one'",
        "SELECT id, t FROM doc ORDER BY id",
        // The escape stands for itself where it is written twice.
        "SELECT id FROM doc WHERE t LIKE '%' || 'b##' || '%' ESCAPE '#' ORDER BY id",
        "SELECT id FROM doc WHERE t LIKE '%' || '####' || '%' ESCAPE '#' ORDER BY id",
        "SELECT id FROM doc WHERE t LIKE 'a' || '/%' || 'cde' ESCAPE '/' ORDER BY id",
        "SELECT id FROM doc WHERE t NOT LIKE '%' || '/%' || '%' ESCAPE '/' ORDER BY id",
    ];
    shows_the_same(&postgres, "docs", &server, &commands);
}

/// As drivers ask: with parameters, whose types the statement says.
#[test]
fn keys_may_be_parameters() {
    let server = Server::start();
    let client = server.client();
    client.execute(TABLE);
    let rows = client.query("SELECT b ->> $1 FROM doc WHERE id = 1", &[&"s"]);
    assert_eq!(
        rows.map(|rows| rows[0].get::<_, String>(0)).map_err(drop),
        Ok("one".to_owned())
    );
    let rows = client.query(
        "SELECT j #>> $1::text[] FROM doc WHERE id = 1",
        &[&vec!["a", "b", "0"]],
    );
    assert_eq!(
        rows.map(|rows| rows[0].get::<_, String>(0)).map_err(drop),
        Ok("1".to_owned())
    );
    let rows = client.query("SELECT j ->> $1::int FROM doc WHERE id = 2", &[&0i32]);
    assert_eq!(
        rows.map(|rows| rows[0].get::<_, String>(0)).map_err(drop),
        Ok("10".to_owned())
    );
}
