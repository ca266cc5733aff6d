//! Definitions: what they make, what they refuse and how, what becomes of them when a transaction is rolled back or the server starts again.

use crate::harness::{Client, Server};

/// A statement that must fail: its SQLSTATE, and a part of its message.
#[track_caller]
fn refused(client: &Client, sql: &str, code: &str, part: &str) {
    let (found, message) = client.error(sql);
    assert!(
        found == code && message.contains(part),
        "{sql}: {found} {message}; wanted {code} {part}"
    );
}

/// All of these tags.
#[track_caller]
fn tags(server: &Server, sql: &str, wanted: &[&str]) {
    let said = server.wire_client().query(sql).expect("an answer");
    assert_eq!(said.error, None, "{sql}");
    assert_eq!(said.tags, wanted, "{sql}");
}

#[test]
fn tables_are_made_with_their_columns_and_dropped() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (id int PRIMARY KEY, name varchar(10) NOT NULL DEFAULT 'nobody', price numeric(8,2) DEFAULT 1.5, \
         made timestamptz DEFAULT now(), flag bool DEFAULT true, note text)",
    );
    client.execute("INSERT INTO t (id) VALUES (1)");
    assert_eq!(
        client.one("SELECT id, name, price, made IS NOT NULL, flag, note FROM t"),
        "1|nobody|1.50|t|t|NULL"
    );
    refused(
        &client,
        "CREATE TABLE t (a int)",
        "42P07",
        "relation \"t\" already exists",
    );
    client.execute("CREATE TABLE IF NOT EXISTS t (a int)");
    refused(
        &client,
        "CREATE TABLE u (a int, a text)",
        "42701",
        "column \"a\" specified more than once",
    );
    refused(&client, "CREATE TABLE u (a nonsense)", "42704", "nonsense");
    refused(
        &client,
        "CREATE TABLE u (a int NULL NOT NULL)",
        "42601",
        "conflicting NULL/NOT NULL",
    );
    refused(
        &client,
        "CREATE TABLE u (a int DEFAULT 1 DEFAULT 2)",
        "42601",
        "multiple default values",
    );
    refused(
        &client,
        "CREATE TABLE u (a int DEFAULT 'x')",
        "22P02",
        "invalid input syntax",
    );
    refused(
        &client,
        "CREATE TABLE u (a int, b int DEFAULT a)",
        "0A000",
        "cannot use column reference in DEFAULT",
    );
    refused(
        &client,
        "CREATE TABLE u (a int DEFAULT (SELECT 1))",
        "0A000",
        "cannot use subquery in DEFAULT",
    );
    refused(
        &client,
        "CREATE TABLE nowhere.u (a int)",
        "3F000",
        "schema \"nowhere\" does not exist",
    );
    refused(
        &client,
        "CREATE TABLE corun.u (a int)",
        "42501",
        "permission denied for schema corun",
    );
    refused(&client, "CREATE TEMP TABLE u (a int)", "0A000", "temporary");
    refused(
        &client,
        "CREATE TABLE u (a int) PARTITION BY RANGE (a)",
        "0A000",
        "partition",
    );
    refused(
        &client,
        "CREATE TABLE u (a int PRIMARY KEY, b int PRIMARY KEY)",
        "42P16",
        "multiple primary keys",
    );
    refused(
        &client,
        "CREATE TABLE u (a int, PRIMARY KEY (b))",
        "42703",
        "column \"b\" named in key does not exist",
    );
    client.execute("CREATE UNLOGGED TABLE u (a int) WITH (fillfactor=70, autovacuum_enabled=off)");
    refused(
        &client,
        "CREATE TABLE v (a int) WITH (nonsense=1)",
        "22023",
        "unrecognized parameter",
    );
    client.execute("DROP TABLE t, u");
    refused(&client, "DROP TABLE t", "42P01", "table \"t\" does not exist");
    client.execute("DROP TABLE IF EXISTS t, nowhere.x");
    refused(&client, "SELECT * FROM t", "42P01", "t");
}

#[test]
fn tags_are_postgresqls() {
    let server = Server::start();
    tags(
        &server,
        "CREATE SCHEMA s; CREATE TABLE s.t (a int); CREATE INDEX ON s.t (a); ALTER TABLE s.t ADD b int; TRUNCATE s.t; \
         COMMENT ON TABLE s.t IS 'x'; CREATE SEQUENCE s.q; ALTER SEQUENCE s.q RESTART 5; DROP SEQUENCE s.q; \
         DROP INDEX s.t_a_idx; DROP TABLE s.t; DROP SCHEMA s",
        &[
            "CREATE SCHEMA",
            "CREATE TABLE",
            "CREATE INDEX",
            "ALTER TABLE",
            "TRUNCATE TABLE",
            "COMMENT",
            "CREATE SEQUENCE",
            "ALTER SEQUENCE",
            "DROP SEQUENCE",
            "DROP INDEX",
            "DROP TABLE",
            "DROP SCHEMA",
        ],
    );
    tags(&server, "DROP VIEW IF EXISTS v", &["DROP VIEW"]);
    refused(
        &server.client(),
        "CREATE VIEW v AS SELECT 1",
        "0A000",
        "not supported",
    );
}

#[test]
fn constraints_are_named_and_kept_as_postgresql_does() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE p (id int PRIMARY KEY, code text UNIQUE)");
    client.execute(
        "CREATE TABLE c (id int, p_id int REFERENCES p ON DELETE CASCADE, a int CHECK (a > 0), b int, \
         CHECK (a < b), UNIQUE (a, b), CONSTRAINT mine CHECK (b < 100), PRIMARY KEY (id))",
    );
    client.execute("INSERT INTO p VALUES (1, 'one')");
    client.execute("INSERT INTO c VALUES (1, 1, 1, 2)");
    for (sql, code, name) in [
        ("INSERT INTO c VALUES (1, 1, 3, 4)", "23505", "c_pkey"),
        ("INSERT INTO c VALUES (2, 1, 1, 2)", "23505", "c_a_b_key"),
        ("INSERT INTO c VALUES (2, 1, 0, 2)", "23514", "c_a_check"),
        ("INSERT INTO c VALUES (2, 1, 5, 2)", "23514", "c_check"),
        ("INSERT INTO c VALUES (2, 1, 5, 200)", "23514", "mine"),
        ("INSERT INTO c VALUES (2, 9, 5, 6)", "23503", "c_p_id_fkey"),
        ("INSERT INTO p VALUES (2, 'one')", "23505", "p_code_key"),
    ] {
        refused(&client, sql, code, name);
    }
    client.execute("DELETE FROM p");
    assert_eq!(client.one("SELECT count(*) FROM c"), "0");
    for (sql, code, part) in [
        ("CREATE TABLE x (a int REFERENCES nothing)", "42P01", "nothing"),
        (
            "CREATE TABLE x (a int REFERENCES p (nothing))",
            "42703",
            "referenced in foreign key",
        ),
        (
            "CREATE TABLE x (a int, b int, FOREIGN KEY (a, b) REFERENCES p)",
            "42830",
            "number of referencing",
        ),
        (
            "CREATE TABLE x (a text REFERENCES p)",
            "42804",
            "cannot be implemented",
        ),
        (
            "CREATE TABLE x (a int REFERENCES c (b))",
            "42830",
            "no unique constraint matching",
        ),
        (
            "CREATE TABLE x (a int REFERENCES p ON DELETE SET DEFAULT)",
            "0A000",
            "SET DEFAULT",
        ),
        (
            "CREATE TABLE x (a int CHECK (b > 0))",
            "42703",
            "column \"b\" does not exist",
        ),
        (
            "CREATE TABLE x (a int CHECK (a + 1))",
            "42804",
            "must be type boolean",
        ),
        (
            "CREATE TABLE x (a int CHECK (a > (SELECT 1)))",
            "0A000",
            "cannot use subquery",
        ),
        (
            "CREATE TABLE x (a int CHECK (sum(a) > 1))",
            "42803",
            "aggregate functions",
        ),
        (
            "CREATE TABLE x (a int, CONSTRAINT k CHECK (a > 0), CONSTRAINT k CHECK (a > 1))",
            "42710",
            "\"k\"",
        ),
        (
            "CREATE TABLE x (a int CONSTRAINT c_pkey UNIQUE)",
            "42P07",
            "c_pkey",
        ),
        (
            "DROP INDEX c_a_b_key",
            "2BP01",
            "constraint c_a_b_key on table c requires it",
        ),
        ("DROP TABLE p", "2BP01", "cannot drop table p"),
        ("TRUNCATE p", "0A000", "cannot truncate a table referenced"),
    ] {
        refused(&client, sql, code, part);
    }
    client.execute("INSERT INTO p VALUES (5, 'five'); INSERT INTO c VALUES (5, 5, 1, 2)");
    client.execute("TRUNCATE p CASCADE");
    assert_eq!(
        client.one("SELECT (SELECT count(*) FROM c) + (SELECT count(*) FROM p)"),
        "0"
    );
    refused(
        &client,
        "INSERT INTO c VALUES (1, 1, 1, 2)",
        "23503",
        "c_p_id_fkey",
    );
    client.execute("DROP TABLE p CASCADE");
    client.execute("INSERT INTO c VALUES (1, 1, 1, 2)");
    // A table that refers to itself, by a key of the same statement.
    client.execute("CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree)");
    client.execute("INSERT INTO tree VALUES (1, NULL), (2, 1)");
    refused(&client, "INSERT INTO tree VALUES (3, 9)", "23503", "tree_up_fkey");
    client.execute("DROP TABLE tree");
}

#[test]
fn columns_come_go_and_change() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 10), (2, NULL)");
    client.execute("ALTER TABLE t ADD COLUMN c text DEFAULT 'new', ADD d bigint NOT NULL DEFAULT 7");
    assert_eq!(
        client.lines("SELECT * FROM t ORDER BY a"),
        ["1|10|new|7", "2|NULL|new|7"]
    );
    refused(
        &client,
        "ALTER TABLE t ADD COLUMN c int",
        "42701",
        "column \"c\" of relation \"t\" already exists",
    );
    client.execute("ALTER TABLE t ADD COLUMN IF NOT EXISTS c int");
    refused(
        &client,
        "ALTER TABLE t ADD e int NOT NULL",
        "23502",
        "contains null values",
    );
    client.execute("ALTER TABLE t ADD e serial");
    assert_eq!(
        client.one("SELECT count(DISTINCT e), min(e), max(e) FROM t"),
        "2|1|2"
    );
    client.execute("INSERT INTO t (a) VALUES (3)");
    assert_eq!(client.one("SELECT e FROM t WHERE a = 3"), "3");
    client.execute("ALTER TABLE t DROP COLUMN e");
    refused(&client, "SELECT nextval('t_e_seq')", "42P01", "t_e_seq");
    refused(
        &client,
        "ALTER TABLE t DROP COLUMN e",
        "42703",
        "column \"e\" of relation \"t\" does not exist",
    );
    client.execute("ALTER TABLE t DROP COLUMN IF EXISTS e");
    refused(
        &client,
        "ALTER TABLE t ALTER b SET NOT NULL",
        "23502",
        "contains null values",
    );
    client.execute(
        "UPDATE t SET b = 0 WHERE b IS NULL; ALTER TABLE t ALTER b SET NOT NULL, ALTER b SET DEFAULT 5",
    );
    client.execute("INSERT INTO t (a) VALUES (4)");
    assert_eq!(client.one("SELECT b FROM t WHERE a = 4"), "5");
    client.execute("ALTER TABLE t ALTER b DROP DEFAULT");
    refused(&client, "INSERT INTO t (a) VALUES (5)", "23502", "\"b\"");
    client.execute("ALTER TABLE t ALTER b DROP NOT NULL; INSERT INTO t (a) VALUES (5)");
    refused(
        &client,
        "ALTER TABLE t ALTER a DROP NOT NULL",
        "42P16",
        "primary key",
    );
    client.execute("ALTER TABLE t RENAME COLUMN b TO \"B b\"; ALTER TABLE t RENAME TO u");
    assert_eq!(client.one("SELECT \"B b\" FROM u WHERE a = 1"), "10");
    refused(
        &client,
        "ALTER TABLE t ADD z int",
        "42P01",
        "relation \"t\" does not exist",
    );
    client.execute("ALTER TABLE IF EXISTS t ADD z int");
    refused(&client, "INSERT INTO u (a) VALUES (1)", "23505", "t_pkey");
    refused(&client, "ALTER TABLE u RENAME a TO c", "42701", "column \"c\"");
    client.execute("ALTER TABLE ONLY u OWNER TO somebody");
}

#[test]
fn the_type_of_a_column_grows() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE p (id int PRIMARY KEY); INSERT INTO p VALUES (1); \
         CREATE TABLE t (id int PRIMARY KEY REFERENCES p, name varchar(5) DEFAULT 'abc', n int); \
         CREATE INDEX by_name ON t (name); INSERT INTO t VALUES (1, 'short', 7)",
    );
    client.execute("ALTER TABLE t ALTER name TYPE varchar(20), ALTER n TYPE bigint USING n * 2");
    client.execute("UPDATE t SET name = 'rather long', n = n + 10000000000");
    assert_eq!(client.one("SELECT * FROM t"), "1|rather long|10000000014");
    refused(
        &client,
        "ALTER TABLE t ALTER name TYPE varchar(3)",
        "22001",
        "value too long",
    );
    refused(&client, "INSERT INTO t VALUES (9)", "23503", "t_id_fkey");
    client.execute("INSERT INTO p VALUES (2); INSERT INTO t (id) VALUES (2)");
    assert_eq!(client.one("SELECT name FROM t WHERE id = 2"), "abc");
    assert_eq!(client.one("SELECT count(*) FROM t WHERE name = 'abc'"), "1");
}

#[test]
fn constraints_are_added_and_dropped_later() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 1), (2, 1)");
    refused(
        &client,
        "ALTER TABLE t ADD PRIMARY KEY (b)",
        "23505",
        "could not create unique index \"t_pkey\"",
    );
    client.execute("ALTER TABLE t ADD PRIMARY KEY (a)");
    refused(&client, "INSERT INTO t VALUES (1, 5)", "23505", "t_pkey");
    refused(&client, "INSERT INTO t VALUES (NULL, 5)", "23502", "\"a\"");
    refused(
        &client,
        "ALTER TABLE t ADD PRIMARY KEY (b)",
        "42P16",
        "multiple primary keys",
    );
    refused(
        &client,
        "ALTER TABLE t ADD CHECK (b > 1)",
        "23514",
        "violated by some row",
    );
    refused(
        &client,
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (b)",
        "23505",
        "\"u\"",
    );
    client.execute("ALTER TABLE t ADD CONSTRAINT small CHECK (b < 10), ADD CONSTRAINT u UNIQUE (a, b)");
    refused(&client, "INSERT INTO t VALUES (3, 50)", "23514", "small");
    refused(
        &client,
        "ALTER TABLE t ADD CONSTRAINT small CHECK (a < 10)",
        "42710",
        "small",
    );
    client.execute("CREATE TABLE c (t_a int); INSERT INTO c VALUES (7)");
    refused(
        &client,
        "ALTER TABLE c ADD FOREIGN KEY (t_a) REFERENCES t",
        "23503",
        "c_t_a_fkey",
    );
    client.execute("DELETE FROM c; ALTER TABLE c ADD CONSTRAINT up FOREIGN KEY (t_a) REFERENCES t DEFERRABLE INITIALLY DEFERRED");
    refused(
        &client,
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "2BP01",
        "other objects depend on it",
    );
    client.execute("ALTER TABLE t RENAME b TO bb; ALTER TABLE t RENAME CONSTRAINT small TO tiny");
    refused(&client, "INSERT INTO t VALUES (3, 50)", "23514", "tiny");
    client.execute("ALTER TABLE t RENAME CONSTRAINT t_pkey TO key");
    refused(&client, "INSERT INTO t VALUES (1, 5)", "23505", "\"key\"");
    client.execute(
        "ALTER TABLE t DROP CONSTRAINT key CASCADE, DROP CONSTRAINT tiny, DROP CONSTRAINT IF EXISTS tiny",
    );
    refused(
        &client,
        "ALTER TABLE t DROP CONSTRAINT tiny",
        "42704",
        "constraint \"tiny\" of relation \"t\"",
    );
    client.execute("INSERT INTO t VALUES (1, 50); INSERT INTO c VALUES (99)");
    client.execute("ALTER TABLE t DROP COLUMN bb");
    refused(
        &client,
        "ALTER TABLE t ADD UNIQUE USING INDEX nothing",
        "42704",
        "nothing",
    );
}

#[test]
fn the_names_of_indexes_are_unique_in_their_schema() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE a (x int, y text); CREATE TABLE b (x int); CREATE SCHEMA s; CREATE TABLE s.a (x int)",
    );
    client.execute("CREATE INDEX ON a (x); CREATE INDEX ON a (x); CREATE UNIQUE INDEX CONCURRENTLY i ON a USING btree (x DESC, y text_pattern_ops)");
    refused(
        &client,
        "CREATE INDEX i ON b (x)",
        "42P07",
        "relation \"i\" already exists",
    );
    refused(
        &client,
        "CREATE INDEX a ON b (x)",
        "42P07",
        "relation \"a\" already exists",
    );
    refused(
        &client,
        "CREATE TABLE i (x int)",
        "42P07",
        "relation \"i\" already exists",
    );
    client.execute("CREATE INDEX IF NOT EXISTS i ON b (x); CREATE INDEX i ON s.a (x)");
    refused(&client, "CREATE INDEX ON a (nothing)", "42703", "nothing");
    refused(&client, "CREATE INDEX ON a (lower(y))", "0A000", "expression");
    refused(&client, "CREATE INDEX ON a (x) WHERE x > 1", "0A000", "WHERE");
    refused(&client, "CREATE INDEX ON a USING gin (y)", "0A000", "gin");
    client.execute("INSERT INTO a VALUES (1, 'y')");
    refused(&client, "INSERT INTO a VALUES (1, 'y')", "23505", "\"i\"");
    client.execute("ALTER INDEX i RENAME TO j");
    refused(&client, "INSERT INTO a VALUES (1, 'y')", "23505", "\"j\"");
    client.execute("DROP INDEX j, a_x_idx, a_x_idx1");
    client.execute("INSERT INTO a VALUES (1, 'y'); DROP INDEX IF EXISTS j; DROP INDEX s.i");
    refused(&client, "DROP INDEX j", "42704", "index \"j\" does not exist");
    refused(&client, "DROP INDEX a", "42809", "\"a\" is not an index");
    refused(&client, "DROP TABLE a_x_idx", "42P01", "a_x_idx");
}

#[test]
fn schemas_hold_tables_of_one_name() {
    let server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE SCHEMA s; CREATE TABLE s.t (a int); CREATE TABLE t (a int); INSERT INTO s.t VALUES (1)",
    );
    assert_eq!(client.one("SELECT count(*) FROM t"), "0");
    refused(&client, "CREATE SCHEMA s", "42P06", "schema \"s\" already exists");
    client.execute("CREATE SCHEMA IF NOT EXISTS s");
    refused(
        &client,
        "CREATE SCHEMA pg_mine",
        "42939",
        "unacceptable schema name",
    );
    refused(
        &client,
        "CREATE SCHEMA corun",
        "42939",
        "unacceptable schema name",
    );
    client.execute("SET search_path = s, public; CREATE TABLE here (a int); RESET search_path");
    assert_eq!(client.one("SELECT count(*) FROM s.here"), "0");
    refused(&client, "DROP SCHEMA s", "2BP01", "cannot drop schema s");
    client.execute("CREATE SEQUENCE s.q; DROP SCHEMA s CASCADE");
    refused(&client, "SELECT * FROM s.t", "42P01", "t");
    refused(&client, "DROP SCHEMA s", "3F000", "schema \"s\" does not exist");
    client.execute("DROP SCHEMA IF EXISTS s");
    client.execute("CREATE SCHEMA s");
    client.execute("BEGIN; CREATE SEQUENCE s.q; DROP SCHEMA s CASCADE; ROLLBACK");
    client.execute("CREATE TABLE s.t (a int)");
}

#[test]
fn a_transaction_takes_its_definitions_along() {
    let server = Server::start();
    let (client, other) = (server.client(), server.client());
    client.execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)");
    client.execute(
        "BEGIN; CREATE TABLE u (id serial PRIMARY KEY, b varchar(3) DEFAULT 'x'); INSERT INTO u DEFAULT VALUES; \
         ALTER TABLE t ADD b text DEFAULT 'there'; UPDATE t SET a = 2",
    );
    assert_eq!(client.one("SELECT * FROM u"), "1|x");
    assert_eq!(client.one("SELECT * FROM t"), "2|there");
    refused(&other, "SELECT * FROM u", "42P01", "u");
    assert_eq!(other.one("SELECT * FROM t"), "1");
    client.execute("ROLLBACK");
    assert_eq!(client.one("SELECT * FROM t"), "1");
    refused(&client, "SELECT * FROM u", "42P01", "u");
    refused(&client, "SELECT nextval('u_id_seq')", "42P01", "u_id_seq");
    client.execute("BEGIN; DROP TABLE t; CREATE TABLE t (z text); INSERT INTO t VALUES ('new'); COMMIT");
    assert_eq!(other.one("SELECT * FROM t"), "new");
    client.execute("BEGIN; CREATE TABLE k (a int); SAVEPOINT s; DROP TABLE k; ROLLBACK TO s; INSERT INTO k VALUES (1); COMMIT");
    assert_eq!(other.one("SELECT * FROM k"), "1");
    // What fails leaves nothing, although the first statement of the text did not.
    refused(
        &client,
        "CREATE TABLE half (a int); CREATE TABLE half (a int)",
        "42P07",
        "half",
    );
    refused(&client, "SELECT * FROM half", "42P01", "half");
}

#[test]
fn what_the_store_does_not_tell_is_there_after_a_restart() {
    let mut server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY (START WITH 5), name varchar(4), at time, j jsonb DEFAULT '{}'); \
         ALTER TABLE t ADD PRIMARY KEY (id); ALTER TABLE t ADD CHECK (name <> 'no'); COMMENT ON COLUMN t.name IS 'a name'",
    );
    client.execute("INSERT INTO t (name, at) VALUES ('ada', '12:00')");
    drop(client);
    server.restart();
    let client = server.client();
    client.execute("INSERT INTO t (name, at) VALUES ('bob', '13:00')");
    let lines = client.lines("SELECT name, at, j FROM t ORDER BY id");
    assert_eq!(lines, ["ada|12:00:00|{}", "bob|13:00:00|{}"]);
    assert_eq!(client.one("SELECT min(id), count(DISTINCT id) FROM t"), "5|2");
    refused(
        &client,
        "INSERT INTO t (name) VALUES ('toolong')",
        "22001",
        "value too long",
    );
    refused(&client, "INSERT INTO t (id) VALUES (5)", "23505", "t_pkey");
    refused(
        &client,
        "INSERT INTO t (name) VALUES ('no')",
        "23514",
        "t_name_check",
    );
}

#[test]
fn rows_of_a_query_make_a_table() {
    let server = Server::start();
    let client = server.client();
    client.execute("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL)");
    client.execute("CREATE TABLE u AS SELECT a * 2 AS twice, b FROM t");
    assert_eq!(client.lines("SELECT * FROM u ORDER BY twice"), ["2|x", "4|NULL"]);
    client.execute("CREATE TABLE v (p, q) AS SELECT * FROM t WHERE a > 1");
    assert_eq!(client.one("SELECT p, q FROM v"), "2|NULL");
}

#[test]
fn a_dump_of_postgresql_is_taken() {
    let server = Server::start();
    let client = server.client();
    // As pg_dump writes it.
    client.execute(
        "CREATE TABLE public.t (id integer NOT NULL, name character varying(20) DEFAULT 'x'::character varying); \
         ALTER TABLE public.t OWNER TO postgres; \
         COMMENT ON TABLE public.t IS 'a table'; \
         CREATE SEQUENCE public.t_id_seq AS integer START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1; \
         ALTER SEQUENCE public.t_id_seq OWNER TO postgres; \
         ALTER SEQUENCE public.t_id_seq OWNED BY public.t.id; \
         CREATE TABLE public.u (id bigint NOT NULL, t_id integer); \
         ALTER TABLE public.u ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY ( SEQUENCE NAME public.u_id_seq START WITH 1 \
         INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1 ); \
         ALTER TABLE ONLY public.t ALTER COLUMN id SET DEFAULT nextval('public.t_id_seq'::regclass)",
    );
    client
        .copy_in("COPY public.t (id, name) FROM stdin", b"1\tone\n2\ttwo\n")
        .expect("rows");
    client.execute(
        "SELECT pg_catalog.setval('public.t_id_seq', 2, true); SELECT pg_catalog.setval('public.u_id_seq', 1, false); \
         ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (id); \
         ALTER TABLE ONLY public.u ADD CONSTRAINT u_pkey PRIMARY KEY (id); \
         CREATE INDEX t_name_idx ON public.t USING btree (name); \
         ALTER TABLE ONLY public.u ADD CONSTRAINT u_t_id_fkey FOREIGN KEY (t_id) REFERENCES public.t(id) ON DELETE CASCADE",
    );
    client.execute("INSERT INTO t DEFAULT VALUES; INSERT INTO u (t_id) VALUES (3)");
    assert_eq!(
        client.lines("SELECT t.id, name, u.id FROM t LEFT JOIN u ON t_id = t.id ORDER BY 1"),
        ["1|one|NULL", "2|two|NULL", "3|x|1",]
    );
}

#[test]
fn pgbench_defines_its_tables() {
    let server = Server::start();
    let client = server.client();
    client
        .execute("drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers");
    client.execute(
        "create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))",
    );
    client.execute("create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)");
    client.execute(
        "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)",
    );
    client.execute("begin; truncate pgbench_accounts, pgbench_branches, pgbench_history; commit");
    client.execute("insert into pgbench_branches(bid,bbalance) values(1,0); insert into pgbench_accounts values (1, 1, 0, '')");
    client.execute("vacuum analyze pgbench_branches");
    client.execute("alter table pgbench_branches add primary key (bid)");
    client.execute("alter table pgbench_accounts add primary key (aid)");
    client.execute("alter table pgbench_accounts add constraint pgbench_accounts_bid_fkey foreign key (bid) references pgbench_branches");
    refused(
        &client,
        "insert into pgbench_accounts values (1, 1, 0, '')",
        "23505",
        "pgbench_accounts_pkey",
    );
}

/// Comments on constraints and indexes move with their names, and go with what they are about.
#[test]
fn comments_stay_with_constraints_and_indexes() {
    let mut server = Server::start();
    let client = server.client();
    client.execute(
        "CREATE TABLE t (a int, b int CONSTRAINT c CHECK (b > 0), CONSTRAINT u UNIQUE (a)); CREATE INDEX i ON t (b);
         COMMENT ON CONSTRAINT c ON t IS 'one'; COMMENT ON CONSTRAINT u ON public.t IS E'two\\n';
         COMMENT ON INDEX i IS 'three'; COMMENT ON COLUMN t.a IS 'a column''s'",
    );
    refused(
        &client,
        "COMMENT ON CONSTRAINT x ON t IS 'no'",
        "42704",
        "constraint \"x\" for table \"t\" does not exist",
    );
    refused(
        &client,
        "COMMENT ON CONSTRAINT c ON s IS 'no'",
        "42P01",
        "relation \"s\" does not exist",
    );
    refused(
        &client,
        "COMMENT ON CONSTRAINT c ON t 'no'",
        "42601",
        "syntax error at or near",
    );
    refused(
        &client,
        "COMMENT IF EXISTS ON COLUMN t.a IS 'no'",
        "42601",
        "syntax error at or near \"IF\"",
    );
    let all = "SELECT description FROM pg_description WHERE objoid >= 16384 ORDER BY 1";
    assert_eq!(client.lines(all), ["a column's", "one", "three", "two\n"]);
    drop(client);
    server.restart();
    let client = server.client();
    client.execute(
        "ALTER TABLE t RENAME CONSTRAINT c TO d; ALTER TABLE t RENAME CONSTRAINT u TO v; ALTER INDEX i RENAME TO k",
    );
    assert_eq!(client.lines(all), ["a column's", "one", "three", "two\n"]);
    let named = "SELECT conname, obj_description(oid, 'pg_constraint') FROM pg_constraint ORDER BY 1";
    assert_eq!(client.lines(named), ["d|one", "v|two\n"]);
    client.execute("ALTER TABLE t DROP CONSTRAINT d; ALTER TABLE t DROP CONSTRAINT v; DROP INDEX k");
    client.execute("ALTER TABLE t ADD CONSTRAINT d CHECK (b > 1); CREATE INDEX k ON t (a)");
    assert_eq!(client.lines(all), ["a column's"]);
}
