//! The real pgbench: both ways to fill its tables, its three scripts, three protocols.

use super::harness::{Output, Server, postgres_programs};
use std::process::Command;

fn pgbench(server: &Server, arguments: &[&str]) -> Output {
    let program = postgres_programs()
        .map(|programs| programs.join("pgbench"))
        .filter(|program| program.is_file())
        .unwrap_or_else(|| "pgbench".into());
    let mut command = Command::new(program);
    command.args(arguments);
    server.program(command)
}

const CLIENTS: u32 = 4;
const TRANSACTIONS: u32 = 50;

#[test]
fn all_built_in_scripts_in_all_protocols() {
    for (steps, rows) in [("dtgvp", "100000"), ("dtGvp", "100000")] {
        let mut server = Server::start();
        let made = pgbench(&server, &["-i", "-s", "1", "-q", "-I", steps]);
        assert!(made.success, "-I {steps}: {}", made.err);
        let client = server.client();
        for (table, rows) in [
            ("accounts", rows),
            ("branches", "1"),
            ("tellers", "10"),
            ("history", "0"),
        ] {
            let count = client.one(&format!("select count(*) from pgbench_{table}"));
            assert_eq!(count, rows, "-I {steps}: {table}");
        }
        let mut written = 0;
        for script in ["tpcb-like", "simple-update", "select-only"] {
            for mode in ["simple", "extended", "prepared"] {
                let run = pgbench(
                    &server,
                    &[
                        "-n",
                        "-c",
                        &CLIENTS.to_string(),
                        "-j",
                        "2",
                        "-t",
                        &TRANSACTIONS.to_string(),
                        "-b",
                        script,
                        "-M",
                        mode,
                    ],
                );
                let all = CLIENTS * TRANSACTIONS;
                let processed = format!("number of transactions actually processed: {all}/{all}");
                let failed = "number of failed transactions: 0 (0.000%)";
                assert!(
                    run.success && run.out.contains(&processed) && run.out.contains(failed),
                    "-I {steps} -b {script} -M {mode}: {run:?}"
                );
                if script != "select-only" {
                    written += all;
                }
            }
        }
        let sums = "select (select count(*) from pgbench_history), \
                    (select sum(delta) from pgbench_history) = (select sum(abalance) from pgbench_accounts), \
                    (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)";
        assert_eq!(client.lines(sums), [format!("{written}|t|t")], "-I {steps}");
        drop(client);
        server.restart();
        assert_eq!(
            server.client().lines(sums),
            [format!("{written}|t|t")],
            "-I {steps}, after a restart"
        );
    }
}

#[test]
fn it_may_vacuum_and_have_foreign_keys_and_levels() {
    let server = Server::start();
    pgbench(&server, &["-i", "-s", "1", "-q", "--foreign-keys"]).expect();
    let run = pgbench(&server, &["-c", "2", "-t", "20"]);
    assert!(run.success, "{run:?}");
    // Transactions that may be told to try again, and are.
    for level in ["repeatable read", "serializable"] {
        let client = server.client();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("script.sql");
        std::fs::write(
            &file,
            format!(
                "\\set aid random(1, 100000)\n\\set delta random(-5000, 5000)\nbegin isolation level {level};\n\
                 update pgbench_accounts set abalance = abalance + :delta where aid = :aid;\n\
                 select abalance from pgbench_accounts where aid = :aid;\n\
                 update pgbench_branches set bbalance = bbalance + :delta where bid = 1;\n\
                 insert into pgbench_history (tid, bid, aid, delta, mtime) values (1, 1, :aid, :delta, current_timestamp);\n\
                 end;\n"
            ),
        )
        .expect("a script");
        let before = client.one("select count(*) from pgbench_history");
        let run = pgbench(
            &server,
            &[
                "-n",
                "-c",
                "4",
                "-t",
                "25",
                // As often as it takes, at most 10,000 times.
                "--max-tries=10000",
                "-f",
                file.to_str().expect("UTF-8"),
            ],
        );
        assert!(run.success, "{level}: {run:?}");
        let before: u32 = before.parse().expect("a number");
        assert_eq!(
            client.one("select count(*) from pgbench_history"),
            (before + 100).to_string(),
            "{level}"
        );
    }
}
