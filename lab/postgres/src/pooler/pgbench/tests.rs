//! What pgbench is told, and how its output is read.

use super::*;
use crate::pooler::address::Transport;

#[test]
fn its_account_is_read_and_failures_are_errors() {
    let said = "\
transaction type: <builtin: select only>
number of transactions actually processed: 12345
number of failed transactions: 0 (0.000%)
latency average = 0.081 ms
tps = 12330.500000 (without initial connection time)
";
    assert_eq!(account(said), Ok((12_345, 12_330.5)));
    let counted = said.replace("processed: 12345", "processed: 12345/20000");
    assert_eq!(account(&counted), Ok((12_345, 12_330.5)));
    let failing = said.replace(
        "failed transactions: 0 (0.000%)",
        "failed transactions: 2 (0.016%)",
    );
    assert!(account(&failing).is_err_and(|what| what.contains('2')));
    assert!(account("").is_err());
    assert!(account(&said.replace("12345", "0")).is_err());
}

#[test]
fn latencies_are_of_all_threads_and_their_files_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("turn");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(
        folder.join("log.12"),
        "0 1 150 0 1700000000 1\n0 2 90 3 1700000000 2\n",
    )
    .expect("a file");
    std::fs::write(folder.join("log.12.1"), "1 1 200 0 1700000000 1\nnonsense\n").expect("a file");
    std::fs::write(folder.join("said"), "0 1 999").expect("a file");
    let found = logged(&folder).expect("readable");
    let mut found: Vec<(f64, usize)> = found.iter().map(|one| (one.us, one.script)).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(found, [(90.0, 3), (150.0, 0), (200.0, 0)]);
    empty(&folder).expect("ours");
    assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 0);
}

#[test]
fn every_side_is_asked_the_same_way() {
    let load = Load {
        script: Script::Files(vec!["a.sql".into(), "b.sql".into()]),
        protocol: Protocol::Prepared,
        clients: 1,
        duty: Duty::Seconds(3),
        reconnect: false,
        options: String::new(),
        grace: GRACE,
    };
    let address = &Address {
        transport: Transport::Unix,
        folder: "/run/a".into(),
        port: 20_001,
    };
    let line = load.arguments(address.into(), 7, Path::new("/t/log")).join(" ");
    for part in [
        "--host /run/a --port 20001",
        "--jobs 1",
        "--random-seed 7",
        "--file a.sql --file b.sql",
        "prepared",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("--connect"));
    let weighted = Load {
        script: Script::Weighted {
            files: vec![("a.sql".into(), 95)],
            variables: vec![("items".to_owned(), "10".to_owned())],
        },
        duty: Duty::Transactions(20),
        ..load
    };
    let line = weighted
        .arguments(address.into(), 7, Path::new("/t/log"))
        .join(" ");
    for part in [
        "--transactions 20",
        "--define items=10",
        "--file a.sql@95",
        "--sampling-rate 1 ",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    let conninfo = Goal::Conninfo("host=db.example user=me");
    let line = weighted.arguments(conninfo, 7, Path::new("/t/log"));
    assert_eq!(line.last().map(String::as_str), Some("host=db.example user=me"));
    assert!(!line.iter().any(|part| part == "--host" || part == "--username"));
}
