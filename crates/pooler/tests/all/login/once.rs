//! A login that the server refuses is tried once for all that wait for it.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::common::assert_contains;
use crate::common::child::free_port;
use crate::common::message::message;
use crate::common::pooler::TestPooler;
use crate::common::raw::{Raw, number};
use crate::common::wait::wait_for;

const CLIENTS: usize = 12;

#[test]
fn a_refused_login_is_tried_by_one_event_loop_of_four() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (own, port) = (server.local_addr().expect("bound").port(), free_port());
    let pooler = TestPooler::start(
        port,
        format!(
            "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nunix_socket_dir = \"\"\nauth_type = \"any\"\n\
             admin_users = [\"postgres\"]\npool_mode = \"transaction\"\ndefault_pool_size = 1\nserver_login_retry = \"60s\"\n\
             server_tls_sslmode = \"disable\"\n[corun]\nevent_loops = 4\n\
             [databases.app]\nhost = \"127.0.0.1\"\nport = {own}\nuser = \"app\"\n"
        ),
    );
    let mut console = pooler.console();
    let mut clients: Vec<Raw> = (0..CLIENTS).map(|_| Raw::started(&pooler.login("app"))).collect();
    let (mut tried, _) = server.accept().expect("a login");
    let mut begun = [0; 8];
    tried.read_exact(&mut begun).expect("how it begins");
    assert_eq!(begun[4..], [0, 3, 0, 0]);
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
    server.set_nonblocking(true).expect("set");
    assert!(
        server.accept().is_err(),
        "another event loop has tried it as well"
    );
}
