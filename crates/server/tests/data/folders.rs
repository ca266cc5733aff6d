//! Which schemas and tables a folder has.

use super::common::{numbers, open, parquet, session};
use super::{rows, run};
use corun_server::data::Data;
use datafusion::prelude::SessionContext;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tpchgen::generators::{NationGenerator, RegionGenerator};
use tpchgen_arrow::{NationArrow, RegionArrow};

async fn tables(data: &Data, context: &SessionContext) -> Vec<String> {
    let catalog = context.catalog("corun").expect("the catalog");
    let mut names = Vec::new();
    for schema in catalog.schema_names() {
        let provider = catalog.schema(&schema).expect("a schema");
        names.extend(
            provider
                .table_names()
                .into_iter()
                .map(|table| format!("{schema}.{table}")),
        );
    }
    _ = data;
    names
}

#[tokio::test]
async fn files_of_different_schemas_are_tables_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let nation: Vec<_> = NationArrow::new(NationGenerator::default())
        .map(Result::unwrap)
        .collect();
    let region: Vec<_> = RegionArrow::new(RegionGenerator::default())
        .map(Result::unwrap)
        .collect();
    parquet(&folder.path().join("tpch/nation.parquet"), &nation);
    parquet(&folder.path().join("tpch/region.parquet"), &region);
    parquet(&folder.path().join("Nation.parquet"), &nation);
    let data = open(folder.path());
    let context = session(&data);
    assert_eq!(
        tables(&data, &context).await,
        ["public.Nation", "tpch.nation", "tpch.region"]
    );
    let joined =
        "select count(*), min(r_name) from tpch.nation join tpch.region on n_regionkey = r_regionkey";
    assert_eq!(rows(&data, &context, joined).await, ["25|AFRICA"]);
    assert_eq!(
        rows(&data, &context, "select count(*) from \"Nation\"").await,
        ["25"]
    );
    assert_eq!(
        rows(&data, &context, "select count(*) from corun.tpch.region").await,
        ["5"]
    );
}

#[tokio::test]
async fn partitioned_folders_are_one_table_with_their_keys_as_columns() {
    let folder = tempfile::tempdir().unwrap();
    for (day, country, value) in [
        ("2024-01-01", "de", 1),
        ("2024-01-02", "de", 2),
        ("2024-01-02", "fr", 3),
    ] {
        let at = format!("events/day={day}/country={country}/part-0.parquet");
        numbers(&folder.path().join(at), "v", &[value]);
    }
    let data = open(folder.path());
    let context = session(&data);
    assert_eq!(tables(&data, &context).await, ["public.events"]);
    let sql = "select v, day, country from events where day > date '2024-01-01' order by v";
    assert_eq!(
        rows(&data, &context, sql).await,
        ["2|2024-01-02|de", "3|2024-01-02|fr"]
    );
    // A partition and a file more are seen at once, although the folder was listed before.
    numbers(
        &folder
            .path()
            .join("events/day=2024-01-03/country=it/part-0.parquet"),
        "v",
        &[4],
    );
    assert_eq!(rows(&data, &context, "select sum(v) from events").await, ["10"]);
}

#[tokio::test]
async fn numbered_parts_and_folders_named_as_files_are_one_table() {
    let folder = tempfile::tempdir().unwrap();
    for part in 0..3 {
        numbers(
            &folder.path().join(format!("log/part-000{part}.parquet")),
            "v",
            &[part],
        );
        numbers(
            &folder.path().join(format!("s/orders.parquet/{part}-x.parquet")),
            "v",
            &[part],
        );
    }
    fs::write(folder.path().join("s/orders.parquet/_SUCCESS"), "").unwrap();
    fs::write(folder.path().join("log/_part.parquet"), "half written").unwrap();
    let data = open(folder.path());
    let context = session(&data);
    // A folder with nothing but a table in it is a schema.
    assert_eq!(tables(&data, &context).await, ["public.log", "s.orders"]);
    assert_eq!(rows(&data, &context, "select sum(v) from log").await, ["3"]);
    assert_eq!(
        rows(&data, &context, "select count(*) from s.orders").await,
        ["3"]
    );
}

#[tokio::test]
async fn parts_that_differ_are_left_out_and_the_reason_is_told() {
    let folder = tempfile::tempdir().unwrap();
    numbers(&folder.path().join("log/part-0.parquet"), "v", &[1]);
    numbers(&folder.path().join("log/part-1.parquet"), "w", &[1]);
    fs::write(folder.path().join("ok.csv"), "a\n1\n").unwrap();
    let data = open(folder.path());
    let context = session(&data);
    let error = run(&data, &context, "select * from log").await.unwrap_err();
    for part in [
        "the files of the table \"log\" differ",
        "part-0.parquet",
        "part-1.parquet",
        "column 1 is \"v\" and \"w\"",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(tables(&data, &context).await, ["public.ok"]);
    assert_eq!(data.left_out().len(), 1);
    // Mended, it is a table again.
    numbers(&folder.path().join("log/part-1.parquet"), "v", &[2]);
    assert_eq!(rows(&data, &context, "select sum(v) from log").await, ["3"]);
}

#[tokio::test]
async fn a_name_of_two_files_is_ambiguous() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.csv"), "a\n1\n").unwrap();
    numbers(&folder.path().join("t.parquet"), "a", &[1]);
    let data = open(folder.path());
    let error = run(&data, &session(&data), "select * from t").await.unwrap_err();
    assert!(
        error.contains("ambiguous") && error.contains("t.csv") && error.contains("t.parquet"),
        "{error}"
    );
}

/// The rows of a query over a file that was just made: a name that is asked for again and again is looked for a few times a second.
async fn rows_soon(data: &Data, context: &SessionContext, sql: &str) -> Vec<String> {
    let began = Instant::now();
    loop {
        match run(data, context, sql).await {
            Ok(rows) => return rows,
            Err(error) => assert!(began.elapsed() < Duration::from_secs(60), "{sql}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn new_changed_and_vanished_files_are_seen() {
    let folder = tempfile::tempdir().unwrap();
    let data = open(folder.path());
    let context = session(&data);
    assert!(run(&data, &context, "select * from t").await.is_err());
    fs::write(folder.path().join("t.csv"), "a\n1\n").unwrap();
    assert_eq!(rows_soon(&data, &context, "select a from t").await, ["1"]);
    // At once.
    fs::write(folder.path().join("t.csv"), "b,c\n10,x\n20,y\n").unwrap();
    assert_eq!(
        rows(&data, &context, "select sum(b), max(c) from t").await,
        ["30|y"]
    );
    fs::remove_file(folder.path().join("t.csv")).unwrap();
    assert!(run(&data, &context, "select * from t").await.is_err());
    fs::create_dir(folder.path().join("later")).unwrap();
    fs::write(folder.path().join("later/u.csv"), "a\n7\n").unwrap();
    assert_eq!(rows_soon(&data, &context, "select a from later.u").await, ["7"]);
}

#[tokio::test]
async fn links_out_of_the_folder_are_no_tables() {
    let outside = tempfile::tempdir().unwrap();
    numbers(&outside.path().join("secret.parquet"), "v", &[42]);
    let folder = tempfile::tempdir().unwrap();
    let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    numbers(&folder.path().join("parts/part-0.parquet"), "v", &[1]);
    link("file.parquet", &outside.path().join("secret.parquet"));
    link("folder", outside.path());
    link("parts/part-1.parquet", &outside.path().join("secret.parquet"));
    // A link that stays inside is a file as any other.
    link("inside.parquet", &folder.path().join("parts/part-0.parquet"));
    let data = open(folder.path());
    let context = session(&data);
    assert_eq!(tables(&data, &context).await, ["public.inside", "public.parts"]);
    assert_eq!(rows(&data, &context, "select sum(v) from parts").await, ["1"]);
    assert_eq!(rows(&data, &context, "select v from inside").await, ["1"]);
    for sql in [
        "select * from file",
        "select * from folder.secret",
        "select * from 'file.parquet'",
    ] {
        let error = run(&data, &context, sql).await.unwrap_err();
        assert!(!error.contains("42"), "{sql}: {error}");
    }
}
