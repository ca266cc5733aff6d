//! A login that the server refuses is tried once for all that wait for it; one that ends because the server stops is tried again.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::assert_contains;
use crate::common::child::free_port;
use crate::common::message::message;
use crate::common::pooler::TestPooler;
use crate::common::raw::{Raw, number};
use crate::common::wait::{wait, wait_for};

const CLIENTS: usize = 12;

/// A pooler of a server on `own` that tries again as late as `retry` says.
fn pooler(own: u16, retry: &str) -> TestPooler {
    let port = free_port();
    TestPooler::start(
        port,
        format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
             admin_users = [\"postgres\"]\npool_mode = \"transaction\"\ndefault_pool_size = 1\nserver_login_retry = \"{retry}\"\n\
             server_tls_sslmode = \"disable\"\n[corun]\nevent_loops = 4\n\
             [databases.app]\nhost = \"127.0.0.1\"\nport = {own}\nuser = \"app\"\n"
        ),
    )
}

/// The next login at the server, as far as it was sent.
fn login(server: &TcpListener) -> TcpStream {
    server.set_nonblocking(true).expect("set");
    let (mut tried, _) = wait(|| server.accept());
    tried.set_nonblocking(false).expect("set");
    let mut begun = [0; 8];
    tried.read_exact(&mut begun).expect("how it begins");
    assert_eq!(begun[4..], [0, 3, 0, 0]);
    tried
}

#[test]
fn clients_wait_while_a_server_that_stops_ends_logins() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let pooler = pooler(server.local_addr().expect("bound").port(), "10ms");
    let mut client = Raw::started(&pooler.login("app"));
    for code in ["57P01", "57P02", "57P03"] {
        let goodbye = format!("SFATAL\0VFATAL\0C{code}\0Mnot now\0\0");
        login(&server)
            .write_all(&message(b'E', goodbye.as_bytes()))
            .expect("told");
    }
    let refusal = b"SFATAL\0VFATAL\0C28P01\0Mnot with this password\0\0";
    login(&server).write_all(&message(b'E', refusal)).expect("told");
    let told = client.until_closed();
    assert_contains(&told.last().expect("an error").error(), "not with this password");
}

#[test]
fn a_refused_login_is_tried_by_one_event_loop_of_four() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let pooler = pooler(server.local_addr().expect("bound").port(), "60s");
    let mut console = pooler.console();
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::started(&pooler.login("app"))).collect();
    let mut tried = login(&server);
    wait_for(CLIENTS, || {
        let rows = console.table("show pools");
        let waiting = rows.iter().filter(|row| row["database"] == "app");
        waiting.map(|row| number::<usize>(row, "cl_waiting")).sum()
    });
    let refusal = b"SFATAL\0VFATAL\0C28P01\0Mnot with this password\0\0";
    tried.write_all(&message(b'E', refusal)).expect("told");
    drop(tried);
    for client in &mut clients {
        let told = client.until_closed();
        assert_contains(&told.last().expect("an error").error(), "not with this password");
    }
    assert!(
        server.accept().is_err(),
        "another event loop has tried it as well"
    );
}
