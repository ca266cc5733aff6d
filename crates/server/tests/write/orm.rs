//! What ORMs write: arrays of rows, `inet`, moments and spans of time in a session's time zone. The statements and their answers are held against a
//! real PostgreSQL and against the server.

use super::harness::wire_client::WireClient;
use super::harness::{Server, line};
use super::postgres::Postgres;

/// Statements, and the lines of those that have any.
const CASES: &[(&str, &[&str])] = &[
    // Many rows as arrays.
    (
        "CREATE TABLE many (id serial PRIMARY KEY, a int, b varchar(3), u uuid, at timestamptz)",
        &[],
    ),
    (
        "INSERT INTO many (a, b, u, at) SELECT * FROM UNNEST(('{1,2,NULL}')::integer[], ('{x,\"y z\",long}')::varchar(3)[], \
         ('{12345678-1234-5678-1234-567812345678}')::uuid[], ('{2010-01-01 02:00:00+00,NULL}')::timestamp with time zone[]) RETURNING id",
        &["1", "2", "3"],
    ),
    (
        "SELECT a, b, u FROM many ORDER BY id",
        &[
            "1|x|12345678-1234-5678-1234-567812345678",
            "2|y z|NULL",
            "NULL|lon|NULL",
        ],
    ),
    ("INSERT INTO many (a) SELECT * FROM UNNEST('{}'::integer[])", &[]),
    ("SELECT count(*) FROM many", &["3"]),
    (
        "SELECT '{awef}'::text[], '{1,NULL,3}'::int[], '{\"a,b\"}'::varchar[]",
        &["{awef}|{1,NULL,3}|{\"a,b\"}"],
    ),
    ("SELECT id FROM many WHERE a = ANY ('{2,5}'::int[])", &["2"]),
    // Addresses.
    ("CREATE TABLE address (id int PRIMARY KEY, ip inet)", &[]),
    (
        "INSERT INTO address VALUES (1, '10.0.0.1'), (2, '2001:DB8::1'), (3, '10.0.0.1/8'), (4, NULL)",
        &[],
    ),
    (
        "SELECT id, ip FROM address ORDER BY id",
        &["1|10.0.0.1", "2|2001:db8::1", "3|10.0.0.1/8", "4|NULL"],
    ),
    (
        "SELECT id, host(ip) FROM address WHERE ip = '10.0.0.1'::inet OR id = 3 ORDER BY id",
        &["1|10.0.0.1", "3|10.0.0.1"],
    ),
    (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'address'::regclass AND attname = 'ip'",
        &["inet"],
    ),
    // Moments in the session's time zone.
    ("SET TimeZone = 'America/Chicago'", &[]),
    (
        "CREATE TABLE event (id int PRIMARY KEY, at timestamptz, day date, t time, lasts interval)",
        &[],
    ),
    (
        "INSERT INTO event VALUES (1, '2010-01-01 02:00:00+00', '2010-01-01', '01:02:03', '1 day, 2:03:04.5'), \
         (2, '2010-06-01 12:00:00+00', '2010-06-03', '04:05:06', '25:00:00')",
        &[],
    ),
    (
        "SELECT id FROM event WHERE at = '2009-12-31 20:00:00'::timestamp",
        &["1"],
    ),
    (
        "SELECT id FROM event WHERE at BETWEEN '2009-12-31T00:00:00'::timestamp AND '2009-12-31T23:59:59.999999'::timestamp",
        &["1"],
    ),
    ("SELECT id FROM event WHERE at >= '2010-01-01'::date", &["2"]),
    (
        "SELECT at::date, at::time, at::timestamp, at::text FROM event WHERE id = 1",
        &["2009-12-31|20:00:00|2009-12-31 20:00:00|2009-12-31 20:00:00-06"],
    ),
    (
        "SELECT date_trunc('year', at), extract(hour from at) FROM event WHERE id = 1",
        &["2009-01-01 00:00:00-06|20"],
    ),
    (
        "SELECT at AT TIME ZONE 'Asia/Tokyo', (at AT TIME ZONE 'UTC')::date FROM event WHERE id = 1",
        &["2010-01-01 11:00:00|2010-01-01"],
    ),
    (
        "SELECT '2010-01-01 11:00:00'::timestamp AT TIME ZONE 'Asia/Tokyo'",
        &["2009-12-31 20:00:00-06"],
    ),
    ("SELECT t = '01:02:03'::time FROM event ORDER BY id", &["t", "f"]),
    // Spans of time.
    (
        "SELECT lasts * 2, 0.5 * lasts, lasts / 2 FROM event WHERE id = 2",
        &["50:00:00|12:30:00|12:30:00"],
    ),
    (
        "SELECT '0:00:00'::interval, '-1 day, 23:59:59'::interval",
        &["00:00:00|-1 days +23:59:59"],
    ),
    (
        "SELECT day - '2010-01-01'::date, day + 1, interval '1 day' * (day - '2010-01-01'::date) FROM event WHERE id = 2",
        &["153|2010-06-04|153 days"],
    ),
    (
        "SELECT id FROM event WHERE lasts > interval '1 day 1 hour 30 minutes' ORDER BY id",
        &["1"],
    ),
    (
        "SELECT id FROM event WHERE at - '2010-01-01 00:00:00+00'::timestamptz < interval '1 day'",
        &["1"],
    ),
    // Functions.
    (
        "SELECT mod(7, 3), mod(-7, 3), statement_timestamp() IS NOT NULL",
        &["1|-1|t"],
    ),
    ("CREATE EXTENSION IF NOT EXISTS plpgsql", &[]),
];

fn check(client: &mut WireClient) {
    for (sql, lines) in CASES {
        let said = client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(said.error, None, "{sql}");
        assert_eq!(said.rows.iter().map(line).collect::<Vec<_>>(), *lines, "{sql}");
    }
}

#[test]
fn postgresql_answers_so() {
    if let Some(server) = Postgres::start() {
        check(&mut server.client("postgres"));
    }
}

#[test]
fn the_server_answers_so() {
    let server = Server::start();
    check(&mut server.wire_client());
    let client = server.client();
    assert_eq!(
        client.error("CREATE EXTENSION hstore"),
        (
            "0A000".to_owned(),
            "extension \"hstore\" is not available".to_owned()
        )
    );
    assert_eq!(
        client.error("INSERT INTO address VALUES (5, 'nowhere')"),
        (
            "22P02".to_owned(),
            "invalid input syntax for type inet: \"nowhere\"".to_owned()
        )
    );
}
