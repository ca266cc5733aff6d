//! Kinds of files, and how texts are read.

use super::common::{config, open, session};
use super::rows;
use corun_server::data::Data;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::Path;

fn gz(path: &Path, text: &str) {
    let mut file = GzEncoder::new(fs::File::create(path).unwrap(), Compression::default());
    file.write_all(text.as_bytes()).unwrap();
    file.finish().unwrap();
}

#[tokio::test]
async fn texts_are_read_by_what_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("comma.csv"), "id,name\n1,Ada\n2,\"Bob, Jr\"\n").unwrap();
    fs::write(at("semicolon.csv"), "id;name\n1;Ada\n2;Bob\n").unwrap();
    fs::write(at("pipe.csv"), "id|name\n1|Ada\n2|Bob\n").unwrap();
    fs::write(at("tab.tsv"), "id\tname\n1\tAda\n2\tBob\n").unwrap();
    fs::write(at("bare.csv"), "1,2.5\n2,3.5\n").unwrap();
    fs::write(at("lines.csv"), "id,name\n1,\"two\nlines\"\n2,x\n").unwrap();
    gz(&at("packed.csv.gz"), "id,name\n1,Ada\n2,Bob\n");
    let data = open(folder.path());
    let context = session(&data);
    for table in ["comma", "semicolon", "pipe", "tab", "packed", "lines"] {
        let sql = format!("select sum(id), count(name) from {table}");
        assert_eq!(rows(&data, &context, &sql).await, ["3|2"], "{table}");
    }
    assert_eq!(
        rows(&data, &context, "select sum(column_2) from bare").await,
        ["6.0"]
    );
    assert_eq!(
        rows(&data, &context, "select name from comma where id = 2").await,
        ["Bob, Jr"]
    );
}

#[tokio::test]
async fn json_and_arrow_files_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("lines.ndjson"), "{\"a\": 1}\n{\"a\": 2, \"b\": \"x\"}\n").unwrap();
    fs::write(at("array.json"), "[{\"a\": 1}, {\"a\": 2}]").unwrap();
    gz(&at("packed.jsonl.gz"), "{\"a\": 1}\n{\"a\": 2}\n");
    let numbers: arrow::array::ArrayRef = std::sync::Arc::new(arrow::array::Int64Array::from(vec![1, 2]));
    let batch = arrow::array::RecordBatch::try_from_iter([("a", numbers)]).unwrap();
    let mut writer =
        arrow::ipc::writer::FileWriter::try_new(fs::File::create(at("ipc.arrow")).unwrap(), &batch.schema())
            .unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let data = open(folder.path());
    let context = session(&data);
    for table in ["lines", "array", "packed", "ipc"] {
        let sql = format!("select sum(a) from {table}");
        assert_eq!(rows(&data, &context, &sql).await, ["3"], "{table}");
    }
    assert_eq!(rows(&data, &context, "select max(b) from lines").await, ["x"]);
}

#[tokio::test]
async fn options_say_what_cannot_be_seen() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("t.csv"), "a^b\n1^\\N\n").unwrap();
    let options = "[table.t]\ndelimiter = \"^\"\nheader = true\nnull = \"\\\\N\"\n";
    fs::write(folder.path().join("corun.toml"), options).unwrap();
    let data = open(folder.path());
    let context = session(&data);
    assert_eq!(
        rows(&data, &context, "select a, b is null from t").await,
        ["1|true"]
    );
    // Other options are read when the table is.
    fs::write(folder.path().join("corun.toml"), options.replace("true", "false")).unwrap();
    assert_eq!(rows(&data, &context, "select count(*) from t").await, ["2"]);
}

#[test]
fn unknown_options_keep_the_server_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("s")).unwrap();
    fs::write(folder.path().join("s/corun.toml"), "[table.t]\nheder = true\n").unwrap();
    let error = Data::open(config(folder.path())).unwrap_err();
    assert!(error.primary.contains("unknown key \"heder\""), "{error}");
    assert_eq!(error.hint.as_deref(), Some("did you mean \"header\"?"));
}
