//! System tables of a store: psql and the queries of libraries, beside a real PostgreSQL with the same tables; `pg_dump`; rights of users who
//! write.
//!
//! Where PostgreSQL is not installed, the tests beside it say so and do nothing.

use super::harness::{Client, Server};
use super::postgres::Postgres;
use corun_server::users::{LiveUsers, UserTable};
use std::sync::Arc;

/// What is made on both sides.
const TABLES: &str = "
CREATE SCHEMA sales;
CREATE TABLE customer (
    id serial PRIMARY KEY,
    name varchar(40) NOT NULL,
    email text UNIQUE,
    code char(3) DEFAULT 'abc',
    active boolean NOT NULL DEFAULT true,
    since timestamp with time zone DEFAULT now(),
    born date,
    balance numeric(12,2) NOT NULL DEFAULT 0,
    note text DEFAULT 'it''s',
    CONSTRAINT customer_balance_check CHECK (balance >= 0)
);
CREATE TABLE \"order\" (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customer (id) ON DELETE CASCADE,
    status varchar(10) DEFAULT 'new',
    qty smallint DEFAULT 1,
    price double precision,
    CONSTRAINT order_qty_check CHECK (qty > 0 AND (price IS NULL OR price >= 0))
);
CREATE INDEX order_customer_id_idx ON \"order\" (customer_id);
CREATE UNIQUE INDEX order_status_qty_idx ON \"order\" (status, qty);
CREATE TABLE sales.visit (
    customer_id integer NOT NULL,
    day date NOT NULL,
    customer_ref integer,
    data jsonb,
    tag uuid,
    PRIMARY KEY (customer_id, day),
    CONSTRAINT visit_customer_fk FOREIGN KEY (customer_ref) REFERENCES customer (id) ON DELETE SET NULL ON UPDATE CASCADE
        DEFERRABLE INITIALLY DEFERRED
);
CREATE SEQUENCE counter INCREMENT BY 5 START WITH 10;
CREATE INDEX visit_day_idx ON sales.visit (day, customer_id);
COMMENT ON CONSTRAINT customer_balance_check ON customer IS 'it''s never below 0';
COMMENT ON CONSTRAINT visit_customer_fk ON sales.visit IS 'who came';
COMMENT ON CONSTRAINT order_pkey ON \"order\" IS 'the key';
COMMENT ON CONSTRAINT order_qty_check ON \"order\" IS 'gone';
COMMENT ON CONSTRAINT order_qty_check ON \"order\" IS NULL;
COMMENT ON INDEX order_customer_id_idx IS 'for customers';
";

/// A server with the tables.
fn shop() -> Server {
    let server = Server::start();
    server.client().execute(TABLES);
    server
}

#[test]
fn psql_shows_what_it_shows_of_postgresql() {
    let Some(postgres) = Postgres::start() else {
        return;
    };
    postgres.create("shop");
    let made = postgres.client("shop").query(TABLES).expect("an answer");
    assert_eq!(made.error, None);
    let server = shop();
    let commands = [
        "\\d",
        "\\dt",
        "\\di",
        "\\ds",
        "\\d customer",
        "\\d \"order\"",
        "\\d sales.visit",
        "\\dt sales.*",
        "\\di *.*_pkey",
        "\\d counter",
        "\\d customer_id_seq",
        "\\d order_id_seq",
        "SELECT table_schema, table_name, table_type, is_insertable_into FROM information_schema.tables \
         WHERE table_schema IN ('public', 'sales') ORDER BY 1, 2",
        "SELECT table_name, column_name, ordinal_position, column_default, is_nullable, data_type, character_maximum_length, \
         character_octet_length, numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_name, is_identity, \
         identity_generation, identity_start, identity_increment, identity_maximum, identity_minimum, identity_cycle, is_generated, \
         is_updatable FROM information_schema.columns WHERE table_schema IN ('public', 'sales') ORDER BY 1, 3",
        "SELECT constraint_schema, constraint_name, table_name, constraint_type, is_deferrable, initially_deferred \
         FROM information_schema.table_constraints WHERE table_schema IN ('public', 'sales') AND constraint_name NOT LIKE '%not_null' \
         ORDER BY 1, 2",
        "SELECT count(*) FROM information_schema.check_constraints WHERE constraint_name LIKE '%not_null' \
         AND constraint_schema IN ('public', 'sales')",
        "SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'public' \
         AND constraint_name NOT LIKE '%not_null' ORDER BY 1",
        "SELECT constraint_name, table_name, column_name, ordinal_position, position_in_unique_constraint \
         FROM information_schema.key_column_usage WHERE table_schema IN ('public', 'sales') ORDER BY 1, 4",
        "SELECT constraint_name, table_name, column_name FROM information_schema.constraint_column_usage \
         WHERE table_schema IN ('public', 'sales') ORDER BY 1, 2, 3",
        "SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule \
         FROM information_schema.referential_constraints ORDER BY 1",
        "SELECT sequence_schema, sequence_name, data_type, numeric_precision, start_value, minimum_value, maximum_value, increment, \
         cycle_option FROM information_schema.sequences WHERE sequence_name <> 'order_id_seq' ORDER BY 2",
        "SELECT schemaname, tablename, hasindexes FROM pg_tables WHERE schemaname IN ('public', 'sales') ORDER BY 1, 2",
        "SELECT schemaname, tablename, indexname, indexdef FROM pg_indexes WHERE schemaname IN ('public', 'sales') ORDER BY 1, 3",
        "SELECT c.relname, a.attname, a.atttypid, a.attlen, a.attnum, a.atttypmod, a.attndims, a.attbyval, a.attalign, a.attstorage, \
         a.attnotnull, a.atthasdef, a.attidentity, a.attcollation FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
         WHERE c.relname IN ('customer', 'order', 'visit') AND a.attnum > 0 ORDER BY 1, a.attnum",
        "SELECT conname, contype, condeferrable, condeferred, conrelid::regclass, confrelid::regclass, confupdtype, confdeltype, \
         conkey, confkey, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace \
         WHERE nspname IN ('public', 'sales') ORDER BY conname",
        "SELECT c.relname, c.relkind, c.relnatts, c.relchecks, c.relhasindex, c.relhastriggers FROM pg_class c \
         WHERE c.relname IN ('customer', 'order', 'visit', 'counter', 'customer_pkey') ORDER BY 1",
        "SELECT s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcycle, s.seqtypid FROM pg_sequence s \
         JOIN pg_class c ON c.oid = s.seqrelid ORDER BY c.relname",
        "SELECT pg_get_serial_sequence('customer', 'id'), pg_get_serial_sequence('\"order\"', 'id')",
        "SELECT to_regclass('counter') IS NULL, to_regclass('customer_pkey') IS NULL, to_regclass('no.such') IS NULL, \
         'sales.visit'::regclass::oid > 0",
        "SELECT c.relname, i.indkey, i.indoption, 2 = ANY(i.indkey) FROM pg_index i \
         JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE nspname IN ('public', 'sales') ORDER BY 1",
        "SELECT o.conname, d.objsubid, d.description, obj_description(o.oid, 'pg_constraint') FROM pg_constraint o \
         JOIN pg_description d ON d.objoid = o.oid AND d.classoid = 'pg_constraint'::regclass ORDER BY 1",
        "SELECT c.relname, d.objsubid, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid \
         WHERE c.relname LIKE 'order%' ORDER BY 1",
        "SELECT format_type(1043, 14), format_type(1700, 655366), format_type(1042, -1), format_type(1009, NULL)",
    ];
    shows_the_same(&postgres, "shop", &server, &commands);
}

/// Whether psql shows the same of both sides for each of these.
pub(super) fn shows_the_same(postgres: &Postgres, database: &str, server: &Server, commands: &[&str]) {
    let mut wrong = Vec::new();
    for command in commands {
        let there = postgres
            .program("psql", database, &["-X", "-c", command])
            .expect();
        let here = server.psql(&["-c", command]);
        if !here.success || here.out != there || !here.err.is_empty() {
            wrong.push(format!(
                "{command}\n--- PostgreSQL\n{there}\n--- here\n{}\n{}",
                here.out, here.err
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// Without a PostgreSQL, too.
#[test]
fn psql_describes_a_table() {
    let server = shop();
    let shown = server.psql(&["-c", "\\d \"order\""]).expect();
    for line in [
        " id          | bigint                |           | not null | generated always as identity\n",
        " status      | character varying(10) |           |          | 'new'::character varying\n",
        "    \"order_pkey\" PRIMARY KEY, btree (id)\n",
        "    \"order_customer_id_idx\" btree (customer_id)\n",
        "    \"order_qty_check\" CHECK (qty > 0 AND (price IS NULL OR price >= 0::double precision))\n",
        "    \"order_customer_id_fkey\" FOREIGN KEY (customer_id) REFERENCES customer(id) ON DELETE CASCADE\n",
    ] {
        assert!(shown.contains(line), "{line}{shown}");
    }
    // The dictionary and what statements are planned with are nobody's.
    let client = server.client();
    let hidden = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'corun' \
                  OR c.relname LIKE E'\\u0001%'";
    assert_eq!(client.one(hidden), "0");
    assert_eq!(
        client.one("SELECT count(*) FROM pg_namespace WHERE nspname = 'corun'"),
        "0"
    );
    assert_eq!(
        client.one("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'corun'"),
        "0"
    );
}

/// What a transaction has defined it sees, and nobody else.
#[test]
fn definitions_are_seen_by_their_transaction() {
    let server = shop();
    let (one, other) = (server.client(), server.client());
    let count =
        "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = 'fresh'";
    one.execute("BEGIN; CREATE TABLE fresh (a int, b text)");
    assert_eq!(
        (one.one(count), other.one(count)),
        ("2".to_owned(), "0".to_owned())
    );
    one.execute("ROLLBACK");
    assert_eq!(one.one(count), "0");
    one.execute("CREATE TABLE fresh (a int PRIMARY KEY)");
    assert_eq!(other.one("SELECT 'fresh'::regclass::oid > 0"), "t");
    one.execute(
        "ALTER TABLE fresh ADD COLUMN b varchar(7) NOT NULL DEFAULT 'x'; COMMENT ON COLUMN fresh.b IS 'of b'",
    );
    let shown = "SELECT format_type(atttypid, atttypmod), attnotnull, col_description(attrelid, attnum) FROM pg_attribute \
                 WHERE attrelid = 'fresh'::regclass AND attname = 'b'";
    assert_eq!(other.lines(shown), ["character varying(7)|t|of b"]);
    one.execute("DROP TABLE fresh");
    assert_eq!(other.one("SELECT to_regclass('fresh') IS NULL"), "t");
}

/// What Django and SQLAlchemy ask of foreign keys, sequences and identity columns.
#[test]
fn libraries_find_keys_and_sequences() {
    let server = shop();
    let client = server.client();
    let relations = "SELECT a1.attname, c2.relname, a2.attname FROM pg_constraint con \
        LEFT JOIN pg_class c1 ON con.conrelid = c1.oid LEFT JOIN pg_class c2 ON con.confrelid = c2.oid \
        LEFT JOIN pg_attribute a1 ON c1.oid = a1.attrelid AND a1.attnum = con.conkey[1] \
        LEFT JOIN pg_attribute a2 ON c2.oid = a2.attrelid AND a2.attnum = con.confkey[1] \
        WHERE c1.relname = 'order' AND con.contype = 'f' AND c1.relnamespace = c2.relnamespace \
        AND pg_catalog.pg_table_is_visible(c1.oid)";
    assert_eq!(client.lines(relations), ["customer_id|customer|id"]);
    let constraints = "SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY cols(colid, arridx) \
        JOIN pg_attribute AS ca ON cols.colid = ca.attnum WHERE ca.attrelid = c.conrelid ORDER BY cols.arridx), c.contype, \
        (SELECT fkc.relname || '.' || fka.attname FROM pg_attribute AS fka JOIN pg_class AS fkc ON fka.attrelid = fkc.oid \
        WHERE fka.attrelid = c.confrelid AND fka.attnum = c.confkey[1]), cl.reloptions \
        FROM pg_constraint AS c JOIN pg_class AS cl ON c.conrelid = cl.oid \
        WHERE cl.relname = 'order' AND pg_catalog.pg_table_is_visible(cl.oid) ORDER BY 1";
    assert_eq!(
        client.lines(constraints),
        [
            "order_customer_id_fkey|{customer_id}|f|customer.id|NULL",
            "order_pkey|{id}|p|NULL|NULL",
            "order_qty_check|{qty,price}|c|NULL|NULL",
        ]
    );
    let sequences = "SELECT s.relname AS sequence_name, a.attname AS colname FROM pg_class s \
        JOIN pg_depend d ON d.objid = s.oid AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass \
        JOIN pg_attribute a ON d.refobjid = a.attrelid AND d.refobjsubid = a.attnum \
        JOIN pg_class tbl ON tbl.oid = d.refobjid AND tbl.relname = 'customer' AND pg_catalog.pg_table_is_visible(tbl.oid) \
        WHERE s.relkind = 'S'";
    assert_eq!(client.lines(sequences), ["customer_id_seq|id"]);
    let options = "SELECT CASE WHEN (pg_catalog.pg_attribute.attidentity != '') THEN (SELECT json_build_object('always', \
        pg_catalog.pg_attribute.attidentity = 'a', 'start', pg_catalog.pg_sequence.seqstart) FROM pg_catalog.pg_sequence \
        WHERE pg_catalog.pg_attribute.attidentity != '' AND pg_catalog.pg_sequence.seqrelid = CAST(CAST( \
        pg_catalog.pg_get_serial_sequence(CAST(CAST(pg_catalog.pg_attribute.attrelid AS REGCLASS) AS TEXT), \
        pg_catalog.pg_attribute.attname) AS REGCLASS) AS OID)) ELSE NULL END AS identity_options \
        FROM pg_catalog.pg_class LEFT OUTER JOIN pg_catalog.pg_attribute ON pg_catalog.pg_class.oid = pg_catalog.pg_attribute.attrelid \
        WHERE pg_catalog.pg_class.relname = 'order' AND pg_catalog.pg_attribute.attnum <= 2 ORDER BY pg_catalog.pg_attribute.attnum";
    assert_eq!(
        client.lines(options),
        [
            r#"{"always" : true, "start" : 1, "increment" : 1, "minvalue" : 1, "maxvalue" : 9223372036854775807, "cache" : 1, "cycle" : false}"#,
            "NULL"
        ]
    );
    let identity = "SELECT attname, attidentity FROM pg_attribute WHERE attrelid = '\"order\"'::regclass AND attidentity <> ''";
    assert_eq!(client.lines(identity), ["id|a"]);
    client.execute("SELECT nextval('counter'::regclass)");
    assert_eq!(
        client.lines("SELECT last_value, increment_by FROM pg_sequences WHERE sequencename = 'counter'"),
        ["10|5"]
    );
}

const USERS: &str = "[user.root]\nsuperuser = true\n[user.eve]\n[user.ann]\n[role.writer]\n";

/// A server with users who log in without a password, and what logs them in.
fn with_users() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("users.toml");
    std::fs::write(&path, USERS).expect("written");
    let users = LiveUsers::new(UserTable::load(&path).expect("right"), Some(path));
    let server = Server::with(|config| config.rights = Arc::new(users));
    (server, folder)
}

fn client_of(server: &Server, user: &str) -> Client {
    Client::connect(&format!(
        "host=127.0.0.1 port={} user={user} dbname=shop",
        server.port()
    ))
}

#[test]
fn who_was_not_granted_it_does_not_write() {
    let (server, _folder) = with_users();
    let (root, eve) = (client_of(&server, "root"), client_of(&server, "eve"));
    root.execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1), (2, 2)");
    let denied = |sql: &str, what: &str| {
        let (code, message) = eve.error(sql);
        assert_eq!((code.as_str(), message.as_str()), ("42501", what), "{sql}");
    };
    let all = [
        "INSERT INTO t VALUES (3, 3)",
        "UPDATE t SET n = 5 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "TRUNCATE t",
    ];
    for sql in all {
        denied(sql, "permission denied for table t");
    }
    denied("CREATE TABLE u (a int)", "permission denied for schema public");
    denied("DROP TABLE t", "must be owner of table t");
    denied("ALTER TABLE t ADD COLUMN m int", "must be owner of table t");
    denied("CREATE INDEX ON t (n)", "must be owner of table t");
    denied("COPY t FROM STDIN", "permission denied for table t");
    // One by one, and in force at once.
    root.execute("GRANT SELECT, INSERT ON t TO eve");
    assert_eq!(eve.execute(all[0]), 1);
    for sql in &all[1..] {
        denied(sql, "permission denied for table t");
    }
    root.execute("GRANT UPDATE ON ALL TABLES IN SCHEMA public TO writer; GRANT writer TO eve; GRANT DELETE ON TABLE t TO writer");
    assert_eq!((eve.execute(all[1]), eve.execute(all[2])), (1, 1));
    denied(all[3], "permission denied for table t");
    let held = "SELECT has_table_privilege('eve', 't', 'INSERT'), has_table_privilege('eve', 't', 'TRUNCATE'), \
                has_table_privilege('eve', 't', 'TRUNCATE, DELETE'), has_table_privilege('ann', 't', 'INSERT'), \
                has_schema_privilege('eve', 'public', 'CREATE')";
    assert_eq!(root.lines(held), ["t|f|t|f|f"]);
    assert_eq!(
        root.one("SELECT relacl FROM pg_class WHERE relname = 't'"),
        "{eve=ar/ada,writer=wd/ada}".replace("/ada", &format!("/{}", owner(&root)))
    );
    let granted = "SELECT grantee, privilege_type FROM information_schema.table_privileges WHERE table_name = 't' ORDER BY 1, 2";
    assert_eq!(
        root.lines(granted),
        ["eve|INSERT", "eve|SELECT", "writer|DELETE", "writer|UPDATE"]
    );
    root.execute("REVOKE ALL ON t FROM eve");
    denied("INSERT INTO t VALUES (9, 9)", "permission denied for table t");
    // Two rows are the same as before.
    assert_eq!(root.one("SELECT count(*) FROM t"), "2");
}

fn owner(client: &Client) -> String {
    client.one("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 't'")
}

#[test]
fn who_may_create_in_a_schema_owns_what_is_in_it() {
    let (server, _folder) = with_users();
    let (root, eve) = (client_of(&server, "root"), client_of(&server, "eve"));
    root.execute("CREATE SCHEMA plans; CREATE TABLE plans.of_root (id int PRIMARY KEY)");
    root.execute("GRANT CREATE, USAGE ON SCHEMA plans TO eve");
    eve.execute("CREATE TABLE plans.own (id serial PRIMARY KEY, n int)");
    eve.execute(
        "INSERT INTO plans.own (n) VALUES (1); ALTER TABLE plans.own ADD COLUMN m int; TRUNCATE plans.own",
    );
    assert_eq!(eve.one("SELECT count(*) FROM plans.own"), "0");
    eve.execute("DROP TABLE plans.own; DROP TABLE plans.of_root");
    assert_eq!(eve.error("CREATE TABLE own (id int)").0, "42501");
    root.execute("REVOKE CREATE ON SCHEMA plans FROM eve");
    assert_eq!(eve.error("CREATE TABLE plans.own (id int)").0, "42501");
}

/// How far `pg_dump` comes is in the manual's page on clients.
#[test]
fn copy_writes_what_pg_dump_would() {
    let server = shop();
    server
        .client()
        .execute("INSERT INTO customer (name, balance, since) VALUES ('a\tb', 1.5, '2024-01-01 00:00:00+00'), ('c', 2, NULL)");
    let shown = server.psql(&["-c", "COPY customer (id, name, balance, since) TO STDOUT"]);
    assert_eq!(
        shown.expect(),
        "1\ta\\tb\t1.50\t2024-01-01 00:00:00+00\n2\tc\t2.00\t\\N\n"
    );
}
