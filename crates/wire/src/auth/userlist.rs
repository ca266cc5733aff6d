//! Users and their secrets from a file: PgBouncer's `auth_file`.
//!
//! Each line is `"user" "secret"`; a quote within quotes is doubled, what follows the secret is ignored, a line that begins with
//! `;` or `#` is a comment. A secret is a SCRAM verifier, an MD5 secret or a password ([`Secret::parse`]); an empty one lets
//! nobody in. Of two lines for one user the later counts.

use std::collections::HashMap;
use std::path::Path;

use ring::rand::SecureRandom;

use super::scram::sha256;
use super::secret::{Lookup, Mock, Secret};
use super::tokens::{self, FileError};

/// The users of a file.
#[derive(Clone, Default)]
pub struct Userlist {
    users: HashMap<String, Option<Secret>>,
    warnings: Vec<String>,
    /// Hash of the whole file: known to nobody who does not know the secrets.
    seed: [u8; 32],
}

debug_shows!(Userlist, this => { users: this.users.len(), warnings: this.warnings });

impl Userlist {
    /// Reads a file. A file that everybody on the machine may read is taken, with a warning.
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let mut list = Self::parse(&tokens::read(path)?, path)?;
        list.warnings.extend(crate::tls::readable_by_others(path));
        Ok(list)
    }

    /// Reads the bytes of a file called `path`.
    ///
    /// # Errors
    /// With file and line; secrets are not quoted.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, FileError> {
        let mut list = Self {
            seed: sha256(bytes),
            ..Self::default()
        };
        for (at, line) in bytes.split(|&b| b == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b";") || line.starts_with(b"#") {
                continue;
            }
            let wrong = |problem: &str| FileError::at(path, at + 1, problem);
            let here = format!("{}:{}", path.display(), at + 1);
            let (user, rest) =
                quoted(line).ok_or_else(|| wrong("the user's name must stand in double quotes"))?;
            let (secret, rest) = quoted(rest.trim_ascii_start()).ok_or_else(|| {
                wrong("the secret must follow the user, in double quotes (a quote within is doubled)")
            })?;
            if rest.first().is_some_and(|b| !b.is_ascii_whitespace()) {
                return Err(wrong(
                    "a blank is missing behind the secret, or a quote within it is not doubled",
                ));
            }
            let user = String::from_utf8(user).map_err(|_| wrong("the user's name is not UTF-8"))?;
            if user.is_empty() || user.contains('\0') || secret.contains(&0) {
                return Err(wrong("the user's name is empty, or there is a zero byte"));
            }
            let parsed = Secret::parse(&secret);
            if matches!(parsed, Some(Secret::Plain(_))) && secret.starts_with(b"SCRAM-SHA-256$") {
                list.warnings.push(format!(
                    "{here}: the secret begins like a SCRAM verifier but has another form; corun takes it for a password in clear text"
                ));
            }
            let told = format!("{here}: user \"{user}\" stands here again; this line counts");
            if list.users.insert(user, parsed).is_some() {
                list.warnings.push(told);
            }
        }
        Ok(list)
    }

    /// What is known of a user.
    pub fn lookup(&self, user: &str) -> Lookup<'_> {
        match self.users.get(user) {
            Some(Some(secret)) => Lookup::Found(secret),
            Some(None) => Lookup::NoSecret,
            None => Lookup::Unknown,
        }
    }

    /// Users and their secrets, in no order; without those nobody can log in as.
    pub fn secrets(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.users
            .iter()
            .filter_map(|(user, secret)| Some((user.as_str(), secret.as_ref()?)))
    }

    /// Names of all users, also of those without a usable secret.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    /// What is not wrong but should be looked at.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How users that do not exist look like those that do: salts that stay the same as long as the file does (random ones where
    /// it holds no secret), and the kind of password most users have. `None` where the system has no random numbers.
    pub fn mock(&self, random: &dyn SecureRandom) -> Option<Mock> {
        let (mut md5, mut all) = (0, 0);
        for (_, secret) in self.secrets() {
            md5 += usize::from(!matches!(secret, Secret::Scram(_)));
            all += 1;
        }
        let asks_md5 = md5 * 2 > all;
        if all == 0 {
            Mock::random(random, asks_md5)
        } else {
            Some(Mock::from_secret(&self.seed, asks_md5))
        }
    }
}

/// A text in double quotes at the start of `line`, and what follows it.
fn quoted(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    bytes_until_quote(line.strip_prefix(b"\"")?, b'"')
}

/// What stands before the next `quote` that is not doubled, doubled ones taken for one, and what follows it.
pub fn bytes_until_quote(text: &[u8], quote: u8) -> Option<(Vec<u8>, &[u8])> {
    let (mut found, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.iter().position(|byte| *byte == quote)?;
        found.extend(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(&[quote]) {
            Some(after) => {
                found.push(quote);
                rest = after;
            }
            None => return Some((found, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Userlist {
        Userlist::parse(text.as_bytes(), Path::new("userlist.txt")).unwrap()
    }

    #[test]
    fn every_kind_of_secret() {
        let scram =
            crate::auth::scram::Verifier::derive(b"pw", b"salt", crate::auth::scram::ITERATIONS_DEFAULT);
        let scram = scram.to_secret_text();
        let text = format!(
            "; comment\n# comment\n\"a\" \"md5{}\"\n  \"b\"\t\"{scram}\" extra\n\"c \"\"d\"\"\" \"p\"\"w\"\r\n\"e\" \"\"\n",
            "0".repeat(32)
        );
        let users = list(&text);
        assert!(matches!(users.lookup("a"), Lookup::Found(Secret::Md5(_))));
        assert!(matches!(users.lookup("b"), Lookup::Found(Secret::Scram(v)) if v.to_secret_text() == scram));
        assert!(
            matches!(users.lookup("c \"d\""), Lookup::Found(Secret::Plain(p)) if p.password() == b"p\"w")
        );
        assert!(matches!(users.lookup("e"), Lookup::NoSecret));
        assert!(matches!(users.lookup("A"), Lookup::Unknown));
        assert_eq!(
            (
                users.names().count(),
                users.secrets().count(),
                users.warnings().len()
            ),
            (4, 3, 0)
        );
        for secret in ["p\"w", &"0".repeat(32), &scram] {
            assert!(!format!("{users:?} {:?}", users.lookup("b")).contains(secret));
        }
    }

    #[test]
    fn errors_name_the_line_and_no_secret() {
        for text in [
            "a b",
            "\"a\"",
            "\"a\" secret",
            "\"a\" \"secret",
            "\"a\" \"sec\"ret\"",
            "\"\" \"secret\"",
            "\"a\0\" \"x\"",
        ] {
            let error = Userlist::parse(format!("\n{text}").as_bytes(), Path::new("/u.txt"))
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("/u.txt:2: ") && !error.contains("secret\""),
                "{error}"
            );
        }
        assert!(Userlist::parse(b"\"\xff\" \"x\"", Path::new("u")).is_err());
    }

    #[test]
    fn later_lines_count_and_warn() {
        let users = list("\"a\" \"one\"\n\"a\" \"two\"\n\"b\" \"SCRAM-SHA-256$4096:x\"");
        assert!(matches!(users.lookup("a"), Lookup::Found(Secret::Plain(p)) if p.password() == b"two"));
        assert_eq!(users.warnings().len(), 2);
        assert!(
            users.warnings()[0].contains("userlist.txt:2") && users.warnings()[1].contains("userlist.txt:3")
        );
    }

    #[test]
    fn a_file_for_everybody_warns() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("userlist.txt");
        std::fs::write(&path, "\"a\" \"b\"\n").unwrap();
        let rights = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        rights(0o644);
        assert_eq!(Userlist::load(&path).unwrap().warnings().len(), 1);
        rights(0o640);
        assert!(Userlist::load(&path).unwrap().warnings().is_empty());
        assert!(
            Userlist::load(&folder.path().join("none"))
                .unwrap_err()
                .to_string()
                .contains("none")
        );
    }

    proptest::proptest! {
        /// What is written by PgBouncer's rules is read back.
        #[test]
        fn round_trip(user in "[^\0\n]{1,20}", password in "[^\0\n]{1,20}") {
            let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let users = list(&format!("{} {}", quote(&user), quote(&password)));
            let Lookup::Found(Secret::Plain(found)) = users.lookup(&user) else { panic!("{users:?}") };
            assert_eq!(found.password(), password.as_bytes());
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Ok(users) = Userlist::parse(&bytes, Path::new("u")) {
                assert!(matches!(users.lookup(""), Lookup::Unknown));
            }
        }
    }
}
