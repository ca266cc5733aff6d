//! `COPY ... FROM STDIN`: its formats, its errors, and the programs that send it.

use super::harness::{Client, Server, runtime};
use futures::SinkExt as _;
use std::io::Cursor;

fn started() -> (Server, Client) {
    let server = Server::start();
    let client = server.client();
    (server, client)
}

/// SQLSTATE, message and detail of a copy that fails.
fn told(client: &Client, sql: &str, data: &[u8]) -> [String; 3] {
    let failed = runtime().block_on(async {
        let sink = client.driver.copy_in::<_, Cursor<Vec<u8>>>(sql).await?;
        let mut sink = std::pin::pin!(sink);
        _ = sink.send(Cursor::new(data.to_vec())).await;
        sink.finish().await
    });
    let error = failed.expect_err("it fails");
    let said = error.as_db_error().expect("the server has said it");
    [
        said.code().code().to_owned(),
        said.message().to_owned(),
        said.detail().unwrap_or_default().to_owned(),
    ]
}

#[test]
fn text_has_nulls_and_escapes() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text, day date, ok bool)");
    let data = b"1\ta\\tb\t2020-01-02\tt\n2\t\\N\t\\N\tf\n3\t\\\\N\t\\N\t\\N\n\\.\n";
    assert_eq!(client.copy_in("COPY t FROM STDIN", data), Ok(3));
    assert_eq!(
        client.lines("SELECT id, name, day, ok FROM t ORDER BY id"),
        ["1|a\tb|2020-01-02|t", "2|NULL|NULL|f", "3|\\N|NULL|NULL"]
    );
    assert_eq!(
        client.copy_in("COPY public.t (ok, id) FROM stdin;", b"t\t4"),
        Ok(1)
    );
    assert_eq!(
        client.copy_in(
            "copy t (id, name) from stdin with (freeze on, null 'none', delimiter '|')",
            b"5|none\n6|x\n"
        ),
        Ok(2)
    );
    assert_eq!(
        client.lines("SELECT id, name, ok FROM t WHERE id > 3 ORDER BY id"),
        ["4|NULL|t", "5|NULL|NULL", "6|x|NULL"]
    );
}

#[test]
fn csv_has_quotes_and_headers() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text)");
    let data = b"id,name\n1,\"a,\"\"b\"\"\nc\"\n2,\n3,\"\"\n";
    assert_eq!(
        client.copy_in("COPY t FROM STDIN WITH (FORMAT csv, HEADER)", data),
        Ok(3)
    );
    assert_eq!(
        client.lines("SELECT id, name FROM t ORDER BY id"),
        ["1|a,\"b\"\nc", "2|NULL", "3|"]
    );
    assert_eq!(client.copy_in("COPY t FROM STDIN CSV", b"4,x\n"), Ok(1));
    let sql = "COPY t (name, id) FROM STDIN WITH (FORMAT csv, HEADER match)";
    assert_eq!(client.copy_in(sql, b"name,id\nx,5\n"), Ok(1));
    assert_eq!(
        told(&client, sql, b"name,no\nx,6\n"),
        [
            "22P04",
            "column name mismatch in header line field 2: got \"no\", expected \"id\"",
            "COPY t, line 1"
        ]
    );
    let wrong = told(&client, sql, b"name\nx,6\n");
    assert_eq!(
        wrong[1],
        "wrong number of fields in header line: got 1, expected 2"
    );
    assert_eq!(
        client.copy_in(
            "copy t from stdin with csv header quote as '''' null 'none'",
            b"id,name\n7,'none'\n8,none\n"
        ),
        Ok(2)
    );
    assert_eq!(
        client.lines("SELECT id, name FROM t WHERE id > 3 ORDER BY id"),
        ["4|x", "5|x", "7|none", "8|NULL"]
    );
}

#[test]
fn binary_is_read() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text, n bigint)");
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for (id, name) in [(1_i32, Some("a")), (2, None)] {
        data.extend(3_i16.to_be_bytes());
        data.extend(4_i32.to_be_bytes());
        data.extend(id.to_be_bytes());
        match name {
            None => data.extend((-1_i32).to_be_bytes()),
            Some(name) => {
                data.extend((name.len() as i32).to_be_bytes());
                data.extend(name.as_bytes());
            }
        }
        data.extend(8_i32.to_be_bytes());
        data.extend(i64::from(id).to_be_bytes());
    }
    data.extend((-1_i16).to_be_bytes());
    assert_eq!(client.copy_in("COPY t FROM STDIN (FORMAT binary)", &data), Ok(2));
    assert_eq!(
        client.lines("SELECT id, name, n FROM t ORDER BY id"),
        ["1|a|1", "2|NULL|2"]
    );
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN (FORMAT binary)", b"nonsense")
            .expect_err("no copy")
            .0,
        "22P04"
    );
}

#[test]
fn columns_that_are_not_sent_have_their_defaults() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id serial PRIMARY KEY, name text DEFAULT 'none', n int, at timestamptz DEFAULT now())");
    let mut data = Vec::new();
    for n in 0..5000 {
        data.extend(format!("{n}\n").as_bytes());
    }
    assert_eq!(client.copy_in("COPY t (n) FROM STDIN", &data), Ok(5000));
    assert_eq!(
        client.lines("SELECT count(*), min(id), max(id), count(DISTINCT name), count(at), min(id - n), max(id - n) FROM t"),
        ["5000|1|5000|1|5000|1|1"]
    );
    client.execute("CREATE TABLE a (id int GENERATED ALWAYS AS IDENTITY, n int)");
    assert_eq!(client.copy_in("COPY a FROM STDIN", b"7\t1\n"), Ok(1));
    assert_eq!(client.copy_in("COPY a (n) FROM STDIN", b"2\n"), Ok(1));
    assert_eq!(client.lines("SELECT id, n FROM a ORDER BY n"), ["7|1", "1|2"]);
}

#[test]
fn an_error_says_where_and_leaves_nothing() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name varchar(3) NOT NULL)");
    for (data, expected) in [
        (
            &b"1\ta\n2\tb\nx\tc\n"[..],
            [
                "22P02",
                "invalid input syntax for type integer: \"x\"",
                "COPY t, line 3, column id: \"x\"",
            ],
        ),
        (
            b"1\tabcd\n",
            [
                "22001",
                "value too long for type character varying(3)",
                "COPY t, line 1, column name: \"abcd\"",
            ],
        ),
        (
            b"1\ta\n2\n",
            ["22P04", "missing data for column \"name\"", "COPY t, line 2"],
        ),
        (
            b"1\ta\t5\n",
            ["22P04", "extra data after last expected column", "COPY t, line 1"],
        ),
        (
            b"1\ta\n1\tb\n",
            [
                "23505",
                "duplicate key value violates unique constraint \"t_pkey\"",
                "Key (id)=(1) already exists.\nCOPY t, line 2",
            ],
        ),
        (
            b"1\t\\N\n",
            [
                "23502",
                "null value in column \"name\" of relation \"t\" violates not-null constraint",
                "Failing row contains (1, null).\nCOPY t, line 1",
            ],
        ),
    ] {
        assert_eq!(told(&client, "COPY t FROM STDIN", data), expected);
        assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    }
    // More rows than are written together: those before the error go, too.
    let mut data = Vec::new();
    for id in 0..20_000 {
        data.extend(format!("{id}\ta\n").as_bytes());
    }
    data.extend(b"5\tb\n");
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN", &data)
            .expect_err("it is there")
            .0,
        "23505"
    );
    assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    assert_eq!(
        client.copy_in("COPY t FROM STDIN", &data[..data.len() - 4]),
        Ok(20_000)
    );
    assert_eq!(client.lines("SELECT count(*), max(id) FROM t"), ["20000|19999"]);
    for (sql, code) in [
        ("COPY nowhere FROM STDIN", "42P01"),
        ("COPY t (nothing) FROM STDIN", "42703"),
        ("COPY t (id, id) FROM STDIN", "42701"),
        ("COPY t FROM STDIN (DELIMITER 'ab')", "0A000"),
        ("COPY t FROM STDIN (FORMAT xml)", "22023"),
        ("COPY t FROM STDIN (NOTHING)", "42601"),
        ("COPY t FROM STDIN (FORMAT csv, FORMAT csv)", "42601"),
        ("COPY t FROM STDIN (FREEZE maybe)", "42601"),
        ("COPY t FROM STDIN (QUOTE 'x')", "0A000"),
        ("COPY t FROM STDIN (NULL 'a', FORMAT csv, HEADER,)", "42601"),
    ] {
        assert_eq!(client.error(sql).0, code, "{sql}");
    }
}

#[test]
fn a_copy_is_a_part_of_its_transaction() {
    let (_server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY)");
    client.execute("BEGIN");
    assert_eq!(client.copy_in("COPY t FROM STDIN", b"1\n2\n"), Ok(2));
    assert_eq!(client.one("SELECT count(*) FROM t"), "2");
    client.execute("ROLLBACK");
    assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    client.execute("BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s");
    assert_eq!(
        client
            .copy_in("COPY t FROM STDIN", b"2\n1\n")
            .expect_err("it is there")
            .0,
        "23505"
    );
    client.execute("ROLLBACK TO SAVEPOINT s");
    assert_eq!(client.copy_in("COPY t FROM STDIN", b"2\n3\n"), Ok(2));
    client.execute("COMMIT");
    assert_eq!(client.lines("SELECT id FROM t ORDER BY id"), ["1", "2", "3"]);
}

#[test]
fn psql_copies_within_a_text() {
    let (server, client) = started();
    client.execute("CREATE TABLE t (id int PRIMARY KEY, name text)");
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("dump.sql");
    std::fs::write(
        &script,
        "BEGIN;\nCOPY public.t (id, name) FROM stdin;\n1\ta\n2\t\\N\n\\.\nINSERT INTO t VALUES (3, 'c');\nCOMMIT;\n",
    )
    .expect("written");
    let script = script.to_string_lossy().into_owned();
    server.psql(&["-v", "ON_ERROR_STOP=1", "-f", &script]).expect();
    assert_eq!(
        client.lines("SELECT id, name FROM t ORDER BY id"),
        ["1|a", "2|NULL", "3|c"]
    );
}

#[test]
fn a_transaction_writes_more_rows_than_a_million_and_others_go_on() {
    let (server, client) = started();
    client.execute("CREATE TABLE t (id int)");
    let count = (1 << 20) + 1000;
    let data: String = (0..count).map(|id| format!("{id}\n")).collect();
    client.execute("BEGIN");
    assert_eq!(client.copy_in("COPY t FROM STDIN", data.as_bytes()), Ok(count));
    // Who reads and who writes other rows of the table does not wait for it, nor it for them.
    let other = server.client();
    other.execute("BEGIN");
    other.execute("INSERT INTO t VALUES (-1)");
    assert_eq!(other.lines("SELECT count(*) FROM t"), ["1"]);
    client.execute("COMMIT");
    other.execute("COMMIT");
    assert_eq!(client.lines("SELECT count(*) FROM t"), [(count + 1).to_string()]);

    client.execute("BEGIN");
    assert_eq!(client.execute("DELETE FROM t WHERE id >= 0"), count);
    // A row of those is waited for.
    let waits = std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.execute("UPDATE t SET id = id + 1 WHERE id < 10"));
        assert_eq!(client.lines("SELECT id FROM t"), ["-1"]);
        client.execute("COMMIT");
        waits.join().expect("it has waited")
    });
    assert_eq!(waits, 1);
    assert_eq!(client.lines("SELECT id FROM t"), ["0"]);
}
