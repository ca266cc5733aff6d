//! Several processes behind one address: cancel requests find the process of their client, and one process takes over from another
//! without a gap.

mod cancels;
mod edges;
mod restart;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::common::child::Folder;
use crate::common::message::cancel_request;
use crate::common::postgres;
use crate::common::process::serve_if_told;
use crate::common::raw::{Login, PATIENCE};

/// The test whose process is a pooler where the environment says so.
const PROCESS: &str = "peers::a_process_of_its_own";

#[test]
fn a_process_of_its_own() {
    serve_if_told();
}

/// Text of a configuration: `proxy` and `corun` are more lines of those tables, `rest` more tables.
fn configuration(folder: &Path, port: u16, proxy: &str, corun: &str, rest: &str) -> String {
    let users = folder.join("users.txt");
    std::fs::write(&users, "\"app\" \"\"\n\"postgres\" \"\"\n").expect("users");
    format!(
        "[proxy]\nlisten_addr = \"127.0.0.1\"\nlisten_port = {port}\nso_reuseport = true\nauth_type = \"trust\"\n\
         auth_file = {users:?}\nadmin_users = [\"postgres\"]\npool_mode = \"transaction\"\ndefault_pool_size = 10\n\
         max_client_conn = 1000\n{proxy}\n[corun]\nevent_loops = 2\n{corun}\n[databases.\"*\"]\nhost = \"127.0.0.1\"\nport = {}\n{rest}",
        postgres::shared().port()
    )
}

/// The configuration of process `id` of several that are each other's peers, each with a Unix socket in a folder of its own; `peers`
/// says where cancel requests for which process go.
fn peer(folder: &Folder, port: u16, id: u16, peers: &[(u16, u16)]) -> String {
    let at = |id: u16| folder.path().join(format!("p{id}"));
    std::fs::create_dir_all(at(id)).expect("a folder");
    let proxy = format!("unix_socket_dir = {:?}\npeer_id = {id}", at(id));
    let table = |(id, host): &(u16, u16)| format!("[peers.{id}]\nhost = {:?}\nport = {port}\n", at(*host));
    let tables: String = peers.iter().map(table).collect();
    configuration(folder.path(), port, &proxy, "", &tables)
}

/// How `app` logs in by the Unix socket of process `id`.
fn login_at(folder: &Folder, port: u16, id: u16, database: &str) -> Login {
    let mut login = Login::new("127.0.0.1", port, "app").database(database);
    login.socket = Some(folder.path().join(format!("p{id}")));
    login
}

/// Sends a cancel request by the Unix socket of process `id`, and waits until that has taken it.
fn cancel_at(folder: &Folder, port: u16, id: u16, (pid, secret): &(u32, Vec<u8>)) {
    let path = folder.path().join(format!("p{id}/.s.PGSQL.{port}"));
    let mut socket = UnixStream::connect(path).expect("connected");
    socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
    socket.write_all(&cancel_request(*pid, secret)).expect("sent");
    let mut said = Vec::new();
    let _ = socket.read_to_end(&mut said);
    assert!(said.is_empty(), "an answer to a cancel request: {said:?}");
}

/// The process that a key names, as PgBouncer reads it.
fn peer_of((pid, _): &(u32, Vec<u8>)) -> u16 {
    let bytes = pid.to_be_bytes();
    u16::from_le_bytes([bytes[1], bytes[2]])
}
