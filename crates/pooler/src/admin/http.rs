//! As much of HTTP/1.1 as a scraper of metrics speaks: one request, one response, end.

use super::prometheus::CONTENT_TYPE;

/// Longest request.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

/// What the bytes received so far are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpRequest {
    /// Not whole yet: wait for more.
    Incomplete,
    /// It asks for the metrics: answer with [`response`], then close.
    Metrics,
    /// Send this, then close.
    Refused(Vec<u8>),
}

impl HttpRequest {
    /// Looks at all bytes received so far.
    pub fn read(bytes: &[u8]) -> HttpRequest {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end.filter(|end| *end <= REQUEST_BYTES_MAX) else {
            if bytes.len() > REQUEST_BYTES_MAX {
                return refused("431 Request Header Fields Too Large", "");
            }
            return HttpRequest::Incomplete;
        };
        let head = String::from_utf8_lossy(&bytes[..end]);
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
                match target.split('?').next() {
                    Some("/metrics") => HttpRequest::Metrics,
                    _ => refused("404 Not Found", ""),
                }
            }
            (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => {
                refused("405 Method Not Allowed", "Allow: GET\r\n")
            }
            _ => refused("400 Bad Request", ""),
        }
    }
}

fn refused(status: &str, header: &str) -> HttpRequest {
    let body = format!("{status}\nThe metrics are at /metrics.\n");
    HttpRequest::Refused(whole(status, header, "text/plain", &body))
}

/// The response with the text of a scrape.
pub fn response(metrics: &str) -> Vec<u8> {
    whole("200 OK", "", CONTENT_TYPE, metrics)
}

fn whole(status: &str, header: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let rest = format!("Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    format!("HTTP/1.1 {status}\r\n{header}{rest}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(HttpRequest::read(&whole[..end]), HttpRequest::Incomplete);
        }
        assert_eq!(HttpRequest::read(whole), HttpRequest::Metrics);
        let status = |bytes: &[u8]| match HttpRequest::read(bytes) {
            HttpRequest::Refused(bytes) => String::from_utf8_lossy(&bytes[..12]).into_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), "HTTP/1.1 404");
        assert_eq!(status(b"POST /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 405");
        assert_eq!(status(b"GET /metrics\r\n\r\n"), "HTTP/1.1 400");
        assert_eq!(status(b"\xff\xfe\r\n\r\n"), "HTTP/1.1 400");
        assert_eq!(status(&[b'x'; 20_000]), "HTTP/1.1 431");
        let response = String::from_utf8(response("a 1\n")).expect("text");
        assert!(
            response.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"),
            "{response}"
        );
    }
}
