//! The first packet of a connection, which has no type byte.

use super::read;

/// The code of a request for TLS.
const SSL_REQUEST: u32 = (1234 << 16) | 5679;
/// The code of a request for GSSAPI encryption.
const GSS_REQUEST: u32 = (1234 << 16) | 5680;
/// The code of a cancel request.
pub(super) const CANCEL_REQUEST: u32 = (1234 << 16) | 5678;
/// Longest startup packet PostgreSQL takes, in bytes.
pub const STARTUP_BYTES_MAX: usize = 10_000;
/// The newest minor version of protocol 3 spoken here.
pub const MINOR_MAX: u16 = 2;

/// A first packet.
#[derive(Clone, PartialEq, Eq)]
pub enum Packet {
    /// TLS is asked for.
    Ssl,
    /// GSSAPI encryption is asked for.
    Gss,
    /// Somebody's query is to be cancelled.
    Cancel {
        /// The process number the client was given.
        pid: u32,
        /// The secret it was given with it: 4 bytes in protocol 3.0, up to 256 in 3.2.
        secret: Vec<u8>,
    },
    /// A session is asked for.
    Startup(Startup),
}

/// A request for a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// Minor version asked for.
    pub minor: u16,
    /// Parameters as sent, in their order; names that begin with `_pq_.` are protocol options.
    pub parameters: Vec<(String, String)>,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Statements.
    #[default]
    Queries,
    /// A standby or a backup: the log of the whole cluster (`replication=true`).
    Physical,
    /// Changes of one database (`replication=database`).
    Logical,
}

/// Why a first packet is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartupError {
    /// The length is nonsense, or beyond [`STARTUP_BYTES_MAX`].
    #[error("invalid length of startup packet")]
    Length,
    /// Another major version.
    #[error("unsupported frontend protocol {0}.{1}: server supports 3.0 to 3.2")]
    Version(u16, u16),
    /// Names and values do not end where the packet ends.
    #[error("invalid startup packet layout: expected terminator as last byte")]
    Layout,
    /// A name or value is not UTF-8.
    #[error("invalid startup packet: a parameter is not UTF-8")]
    Encoding,
    /// No user.
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
}

impl Packet {
    /// Reads a first packet from the start of `bytes`. `Ok(None)`: more bytes are needed. Otherwise the packet and its bytes.
    ///
    /// # Errors
    /// What cannot become a packet whatever follows.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, StartupError> {
        let Some(&length) = bytes.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(length) as usize;
        if !(8..=STARTUP_BYTES_MAX).contains(&length) {
            return Err(StartupError::Length);
        }
        if bytes.len() < length {
            return Ok(None);
        }
        let code = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let body = &bytes[8..length];
        let packet = match code {
            SSL_REQUEST if length == 8 => Self::Ssl,
            GSS_REQUEST if length == 8 => Self::Gss,
            CANCEL_REQUEST if (16..=12 + 256).contains(&length) => Self::Cancel {
                pid: u32::from_be_bytes([body[0], body[1], body[2], body[3]]),
                secret: body[4..].to_vec(),
            },
            SSL_REQUEST | GSS_REQUEST | CANCEL_REQUEST => return Err(StartupError::Length),
            _ => Self::Startup(startup(code, body)?),
        };
        Ok(Some((packet, length)))
    }
}

fn startup(code: u32, body: &[u8]) -> Result<Startup, StartupError> {
    let (major, minor) = ((code >> 16) as u16, code as u16);
    if major != 3 {
        return Err(StartupError::Version(major, minor));
    }
    let mut parameters = Vec::new();
    let mut rest = body;
    loop {
        let name = text(&mut rest)?;
        if name.is_empty() {
            break;
        }
        let value = text(&mut rest)?;
        parameters.push((name, value));
    }
    if !rest.is_empty() {
        return Err(StartupError::Layout);
    }
    let startup = Startup { minor, parameters };
    if startup.get("user").is_none_or(str::is_empty) {
        return Err(StartupError::NoUser);
    }
    Ok(startup)
}

fn text(rest: &mut &[u8]) -> Result<String, StartupError> {
    let (found, after) = read::text(rest).ok_or(StartupError::Layout)?;
    *rest = after;
    let found = std::str::from_utf8(found).map_err(|_| StartupError::Encoding)?;
    Ok(found.to_owned())
}

impl Startup {
    /// The last value given for `name`, as PostgreSQL takes it.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().rev();
        found
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Protocol options asked for, of which none is known here.
    pub fn unknown_options(&self) -> Vec<&str> {
        let names = self.parameters.iter().map(|(name, _)| name.as_str());
        names.filter(|name| name.starts_with("_pq_.")).collect()
    }

    /// Bytes of the secret with which the client may cancel its queries: 4 in protocol 3.0; from 3.2 on as many as nobody can guess.
    pub fn secret_bytes(&self) -> usize {
        if self.minor >= 2 { 32 } else { 4 }
    }

    /// The user; never empty.
    pub fn user(&self) -> &str {
        self.get("user").unwrap_or_default()
    }

    /// What the session is for, by the parameter `replication`. `None`: its value is none that PostgreSQL takes.
    pub fn kind(&self) -> Option<Kind> {
        let Some(value) = self.get("replication") else {
            return Some(Kind::Queries);
        };
        if value == "database" {
            return Some(Kind::Logical);
        }
        let value = value.to_ascii_lowercase();
        // A word may be cut short as long as it is clear; `o` is not.
        let is = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
        match &*value {
            "1" => Some(Kind::Physical),
            "0" => Some(Kind::Queries),
            _ if is("true", 1) || is("yes", 1) || is("on", 2) => Some(Kind::Physical),
            _ if is("false", 1) || is("no", 1) || is("off", 2) => Some(Kind::Queries),
            _ => None,
        }
    }

    /// The database, which is named like the user unless the client says otherwise.
    pub fn database(&self) -> &str {
        self.get("database")
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| self.user())
    }
}

impl std::fmt::Debug for Packet {
    /// Without the secret of a cancel request.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ssl => f.write_str("Ssl"),
            Self::Gss => f.write_str("Gss"),
            Self::Cancel { pid, .. } => f.debug_struct("Cancel").field("pid", pid).finish_non_exhaustive(),
            Self::Startup(startup) => startup.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_is_for() {
        let kind = |value: &str| {
            let parameters = vec![("replication".to_owned(), value.to_owned())];
            Startup { minor: 0, parameters }.kind()
        };
        for value in ["1", "t", "TRUE", "tru", "y", "Yes", "on", "ON"] {
            assert_eq!(kind(value), Some(Kind::Physical), "{value}");
        }
        for value in ["0", "f", "FALSE", "n", "no", "of", "Off"] {
            assert_eq!(kind(value), Some(Kind::Queries), "{value}");
        }
        assert_eq!(kind("database"), Some(Kind::Logical));
        for value in ["", "o", "2", "Database", "truer", " on", "01"] {
            assert_eq!(kind(value), None, "{value}");
        }
        assert_eq!(Startup::default().kind(), Some(Kind::Queries));
    }

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
        bytes.extend(code.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_startup_packet() {
        let bytes = packet(3 << 16 | 2, b"user\0ann\0options\0-c a=b\0\0");
        for end in 0..bytes.len() {
            assert_eq!(Packet::read(&bytes[..end]), Ok(None), "{end}");
        }
        let Ok(Some((Packet::Startup(startup), used))) = Packet::read(&bytes) else {
            panic!("a startup packet");
        };
        assert_eq!(used, bytes.len());
        assert_eq!(
            (startup.minor, startup.user(), startup.database()),
            (2, "ann", "ann")
        );
        assert_eq!(startup.get("options"), Some("-c a=b"));
    }

    #[test]
    fn what_is_refused() {
        let refused = |bytes: &[u8]| Packet::read(bytes).expect_err("an error");
        assert_eq!(refused(&packet(2 << 16, b"")), StartupError::Version(2, 0));
        assert_eq!(refused(&packet(3 << 16, b"user\0ann\0")), StartupError::Layout);
        assert_eq!(
            refused(&packet(3 << 16, b"user\0ann\0\0more")),
            StartupError::Layout
        );
        assert_eq!(refused(&packet(3 << 16, b"\0")), StartupError::NoUser);
        assert_eq!(refused(&[0, 0, 0, 7, 0, 0, 0, 0]), StartupError::Length);
        assert_eq!(refused(&[0, 1, 0, 0, 0, 0, 0, 0]), StartupError::Length);
        assert_eq!(refused(&packet(SSL_REQUEST, b"x")), StartupError::Length);
    }

    #[test]
    fn requests_and_cancels() {
        assert_eq!(
            Packet::read(&packet(SSL_REQUEST, b"")),
            Ok(Some((Packet::Ssl, 8)))
        );
        let cancel = packet(CANCEL_REQUEST, &[0, 0, 0, 9, 1, 2, 3, 4]);
        let found = Packet::read(&cancel).expect("well formed").expect("whole");
        assert!(matches!(&found.0, Packet::Cancel { pid: 9, secret } if secret == &[1, 2, 3, 4]));
        assert!(!format!("{:?}", found.0).contains('['));
    }
}
