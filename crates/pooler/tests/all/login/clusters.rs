//! Roles of one name in two clusters: what a login to one shows is good for that one alone.

use super::who;
use crate::common::assert_contains;
use crate::common::child::free_port;
use crate::common::pooler::TestPooler;
use crate::common::postgres::{Options, Postgres, shared};
use crate::common::raw::Raw;

/// A pooler in front of these databases, each a table of its own.
fn start(databases: &str, more: &str) -> TestPooler {
    let port = free_port();
    let text = format!(
        "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nadmin_users = [\"postgres\"]\n\
         pool_mode = \"transaction\"\nserver_idle_timeout = \"200ms\"\nserver_login_retry = \"0s\"\n{more}\n{databases}"
    );
    TestPooler::start(port, text)
}

fn database(name: &str, port: u16, more: &str) -> String {
    format!("[databases.{name}]\nhost = \"127.0.0.1\"\nport = {port}\ndbname = \"postgres\"\n{more}\n")
}

/// A server that asks for passwords, the superuser's excepted; the role's verifier is unlike that of other servers.
fn cluster() -> Postgres {
    let server = Postgres::start_with(Options {
        hba: vec![
            "host all postgres 127.0.0.1/32 trust".to_owned(),
            "host all all 127.0.0.1/32 scram-sha-256".to_owned(),
        ],
        ..Default::default()
    });
    server.sql("set password_encryption = 'scram-sha-256'; alter user app_scram password 'secret'");
    server
}

#[test]
fn logins_to_one_cluster_leave_those_to_another_alone() {
    let (a, b) = (cluster(), cluster());
    let databases = [
        database("a", a.port(), "auth_user = \"postgres\""),
        database("b", b.port(), "auth_user = \"postgres\""),
    ]
    .concat();
    let pooler = start(&databases, "auth_type = \"scram-sha-256\"");
    let login = |database: &str| pooler.login("app_scram").database(database);
    let mut clients: Vec<Raw> = (0..3).map(|_| pooler.client_as(&login("a"))).collect();
    assert_eq!(who(&login("b")), Ok("app_scram app_scram off".to_owned()));
    // Connections to a are made anew, by what its own clients have shown.
    a.wait_until("select count(*) = 0 from pg_stat_activity where usename = 'app_scram'");
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(
                        client.value("select pg_sleep(0.01)::text || current_user"),
                        "app_scram"
                    );
                }
            });
        }
    });
    assert_eq!(who(&login("a")), Ok("app_scram app_scram off".to_owned()));
    assert_eq!(who(&login("b")), Ok("app_scram app_scram off".to_owned()));
}

#[test]
fn a_wrong_password_of_a_database_is_not_made_good_by_a_login_to_another() {
    let server = cluster();
    let databases = [
        database("good", server.port(), "auth_user = \"postgres\""),
        database(
            "wrong",
            server.port(),
            "auth_user = \"postgres\"\nuser = \"app_scram\"\npassword = \"nonsense\"",
        ),
    ]
    .concat();
    let pooler = start(&databases, "auth_type = \"scram-sha-256\"");
    let login = |database: &str| pooler.login("app_scram").database(database);
    for _ in 0..2 {
        assert_eq!(who(&login("good")), Ok("app_scram app_scram off".to_owned()));
        let refused = who(&login("wrong")).expect_err("the password is wrong");
        assert_contains(&refused, "password authentication failed for user \"app_scram\"");
    }
    // The shared server is there so that both tests run beside others that use it.
    shared();
}
