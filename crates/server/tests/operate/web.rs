//! Who may ask, and how: by which name, by which method, and how slowly.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use corun_net::metrics::http::get;
use corun_server::operate::{Web, WebConfig, WebError};

use crate::{Server, wait};

fn config(names: &[&str]) -> WebConfig {
    WebConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn start(server: &Server, names: &[&str]) -> Web {
    let status = std::sync::Arc::clone(&server.status);
    Web::start(&config(names), move |path| status.answer(path)).expect("it listens")
}

/// What comes back for some bytes, up to the end.
fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("set");
    stream.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn pages_by_address_and_name() {
    let server = Server::start(|_| {});
    let web = start(&server, &["db1.example"]);
    let address = web.address();
    for path in ["/", "/metrics", "/status.json", "/health"] {
        let (status, body) =
            get(&address.to_string(), path, Duration::from_secs(60), 1 << 20).expect("an answer");
        assert_eq!(status, 200, "{path}");
        assert!(!body.is_empty());
    }
    let asked = |host: &str| {
        raw(
            address,
            format!("GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(),
        )
    };
    for own in ["localhost:1", "db1.example", "[::1]"] {
        assert!(asked(own).starts_with("HTTP/1.1 200"), "{own}");
    }
    for other in ["evil.example", "localhost.evil.example"] {
        let told = asked(other);
        assert!(
            told.starts_with("HTTP/1.1 421") && told.contains("--metrics-host"),
            "{told}"
        );
    }
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "421"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        (b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        (b"nonsense\r\n\r\n", "400"),
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        (&[b'x'; 17 << 10], "431"),
    ] {
        let told = raw(address, bytes);
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{told}");
    }
    let page = raw(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for header in [
        "Content-Security-Policy: default-src 'none'; ",
        "X-Content-Type-Options: nosniff\r\n",
        "X-Frame-Options: DENY\r\n",
        "Cache-Control: no-store\r\n",
    ] {
        assert!(page.contains(header), "{header} in {page}");
    }
}

#[test]
fn clients_that_say_nothing_keep_nobody_waiting_and_are_sent_away() {
    let server = Server::start(|_| {});
    let web = start(&server, &[]);
    let address = web.address();
    let mut silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(address).expect("connects"))
        .collect();
    for stream in &mut silent {
        // Those for whom there is no room are closed already.
        let _ = stream.write_all(b"GET / HT");
    }
    // Others are served, at the latest when the silent ones have been sent away.
    wait("it answers", || {
        let answer = get(&address.to_string(), "/health", Duration::from_secs(60), 1 << 20);
        answer.is_ok_and(|(status, _)| status == 200)
    });
    for stream in &mut silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("set");
        let read = stream.read(&mut [0; 16]);
        let is_end = match &read {
            Ok(bytes) => *bytes == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(is_end, "{read:?}");
    }
}

#[test]
fn others_are_let_in_only_where_that_is_said() {
    let open = WebConfig {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        names: Vec::new(),
    };
    let refused = Web::start(&open, |_| None).err().expect("refused");
    assert!(matches!(refused, WebError::Reachable(_)));
    assert!(refused.to_string().contains("--metrics-host"), "{refused}");
    let named = WebConfig {
        names: vec!["db1".to_owned()],
        ..open
    };
    drop(Web::start(&named, |_| None).expect("it listens"));
    let taken = Web::start(&config(&[]), |_| None).expect("it listens");
    let again = WebConfig {
        listen: taken.address(),
        names: Vec::new(),
    };
    assert!(matches!(
        Web::start(&again, |_| None),
        Err(WebError::Listen { .. })
    ));
}
