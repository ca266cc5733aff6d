//! Functions about the session and about objects, and what depends on the session.

use super::server;

#[tokio::test]
async fn functions_tell_of_the_session() {
    let server = server();
    let sql = "select current_database(), current_schema(), current_user, session_user, pg_backend_pid(), version()";
    assert_eq!(
        server.rows(sql).await,
        ["corun|public|ada|ada|4711|PostgreSQL 15.0 (corun)"]
    );
    assert_eq!(
        server.rows("select current_schemas(true)").await,
        ["[pg_catalog, public]"]
    );
    assert_eq!(
        server
            .rows("select pg_catalog.current_setting('server_version')")
            .await,
        ["15.0"]
    );
    assert_eq!(
        server.rows("select current_setting('no.such', true)").await,
        ["NULL"]
    );
    assert!(server.run("select current_setting('no.such')").await.is_err());
    assert_eq!(
        server
            .rows("select set_config('search_path', 'sales', false)")
            .await,
        ["sales"]
    );
    assert_eq!(server.rows("select current_schema()").await, ["sales"]);
    assert!(
        server
            .run("select set_config('nonsense', '1', false)")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn relations_have_numbers_that_stay() {
    let server = server();
    let number = server
        .rows("select oid from pg_class where relname = 'orders'")
        .await;
    assert_eq!(server.rows("select 'public.orders'::regclass::oid").await, number);
    assert_eq!(server.rows("select to_regclass('orders')").await, number);
    assert_eq!(server.rows("select to_regclass('none')").await, ["NULL"]);
    assert!(server.run("select 'public.none'::regclass").await.is_err());
    let shown = server
        .rows("select oid::regclass from pg_class where relname in ('orders', 'q1') order by relname")
        .await;
    assert_eq!(shown, ["orders", "sales.q1"]);
    let again = super::server();
    let visible =
        "select relname, pg_table_is_visible(oid) from pg_class where relname in ('orders', 'q1') order by 1";
    assert_eq!(again.rows(visible).await, ["orders|true", "q1|false"]);
    assert_eq!(
        again
            .rows("select oid from pg_class where relname = 'orders'")
            .await,
        number
    );
}

#[tokio::test]
async fn relations_have_numbers_before_anybody_lists_them() {
    let server = server();
    let file = server.folder.path().join("sales/fresh.csv");
    std::fs::write(&file, "a\n1\n").unwrap();
    let number = server.rows("select to_regclass('sales.fresh')").await;
    assert_ne!(number, ["NULL"]);
    assert_eq!(server.rows("select 'sales.fresh'::regclass::oid").await, number);
    assert_eq!(server.rows("select to_regclass('pg_class')").await, ["1259"]);
    assert_eq!(server.rows("select to_regclass('\"PG_CLASS\"')").await, ["NULL"]);
    assert_eq!(server.rows("select to_regclass('fresh')").await, ["NULL"]);
    server
        .rows("select set_config('search_path', 'sales', false)")
        .await;
    assert_eq!(server.rows("select to_regclass('fresh')").await, number);
    assert_eq!(server.rows("select 'fresh'::regclass::oid").await, number);
    let listed = "select oid from pg_class where relname = 'fresh'";
    assert_eq!(server.rows(listed).await, number);
    // Gone with its file, although it has been listed.
    std::fs::remove_file(&file).unwrap();
    let began = std::time::Instant::now();
    while server.rows("select to_regclass('sales.fresh')").await != ["NULL"] {
        assert!(began.elapsed().as_secs() < 60, "it stays");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(server.run("select 'sales.fresh'::regclass").await.is_err());
}

#[tokio::test]
async fn objects_of_json_are_json() {
    let server = server();
    let sql = "select json_build_object('a \"key\"', 'two\nlines, \"quoted\" \\', 'number', 1.5, 'nan', 'NaN'::float8, \
               'truth', true, 'json', '{\"x\": [1, null]}'::json, 'jsonb', '[\"y\"]'::jsonb, \
               'object', json_build_object('within', 7), 'date', date '2024-01-02', 'nothing', null)";
    let rows = server.rows(sql).await;
    let found: serde_json::Value =
        serde_json::from_str(&rows[0]).unwrap_or_else(|error| panic!("{error}: {rows:?}"));
    let expected = serde_json::json!({
        "a \"key\"": "two\nlines, \"quoted\" \\",
        "number": 1.5,
        "nan": "NaN",
        "truth": true,
        "json": {"x": [1, null]},
        "jsonb": ["y"],
        "object": {"within": 7},
        "date": "2024-01-02",
        "nothing": null,
    });
    assert_eq!(found, expected);
    // Of rows, too, and by PostgreSQL's spaces.
    assert_eq!(
        server
            .rows("select json_build_object('a', a, 'b', b) from sales.q1")
            .await,
        ["{\"a\" : 1, \"b\" : \"x\"}"]
    );
}

#[tokio::test]
async fn names_of_system_tables_may_be_a_statement_s_own() {
    let server = server();
    for (sql, answer) in [
        ("with pg_user as (select 1 as x) select x from pg_user", "1"),
        (
            "with pg_user as (select 2 as x) select (select max(x) from pg_user) from (select x from pg_user) s",
            "2",
        ),
        (
            "with pg_user as (select count(*) >= 0 as x from pg_user) select x from pg_user",
            "true",
        ),
        (
            "with pg_user as (select 3 as x) select x, c.relname from pg_user, pg_class c where c.relname = 'q1'",
            "3|q1",
        ),
    ] {
        assert_eq!(server.rows(sql).await, [answer], "{sql}");
    }
    let error = server.run("select * from \"PG_USER\"").await.unwrap_err();
    assert!(error.contains("PG_USER"), "{error}");
}

#[tokio::test]
async fn keys_and_indexes_are_described() {
    let server = server();
    let indexes = "select indexname, indexdef from pg_indexes order by 1";
    assert_eq!(
        server.rows(indexes).await,
        [
            "by_name|CREATE INDEX by_name ON public.orders USING btree (name)",
            "orders_pkey|CREATE UNIQUE INDEX orders_pkey ON public.orders USING btree (id)",
        ]
    );
    let constraint = "select conname, pg_get_constraintdef(oid), conrelid::regclass from pg_constraint";
    assert_eq!(
        server.rows(constraint).await,
        ["orders_pkey|PRIMARY KEY (id)|orders"]
    );
    let column = "select pg_get_indexdef(indexrelid, 1, true) from pg_index where not indisprimary";
    assert_eq!(server.rows(column).await, ["name"]);
    let usage =
        "select constraint_name, column_name, ordinal_position from information_schema.key_column_usage";
    assert_eq!(server.rows(usage).await, ["orders_pkey|id|1"]);
}

#[tokio::test]
async fn information_schema_has_postgresql_s_columns() {
    let server = server();
    let sql = "select table_catalog, table_name, table_type from information_schema.tables where table_schema = 'sales'";
    assert_eq!(server.rows(sql).await, ["corun|q1|BASE TABLE"]);
    let sql = "select column_name, data_type, udt_name, is_nullable, numeric_precision from information_schema.columns \
               where table_name = 'orders' order by ordinal_position";
    assert_eq!(
        server.rows(sql).await,
        [
            "id|bigint|int8|NO|64",
            "name|text|text|NO|NULL",
            "price|double precision|float8|YES|53"
        ]
    );
    let sql = "select schema_name from information_schema.schemata order by 1";
    assert_eq!(
        server.rows(sql).await,
        ["information_schema", "pg_catalog", "public", "sales"]
    );
    // DataFusion's own statements go on to work.
    assert_eq!(server.rows("show datafusion.execution.batch_size").await.len(), 1);
    assert!(!server.rows("show tables").await.is_empty());
}

#[tokio::test]
async fn sessions_and_rights_come_from_the_facts() {
    let server = server();
    let activity = "select pid, usename, state, query from pg_stat_activity";
    assert_eq!(server.rows(activity).await, ["4711|ada|active|select 1"]);
    let sql = "select has_table_privilege('bob', 'public.orders', 'SELECT'), has_table_privilege('bob', 'sales.q1', 'SELECT')";
    assert_eq!(server.rows(sql).await, ["true|false"]);
    assert_eq!(server.rows("select count(*) from pg_locks").await, ["0"]);
}

#[tokio::test]
async fn statements_of_users_are_left_alone() {
    let server = server();
    let sql = "select a, (select max(b) from sales.q1 i where i.a = o.a) from sales.q1 o";
    assert_eq!(server.rows(sql).await, ["1|x"]);
}
