//! Objects in buckets, over a real connection.

use super::common::{config, numbers, session};
use super::s3::S3;
use super::{rows, run};
use corun_server::data::{Bucket, Data, DataConfig};

fn bucket(name: &str, endpoint: &str, write: bool) -> Bucket {
    Bucket {
        name: name.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        credentials: Some(("key".to_owned(), "secret".to_owned())),
        allow_http: true,
        write,
        ..Bucket::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_configured_buckets_are_read_and_written() {
    let s3 = S3::start().await;
    let folder = tempfile::tempdir().unwrap();
    numbers(&folder.path().join("t.parquet"), "v", &[1, 2, 3]);
    let object = std::fs::read(folder.path().join("t.parquet")).unwrap();
    s3.objects
        .lock()
        .unwrap()
        .insert("lake/in/a.parquet".to_owned(), object.clone());
    s3.objects
        .lock()
        .unwrap()
        .insert("lake/in/b.parquet".to_owned(), object.clone());
    s3.objects
        .lock()
        .unwrap()
        .insert("other/c.parquet".to_owned(), object);
    let data = Data::open(DataConfig {
        buckets: vec![
            bucket("lake", &s3.endpoint, false),
            bucket("results", &s3.endpoint, true),
        ],
        ..config(folder.path())
    })
    .unwrap();
    let context = session(&data);
    assert_eq!(
        rows(&data, &context, "select sum(v) from 's3://lake/in/a.parquet'").await,
        ["6"]
    );
    rows(
        &data,
        &context,
        "create external table both stored as parquet location 's3://lake/in/'",
    )
    .await;
    assert_eq!(rows(&data, &context, "select sum(v) from both").await, ["12"]);
    rows(
        &data,
        &context,
        "copy (select sum(v) as total from both) to 's3://results/total.parquet'",
    )
    .await;
    assert!(s3.objects.lock().unwrap().contains_key("results/total.parquet"));
    assert_eq!(
        rows(&data, &context, "select total from 's3://results/total.parquet'").await,
        ["12"]
    );
    for sql in [
        "select * from 's3://other/c.parquet'",
        "select * from 's3://lake/../other/c.parquet'",
        "select * from 's3://lake/%2e%2e/other/c.parquet'",
        "select * from 's3://user@lake/in/a.parquet'",
        "copy t to 's3://lake/t.parquet'",
    ] {
        let error = run(&data, &context, sql).await.unwrap_err();
        assert!(error.contains("is not in a bucket"), "{sql}: {error}");
    }
}
