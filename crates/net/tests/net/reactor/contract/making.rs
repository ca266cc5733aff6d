//! How connections come about and change hands; waking.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use corun_net::reactor::{Address, KeepAlive, ListenOptions, Listener, Peer, Stream, TOKEN_END, TcpOptions};

use crate::reactor::support::{
    Log, Real, connection, echo, free_port, ignore, loopback, turn_a_while, turn_until,
};

pub fn connecting_succeeds<R: Real>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let mut reactor = R::make();
    let mut log = Log::new(echo);
    let port = tcp.local_addr().unwrap();
    reactor.connect(1, &Address::Tcp(port)).unwrap();
    reactor.connect(2, &Address::Unix(path)).unwrap();
    for token in [1, 2] {
        // Before it is connected.
        reactor.send(token, b"early");
        assert_eq!(reactor.queued(token), 5);
    }
    let mut tcp: Stream = tcp.accept().unwrap().0.into();
    let mut unix: Stream = unix.accept().unwrap().0.into();
    turn_until(&mut reactor, &mut log, |reactor, _| {
        reactor.queued(1) + reactor.queued(2) == 0
    });
    for (token, other) in [(1, &mut tcp), (2, &mut unix)] {
        assert_eq!(log.events(token), ["connected", "drained"]);
        reactor.send(token, b" later");
        turn_a_while(&mut reactor, &mut log);
        let mut received = [0; 11];
        match other {
            Stream::Tcp(stream) => stream.read_exact(&mut received).unwrap(),
            Stream::Unix(stream) => stream.read_exact(&mut received).unwrap(),
            other => panic!("{other:?}"),
        }
        assert_eq!(&received, b"early later");
    }
    assert_eq!(reactor.peer(1), Some(Peer::Tcp(port)));
    assert_eq!(Some(Peer::Tcp(reactor.local(1).unwrap())), tcp.peer());
    let Some(Peer::Unix { pid, .. }) = reactor.peer(2) else {
        panic!("{:?}", reactor.peer(2));
    };
    assert_eq!((pid, reactor.local(2)), (Some(std::process::id()), None));
    let options = TcpOptions {
        keep_alive: Some(KeepAlive {
            idle: Some(Duration::from_secs(30)),
            interval: Some(Duration::from_secs(5)),
            count: Some(3),
        }),
        user_timeout: Some(Duration::from_secs(40)),
    };
    for token in [1, 2, 3] {
        reactor.set_tcp_options(token, &options).unwrap();
    }
    let Some(Stream::Tcp(stream)) = reactor.take(1) else {
        panic!("it was idle");
    };
    let socket = socket2::SockRef::from(&stream);
    assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
    assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(40)));
}

/// How far a connection shifts what it says of the room it has.
fn window_scale(stream: &Stream) -> u8 {
    let Stream::Tcp(stream) = stream else {
        panic!("{stream:?}");
    };
    // SAFETY: numbers only, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as are there.
    let result = unsafe {
        let into = (&raw mut info).cast();
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            into,
            &mut length,
        )
    };
    assert_eq!(result, 0);
    // Ours is the upper half.
    info.tcpi_snd_rcv_wscale >> 4
}

/// Buffers that are smaller than a step in which the two sides tell each other what room there is would bring them to a standstill.
pub fn small_buffers_are_agreed_on_at_the_beginning<R: Real>() {
    let options = ListenOptions {
        buffer_bytes: Some(4096),
        ..ListenOptions::default()
    };
    let listener = Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let address = listener.local().unwrap();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    log.keep_accepted = true;
    reactor.listen(1, listener).unwrap();
    reactor.set_buffers(Some(4096));
    reactor.connect(2, &Address::Tcp(address)).unwrap();
    turn_until(&mut reactor, &mut log, |_, log| {
        !log.kept.is_empty() && !log.events(2).is_empty()
    });
    assert_eq!(window_scale(&log.kept[0]), 0);
    assert_eq!(window_scale(&reactor.take(2).expect("idle")), 0);
}

pub fn connecting_fails<R: Real>() {
    let folder = tempfile::tempdir().unwrap();
    let refusing = folder.path().join("refusing");
    drop(UnixListener::bind(&refusing).unwrap());
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.connect(1, &Address::Tcp(free_port())).unwrap();
    reactor
        .connect(2, &Address::Unix(folder.path().join("missing")))
        .unwrap();
    reactor.connect(3, &Address::Unix(refusing)).unwrap();
    reactor.send(1, b"never");
    turn_until(&mut reactor, &mut log, |_, log| {
        (1..=3).all(|token| log.closed(token).is_some())
    });
    assert_eq!(log.closed(1), Some(Some(ErrorKind::ConnectionRefused)));
    assert_eq!(log.closed(2), Some(Some(ErrorKind::NotFound)));
    assert_eq!(log.closed(3), Some(Some(ErrorKind::ConnectionRefused)));
    assert!((1..=3).all(|token| log.events(token) == ["closed"]));
    // A path longer than an address has room for is no connection at all.
    let long = Address::Unix("x".repeat(300).into());
    assert!(reactor.connect(4, &long).is_err());
    // Giving up is silent.
    let (_listener, address) = loopback();
    reactor.connect(5, &Address::Tcp(address)).unwrap();
    reactor.close(5);
    turn_a_while(&mut reactor, &mut log);
    assert!(log.events(5).is_empty());
}

pub fn tokens_are_unique<R: Real>() {
    let mut reactor = R::make();
    let (first, _other) = connection();
    reactor.add(1, first).unwrap();
    let (listener, _) = loopback();
    reactor.listen(2, listener).unwrap();
    for token in [1, 2, TOKEN_END, usize::MAX] {
        let (stream, _other) = connection();
        assert_eq!(
            reactor.add(token, stream).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let (listener, address) = loopback();
        assert_eq!(
            reactor.listen(token, listener).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        let error = reactor.connect(token, &Address::Tcp(address)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let large = TOKEN_END - 1;
    let (stream, mut other) = connection();
    reactor.add(large, stream).unwrap();
    other.write_all(b"large").unwrap();
    let mut log = Log::new(ignore);
    turn_until(&mut reactor, &mut log, |_, log| log.data(large) == b"large");
}

pub fn a_listener_can_be_closed<R: Real>() {
    let mut reactor = R::make();
    let mut log = Log::new(echo);
    let (listener, address) = loopback();
    reactor.listen(1, listener).unwrap();
    let clients: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    turn_until(&mut reactor, &mut log, |_, log| log.accepted.len() == 200);
    reactor.unlisten(1);
    reactor.unlisten(1);
    turn_a_while(&mut reactor, &mut log);
    assert!(TcpStream::connect(address).is_err());
    // Those it has accepted live on.
    for mut client in clients {
        client.write_all(b"x").unwrap();
        turn_until(&mut reactor, &mut log, |_, _| {
            client.set_nonblocking(true).unwrap();
            client.read(&mut [0; 1]).is_ok_and(|count| count == 1)
        });
    }
    // And the token can listen again.
    let (listener, address) = loopback();
    reactor.listen(1, listener).unwrap();
    let _client = TcpStream::connect(address).unwrap();
    turn_until(&mut reactor, &mut log, |_, log| log.accepted.len() == 201);
}

fn unix_listener<R: Real>(path: &Path, mode: u32) {
    let options = ListenOptions {
        mode,
        ..ListenOptions::default()
    };
    let listener = Listener::unix(path, &options).unwrap();
    assert_eq!(
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
        mode
    );
    let error = Listener::unix(path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    log.keep_accepted = true;
    reactor.listen(1, listener).unwrap();
    let mut client = UnixStream::connect(path).unwrap();
    // The connection in question and those that asked whether anybody listens.
    turn_until(&mut reactor, &mut log, |_, log| log.kept.len() >= 2);
    client.write_all(b"by the file").unwrap();
    let mut token = 2;
    for stream in std::mem::take(&mut log.kept) {
        let Some(Peer::Unix { pid, .. }) = stream.peer() else {
            panic!("{stream:?}");
        };
        assert_eq!(pid, Some(std::process::id()));
        reactor.add(token, stream).unwrap();
        token += 1;
    }
    turn_until(&mut reactor, &mut log, |_, log| {
        (2..token).any(|token| log.data(token) == b"by the file")
    });
}

pub fn unix_listeners_replace_dead_ones<R: Real>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    unix_listener::<R>(&path, 0o700);
    unix_listener::<R>(&path, 0o777);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "something else").unwrap();
    let error = Listener::unix(&path, &ListenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&path).unwrap(), b"something else");
}

pub fn a_unix_socket_is_taken_over<R: Real>() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let options = ListenOptions {
        reuse_port: true,
        mode: 0o750,
        ..ListenOptions::default()
    };
    let old = Listener::unix(&path, &options).unwrap();
    let first = UnixStream::connect(&path).unwrap();
    let new = Listener::unix(&path, &options).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o750
    );
    let second = UnixStream::connect(&path).unwrap();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.listen(1, old).unwrap();
    // What came before the change of the name is the old one's.
    turn_until(&mut reactor, &mut log, |_, log| log.accepted.len() == 1);
    reactor.unlisten(1);
    reactor.listen(2, new).unwrap();
    turn_until(&mut reactor, &mut log, |_, log| log.accepted.len() == 2);
    drop((first, second));
    // No other name is left behind, and what is no socket is not replaced.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "something else").unwrap();
    let error = Listener::unix(&path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
}

/// While one listener of two drops SYNs, clients repeat them until it is closed; none is refused.
pub fn a_listener_leaves_a_shared_port_without_a_gap<R: Real>() {
    let options = ListenOptions {
        reuse_port: true,
        ..ListenOptions::default()
    };
    let listener = Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let address = listener.local().unwrap();
    let (mut old, mut new) = (R::make(), R::make());
    let (mut of_old, mut of_new) = (Log::new(ignore), Log::new(ignore));
    old.listen(1, listener).unwrap();
    new.listen(1, Listener::tcp(address, &options).unwrap()).unwrap();
    let _before: Vec<_> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    old.drop_syns(1);
    turn_until(&mut old, &mut of_old, |_, of_old| {
        new.turn(Some(Duration::ZERO), &mut of_new).unwrap();
        of_old.accepted.len() + of_new.accepted.len() == 20
    });
    let those_of_old = of_old.accepted.len();
    let during: Vec<_> = (0..20)
        .map(|_| thread::spawn(move || TcpStream::connect(address)))
        .collect();
    turn_a_while(&mut old, &mut of_old);
    old.unlisten(1);
    turn_until(&mut old, &mut of_old, |_, of_old| {
        new.turn(Some(Duration::ZERO), &mut of_new).unwrap();
        of_old.accepted.len() + of_new.accepted.len() == 40
    });
    assert_eq!(of_old.accepted.len(), those_of_old);
    for stream in during {
        stream.join().unwrap().unwrap();
    }
}

pub fn ports_can_be_shared<R: Real>() {
    let options = ListenOptions {
        reuse_port: true,
        ..ListenOptions::default()
    };
    let first = Listener::tcp(SocketAddr::from(([127, 0, 0, 1], 0)), &options).unwrap();
    let address = first.local().unwrap();
    let second = Listener::tcp(address, &options).unwrap();
    let alone = Listener::tcp(address, &ListenOptions::default());
    assert_eq!(alone.unwrap_err().kind(), ErrorKind::AddrInUse);
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.listen(1, first).unwrap();
    reactor.listen(2, second).unwrap();
    let _clients: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    turn_until(&mut reactor, &mut log, |_, log| log.accepted.len() == 40);
}

pub fn connections_move_to_another_reactor<R: Real>() {
    let (first, mut other) = connection();
    let mut reactors = [R::make(), R::make()];
    let mut log = Log::new(echo);
    reactors[0].add(0, first).unwrap();
    let writer = thread::spawn(move || {
        for round in 0..2000u32 {
            other.write_all(&round.to_ne_bytes()).unwrap();
            let mut answer = [0; 4];
            other.read_exact(&mut answer).unwrap();
            assert_eq!(u32::from_ne_bytes(answer), round);
        }
    });
    let (mut at, mut moves) = (0, 0);
    turn_until(&mut reactors[0], &mut log, |_, log| log.data(0).len() >= 400);
    while !writer.is_finished() {
        // None: some input has been received but not delivered.
        if let Some(stream) = reactors[at].take(moves) {
            assert!(reactors[at].peer(moves).is_none());
            (at, moves) = (1 - at, moves + 1);
            reactors[at].add(moves, stream).unwrap();
        }
        for _ in 0..3 {
            reactors[at]
                .turn(Some(Duration::from_millis(1)), &mut log)
                .unwrap();
        }
    }
    writer.join().unwrap();
    turn_until(&mut reactors[at], &mut log, |_, log| log.closed(moves).is_some());
    assert!(moves > 10, "it moved {moves} times");
    let received: usize = log.seen.values().map(|seen| seen.data.len()).sum();
    assert_eq!(received, 8000);
}

pub fn a_connection_with_output_stays<R: Real>() {
    let (ours, mut other) = connection();
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    reactor.add(1, ours).unwrap();
    reactor.send(1, &vec![3; 16 << 20]);
    assert!(reactor.take(1).is_none());
    let reader = thread::spawn(move || other.read_exact(&mut vec![0; 16 << 20]).map(|()| other));
    turn_until(&mut reactor, &mut log, |reactor, _| reactor.queued(1) == 0);
    turn_until(&mut reactor, &mut log, |reactor, _| reactor.take(1).is_some());
    reader.join().unwrap().unwrap();
    assert!(reactor.take(1).is_none());
    turn_a_while(&mut reactor, &mut log);
    assert_eq!(log.closed(1), None);
}

pub fn waking<R: Real>() {
    let mut reactor = R::make();
    let mut log = Log::new(ignore);
    let waker = reactor.waker();
    waker.wake();
    waker.clone().wake();
    reactor.turn(None, &mut log).unwrap();
    assert_eq!(log.woken, 1);
    turn_a_while(&mut reactor, &mut log);
    assert_eq!(log.woken, 1);
    for round in 2..50 {
        let waker = reactor.waker();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(round as u64 % 5));
            waker.wake();
        });
        while log.woken < round {
            reactor.turn(None, &mut log).unwrap();
        }
        other.join().unwrap();
    }
    assert_eq!(log.woken, 49);
    drop(reactor);
    waker.wake();
}
