//! Where a worker listens, as people write it.

use corun_datafusion::EngineError;
use std::fmt;
use url::Url;

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In the clear: on the loopback interface only, unless asked for.
    Plain,
    /// TLS, both ends with a certificate.
    Tls,
}

/// `HOST:PORT` of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(Url);

impl Address {
    /// Reads `HOST:PORT`, where HOST is a name, an IPv4 address or an IPv6 address in brackets.
    ///
    /// # Errors
    /// Anything else.
    pub fn parse(text: &str, scheme: Scheme) -> Result<Address, EngineError> {
        let wrong = || {
            EngineError::new(format!("\"{text}\" is not the address of a worker"))
                .with_hint("write HOST:PORT, such as 10.0.0.2:7600 or [::1]:7600")
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        if host.is_empty() || port == 0 {
            return Err(wrong());
        }
        let scheme = match scheme {
            Scheme::Plain => "http",
            Scheme::Tls => "https",
        };
        let url = Url::parse(&format!("{scheme}://{host}:{port}")).map_err(|_| wrong())?;
        let is_only_that = url.path() == "/" && url.query().is_none() && url.username().is_empty();
        match is_only_that && url.fragment().is_none() {
            true => Ok(Address(url)),
            false => Err(wrong()),
        }
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }
}

/// The address behind a worker's URL, for messages.
pub(crate) fn of_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&of_url(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for text in ["localhost:7600", "10.0.0.2:1", "[::1]:7600", "a.b-c.example:443"] {
            let address = Address::parse(text, Scheme::Tls).expect(text);
            assert_eq!(address.to_string(), text);
        }
        for text in [
            "",
            "localhost",
            "localhost:",
            ":7600",
            "localhost:0",
            "localhost:70000",
            "http://a:1",
            "a:1/b",
            "a b:1",
            "u@h:1",
            "::1",
        ] {
            let error = Address::parse(text, Scheme::Plain).expect_err(text);
            assert!(error.hint.is_some(), "{text}");
        }
    }
}
