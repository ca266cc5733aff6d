//! `corun-sql sql` one-shot: answers, formats, EXPLAIN, scripts, and files that cannot be read.

use std::fs;
use std::path::Path;

use crate::program::{Run, check_error, corun, corun_in};

fn sql(arguments: &[&str]) -> Run {
    corun(&[&["sql"], arguments].concat())
}

fn sql_of(statement: &str) -> Run {
    sql(&["-c", statement])
}

/// Statements that DataFusion 55 plans or begins, and then fails with an internal error.
const INTERNAL: &[&str] = &["select array_resize(array[1], -1)"];

fn in_folder(folder: &Path, arguments: &[&str]) -> Run {
    corun_in(folder, &[&["sql"], arguments].concat(), "")
}

/// A folder with a small good Parquet file and a small good CSV file.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = "select * from (values (1, 'one'), (2, null)) as t(number, word) order by number";
    for file in ["good.parquet", "good.csv"] {
        let run = in_folder(folder.path(), &["-c", &format!("copy ({rows}) to '{file}'")]);
        assert_eq!(run.code, 0, "{run:?}");
    }
    folder
}

#[test]
fn tables_show_rows_counts_and_nulls() {
    let run = sql(&[
        "-c",
        "select * from (values (1, 'a'), (20, null)) as t(n, word) order by n",
    ]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let (table, count) = run.out.rsplit_once("(2 rows, ").expect("a row count");
    assert_eq!(table, " n  | word\n----+------\n  1 | a\n 20 | NULL\n");
    assert!(count.ends_with(" ms)\n") || count.ends_with(" s)\n"), "{count}");
}

#[test]
fn json_and_csv() {
    let query = "select 1 as n, 'a,\"b' as word, null as nothing, 1.5 as x, true as yes, array[1, 2] as list";
    let run = sql(&["-c", query, "--json"]);
    assert_eq!(
        run.out,
        "{\"n\":1,\"word\":\"a,\\\"b\",\"nothing\":null,\"x\":1.5,\"yes\":true,\"list\":[1,2]}\n"
    );
    let parsed: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    assert_eq!(parsed["word"], "a,\"b");
    let run = sql(&["-c", query, "--format", "csv"]);
    assert_eq!(
        run.out,
        "n,word,nothing,x,yes,list\n1,\"a,\"\"b\",,1.5,true,\"[1, 2]\"\n"
    );
}

#[test]
fn several_statements_run_in_order_and_share_the_session() {
    let run = sql(&[
        "--json",
        "-c",
        "create table t as select 5 as n; -- a comment; with a semicolon\n",
        "-c",
        "insert into t values (6); select sum(n) as total from t;",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.ends_with("{\"total\":11}\n"), "{run:?}");
}

#[test]
fn scripts_come_from_files_and_from_stdin() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("script.sql"),
        "select 1 as a;\n\\d\nselect 2 as b",
    )
    .expect("writes");
    let run = in_folder(folder.path(), &["-f", "script.sql", "--format", "csv"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "a\n1\nschema,table,columns\nb\n2\n")
    );
    let run = corun_in(
        folder.path(),
        &["sql", "--json"],
        "select 3 as c;\n\\q\nselect 4 as d;\n",
    );
    assert_eq!((run.code, run.out.as_str()), (0, "{\"c\":3}\n"));
    check_error(
        &in_folder(folder.path(), &["-f", "missing.sql"]),
        1,
        "cannot read missing.sql",
        "No such file",
    );
}

#[test]
fn the_first_failing_statement_ends_a_script() {
    let run = sql(&["--json", "-c", "select 1 as a; select nope; select 2 as b"]);
    assert_eq!(run.out, "{\"a\":1}\n");
    check_error(&run, 1, "nope", "");
}

#[test]
fn bad_sql_is_an_error_with_its_place() {
    check_error(&sql(&["-c", "selec 1"]), 1, "SQL", "");
    check_error(
        &sql(&["-c", "select * from no_such_table"]),
        1,
        "no_such_table",
        "",
    );
    check_error(&sql(&["-c", "select 'open"]), 1, "", "");
    check_error(
        &sql(&["-c", "\\nonsense"]),
        1,
        "unknown command \\nonsense",
        "\\?",
    );
    check_error(
        &sql(&["-c", "\\d nothing"]),
        1,
        "there is no table \"nothing\"",
        "\\d lists",
    );
}

#[test]
fn names_that_are_not_there_are_told_with_what_is_near() {
    let folder = folder();
    let run = |sql: &str| in_folder(folder.path(), &["good.parquet", "-c", sql]);
    for (sql, primary, more) in [
        (
            "select * from goood",
            "table \"goood\" does not exist",
            "did you mean \"good\"?",
        ),
        (
            "select * from sales.good",
            "table \"sales.good\" does not exist",
            "did you mean \"good\"?",
        ),
        (
            "select nummber from good",
            "column \"nummber\" does not exist",
            "did you mean \"number\"?",
        ),
        (
            "select g.wrd from good g",
            "column \"g.wrd\" does not exist",
            "did you mean \"g.word\"?",
        ),
        (
            "select flor(1.5)",
            "function \"flor\" does not exist",
            "did you mean \"floor\"?",
        ),
        (
            "select zzzzzz from good",
            "column \"zzzzzz\" does not exist",
            "number, word",
        ),
        (
            "\\d goood",
            "there is no table \"goood\"",
            "did you mean \"good\"?",
        ),
        ("\\timng", "unknown command \\timng", "did you mean \\timing?"),
        (
            "\\copy good to 'x'",
            "there is no \\copy here",
            "COPY (SELECT ...) TO",
        ),
        ("\\x sideways", "\\x takes on, off or auto", ""),
    ] {
        check_error(&run(sql), 1, primary, more);
    }
}

/// Statements that DataFusion fails with an internal error, for which it asks people to report a bug to it.
#[test]
fn nobody_is_asked_to_report_bugs_elsewhere() {
    for sql in INTERNAL {
        let run = sql_of(sql);
        check_error(&run, 1, "", "");
        for words in [
            "DataFusion",
            "bug",
            "issue tracker",
            "internal error",
            "Internal error",
        ] {
            assert!(!run.err.contains(words), "{sql}: {run:?}");
        }
    }
}

#[test]
fn a_folder_has_a_table_a_file() {
    let folder = folder();
    let path = |name: &str| folder.path().join("data").join(name);
    fs::create_dir_all(path("log")).expect("folders");
    fs::copy(folder.path().join("good.parquet"), path("good.parquet")).expect("copies");
    fs::write(path("other.csv"), "a,b,c\n1,2,3\n").expect("writes");
    for part in ["log/part-1.csv", "log/part-2.csv"] {
        fs::write(path(part), "n\n1\n").expect("writes");
    }
    let query = "select (select count(*) from good) as good, (select sum(c) from other) as other, (select sum(n) from log) as log";
    let run = in_folder(folder.path(), &["data", "--json", "-c", query]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "{\"good\":2,\"other\":3,\"log\":2}\n"),
        "{run:?}"
    );
}

#[test]
fn commands_list_what_there_is() {
    let folder = folder();
    let run = |command: &str| {
        let run = in_folder(folder.path(), &["good.parquet", "--format", "csv", "-c", command]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command}: {run:?}");
        run.out
    };
    assert_eq!(run("\\d"), "schema,table,columns\npublic,good,2\n");
    assert_eq!(run("\\dt go*"), "schema,table,columns\npublic,good,2\n");
    assert_eq!(run("\\dt x*"), "schema,table,columns\n");
    assert_eq!(
        run("\\d Good;"),
        "column,type,nullable\nnumber,Int64,NO\nword,Utf8View,YES\n"
    );
    assert!(run("\\dn").contains(",public\n"));
    assert!(run("\\l").starts_with("catalog\n"));
    assert!(run("\\df floo*").contains("floor,"));
    let help = run("\\?");
    for command in ["\\watch", "\\pset", "\\x"] {
        assert!(help.contains(command), "{help}");
    }
}

#[test]
fn results_go_where_commands_say() {
    let folder = folder();
    fs::write(
        folder.path().join("one.sql"),
        "select 'from a file' as one;\n\\i 'one.sql'\n",
    )
    .expect("writes");
    fs::write(folder.path().join("two.sql"), "select 'from a file' as one;\n").expect("writes");
    let script = "select 1 as a \\g 'a.txt'\n\\timing off\n\\o b.txt\nselect 2 as b;\n\\o\n\
                  select 3 as c, 'x' as d \\gx\n\\g\n\\i two.sql\nselect 4 as e; \\watch 0.01 c=2\n\
                  \\pset columns 20\nselect 'a long long long text' as long;\n\\x auto\n\\g\n";
    let run = corun_in(folder.path(), &["sql"], script);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("was written");
    assert!(
        read("a.txt").starts_with(" a\n---\n 1\n(1 row, "),
        "{}",
        read("a.txt")
    );
    assert_eq!(read("b.txt"), " b\n---\n 2\n(1 row)\n");
    assert_eq!(
        run.out,
        "timing is off\n\
         -[ RECORD 1 ]\nc | 3\nd | x\n(1 row)\n c | d\n---+---\n 3 | x\n(1 row)\n one\n-------------\n from a file\n(1 row)\n \
         e\n---\n 4\n(1 row)\nrun 1, every 0.01 s\n e\n---\n 4\n(1 row)\nrun 2, every 0.01 s\n e\n---\n 4\n(1 row)\n\
         pager on, format table, columns 20\n long\n--------------------\n a long long long t\u{2026}\n\
         (1 row, cells cut; \\x auto shows them whole)\nrows are shown as records where they do not fit\n\
         -[ RECORD 1 ]-------\nlong | a long long long text\n(1 row)\n"
    );
    check_error(
        &in_folder(folder.path(), &["-f", "one.sql"]),
        1,
        "one.sql is not read",
        "does a file run itself?",
    );
}

#[test]
fn a_folder_of_scripts_runs_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("q")).expect("a folder");
    for number in [1, 2, 10] {
        let sql = format!("select {number} as n");
        fs::write(folder.path().join(format!("q/q{number}.sql")), sql).expect("writes");
    }
    fs::write(folder.path().join("q/notes.txt"), "no SQL").expect("writes");
    let run = in_folder(folder.path(), &["-f", "q", "--json"]);
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "{\"n\":1}\n{\"n\":2}\n{\"n\":10}\n")
    );
    fs::create_dir(folder.path().join("none")).expect("a folder");
    let run = in_folder(folder.path(), &["-f", "none"]);
    check_error(&run, 1, "the folder none has no files that end in .sql", "");
}

#[test]
fn generated_benchmark_data_has_its_tables_and_rows() {
    let run = sql(&[
        "--ssb",
        "0.01",
        "--json",
        "-c",
        "select count(*) as n from lineorder",
        "-c",
        "\\d supplier",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    let rows: serde_json::Value = serde_json::from_str(run.out.lines().next().unwrap_or("")).expect("JSON");
    assert!(
        rows["n"].as_u64().is_some_and(|n| (59_000..61_000).contains(&n)),
        "{run:?}"
    );
    assert!(run.out.contains("s_suppkey"), "{run:?}");
    let run = sql(&[
        "--tpch",
        "0.01",
        "--json",
        "-c",
        "select count(*) as n from orders",
    ]);
    assert_eq!((run.code, run.out.as_str()), (0, "{\"n\":15000}\n"));
}

#[test]
fn both_workloads_at_once_clash_by_name() {
    let run = sql(&["--ssb", "0.01", "--tpch", "0.01", "-c", "select 1"]);
    check_error(&run, 2, "two tables are named \"", "generated by --ssb");
}

#[test]
fn stock_and_corun_give_the_same_answers() {
    let query = "select d_year, sum(lo_revenue) as revenue from lineorder, date, supplier \
                 where lo_orderdate = d_datekey and lo_suppkey = s_suppkey group by d_year order by d_year";
    let ours = sql(&["--ssb", "0.01", "--format", "csv", "-c", query]);
    let stock = sql(&[
        "--ssb",
        "0.01",
        "--format",
        "csv",
        "--stock",
        "--partitions",
        "1",
        "-c",
        query,
    ]);
    assert_eq!((ours.code, stock.code), (0, 0));
    assert_eq!(ours.out.lines().count(), 1 + 7, "{ours:?}");
    assert_eq!(ours.out, stock.out);
}

#[test]
fn explain_is_readable_and_analyze_has_metrics() {
    let join = "select count(*) from customer, supplier where c_city = s_city";
    let run = sql(&["--ssb", "0.01", "-c", &format!("explain {join}")]);
    assert!(
        run.out.contains("physical_plan:\n  ") && run.out.contains("DataSourceExec"),
        "{run:?}"
    );
    // What it would do to the shared cache: class, S and C, and why this form of the plan.
    for words in [
        "locality:\n",
        "class: strong: S = ",
        "C/3 = ",
        "hash tables",
        "why: ",
    ] {
        assert!(run.out.contains(words), "{words}: {run:?}");
    }
    let forced = format!("set corun.join = 'on'; explain {join}");
    let run = sql(&["--ssb", "0.01", "-c", &forced]);
    assert!(run.out.contains("CorunJoinExec"), "{run:?}");
    let run = sql(&["--ssb", "0.01", "-c", &format!("explain analyze {join}")]);
    assert!(run.out.contains("output_rows="), "{run:?}");
    let run = sql(&["--ssb", "0.01", "--stock", "-c", &format!("explain {join}")]);
    assert!(
        run.out.contains("HashJoinExec") && !run.out.contains("CorunJoinExec"),
        "{run:?}"
    );
    assert!(!run.out.contains("locality"), "{run:?}");
}

#[test]
fn files_and_folders_become_tables() {
    let folder = folder();
    let query = "select number, word from good order by number";
    let expected = "number,word\n1,one\n2,\n";
    for file in ["good.parquet", "good.csv"] {
        let run = in_folder(folder.path(), &[file, "--format", "csv", "-c", query]);
        assert_eq!((run.code, run.out.as_str()), (0, expected), "{file}");
    }
    fs::create_dir(folder.path().join("many")).expect("a folder");
    for copy in ["a.parquet", "b.parquet"] {
        fs::copy(
            folder.path().join("good.parquet"),
            folder.path().join("many").join(copy),
        )
        .expect("copies");
    }
    let run = in_folder(
        folder.path(),
        &["--table", "M=many", "--json", "-c", "select count(*) as n from m"],
    );
    assert_eq!((run.code, run.out.as_str()), (0, "{\"n\":4}\n"));
    let run = in_folder(
        folder.path(),
        &["good.parquet", "--table", "good=good.csv", "-c", "select 1"],
    );
    check_error(&run, 2, "two tables are named \"good\"", "--table NAME=PATH");
}

#[test]
fn files_that_cannot_be_read() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let good = fs::read(path("good.parquet")).expect("was written");
    fs::write(path("empty.parquet"), "").expect("writes");
    fs::write(path("empty.csv"), "").expect("writes");
    fs::write(path("truncated.parquet"), &good[..good.len() / 2]).expect("writes");
    fs::write(
        path("text.parquet"),
        "this is text, long enough to have had a footer\n",
    )
    .expect("writes");
    fs::write(path("parquet.csv"), &good).expect("writes");
    fs::write(path("good.txt"), "a\n1\n").expect("writes");
    fs::create_dir(path("nothing")).expect("a folder");
    fs::create_dir(path("mixed")).expect("a folder");
    for file in ["good.parquet", "good.csv"] {
        fs::copy(path(file), path("mixed").join(file)).expect("copies");
    }
    for (name, primary, more) in [
        ("missing.parquet", "cannot open missing.parquet", "No such file"),
        ("empty.parquet", "empty.parquet has no columns", "empty"),
        ("empty.csv", "empty.csv has no columns", "empty"),
        ("truncated.parquet", "cannot read truncated.parquet", "complete"),
        ("text.parquet", "cannot read text.parquet", "Parquet"),
        ("parquet.csv", "cannot read parquet.csv", "CSV"),
        ("good.txt", "good.txt: unknown kind of file", ".parquet or .csv"),
        (
            "nothing",
            "the folder nothing has no Parquet or CSV files",
            ".parquet or .csv",
        ),
    ] {
        check_error(
            &in_folder(folder.path(), &[name, "-c", "select 1"]),
            1,
            primary,
            more,
        );
    }
    check_error(
        &in_folder(folder.path(), &["--table", "m=mixed", "-c", "select 1"]),
        1,
        "the folder mixed mixes Parquet and CSV files",
        "table of its own",
    );
    check_error(
        &in_folder(folder.path(), &["mixed", "-c", "select 1"]),
        2,
        "two tables are named \"good\"",
        "good.csv",
    );
}

#[test]
fn a_column_chunk_broken_inside_is_an_error_too() {
    let folder = folder();
    let file = folder.path().join("good.parquet");
    let mut bytes = fs::read(&file).expect("was written");
    // The footer stays whole; the first pages after the magic number do not.
    for byte in &mut bytes[4..40] {
        *byte ^= 0xff;
    }
    fs::write(&file, bytes).expect("writes");
    let run = in_folder(folder.path(), &["good.parquet", "-c", "select * from good"]);
    check_error(&run, 1, "", "");
}

#[test]
fn a_tight_memory_limit_is_an_error_not_a_crash() {
    let query =
        "select count(*) as n from (select distinct lo_orderkey, lo_custkey, lo_partkey from lineorder)";
    let run = sql(&["--ssb", "0.02", "--memory-limit", "64KiB", "-c", query]);
    check_error(&run, 1, "memory", "memory limit");
    assert_eq!(run.out, "", "no header without rows");
}

/// Two tasks that spill at the same time: in one run of five or so they waited for ever for each other.
#[test]
fn spilling_under_a_tight_memory_limit_ends() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let query =
        "select count(*) as n from (select distinct lo_orderkey, lo_custkey, lo_partkey from lineorder)";
    for _ in 0..15 {
        let mut child = Command::new(crate::PROGRAM)
            .args(["sql", "--ssb", "0.02", "--memory-limit", "512KiB"])
            .args(["--partitions", "2", "-c", query])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let until = Instant::now() + Duration::from_secs(60);
        while child.try_wait().expect("it can be waited for").is_none() {
            if Instant::now() > until {
                child.kill().expect("it can be killed");
                panic!("the query does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    let mut child = Command::new(crate::PROGRAM)
        .args([
            "sql",
            "--json",
            "-c",
            "select * from generate_series(1, 100000000) as t(n)",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = [0u8; 8];
    child
        .stdout
        .take()
        .expect("piped")
        .read_exact(&mut first)
        .expect("rows arrive before the result is complete");
    assert_eq!(&first, b"{\"n\":1}\n");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}
