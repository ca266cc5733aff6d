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
