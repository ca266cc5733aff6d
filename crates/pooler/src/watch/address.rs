//! [`Address`]: where a console is and who asks there, from a text such as `postgres://postgres@127.0.0.1:6432/corun` or from the
//! proxy's configuration.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use crate::config::{CONSOLE, Endpoint, Host};
use crate::core::ConfigFiles;
use corun_wire::auth::{Credentials, Lookup};
use corun_wire::tls::TlsMode;

/// Port where a text names none.
const PORT: u16 = 6432;

/// Where a console is, and who asks.
#[derive(Clone, Debug)]
pub struct Address {
    /// Where.
    pub endpoint: Endpoint,
    /// User of the console.
    pub user: String,
    /// What proves it.
    pub credentials: Credentials,
    /// The console's name.
    pub database: String,
    /// Whether TLS is wanted; certificates are not checked.
    pub tls: TlsMode,
}

/// What is wrong with a text, or why a configuration does not lead to a console. None tells a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It does not look like an address.
    #[error(
        "the address of the console is not right: {0}\nhint: write postgres://USER@HOST:PORT/corun, or ?host=/FOLDER for a Unix socket"
    )]
    Text(&'static str),
    /// Nobody may use the console.
    #[error(
        "no user of {0} may use the console\nhint: name one in admin_users or stats_users, or give --dsn"
    )]
    Nobody(&'static str),
    /// It listens nowhere we could guess.
    #[error("{0} says nowhere to connect to\nhint: set listen_addr or unix_socket_dir, or give --dsn")]
    Nowhere(&'static str),
}

impl Address {
    /// Reads `postgres://user[:password]@host[:port][/database][?host=/folder&sslmode=prefer]`. Without a user it is `user`.
    ///
    /// # Errors
    /// What is wrong, without the text, in which a password may be.
    pub fn parse(text: &str, user: &str) -> Result<Self, AddressError> {
        let wrong = AddressError::Text;
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or(wrong("it does not begin with postgres://"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
        let (name, password) = match who.split_once(':') {
            Some((name, password)) => (decode(name)?, Some(decode(password)?)),
            None => (decode(who)?, None),
        };
        let (host, port) = split_port(place)?;
        let mut found = Self {
            endpoint: Endpoint {
                host: match host {
                    "" => Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                    host => host_of(&decode(host)?)?,
                },
                port,
            },
            user: if name.is_empty() { user.to_owned() } else { name },
            credentials: Credentials::default(),
            database: match decode(database)? {
                name if name.is_empty() => CONSOLE.to_owned(),
                name => name,
            },
            tls: TlsMode::Prefer,
        };
        found.set_password(password.as_deref());
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("host", value) => found.endpoint.host = host_of(&decode(value)?)?,
                ("port", value) => found.endpoint.port = port_of(value)?,
                ("sslmode", "disable") => found.tls = TlsMode::Disable,
                ("sslmode", "allow" | "prefer") => found.tls = TlsMode::Prefer,
                ("sslmode", "require") => found.tls = TlsMode::Require,
                ("sslmode", _) => return Err(wrong("sslmode takes disable, prefer or require")),
                _ => return Err(wrong("behind ? only host, port and sslmode are known")),
            }
        }
        Ok(found)
    }

    /// The console of the proxy that `files` configures, as the first of its `admin_users` or `stats_users`.
    ///
    /// # Errors
    /// Nobody may use it, or it listens nowhere.
    pub fn of(files: &ConfigFiles) -> Result<Self, AddressError> {
        let proxy = &files.config.proxy;
        let user = proxy
            .admin_users
            .iter()
            .chain(&proxy.stats_users)
            .next()
            .ok_or(AddressError::Nobody("the configuration"))?;
        let host = match proxy.listen_addr.first().map(String::as_str) {
            Some("*" | "0.0.0.0") => Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Some("::") => Host::Ip(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            Some(name) => Host::parse(name).map_err(|_| AddressError::Nowhere("listen_addr"))?,
            None if !proxy.unix_socket_dir.is_empty() => {
                Host::Directory(PathBuf::from(&proxy.unix_socket_dir))
            }
            None => return Err(AddressError::Nowhere("the configuration")),
        };
        let secret = match files.lookup(user) {
            Lookup::Found(secret) => Some(secret),
            _ => None,
        };
        Ok(Self {
            endpoint: Endpoint {
                host,
                port: proxy.listen_port,
            },
            user: user.clone(),
            credentials: Credentials::new(secret, None),
            database: CONSOLE.to_owned(),
            tls: TlsMode::Prefer,
        })
    }

    /// Takes this password, if there is one.
    pub fn set_password(&mut self, password: Option<&str>) {
        if let Some(password) = password {
            self.credentials.password = Some(password.as_bytes().to_vec());
        }
    }
}

fn host_of(text: &str) -> Result<Host, AddressError> {
    Host::parse(text).map_err(|_| AddressError::Text("the host is neither a name, an address nor a folder"))
}

fn port_of(text: &str) -> Result<u16, AddressError> {
    text.parse()
        .ok()
        .filter(|port| *port > 0)
        .ok_or(AddressError::Text("the port is not a number from 1 to 65535"))
}

fn split_port(place: &str) -> Result<(&str, u16), AddressError> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest
            .split_once(']')
            .ok_or(AddressError::Text("an address in brackets has no end"))?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, port_of(port)?)),
            None if rest.is_empty() => Ok((host, PORT)),
            None => Err(AddressError::Text(
                "something else than a port follows the brackets",
            )),
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Ok((host, port_of(port)?)),
        None => Ok((place, PORT)),
    }
}

/// Takes `%41` for `A`.
fn decode(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(AddressError::Text("% is not followed by two hexadecimal digits")),
        }
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Text("it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn shown(text: &str) -> String {
        match Address::parse(text, "me") {
            Ok(found) => format!(
                "{}@{}/{} {:?} {}",
                found.user,
                found.endpoint,
                found.database,
                found.tls,
                found.credentials.password.map_or("-".to_owned(), |password| {
                    String::from_utf8_lossy(&password).into_owned()
                })
            ),
            Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn addresses_are_those_of_postgresql() {
        for (text, expected) in [
            ("postgres://", "me@127.0.0.1:6432/pgbouncer Prefer -"),
            ("postgres://a@db1/corun", "a@db1:6432/corun Prefer -"),
            (
                "postgresql://a:p%40ss@db1:99/x?sslmode=disable",
                "a@db1:99/x Disable p@ss",
            ),
            ("postgres://a@[::1]:5/corun", "a@[::1]:5/corun Prefer -"),
            (
                "postgres://a@/corun?host=/run/corun&port=7",
                "a@/run/corun:7/corun Prefer -",
            ),
            (
                "postgres://a@%2Ftmp/corun?sslmode=require",
                "a@/tmp:6432/corun Require -",
            ),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for wrong in [
            "db1:6432",
            "postgres://a@db1:0",
            "postgres://a@db1:x",
            "postgres://a@[::1",
            "postgres://a@db1?color=red",
            "postgres://a@db1?sslmode=perhaps",
            "postgres://a%zz@db1",
            "postgres://a@d b",
        ] {
            assert!(
                shown(wrong).starts_with("the address of the console is not right"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn no_error_and_no_debug_text_tells_the_password() {
        let error = Address::parse("postgres://a:hunter2@db1:x/corun", "me").expect_err("a wrong port");
        assert!(!error.to_string().contains("hunter2"));
        let found = Address::parse("postgres://a:hunter2@db1", "me").expect("an address");
        assert!(!format!("{found:?}").contains("hunter2"));
    }

    #[test]
    fn the_configuration_leads_to_its_own_console() {
        let address = |text: &str| {
            let text = text.replace("[proxy]", "[proxy]\nauth_file = \"users.txt\"");
            let mut config = Config::parse(&text, "corun.toml")
                .expect("a configuration")
                .config;
            // Nothing is read here.
            config.proxy.auth_file = None;
            Address::of(&ConfigFiles::of(config).expect("a files"))
        };
        let found = address("[proxy]\nlisten_addr = \"*\"\nlisten_port = 7000\nadmin_users = [\"boss\"]\n")
            .expect("found");
        assert_eq!(
            (found.endpoint.to_string(), found.user.as_str()),
            ("127.0.0.1:7000".to_owned(), "boss")
        );
        let found =
            address("[proxy]\nunix_socket_dir = \"/run/corun\"\nstats_users = [\"guest\"]\n").expect("found");
        assert_eq!(
            (found.endpoint.to_string(), found.user.as_str()),
            ("/run/corun:6432".to_owned(), "guest")
        );
        assert!(matches!(
            address("[proxy]\nlisten_addr = \"*\"\n"),
            Err(AddressError::Nobody(_))
        ));
    }
}
