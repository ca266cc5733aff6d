//! The console's rows as messages, and the text of a scrape.

use corun_pooler::admin::{
    Cell, ClientRow, CoreRow, DatabaseRow, HostRow, KeyRow, Latencies, PoolRow, RangeRow, Row, Snapshot,
    SplitRow, Stats, Table, config_rows, database_rows, prometheus, user_row,
};
use corun_pooler::config::Config;
use corun_wire::read;

use crate::common::message::all;

#[test]
fn a_table_becomes_messages() {
    let client = ClientRow {
        r#type: "C".to_owned(),
        user: "alice\0".to_owned(),
        wait_us: 7,
        close_needed: true,
        ..ClientRow::default()
    };
    let mut bytes = Vec::new();
    Table::of(&[client]).encode(&mut bytes, "SHOW");
    let found = all(&bytes);
    let tags: Vec<u8> = found.iter().map(|message| message.tag).collect();
    let expected = [
        corun_wire::backend::ROW_DESCRIPTION,
        corun_wire::backend::DATA_ROW,
        corun_wire::backend::COMMAND_COMPLETE,
    ];
    assert_eq!(tags, expected);
    let values = read::data_row(&found[1].body).expect("a row");
    assert_eq!(values.len(), ClientRow::COLUMNS.len());
    let value = |name: &str| {
        let at = ClientRow::COLUMNS.iter().position(|(column, _)| *column == name);
        values[at.expect(name)]
    };
    assert_eq!(value("type"), Some(&b"C"[..]));
    assert_eq!(value("user"), Some(&b"alice "[..]));
    assert_eq!(value("wait_us"), Some(&b"7"[..]));
    assert_eq!(value("close_needed"), Some(&b"1"[..]));
    assert_eq!(found[2].body, b"SHOW\0");

    // Without rows there are still columns, and what is unknown is null.
    let mut bytes = Vec::new();
    Table::of::<HostRow>(&[]).encode(&mut bytes, "SHOW");
    assert_eq!(all(&bytes).len(), 2);
    let lag = HostRow::COLUMNS.iter().position(|(name, _)| *name == "lag_us");
    assert_eq!(HostRow::default().cells()[lag.expect("there")], Cell::Null);
}

#[test]
fn rows_of_the_configuration() {
    let text = "
        [proxy]
        default_pool_size = 4
        server_fast_close = true
        [databases.shop]
        host = \"a, b\"
        user = \"owner\"
        password = \"hush\"
        [databases.\"*\"]
        [users.alice]
        password = \"hush\"
        pool_size = 3
    ";
    let config = Config::parse(text, "x").expect("fits").config;
    let rows = config_rows(&config);
    let value = |key: &str| {
        let row = rows.iter().find(|row| row.key == key).expect(key);
        (row.value.as_str(), row.default.as_str(), row.changeable.as_str())
    };
    assert_eq!(value("default_pool_size"), ("4", "20", "yes"));
    assert_eq!(value("server_fast_close"), ("1", "0", "yes"));
    assert_eq!(value("listen_port"), ("6432", "6432", "no"));
    assert_eq!(value("cohorts"), ("auto", "auto", "yes"));
    assert!(rows.is_sorted_by(|a, b| a.key < b.key));

    let databases = database_rows(&config);
    let names: Vec<(&str, &str, u64)> = databases
        .iter()
        .map(|row| (row.name.as_str(), row.database.as_str(), row.pool_size))
        .collect();
    assert_eq!(
        names,
        [("*", "", 4), ("shop", "shop", 4), ("pgbouncer", "pgbouncer", 0)]
    );
    assert_eq!(databases[1].host.as_deref(), Some("a, b"));
    assert_eq!(databases[1].load_balance_hosts.as_deref(), Some("round-robin"));
    assert_eq!(databases[1].force_user.as_deref(), Some("owner"));
    let [alice, bob] = ["alice", "bob"].map(|name| user_row(&config, name.to_owned()));
    assert_eq!((alice.name.as_str(), alice.pool_size), ("alice", Some(3)));
    assert_eq!(
        (bob.name.as_str(), bob.pool_size, bob.pool_mode),
        ("bob", None, None)
    );
    assert!(!format!("{rows:?}{databases:?}{alice:?}").contains("hush"));
}

#[test]
fn a_scrape_is_well_formed_and_says_what_the_console_says() {
    let mut latencies = Latencies {
        database: "a\"\\\nb".to_owned(),
        ..Latencies::default()
    };
    for micros in [10, 100, 100, 5_000, 200_000_000] {
        latencies.query.record(micros);
    }
    let snapshot = Snapshot {
        version: "1.2.3".to_owned(),
        clients: 7,
        pools: vec![PoolRow {
            database: "shop".to_owned(),
            user: "alice".to_owned(),
            cl_waiting: 3,
            maxwait: 2,
            maxwait_us: 500_000,
            ..PoolRow::default()
        }],
        databases: vec![DatabaseRow {
            name: "shop".to_owned(),
            paused: true,
            ..DatabaseRow::default()
        }],
        stats: vec![(
            "shop".to_owned(),
            Stats {
                query_count: 12,
                query_time: 1_500_000,
                ..Stats::default()
            },
        )],
        cores: vec![CoreRow {
            core: 1,
            cohort_count: 5,
            ..CoreRow::default()
        }],
        hosts: vec![HostRow {
            database: "shop".to_owned(),
            host: "db1".to_owned(),
            port: 5432,
            role: "replica".to_owned(),
            state: "up".to_owned(),
            lag_us: Some(250_000),
            ..HostRow::default()
        }],
        ranges: vec![RangeRow {
            name: "customer".to_owned(),
            database: "shop".to_owned(),
            worker: 1,
            query_count: 9,
            ..RangeRow::default()
        }],
        keys: vec![KeyRow {
            name: "customer".to_owned(),
            database: "shop".to_owned(),
            overflow_count: 3,
            move_count: 2,
            ..KeyRow::default()
        }],
        splits: [(4, 1), (3, 0)]
            .map(|(split_count, whole_count)| SplitRow {
                name: "best".to_owned(),
                database: "shop".to_owned(),
                split_count,
                whole_count,
                ..SplitRow::default()
            })
            .to_vec(),
        latencies: vec![latencies],
        errors: vec![("08P01".to_owned(), 2)],
        ..Snapshot::default()
    };
    let text = prometheus(&snapshot);
    for line in [
        "corun_info{version=\"1.2.3\"} 1",
        "corun_clients 7",
        "corun_pool_clients{database=\"shop\",user=\"alice\",state=\"waiting\"} 3",
        "corun_pool_max_wait_seconds{database=\"shop\",user=\"alice\"} 2.5",
        "corun_database_paused{database=\"shop\"} 1",
        "corun_queries_total{database=\"shop\"} 12",
        "corun_query_time_seconds_total{database=\"shop\"} 1.5",
        "corun_core_cohort_queries_total{core=\"1\"} 5",
        "corun_host_state{database=\"shop\",host=\"db1\",port=\"5432\",role=\"replica\",state=\"up\"} 1",
        "corun_host_lag_seconds{database=\"shop\",host=\"db1\",port=\"5432\"} 0.25",
        "corun_errors_total{sqlstate=\"08P01\"} 2",
        "corun_range_statements_total{database=\"shop\",range=\"customer\",worker=\"1\"} 9",
        "corun_range_overflow_total{database=\"shop\",range=\"customer\"} 3",
        "corun_range_moves_total{database=\"shop\",range=\"customer\"} 2",
        "corun_split_total{database=\"shop\",split=\"best\",way=\"parts\"} 7",
        "corun_split_total{database=\"shop\",split=\"best\",way=\"whole\"} 1",
        "corun_query_seconds_bucket{database=\"a\\\"\\\\\\nb\",le=\"0.000064\"} 1",
        "corun_query_seconds_bucket{database=\"a\\\"\\\\\\nb\",le=\"0.000128\"} 3",
        "corun_query_seconds_bucket{database=\"a\\\"\\\\\\nb\",le=\"67.108864\"} 4",
        "corun_query_seconds_bucket{database=\"a\\\"\\\\\\nb\",le=\"+Inf\"} 5",
        "corun_query_seconds_count{database=\"a\\\"\\\\\\nb\"} 5",
        "corun_query_seconds_sum{database=\"a\\\"\\\\\\nb\"} 200.00521",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
    }
    assert!(!text.contains("host_lag_bytes"), "unknown is not shown");

    let (families, _) = crate::exposition::read(&text);
    assert!(families.len() > 35, "{} families", families.len());
}
