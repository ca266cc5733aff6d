//! The suite `key-ranges` on small data: every script and transaction runs on a real PostgreSQL and is answered rightly, rows say what is
//! missing, and nothing that was started is left. The proxy itself takes part in the program's own tests, because here the program is
//! this test.

use corun_model::progress::Silent;
use lab_core::row::{Label, Row};
use lab_core::suite::{Common, run};
use lab_postgres::fixture::PgFixture;
use lab_postgres::fixture::cluster::{Cluster, Profile, Programs};
use lab_postgres::fixture::pgbench::{self, Duty, Load, Protocol, Script};
use lab_postgres::key_ranges::tpcc::Server;
use lab_postgres::key_ranges::tpcw::{self, answers, scripts};

use corun_workloads::Naive;
use corun_workloads::driver::{Measure, RunOptions, TpccWorkload, compare_tpcc, run_tpcc, same_tpcc_rows};
use corun_workloads::tpcc::{self, KV_TABLES, KvTpcc, Mix, Scale};
use lab_postgres::suites::key_ranges::KeyRangesArgs;

/// A server on a fixture of its own.
fn server() -> (Cluster, PgFixture) {
    let programs = Programs::find().expect("PostgreSQL");
    let fixture = PgFixture::new("caric", programs, None).expect("a place for servers");
    let server = fixture.cluster("server", &Profile::default()).expect("it starts");
    (server, fixture)
}

fn rows_of(case: &str) -> Vec<Row> {
    let args = KeyRangesArgs {
        common: Common::quick(Some(case)),
        ..KeyRangesArgs::default()
    };
    let mut rows = Vec::new();
    let outcome = run(&args, &mut |row| rows.push(row), &Silent).expect("the suite runs");
    assert!(outcome.is_ok(), "{case}: {:?}", outcome.failures);
    assert_eq!(outcome.rows, rows.len());
    rows
}

#[test]
fn every_interaction_runs_and_is_answered_the_same_twice() {
    let (server, fixture) = server();
    let scale = tpcw::Scale::QUICK;
    tpcw::load(&server.address, scale, &Silent).expect("loaded");
    let mut client = server.client().expect("a session");
    let counted = client
        .numbers("select (select count(*) from item), (select count(*) from customer), (select count(*) from orders)")
        .expect("numbers");
    assert_eq!(counted, [1_000, 2_880, 2_592]);
    let folder = fixture.folder("scripts").expect("a folder");
    let log = fixture.folder("log").expect("a folder");
    for (file, share) in scripts::write(&folder).expect("written") {
        let script = Script::Weighted {
            files: vec![(file.clone(), share)],
            variables: scripts::variables(scale),
        };
        let load = Load::new(script, Protocol::Prepared, 2, Duty::Transactions(5));
        let program = fixture.programs.path("pgbench");
        let turn = pgbench::run(&program, &load, &server.address, 1, &log);
        let turn = turn.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(turn.transactions, 10, "{}", file.display());
    }
    // Ten purchases, of three lines each.
    let bought = client
        .numbers("select count(*), (select count(*) from order_line where ol_o_id > 2592) from orders where o_id > 2592")
        .expect("numbers");
    assert_eq!(bought, [10, 30]);
    let address = &server.address;
    let differs = answers::compare(address, address, scale, 2).expect("no broken connection");
    assert_eq!(differs, None);
    let differs = answers::compare_best_sellers(address, address).expect("no broken connection");
    assert_eq!(differs, None);
}

#[test]
fn postgres_answers_tpcc_as_the_naive_engine_does() {
    let (server, _fixture) = server();
    let scale = Scale::hundredth(2);
    let postgres = Server::at(&server.address);
    postgres.create().expect("tables");
    let naive = KvTpcc::new(Naive::new(KV_TABLES.len()));
    tpcc::load(&postgres, scale, 5, 1, &|_| ()).expect("loaded");
    tpcc::load(&naive, scale, 5, 1, &|_| ()).expect("loaded");
    postgres.index().expect("indexes");
    let workload = TpccWorkload {
        scale,
        load_seed: 5,
        mix: Mix::STANDARD,
    };
    compare_tpcc(&naive, &postgres, &workload, 3, 300).expect("the same answers");
    same_tpcc_rows(&naive, &postgres).expect("the same rows");
    // And many at once leave the books in order.
    let options = RunOptions {
        clients: 8,
        workers: 8,
        measure: Measure::Transactions(400),
        ..RunOptions::default()
    };
    run_tpcc(&postgres, &workload, &options).expect("no failure");
    assert_eq!(tpcc::check(&postgres, scale).expect("readable"), []);
}

#[test]
fn the_server_is_measured_and_nothing_is_left_of_it() {
    for case in ["tpcw_c4", "best_seller_c1", "tpcc_c4", "point_fit_c4"] {
        let rows = rows_of(case);
        let direct: Vec<&Row> = rows.iter().filter(|row| row.text("side") == "direct").collect();
        assert!(
            direct.iter().any(|row| row.metric == "tps")
                && direct.iter().any(|row| row.metric == "latency_ms"),
            "{case}"
        );
        for row in direct {
            assert_eq!(
                (row.label, row.answer_ok),
                (Label::Measured, Some(true)),
                "{}",
                row.to_json()
            );
        }
        // The pooler's program lies beside the lab's, not beside a test; it may be installed all the same.
        let corun: Vec<&Row> = rows.iter().filter(|row| row.text("target") == "corun").collect();
        assert!(!corun.is_empty());
        for row in corun {
            let missing = corun_cli::siblings::find("corun").is_none();
            assert_eq!(
                row.text("reason").contains("the program corun is neither"),
                missing,
                "{}",
                row.to_json()
            );
        }
    }
    let list = std::fs::read_to_string("/proc/thread-self/children").expect("Linux");
    assert_eq!(list.trim(), "");
}

#[test]
fn copies_start_with_and_without_limits() {
    let rows = rows_of("replicas_");
    for dispatch in ["round_robin", "range_replica"] {
        let row = rows.iter().find(|row| row.text("dispatch") == dispatch);
        let row = row.unwrap_or_else(|| panic!("no row of {dispatch}"));
        // The sides are this test, or memory cannot be limited here.
        assert_eq!(row.label, Label::Unavailable, "{}", row.to_json());
        assert!(!row.text("reason").is_empty());
    }
}
