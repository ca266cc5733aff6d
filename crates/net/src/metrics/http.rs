//! As much of HTTP/1.1 as a scraper of metrics and a page of status speak: one request, one response, end.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longest request.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// What the bytes received so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Not whole yet: wait for more.
    Incomplete,
    /// A question: answer it, then close.
    Get {
        /// What for, without a query.
        path: String,
        /// The header `Host`.
        host: Option<String>,
    },
    /// Send this, then close.
    Refused(Vec<u8>),
}

impl Request {
    /// Looks at all bytes received so far.
    pub fn read(bytes: &[u8]) -> Request {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end.filter(|end| *end <= REQUEST_BYTES_MAX) else {
            if bytes.len() > REQUEST_BYTES_MAX {
                return refused("431 Request Header Fields Too Large", "");
            }
            return Request::Incomplete;
        };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        if !version.is_some_and(|version| version.starts_with("HTTP/1.")) {
            return refused("400 Bad Request", "");
        }
        if method != Some("GET") {
            return refused("405 Method Not Allowed", "Allow: GET\r\n");
        }
        let mut hosts = lines
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map(|(_, host)| host.trim().to_owned());
        let host = hosts.next();
        if hosts.next().is_some() {
            return refused("400 Bad Request", "");
        }
        let path = target.unwrap_or_default().split('?').next().unwrap_or_default();
        Request::Get {
            path: path.to_owned(),
            host,
        }
    }
}

fn refused(status: &str, header: &str) -> Request {
    Request::Refused(response(status, "text/plain", header, &format!("{status}\n")))
}

/// A whole response; `headers` are further ones, each with its end of line.
pub fn response(status: &str, kind: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let rest = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    format!("HTTP/1.1 {status}\r\n{headers}{rest}").into_bytes()
}

/// Whether a request under this name (`Host`) may be answered: an address or `localhost`, with or without a port, or one of `names` (`*`: any).
///
/// A page of a stranger may ask a browser for a name of its own that leads to this machine (DNS rebinding), and would read the answer. It
/// cannot do so with an address, nor with a name that is not its own.
pub fn is_own_name(host: &str, names: &[String]) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_named = |name: &String| name == "*" || name.eq_ignore_ascii_case(bare);
    bare.parse::<IpAddr>().is_ok() || bare.eq_ignore_ascii_case("localhost") || names.iter().any(is_named)
}

/// Asks a server for a path and returns the number of its answer's status and its body. `limit` bounds everything together, `bytes_max` the
/// answer.
///
/// # Errors
/// Nobody there, an answer that is too long or too late, or no HTTP.
pub fn get(authority: &str, path: &str, limit: Duration, bytes_max: usize) -> io::Result<(u16, Vec<u8>)> {
    let until = Instant::now() + limit;
    let left = || match until.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut connected = None;
    for address in authority.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = error,
        }
    }
    let mut stream = connected.ok_or(last)?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut buffer)? {
            0 => break,
            read => bytes.extend(&buffer[..read]),
        }
        if bytes.len() > bytes_max {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the answer is too long",
            ));
        }
    }
    parse(&bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP, or not whole"))
}

/// Status and body of a whole answer.
fn parse(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.lines();
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let body = &bytes[end + 4..];
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let is_whole = match length {
        Some((_, length)) => length.trim().parse() == Ok(body.len()),
        None => true,
    };
    is_whole.then_some((status.parse().ok()?, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nhOst: a:1 \r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(Request::read(&whole[..end]), Request::Incomplete);
        }
        let got = Request::Get {
            path: "/metrics".to_owned(),
            host: Some("a:1".to_owned()),
        };
        assert_eq!(Request::read(whole), got);
        let status = |bytes: &[u8]| match Request::read(bytes) {
            Request::Refused(bytes) => String::from_utf8_lossy(&bytes[..12]).into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405");
        assert_eq!(status(b"HEAD / HTTP/1.1\r\n\r\n"), "HTTP/1.1 405");
        assert_eq!(status(b"GET /metrics\r\n\r\n"), "HTTP/1.1 400");
        assert_eq!(
            status(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            "HTTP/1.1 400"
        );
        assert_eq!(status(b"\xff\xfe\r\n\r\n"), "HTTP/1.1 400");
        assert_eq!(status(&[b'x'; 20_000]), "HTTP/1.1 431");
    }

    #[test]
    fn answers_are_read_back_if_they_are_whole() {
        let answer = response("404 Not Found", "text/plain", "A: b\r\n", "a 1\n");
        assert!(answer.ends_with(b"Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"));
        assert_eq!(parse(&answer), Some((404, b"a 1\n".to_vec())));
        for end in 0..answer.len() {
            assert_eq!(parse(&answer[..end]), None, "{end}");
        }
    }

    #[test]
    fn names_that_a_stranger_may_own_are_not_ours() {
        let names = ["db1.example".to_owned()];
        for own in [
            "127.0.0.1:9100",
            "[::1]:9100",
            "10.0.0.7",
            "localhost",
            "LOCALHOST:1",
            "db1.example:9100",
        ] {
            assert!(is_own_name(own, &names), "{own}");
        }
        for other in [
            "",
            "evil.example:9100",
            "127.0.0.1.evil.example",
            "localhost.evil",
        ] {
            assert!(!is_own_name(other, &names), "{other}");
        }
        assert!(is_own_name("any.example", &["*".to_owned()]));
    }
}
