//! Keys about server connections and pools.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{KeysFixture, Lines};
use crate::common::configuration::files;
use crate::common::message::code;
use crate::common::raw::Raw;
use crate::common::wait::wait_until;
use corun_pooler::Pooler;

#[test]
fn servers_of_a_pool_take_turns_where_that_is_wanted() {
    let pids = |line: &str| {
        let fixture = KeysFixture::with_proxy(&format!("pool_mode = \"transaction\"\n{line}"));
        let mut clients = fixture.clients(3);
        // Three at once have three servers.
        for client in &mut clients {
            client.rows("begin");
        }
        for client in &mut clients {
            client.rows("commit");
        }
        let client = &mut clients[0];
        (0..6)
            .map(|_| client.value("select pg_backend_pid()"))
            .collect::<Vec<_>>()
    };
    let mut found = pids("server_round_robin = true");
    assert_eq!(found[..3], found[3..]);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 3);
    let mut found = pids("server_round_robin = false");
    found.dedup();
    assert_eq!(found.len(), 1, "the one used last");
}

#[test]
fn session_mode_lets_go_of_replaced_servers_at_once_where_that_is_wanted() {
    for fast in [true, false] {
        let fixture = KeysFixture::with_proxy(&format!("server_fast_close = {fast}"));
        let (mut idle, mut busy) = (fixture.client(), fixture.client());
        idle.rows("select 1");
        busy.rows("begin");
        let mut console = fixture.console();
        console.rows("reconnect");
        if fast {
            // It is told why, without asking for anything.
            assert_eq!(code(&idle.until_closed()), "57P01");
            // A transaction may end.
            assert_eq!(busy.value("select 2"), "2");
            let error = busy.try_rows("commit").and_then(|_| busy.try_rows("select 3"));
            assert!(error.is_err());
        } else {
            let pid = idle.value("select pg_backend_pid()");
            busy.rows("commit");
            assert_eq!(busy.value("select 2"), "2");
            assert_eq!(idle.value("select pg_backend_pid()"), pid);
        }
    }
}

#[test]
fn databases_of_the_wildcard_are_forgotten_when_nobody_uses_them() {
    let server = super::postgres::shared();
    let (auto, named) = (super::postgres::new_database(), super::postgres::new_database());
    let place = format!(
        "host = \"127.0.0.1\"\nport = {0}\n[databases.\"*\"]\nuser = \"app\"\nhost = \"127.0.0.1\"\nport = {0}\n\
         [databases.{named}]\nuser = \"app\"\nhost = \"127.0.0.1\"\nport = {0}",
        server.port()
    );
    let lines = Lines {
        proxy: "pool_mode = \"transaction\"\nautodb_idle_timeout = 1\nserver_idle_timeout = 1\nserver_lifetime = 0",
        ..Lines::default()
    };
    let fixture = KeysFixture::at(&place, "app", lines);
    let mut console = fixture.console();
    let shown = |console: &mut Raw| -> Vec<String> {
        let rows = console.table("show pools");
        rows.iter().map(|row| row["database"].clone()).collect()
    };
    let mut stays = fixture.client_as(&fixture.login().database(&named));
    for name in [&auto, &named] {
        let mut client = fixture.client_as(&fixture.login().database(name));
        assert_eq!(client.value("select current_database()"), *name);
        assert!(shown(&mut console).contains(name));
    }
    wait_until("it is forgotten", || !shown(&mut console).contains(&auto));
    assert!(shown(&mut console).contains(&named));
    assert_eq!(stays.value("select 1"), "1");
    let mut again = fixture.client_as(&fixture.login().database(&auto));
    assert_eq!(again.value("select current_database()"), auto);
    assert!(shown(&mut console).contains(&auto));
}

#[test]
fn the_unix_socket_belongs_to_the_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = fs::metadata(folder.path()).expect("there").gid();
    // Only root gives files to groups it is not in.
    let root = fs::metadata("/proc/self").expect("there").uid() == 0;
    let groups = fs::read_to_string("/etc/group").expect("groups");
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse::<u32>().ok()?);
        ((number != own) == root).then_some((name, number))
    });
    let (name, number) = found.expect("a group");
    let start = |group: &str| {
        let text = format!(
            "[proxy]\nauth_type = \"any\"\nunix_socket_dir = {:?}\nunix_socket_mode = \"0770\"\nunix_socket_group = \"{group}\"\n\
             [databases.a]\nhost = \"127.0.0.1\"\nuser = \"u\"\n",
            folder.path()
        );
        Pooler::start(files(&text))
    };
    let proxy = start(name).expect("started");
    let socket = fs::metadata(proxy.sockets().next().expect("a path")).expect("a socket");
    assert_eq!((socket.gid(), socket.mode() & 0o777), (number, 0o770));
    drop(proxy);
    let error = start("no such group").err().expect("refused").to_string();
    assert!(
        error.contains("no such group") && error.contains("unix_socket_group"),
        "{error}"
    );
}
