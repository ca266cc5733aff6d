//! No statement reaches a file that it may not.

use super::common::{config, numbers, open, session};
use super::{rows, run, run_with};
use corun_server::data::{Data, DataConfig, DataUser, FileRights};
use std::fs;

struct Setup {
    _outside: tempfile::TempDir,
    folder: tempfile::TempDir,
    extra: tempfile::TempDir,
    out: tempfile::TempDir,
    secret: String,
    data: Data,
}

fn setup() -> Setup {
    let [outside, folder, extra, out] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    numbers(&outside.path().join("secret.parquet"), "v", &[42]);
    numbers(&folder.path().join("t.parquet"), "v", &[1, 2]);
    numbers(&extra.path().join("sub/e.parquet"), "v", &[7]);
    fs::write(extra.path().join("e.csv"), "a;b\n1;2\n").unwrap();
    let data = Data::open(DataConfig {
        allow_read: vec![extra.path().to_owned()],
        allow_write: vec![out.path().to_owned()],
        ..config(folder.path())
    });
    Setup {
        secret: outside.path().join("secret.parquet").display().to_string(),
        _outside: outside,
        data: data.unwrap(),
        folder,
        extra,
        out,
    }
}

#[tokio::test]
async fn files_below_allowed_folders_are_read_by_their_paths() {
    let setup = setup();
    let context = session(&setup.data);
    let absolute = setup.extra.path().join("sub/e.parquet");
    for name in [
        "'sub/e.parquet'",
        "\"sub/e.parquet\"",
        &format!("'{}'", absolute.display()),
    ] {
        let sql = format!("select v from {name}");
        assert_eq!(rows(&setup.data, &context, &sql).await, ["7"], "{name}");
    }
    assert_eq!(
        rows(&setup.data, &context, "select a + b from 'e.csv'").await,
        ["3"]
    );
    let create = "create external table x stored as parquet location 'sub/e.parquet'";
    rows(&setup.data, &context, create).await;
    assert_eq!(rows(&setup.data, &context, "select v from x").await, ["7"]);
    // Another session sees it, too.
    assert_eq!(
        rows(&setup.data, &session(&setup.data), "select v from x").await,
        ["7"]
    );
    rows(&setup.data, &context, "drop table x").await;
    assert!(run(&setup.data, &context, "select v from x").await.is_err());
    assert!(run(&setup.data, &context, "drop table t").await.is_err());
    assert_eq!(rows(&setup.data, &context, "select count(*) from t").await, ["2"]);
}

#[tokio::test]
async fn external_tables_belong_to_who_made_them() {
    let setup = setup();
    let of = |name: &str, is_superuser: bool| {
        let context = session(&setup.data);
        let user = DataUser::new(name, move || is_superuser);
        setup.data.install_for(user, &context).unwrap();
        context
    };
    let (ann, bob, root) = (of("ann", false), of("bob", false), of("root", true));
    let create = "create external table x stored as parquet location 'sub/e.parquet'";
    let replace = create.replace("create", "create or replace");
    rows(&setup.data, &ann, create).await;
    let error = run(&setup.data, &bob, &replace).await.unwrap_err();
    assert!(error.contains("must be owner of table x"), "{error}");
    assert!(run(&setup.data, &bob, "drop table x").await.is_err());
    assert_eq!(rows(&setup.data, &bob, "select v from x").await, ["7"]);
    let check = |name: &str, table: &str| {
        setup
            .data
            .check_owner(DataUser::new(name, || false), "corun", "public", table)
    };
    assert_eq!(check("bob", "x").unwrap_err().code, "42501");
    assert!(check("ann", "x").is_ok() && check("bob", "t").is_ok() && check("bob", "none").is_ok());
    rows(&setup.data, &ann, &replace).await;
    rows(&setup.data, &root, "drop table x").await;
    // The next one is another's.
    rows(&setup.data, &bob, create).await;
    assert!(run(&setup.data, &ann, "drop table x").await.is_err());
    rows(&setup.data, &bob, "drop table x").await;
    assert!(run(&setup.data, &bob, "select v from x").await.is_err());
}

#[tokio::test]
async fn other_files_are_never_read() {
    let setup = setup();
    let context = session(&setup.data);
    let link = setup.extra.path().join("link.parquet");
    std::os::unix::fs::symlink(&setup.secret, &link).unwrap();
    let names = [
        setup.secret.clone(),
        format!("file://{}", setup.secret),
        format!("../{}", setup.secret.rsplit_once('/').unwrap().1),
        format!(
            "{}/../../{}",
            setup.extra.path().display(),
            setup.secret.trim_start_matches('/')
        ),
        "link.parquet".to_owned(),
        link.display().to_string(),
        "/etc/passwd".to_owned(),
        "/etc/".to_owned(),
        "s3://bucket/secret.parquet".to_owned(),
        "http://127.0.0.1/secret.parquet".to_owned(),
        setup.secret.replace("secret", "*"),
        "missing.parquet".to_owned(),
    ];
    for name in &names {
        for sql in [
            format!("select * from '{name}'"),
            format!("explain select * from '{name}'"),
            format!("select 1 where exists (select 1 from '{name}')"),
            format!("copy (select * from '{name}') to 'x.parquet'"),
            format!("create external table x stored as parquet location '{name}'"),
            format!("create external table x (line varchar) stored as csv location '{name}'"),
            format!("prepare p as select * from '{name}'"),
        ] {
            let answer = run(&setup.data, &context, &sql).await;
            assert!(answer.is_err(), "{sql}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn the_guard_holds_where_the_gate_is_passed_by() {
    let setup = setup();
    let context = session(&setup.data);
    let create = format!(
        "create external table x (v bigint) stored as csv location '{}'",
        setup.secret
    );
    let answer = async {
        context.sql(&create).await?.collect().await?;
        context.sql("select * from x").await?.collect().await
    };
    let error = answer.await.unwrap_err().to_string();
    assert!(error.contains("there is no file"), "{error}");
    let target = setup.folder.path().join("new.parquet");
    let copy = format!("copy (select 1) to '{}'", target.display());
    let written = async { context.sql(&copy).await?.collect().await };
    assert!(written.await.is_err() && !target.exists());
}

#[tokio::test]
async fn copy_writes_below_its_folders_only() {
    let setup = setup();
    let context = session(&setup.data);
    rows(
        &setup.data,
        &context,
        "copy (select v * 2 as w from t) to 'sub/w.parquet'",
    )
    .await;
    assert!(setup.out.path().join("sub/w.parquet").exists());
    rows(
        &setup.data,
        &context,
        "copy t to 't.csv' stored as csv options ('format.has_header' 'false')",
    )
    .await;
    assert_eq!(
        fs::read_to_string(setup.out.path().join("t.csv")).unwrap(),
        "1\n2\n"
    );
    let link = setup.out.path().join("link");
    std::os::unix::fs::symlink(setup.folder.path(), &link).unwrap();
    let inside = setup.folder.path().join("x.parquet");
    for target in [
        inside.display().to_string(),
        "../x.parquet".to_owned(),
        "link/x.parquet".to_owned(),
        "corun.toml".to_owned(),
        format!("file://{}", setup.out.path().join("x.parquet").display()),
        "s3://bucket/x.parquet".to_owned(),
    ] {
        let answer = run(
            &setup.data,
            &context,
            &format!("copy t to '{target}' stored as csv"),
        )
        .await;
        assert!(answer.is_err(), "{target}: {answer:?}");
    }
    assert!(!inside.exists());
}

#[tokio::test]
async fn users_without_rights_reach_tables_only() {
    let setup = setup();
    let context = session(&setup.data);
    let none = FileRights::default();
    let run = async |sql: &str| run_with(&setup.data, &context, sql, none).await;
    assert_eq!(run("select sum(v) from t").await.unwrap(), ["3"]);
    for sql in [
        "select * from 'sub/e.parquet'",
        "select (select max(v) from 'sub/e.parquet')",
        "create external table x stored as parquet location 'sub/e.parquet'",
        "copy t to 't.parquet'",
    ] {
        let error = run(sql).await.unwrap_err();
        assert!(error.contains("this user may not"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn what_is_not_known_to_be_harmless_is_denied() {
    let setup = setup();
    let context = session(&setup.data);
    for sql in [
        "insert into t values (3)",
        "update t set v = 1",
        "delete from t",
        "truncate table t",
        "create table u as select * from t",
        "create view u as select * from t",
        "create schema s",
        "create database d",
        "drop schema public",
        "create function f(int) returns int return $1",
        "create unbounded external table u (v int) stored as csv location 'e.csv'",
        "create external table u (v int) stored as avro location 'e.csv'",
        "create external table u (v int) stored as csv location 'e.csv' options ('aws.endpoint' 'http://x')",
        "set datafusion.runtime.temp_directory = '/tmp/x'",
        "set datafusion.catalog.location = '/etc'",
        "reset datafusion.runtime.memory_limit",
        "select * from read_parquet('x')",
        "select * from t union all select * from parquet_metadata('x')",
    ] {
        let answer = run(&setup.data, &context, sql).await;
        assert!(answer.is_err(), "{sql}: {answer:?}");
    }
    for sql in [
        "set datafusion.execution.batch_size = 100",
        "select * from generate_series(1, 2)",
        "explain select * from t",
        "describe t",
    ] {
        rows(&setup.data, &context, sql).await;
    }
}

#[tokio::test]
async fn a_session_has_the_folder_s_tables_only() {
    let setup = setup();
    let data = open(setup.folder.path());
    let context = session(&data);
    assert_eq!(context.catalog_names(), ["corun"]);
}
