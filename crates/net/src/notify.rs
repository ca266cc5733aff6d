//! Tells systemd how a service is: ready, reloading, stopping, and a line of status.
//!
//! A supervisor that wants to know names a datagram socket in `NOTIFY_SOCKET`; without it every call does nothing. One
//! datagram a call, never waited for. Not here: what the service does between these states.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The state of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State<'a> {
    /// It serves, for the first time or after [`State::Reloading`].
    Ready,
    /// It reads its configuration again.
    Reloading,
    /// It ends, perhaps after what is under way.
    Stopping,
    /// What it does now, in one line for people.
    Status(&'a str),
}

/// Tells the supervisor, if there is one; returns whether there is.
///
/// # Errors
/// When the supervisor's socket cannot be reached. A service goes on without: log it and continue.
pub fn notify(state: State<'_>) -> io::Result<bool> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) if !socket.is_empty() => send(&socket, state).map(|()| true),
        _ => Ok(false),
    }
}

fn send(socket: &OsStr, state: State<'_>) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let message = match state {
        State::Ready => "READY=1".to_owned(),
        State::Reloading => "RELOADING=1".to_owned(),
        State::Stopping => "STOPPING=1".to_owned(),
        // A line break would begin another assignment.
        State::Status(text) => format!("STATUS={}", text.replace(['\n', '\r'], " ")),
    };
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(receiver: &UnixDatagram) -> String {
        let mut bytes = [0; 100];
        let length = receiver.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn the_supervisor_hears_each_state() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let receiver = UnixDatagram::bind(&path).expect("bound");
        for (state, expected) in [
            (State::Ready, "READY=1"),
            (State::Reloading, "RELOADING=1"),
            (State::Stopping, "STOPPING=1"),
            (State::Status("7 clients\nREADY=0"), "STATUS=7 clients READY=0"),
        ] {
            send(path.as_os_str(), state).expect("sent");
            assert_eq!(received(&receiver), expected);
        }

        let name = format!("corun-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let receiver = UnixDatagram::bind_addr(&address).expect("bound");
        send(OsStr::new(&format!("@{name}")), State::Ready).expect("sent");
        assert_eq!(received(&receiver), "READY=1");

        let nowhere = folder.path().join("nowhere");
        assert!(send(nowhere.as_os_str(), State::Ready).is_err());
    }
}
