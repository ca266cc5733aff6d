//! [`Program`]: a PgBouncer that is installed: the system's package, or the newer one that `scripts/bootstrap --peers` builds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::failed;
use lab_core::error::BenchError;
use lab_core::peers;

/// The name of the program and of its errors.
pub const PEER: &str = "pgbouncer";
/// How to get it, for people.
const HOW_TO_GET: &str = "scripts/bootstrap --peers installs it";
/// Where Debian puts it; not on the PATH of users who are not root.
const PLACES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];
/// The first version that keeps prepared statements apart in transaction pooling.
const PREPARES_SINCE: (u32, u32) = (1, 21);

/// A program that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it is.
    pub path: PathBuf,
    /// Its version, such as `1.18.0`.
    pub version: String,
}

impl Program {
    /// The system's.
    ///
    /// # Errors
    /// When there is none; the text says how to get it.
    pub fn packaged() -> Result<Program, BenchError> {
        first(PLACES.iter().map(|place| Path::new(place).join(PEER)))
    }

    /// The newer one built beside the other peers.
    ///
    /// # Errors
    /// When there is none; the text says how to get it.
    pub fn current() -> Result<Program, BenchError> {
        first(peers::places(PEER).into_iter())
    }

    /// Whether clients may prepare statements when servers are shared by transaction.
    pub fn prepares(&self) -> bool {
        let mut parts = self
            .version
            .split('.')
            .map(|part| part.parse::<u32>().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next()) >= PREPARES_SINCE
    }
}

fn first(mut candidates: impl Iterator<Item = PathBuf>) -> Result<Program, BenchError> {
    let path = candidates
        .find(|path| path.is_file())
        .ok_or_else(|| failed(PEER, format!("the program was not found; {HOW_TO_GET}")))?;
    let output = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| failed(PEER, format!("could not start {}: {error}", path.display())))?;
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    match version(&words) {
        Some(version) => Ok(Program { path, version }),
        None => Err(failed(
            PEER,
            format!("{} --version names no version", path.display()),
        )),
    }
}

/// Of `PgBouncer 1.18.0`, the first line.
fn version(words: &str) -> Option<String> {
    let version = words.lines().next()?.strip_prefix("PgBouncer ")?.trim();
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_say_whether_statements_can_be_prepared() {
        let prepares = |version: &str| {
            Program {
                path: "pgbouncer".into(),
                version: version.to_owned(),
            }
            .prepares()
        };
        assert!(!prepares("1.18.0") && !prepares("1.9.0") && !prepares("unknown"));
        assert!(prepares("1.21.0") && prepares("1.24.1") && prepares("2.0"));
    }

    #[test]
    fn the_version_is_on_the_first_line() {
        assert_eq!(
            version("PgBouncer 1.18.0\nlibevent 2.1.12\n").as_deref(),
            Some("1.18.0")
        );
        assert_eq!(version("libevent 2.1.12"), None);
        assert_eq!(version("PgBouncer unknown"), None);
        let error = first([PathBuf::from("/no/such/pgbouncer")].into_iter()).expect_err("none");
        assert!(error.to_string().contains("bootstrap --peers"), "{error}");
    }
}
