//! `corun-sql sql --store`: files loaded into a store, live tables joined with files, and what goes wrong.

use std::path::Path;

use crate::program::{Run, check_error, corun_in};

fn sql(folder: &Path, arguments: &[&str]) -> Run {
    corun_in(folder, &[&["sql"], arguments].concat(), "")
}

/// A folder with orders and their lines in files.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, query) in [
        (
            "orders.parquet",
            "select value as o_id, 'customer ' || (value % 7) as o_customer from generate_series(1, 3000) as s(value) order by 1",
        ),
        (
            "lines.csv",
            "select value as l_order, value % 10 as l_price from generate_series(1, 500) as s(value) order by 1",
        ),
    ] {
        let run = sql(folder.path(), &["-c", &format!("copy ({query}) to '{file}'")]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    folder
}

const LOAD: &[&str] = &[
    "--store",
    "shop",
    "--load",
    "orders=orders.parquet",
    "--primary-key",
    "o_id",
];

#[test]
fn loaded_rows_are_there_later_and_join_with_files() {
    let folder = folder();
    let run = sql(
        folder.path(),
        &[LOAD, &["--json", "-c", "select count(*) as n from orders"]].concat(),
    );
    assert_eq!(
        (run.code, run.out.as_str(), run.err.as_str()),
        (0, "{\"n\":3000}\n", "3000 rows loaded into orders\n"),
        "{run:?}"
    );
    let join = "select sum(l_price) as s, count(*) as n from orders join lines on o_id = l_order where o_customer = 'customer 3'";
    let run = sql(
        folder.path(),
        &["--store", "shop", "lines.csv", "--json", "-c", join],
    );
    let files = sql(
        folder.path(),
        &["orders.parquet", "lines.csv", "--json", "-c", join],
    );
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    assert!(
        run.out.starts_with("{\"s\":") && run.out == files.out,
        "{run:?} {files:?}"
    );
    let run = sql(
        folder.path(),
        &[
            "--store",
            "shop",
            "-c",
            "explain select * from orders where o_id = 5",
        ],
    );
    assert!(
        run.out
            .contains("StoreScan: table=orders, index=primary, range=[o_id = 5]"),
        "{run:?}"
    );
    let script = corun_in(folder.path(), &["sql", "--store", "shop"], "\\d\n\\d orders\n");
    assert_eq!(
        script.out,
        " schema | table  | columns\n--------+--------+---------\n public | orders |       2\n(1 row)\n \
         column     | type     | nullable\n------------+----------+----------\n o_id       | Int64    | NO\n \
         o_customer | Utf8View | NO\n(2 rows)\n",
        "{script:?}"
    );
}

#[test]
fn several_tables_are_loaded_at_once() {
    let folder = folder();
    let run = sql(
        folder.path(),
        &[
            "--store",
            "shop",
            "--load",
            "orders=orders.parquet",
            "--load",
            "lines=lines.csv",
            "--primary-key",
            "orders=o_id",
            "--primary-key",
            "lines=l_order,l_price",
            "--json",
            "-c",
            "select count(*) as n from orders join lines on o_id = l_order",
        ],
    );
    assert_eq!((run.code, run.out.as_str()), (0, "{\"n\":500}\n"), "{run:?}");
    assert_eq!(
        run.err,
        "3000 rows loaded into orders\n500 rows loaded into lines\n"
    );
}

#[test]
fn loads_that_fail_say_where_and_what_is_left() {
    let folder = folder();
    let first = &["--store", "shop", "--load", "orders=orders.parquet"];
    check_error(
        &sql(folder.path(), first),
        1,
        "there is no table \"orders\" in the store",
        "--primary-key",
    );
    assert_eq!(sql(folder.path(), LOAD).code, 0);
    check_error(
        &sql(folder.path(), first),
        1,
        "row 1 cannot be loaded into table \"orders\"",
        "0 rows were loaded before it",
    );
    check_error(
        &sql(folder.path(), &["--store", "shop", "--load", "orders=lines.csv"]),
        1,
        "the rows have a column \"l_order\", the table does not",
        "",
    );
    check_error(
        &sql(
            folder.path(),
            &["--store", "shop", "--load", "orders=none.parquet"],
        ),
        1,
        "cannot open none.parquet",
        "",
    );
    check_error(
        &sql(folder.path(), &["--store", "shop", "-c", "delete from orders"]),
        1,
        "cannot delete from table \"orders\"",
        "",
    );
}

#[test]
fn wrong_usage_is_told_apart() {
    let folder = folder();
    for (arguments, primary, more) in [
        (&["--load", "orders=orders.parquet"][..], "--store <DIR>", "usage"),
        (
            &["--store", "shop", "--primary-key", "o_id"],
            "--load <TABLE=PATH>",
            "usage",
        ),
        (&["--store", "shop", "--load", "orders.parquet"], "NAME=PATH", ""),
        (
            &[LOAD, &["--primary-key", "other=o_id"]].concat(),
            "names table \"other\", which is not loaded",
            "--load other=PATH",
        ),
        (
            &[LOAD, &["--load", "lines=lines.csv"]].concat(),
            "does not say of which table",
            "TABLE=COLUMN",
        ),
        (&[LOAD, &["--primary-key", "o_id"]].concat(), "given twice", ""),
    ] {
        check_error(&sql(folder.path(), arguments), 2, primary, more);
    }
    assert!(!folder.path().join("shop").exists(), "nothing was made");
    assert_eq!(sql(folder.path(), LOAD).code, 0);
    check_error(
        &sql(
            folder.path(),
            &["--store", "shop", "orders.parquet", "-c", "select 1"],
        ),
        2,
        "two tables are named \"orders\"",
        "in the store shop",
    );
}

#[test]
fn a_store_that_is_open_elsewhere_or_no_folder_is_an_error() {
    let folder = folder();
    let home = folder.path().join("shop");
    let open = corun_store::Store::open(&home, corun_store::Options::default()).expect("a new store");
    check_error(
        &sql(folder.path(), &["--store", "shop", "-c", "select 1"]),
        1,
        "cannot open the store in shop",
        "is open in another process",
    );
    open.close().expect("nothing was written");
    assert_eq!(sql(folder.path(), &["--store", "shop", "-c", "select 1"]).code, 0);
    check_error(
        &sql(folder.path(), &["--store", "lines.csv", "-c", "select 1"]),
        1,
        "cannot open the store in lines.csv",
        "",
    );
}

#[test]
fn a_store_is_backed_up_verified_and_restored() {
    let folder = folder();
    let run = |arguments: &[&str]| corun_in(folder.path(), arguments, "");
    assert_eq!(sql(folder.path(), &[LOAD, &["-c", "select 1"]].concat()).code, 0);
    for arguments in [["backup", "shop", "copy"], ["restore", "copy", "shop2"]] {
        let run = run(&arguments);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.out.contains("orders: 3000 rows"), "{run:?}");
    }
    for store in ["shop", "copy", "shop2"] {
        let run = run(&["verify", store]);
        assert!(run.code == 0 && run.out.contains("orders: 3000 rows"), "{run:?}");
    }
    let query = ["--store", "shop2", "-c", "select count(*) as count from orders"];
    assert!(sql(folder.path(), &query).out.contains("3000"));

    check_error(
        &run(&["backup", "shop", "copy"]),
        1,
        "cannot back up shop",
        "already",
    );
    check_error(
        &run(&["verify", "nowhere"]),
        1,
        "cannot verify nowhere",
        "there is no store in nowhere",
    );
    let log = std::fs::read_dir(folder.path().join("copy")).expect("the copy");
    let log = log.map(|entry| entry.expect("a file").path());
    let log = log
        .filter(|path| path.display().to_string().contains("/log-"))
        .max()
        .expect("a log");
    let mut bytes = std::fs::read(&log).expect("its bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&log, bytes).expect("written");
    check_error(
        &run(&["verify", "copy"]),
        1,
        "cannot verify copy",
        "is damaged at byte",
    );
    check_error(
        &run(&["restore", "copy", "shop3"]),
        1,
        "cannot restore copy",
        "is damaged at byte",
    );
    check_error(
        &run(&["restore", "shop2", "shop3", "--archive", "nowhere"]),
        1,
        "cannot restore shop2",
        "there is no such folder; name that of an archive",
    );
    let wrong = run(&[
        "restore",
        "shop2",
        "shop3",
        "--archive",
        "copy",
        "--until",
        "noon",
    ]);
    assert!(
        wrong.code == 2 && wrong.err.contains("neither the number of a commit"),
        "{wrong:?}"
    );
    assert!(!folder.path().join("shop3").exists(), "nothing was made");
}

#[test]
fn help_shows_how_to_load_and_query() {
    let run = corun_in(&std::env::temp_dir(), &["sql", "--help"], "");
    for expected in [
        "--store <DIR>",
        "--load <TABLE=PATH>",
        "--primary-key <COLUMN,...>",
        "corun-sql sql --store shop lineitem.parquet",
    ] {
        assert!(run.out.contains(expected), "{}", run.out);
    }
}
