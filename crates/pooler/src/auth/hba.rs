//! Rules of who may come in how: `pg_hba.conf`, as PostgreSQL writes it.
//!
//! The first rule that fits decides; where none fits the client is refused, as it is by `reject`. Taken: `local`, `host`,
//! `hostssl`, `hostnossl`, `hostnogssenc`; databases `all`, `sameuser`, `replication` and names; users `all` and names;
//! addresses `all`, CIDR, and address with mask; methods `trust`, `reject`, `md5`, `scram-sha-256`, `password`, `cert`, `peer`,
//! with the option `map=` for the last two. What would need the server's catalog (`samerole`, `+group`), a name service, other
//! files (`@file`, `include`) or regular expressions is refused when the file is read: a rule that silently does not fit would
//! let the next one decide.

use std::net::IpAddr;
use std::path::Path;

use super::authenticator::{Denial, Method};
use super::tokens::{self, Line, Token};
use crate::wire::error::{Refusal, code};

pub use super::tokens::FileError;

/// What a rule is asked about a connection.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The database asked for.
    pub database: &'a str,
    /// The user it is asked as.
    pub user: &'a str,
    /// Where from; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether the connection has TLS.
    pub tls: bool,
    /// Whether physical replication is asked for (`replication=true`).
    pub replication: bool,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line it stands in, from 1.
    pub line: usize,
    /// How clients show who they are.
    pub method: Method,
    /// The map of names of `cert` and `peer` ([`super::ident`]), if one is named.
    pub map: Option<String>,
    kind: Kind,
    databases: Vec<Database>,
    users: Vec<User>,
    network: Network,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Database {
    All,
    SameUser,
    Replication,
    Name(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum User {
    All,
    Name(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    All,
    V4 { address: u32, mask: u32 },
    V6 { address: u128, mask: u128 },
}

impl Network {
    fn of(address: IpAddr, mask: IpAddr) -> Option<Self> {
        match (address, mask) {
            (IpAddr::V4(address), IpAddr::V4(mask)) => Some(Self::V4 {
                address: address.to_bits() & mask.to_bits(),
                mask: mask.to_bits(),
            }),
            (IpAddr::V6(address), IpAddr::V6(mask)) => Some(Self::V6 {
                address: address.to_bits() & mask.to_bits(),
                mask: mask.to_bits(),
            }),
            _ => None,
        }
    }

    fn cidr(address: IpAddr, bits: u32) -> Option<Self> {
        match address {
            IpAddr::V4(_) if bits <= 32 => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                Self::of(address, IpAddr::V4(mask.into()))
            }
            IpAddr::V6(_) if bits <= 128 => {
                let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
                Self::of(address, IpAddr::V6(mask.into()))
            }
            _ => None,
        }
    }

    fn has(self, client: IpAddr) -> bool {
        // A client that came over IPv4 to an IPv6 socket is one of IPv4.
        match (self, client.to_canonical()) {
            (Self::All, _) => true,
            (Self::V4 { address, mask }, IpAddr::V4(client)) => client.to_bits() & mask == address,
            (Self::V6 { address, mask }, IpAddr::V6(client)) => client.to_bits() & mask == address,
            _ => false,
        }
    }
}

impl Rule {
    fn fits(&self, question: &Question<'_>) -> bool {
        let place = match (self.kind, question.address) {
            (Kind::Local, None) => true,
            (Kind::Local, Some(_)) | (_, None) => false,
            (Kind::Host, Some(client)) => self.network.has(client),
            (Kind::HostSsl, Some(client)) => question.tls && self.network.has(client),
            (Kind::HostNoSsl, Some(client)) => !question.tls && self.network.has(client),
        };
        let database = || {
            self.databases.iter().any(|database| match database {
                Database::Replication => question.replication,
                _ if question.replication => false,
                Database::All => true,
                Database::SameUser => question.database == question.user,
                Database::Name(name) => name == question.database,
            })
        };
        let user = || {
            self.users.iter().any(|user| match user {
                User::All => true,
                User::Name(name) => name == question.user,
            })
        };
        place && database() && user()
    }
}

/// All rules of a file, in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let bytes = tokens::read(path)?;
        let text = String::from_utf8(bytes).map_err(|error| FileError::Line {
            path: path.to_owned(),
            line: error.as_bytes()[..error.utf8_error().valid_up_to()]
                .iter()
                .filter(|&&b| b == b'\n')
                .count()
                + 1,
            problem: "the line is not UTF-8".into(),
        })?;
        Self::parse(&text, path)
    }

    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let wrong = |(line, problem)| FileError::Line {
            path: path.to_owned(),
            line,
            problem,
        };
        let lines = tokens::lines(text).map_err(wrong)?;
        let rule = |line: &Line| rule(line).map_err(|problem| wrong((line.number, problem)));
        Ok(Self(lines.iter().map(rule).collect::<Result<_, _>>()?))
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// The first rule that fits a connection. It is never one with method `reject`.
    ///
    /// # Errors
    /// What a refused client is told, as PostgreSQL says it, and our reason.
    pub fn first_match(&self, question: &Question<'_>) -> Result<&Rule, Denial> {
        match self.0.iter().find(|rule| rule.fits(question)) {
            Some(rule) if rule.method == Method::Reject => Err(refused(question, Some(rule))),
            Some(rule) => Ok(rule),
            None => Err(refused(question, None)),
        }
    }
}

fn refused(question: &Question<'_>, rule: Option<&Rule>) -> Denial {
    let host = question
        .address
        .map_or("[local]".to_owned(), |address| address.to_canonical().to_string());
    let user = question.user;
    let what = if question.replication {
        match rule {
            Some(_) => "rejects replication connection for",
            None => "entry for replication connection from",
        }
    } else {
        match rule {
            Some(_) => "rejects connection for",
            None => "entry for",
        }
    };
    let no = if rule.is_none() { "no " } else { "" };
    let database = if question.replication {
        String::new()
    } else {
        format!(", database \"{}\"", question.database)
    };
    let encryption = if question.tls {
        "SSL encryption"
    } else {
        "no encryption"
    };
    Denial {
        refusal: Refusal::new(
            code::INVALID_AUTHORIZATION,
            format!("{no}pg_hba.conf {what} host \"{host}\", user \"{user}\"{database}, {encryption}"),
        ),
        reason: rule.map_or("no rule fits".to_owned(), |rule| {
            format!("rejected by line {}", rule.line)
        }),
    }
}

fn rule(line: &Line) -> Result<Rule, String> {
    let mut fields = line.fields.iter();
    let kind = match one(fields.next(), "the kind of connection")?.text.as_str() {
        "local" => Kind::Local,
        "host" | "hostnogssenc" => Kind::Host,
        "hostssl" => Kind::HostSsl,
        "hostnossl" => Kind::HostNoSsl,
        "hostgssenc" => {
            return Err("hostgssenc never fits: GSSAPI encryption is not supported; remove the line".into());
        }
        word if word.starts_with("include") => {
            return Err(format!(
                "{word} is not supported: put the rules of the other file here"
            ));
        }
        word => {
            return Err(format!(
                "unknown kind of connection \"{word}\": local, host, hostssl and hostnossl exist"
            ));
        }
    };
    let databases = fields.next().ok_or("the databases are missing")?;
    let databases = databases.iter().map(database).collect::<Result<_, _>>()?;
    let users = fields.next().ok_or("the users are missing")?;
    let users = users.iter().map(user).collect::<Result<_, _>>()?;
    let network = if kind == Kind::Local {
        Network::All
    } else {
        network(&mut fields)?
    };
    let method = one(fields.next(), "the method")?;
    let method = match (method.text.as_str(), kind) {
        ("trust", _) => Method::Trust,
        ("reject", _) => Method::Reject,
        ("md5", _) => Method::Md5,
        ("scram-sha-256", _) => Method::ScramSha256,
        ("password", _) => Method::Password,
        ("peer" | "ident", Kind::Local) => Method::Peer,
        ("peer", _) => return Err("peer works on local connections only".into()),
        ("cert", Kind::HostSsl) => Method::Cert,
        ("cert", _) => return Err("cert works on hostssl connections only".into()),
        (other, _) => {
            return Err(format!(
                "method \"{other}\" is not supported: trust, reject, md5, scram-sha-256, password, cert and peer are"
            ));
        }
    };
    let mut map = None;
    for option in fields.flatten() {
        match option.text.split_once('=') {
            Some(("map", name)) if matches!(method, Method::Cert | Method::Peer) && !name.is_empty() => {
                map = Some(name.to_owned())
            }
            Some(("clientcert", _)) => {
                return Err("option clientcert is not supported: use client_tls_sslmode = verify-ca for all, or method cert".into());
            }
            _ => {
                return Err(format!(
                    "option \"{}\" is not supported with method {}",
                    option.text,
                    method.name()
                ));
            }
        }
    }
    Ok(Rule {
        line: line.number,
        method,
        map,
        kind,
        databases,
        users,
        network,
    })
}

fn one<'a>(field: Option<&'a Vec<Token>>, what: &str) -> Result<&'a Token, String> {
    match field.map(Vec::as_slice) {
        Some([token]) => Ok(token),
        Some(_) => Err(format!("{what} must be one word, not a list")),
        None => Err(format!("{what} is missing")),
    }
}

fn name(token: &Token, what: &str) -> Result<String, String> {
    let text = &token.text;
    if !token.quoted && text.starts_with('@') {
        return Err(format!(
            "{text}: lists in other files are not supported; name the {what}s here"
        ));
    }
    if text.starts_with('/') {
        return Err(format!(
            "{text}: regular expressions are not supported; name the {what}s"
        ));
    }
    Ok(text.clone())
}

fn database(token: &Token) -> Result<Database, String> {
    Ok(match token.text.as_str() {
        "all" if !token.quoted => Database::All,
        "sameuser" if !token.quoted => Database::SameUser,
        "replication" if !token.quoted => Database::Replication,
        "samerole" | "samegroup" if !token.quoted => {
            return Err(format!(
                "{} is not supported: who is in which role is not known here; name the databases",
                token.text
            ));
        }
        _ => Database::Name(name(token, "database")?),
    })
}

fn user(token: &Token) -> Result<User, String> {
    if token.is("all") {
        return Ok(User::All);
    }
    if !token.quoted && token.text.starts_with('+') {
        return Err(format!(
            "{} is not supported: who is in which role is not known here; name the users",
            token.text
        ));
    }
    Ok(User::Name(name(token, "user")?))
}

fn network<'a>(fields: &mut impl Iterator<Item = &'a Vec<Token>>) -> Result<Network, String> {
    let token = one(fields.next(), "the address")?;
    if token.is("all") {
        return Ok(Network::All);
    }
    let text = token.text.as_str();
    if token.is("samehost") || token.is("samenet") {
        return Err(format!(
            "{text} is not supported: write the networks as address/bits"
        ));
    }
    let parse = |text: &str| {
        text.parse::<IpAddr>().map_err(|_| {
            format!("\"{text}\" is not an address; host names are not supported, write address/bits")
        })
    };
    if let Some((address, bits)) = text.split_once('/') {
        let address = parse(address)?;
        let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
        let bits = bits.parse().ok().filter(|_| digits);
        return bits
            .and_then(|bits| Network::cidr(address, bits))
            .ok_or_else(|| format!("\"{text}\": the number of bits is not one of this kind of address"));
    }
    let address = parse(text)?;
    let mask = one(
        fields.next(),
        "the mask (or the number of bits behind the address)",
    )?;
    let wrong = || {
        format!(
            "\"{}\" is not a mask for {address}; write it as address/bits",
            mask.text
        )
    };
    Network::of(address, mask.text.parse().map_err(|_| wrong())?).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
