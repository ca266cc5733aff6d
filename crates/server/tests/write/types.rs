//! Types: assignments as PostgreSQL does them, and columns as clients see them.
//!
//! `types.txt` has the assignments and their results. One test holds it against a real PostgreSQL, one against the server; unit tests hold all of
//! it against the casts themselves.

use super::harness::wire_client::WireClient;
use super::harness::{Client, Server};
use super::postgres::Postgres;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

const CASES: &str = include_str!("types.txt");

/// An assignment.
struct Case {
    /// The column's type.
    of: String,
    /// The type of the value; `unknown`: it is a literal.
    source: String,
    text: String,
    /// What PostgreSQL says: the field as text, or `!`, SQLSTATE and message.
    postgres: String,
    /// What is said here.
    here: String,
}

fn unescaped(field: &str) -> String {
    let (mut out, mut rest) = (String::new(), field.chars());
    while let Some(c) = rest.next() {
        out.push(match c {
            '\\' => match rest.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                _ => '\\',
            },
            c => c,
        });
    }
    out
}

fn cases() -> Vec<Case> {
    let lines = CASES.lines().filter(|line| !line.starts_with('#'));
    let case = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(unescaped).collect();
        let here = fields.last().expect("a result").clone();
        match fields.as_slice() {
            [of, source, text, postgres, ..] => Case {
                of: of.clone(),
                source: source.clone(),
                text: text.clone(),
                postgres: postgres.clone(),
                here,
            },
            _ => panic!("too few fields: {line}"),
        }
    };
    lines.map(case).collect()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Case {
    fn value(&self) -> String {
        match self.source.as_str() {
            "unknown" => quoted(&self.text),
            source => format!("CAST({} AS {source})", quoted(&self.text)),
        }
    }

    fn shown(&self) -> String {
        format!("{} <- {} {:?}", self.of, self.source, self.text)
    }
}

/// What a server says to an INSERT into a table of its own, and to a SELECT.
fn said(client: &mut WireClient, case: &Case) -> String {
    let mut query = |sql: &str| client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(
        query(&format!("CREATE TABLE tried (c {})", case.of)).error,
        None,
        "{}",
        case.shown()
    );
    let inserted = query(&format!("INSERT INTO tried VALUES ({})", case.value()));
    let found = match inserted.error {
        Some((code, message)) => format!("!{code} {message}"),
        None => {
            let selected = query("SELECT c FROM tried");
            match (selected.error, selected.rows.as_slice()) {
                (None, [row]) => row[0].clone().unwrap_or("NULL".to_owned()),
                (error, rows) => format!("!{error:?} {rows:?}"),
            }
        }
    };
    assert_eq!(query("DROP TABLE tried").error, None);
    found
}

#[track_caller]
fn check(wrong: &[String], count: usize) {
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn postgresql_says_what_the_file_says() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let mut client = server.client("postgres");
    let zone = client.query("SET timezone = 'Europe/Berlin'").expect("an answer");
    assert_eq!(zone.error, None);
    let cases = cases();
    let mut wrong = Vec::new();
    for case in &cases {
        let found = said(&mut client, case);
        if found != case.postgres {
            wrong.push(format!(
                "{}:\n  file       {}\n  PostgreSQL {found}",
                case.shown(),
                case.postgres
            ));
        }
    }
    check(&wrong, cases.len());
}

#[test]
fn the_server_says_what_the_file_says() {
    let server = Server::start();
    let mut client = server.wire_client();
    let zone = client.query("SET timezone = 'Europe/Berlin'").expect("an answer");
    assert_eq!(zone.error, None);
    let (mut wrong, mut count) = (Vec::new(), 0);
    // What DataFusion's own casts say of other texts is none of the table's business.
    let sources = ["unknown", "bigint", "integer", "boolean", "date"];
    for case in cases()
        .iter()
        .filter(|case| sources.contains(&case.source.as_str()))
    {
        count += 1;
        let found = said(&mut client, case);
        if found != case.here {
            wrong.push(format!(
                "{}:\n  file   {}\n  server {found}",
                case.shown(),
                case.here
            ));
        }
    }
    check(&wrong, count);
}

/// A table with a column of each type, and a row.
fn all_types(client: &Client) {
    client.execute(
        "CREATE TABLE everything (k integer PRIMARY KEY, a smallint, b bigint, c real, d double precision, e numeric(10,2), f numeric,
            g boolean, h text, i varchar(10), j char(5), l name, m bytea, n date, o time, p timestamp, q timestamptz, r interval,
            s uuid, t json, u jsonb, v oid, w integer[], x text[])",
    );
    client.execute(
        "INSERT INTO everything VALUES (1, 1, 2, 1.5, 2.5, 3.456, 4.50, true, 'text', 'varchar', 'char', 'name', '\\x00ff', '2024-02-29',
            '01:02:03.5', '2024-02-29 01:02:03', '2024-02-29 01:02:03+00', '1 mon 2 days 03:04:05',
            '12345678-1234-5678-1234-567812345678', '{\"b\":1,  \"a\":2}', '{\"b\":1,  \"a\":2}', 7, '{1,NULL,3}', '{a,\"b c\"}')",
    );
    client.execute("INSERT INTO everything (k) VALUES (2)");
}

#[test]
fn a_table_of_all_types() {
    let mut server = Server::start();
    all_types(&server.client());
    let wanted = "1|1|2|1.5|2.5|3.46|4.5|t|text|varchar|char |name|\\x00ff|2024-02-29|01:02:03.5|2024-02-29 01:02:03|2024-02-29 01:02:03+00|\
        1 mon 2 days 03:04:05|12345678-1234-5678-1234-567812345678|{\"b\":1,  \"a\":2}|{\"a\": 2, \"b\": 1}|7|{1,NULL,3}|{a,\"b c\"}";
    let nulls = format!("2{}", "|NULL".repeat(23));
    let read = |server: &Server| server.client().lines("SELECT * FROM everything ORDER BY k");
    assert_eq!(read(&server), [wanted, nulls.as_str()]);
    // The dictionary is on disk.
    server.restart();
    assert_eq!(read(&server), [wanted, nulls.as_str()]);
}

#[test]
fn clients_are_told_the_types() {
    let server = Server::start();
    all_types(&server.client());
    let mut client = server.wire_client();
    let said = client.query("SELECT * FROM everything").expect("an answer");
    assert_eq!(said.error, None);
    assert_eq!(
        said.types,
        [
            23, 21, 20, 700, 701, 1700, 1700, 16, 25, 1043, 1042, 19, 17, 1082, 1083, 1114, 1184, 1186, 2950,
            114, 3802, 26, 1007, 1009
        ]
    );
    // In binary, as a driver reads them.
    let client = server.client();
    let rows = client.query("SELECT a, j, o, s, v, w, x, n FROM everything WHERE k = 1", &[]);
    let rows = rows.expect("rows in binary");
    assert_eq!(rows[0].get::<_, i16>(0), 1);
    assert_eq!(rows[0].get::<_, &str>(1), "char ");
    assert_eq!(rows[0].get::<_, u32>(4), 7);
    assert_eq!(rows[0].get::<_, Vec<Option<i32>>>(5), [Some(1), None, Some(3)]);
    assert_eq!(rows[0].get::<_, Vec<String>>(6), ["a", "b c"]);
}

#[test]
fn conditions_on_all_types() {
    let server = Server::start();
    let client = server.client();
    all_types(&client);
    for condition in [
        "a = 1",
        "e = 3.46",
        "f = 4.5",
        "g",
        "i = 'varchar'",
        "j = 'char'",
        "l = 'name'",
        "n = '2024-02-29'",
        "n < '2024-03-01'",
        "o = '01:02:03.5'",
        "o > '01:00:00'",
        "p = '2024-02-29 01:02:03'",
        "q = '2024-02-29 01:02:03+00'",
        "r = interval '1 month 2 days 3 hours 4 minutes 5 seconds'",
        "s = '12345678-1234-5678-1234-567812345678'",
        "'12345678123456781234567812345678' = s",
        "s > '00000000-0000-0000-0000-000000000000'",
        "s IN ('00000000-0000-0000-0000-000000000000', '12345678-1234-5678-1234-567812345678')",
        "s = '12345678-1234-5678-1234-567812345678'::uuid",
        "v = 7",
        "w = '{1,NULL,3}'",
    ] {
        let sql = format!("SELECT k FROM everything WHERE {condition}");
        assert_eq!(client.try_rows(&sql).map(|rows| rows.len()), Ok(1), "{sql}");
    }
}

#[test]
fn rows_that_were_read_are_written_again() {
    let server = Server::start();
    let client = server.client();
    all_types(&client);
    let before = client.lines("SELECT * FROM everything ORDER BY k");
    // Each column goes through the planner and back.
    client.execute("CREATE TABLE other (k integer PRIMARY KEY, a smallint, b bigint, c real, d double precision, e numeric(10,2), f numeric,
            g boolean, h text, i varchar(10), j char(5), l name, m bytea, n date, o time, p timestamp, q timestamptz, r interval,
            s uuid, t json, u jsonb, v oid, w integer[], x text[])");
    client.execute("INSERT INTO other SELECT * FROM everything");
    assert_eq!(client.lines("SELECT * FROM other ORDER BY k"), before);
    client.execute("UPDATE other SET h = h || 'x'");
    client.execute("UPDATE other SET h = substr(h, 1, 4), r = r, o = o, j = j, w = w");
    assert_eq!(client.lines("SELECT * FROM other ORDER BY k"), before);
    let returned = client.lines("UPDATE other SET a = a + 1 WHERE k = 1 RETURNING j, o, r, f, s, w");
    assert_eq!(
        returned,
        ["char |01:02:03.5|1 mon 2 days 03:04:05|4.5|12345678-1234-5678-1234-567812345678|{1,NULL,3}"]
    );
}

#[test]
fn infinite_dates() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE ends (k integer PRIMARY KEY, d date, t timestamp, z timestamptz)");
    client.execute("INSERT INTO ends VALUES (1, 'infinity', 'infinity', 'infinity'), (2, '-infinity', '-infinity', '-infinity'), (3, '2024-01-01', '2024-01-01', '2024-01-01')");
    assert_eq!(
        client.lines("SELECT d, t, z FROM ends ORDER BY t"),
        [
            "-infinity|-infinity|-infinity",
            "2024-01-01|2024-01-01 00:00:00|2024-01-01 00:00:00+00",
            "infinity|infinity|infinity"
        ]
    );
    assert_eq!(client.lines("SELECT k FROM ends WHERE d > '2024-01-01'"), ["1"]);
}

#[test]
fn definitions_that_are_refused() {
    let server = Server::start();
    let client = server.client();
    for (of, code, message) in [
        ("cidr", "0A000", "columns of type cidr are not supported"),
        ("nothing", "42704", "type \"nothing\" does not exist"),
        (
            "varchar(0)",
            "22023",
            "length for type varchar must be at least 1",
        ),
        (
            "numeric(40)",
            "0A000",
            "columns of type numeric(40,0) are not supported",
        ),
    ] {
        let refused = client.error(&format!("CREATE TABLE t (c {of})"));
        assert_eq!(refused, (code.to_owned(), message.to_owned()));
    }
}

/// A UUID as a parameter.
#[derive(Debug)]
struct Uuid([u8; 16]);

impl ToSql for Uuid {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }

    tokio_postgres::types::to_sql_checked!();
}

#[test]
fn uuids_are_keys() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE things (id uuid PRIMARY KEY, note varchar(20))");
    let key = |number: u8| Uuid([number; 16]);
    for number in 1..=3u8 {
        let note = format!("thing {number}");
        let inserted = client.execute_with("INSERT INTO things VALUES ($1, $2)", &[&key(number), &note]);
        assert_eq!(inserted, Ok(1));
    }
    let notes = |sql: &str, parameters: &[&(dyn ToSql + Sync)]| -> Vec<String> {
        let rows = client
            .query(sql, parameters)
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    };
    // A parameter has the type of what it is compared with.
    assert_eq!(
        notes("SELECT note FROM things WHERE id = $1", &[&key(2)]),
        ["thing 2"]
    );
    assert_eq!(
        notes(
            "SELECT note FROM things WHERE id IN ($1, $2) ORDER BY note",
            &[&key(3), &key(1)]
        ),
        ["thing 1", "thing 3"]
    );
    let changed = client.execute_with("UPDATE things SET note = $1 WHERE id = $2", &[&"other", &key(2)]);
    assert_eq!(changed, Ok(1));
    let text = "02020202-0202-0202-0202-020202020202";
    let sql = format!("SELECT id, note FROM things WHERE id = '{text}'");
    assert_eq!(client.lines(&sql), [format!("{text}|other")]);
    assert_eq!(
        client.execute(&format!("DELETE FROM things WHERE id = '{text}'")),
        1
    );
    let refused = client.error("SELECT note FROM things WHERE id = 'no uuid'");
    assert_eq!(
        refused,
        (
            "22P02".to_owned(),
            "invalid input syntax for type uuid: \"no uuid\"".to_owned()
        )
    );
    let taken = client.error("INSERT INTO things VALUES ('01010101010101010101010101010101')");
    assert_eq!(taken.0, "23505");
}
