//! Maps from what a certificate or the operating system calls somebody to the database users they may be (`pg_ident.conf`).
//!
//! Each line is `map system-name database-user`, with the quoting and comments of [`super::hba`]; `all` as a user, unquoted,
//! means every one. Regular expressions, which PostgreSQL takes here, are refused when read.

use std::collections::HashMap;
use std::path::Path;

use super::tokens::{self, FileError, Token};

/// The lines of one map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentMap {
    pairs: Vec<(String, Token)>,
}

impl IdentMap {
    /// Whether somebody known as `system_name` may be `user`.
    pub fn allows(&self, system_name: &str, user: &str) -> bool {
        let fits = |target: &Token| target.is("all") || target.text == user;
        self.pairs
            .iter()
            .any(|(name, target)| name == system_name && fits(target))
    }
}

/// All maps of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentMaps(HashMap<String, IdentMap>);

impl IdentMaps {
    /// Reads a file.
    ///
    /// # Errors
    /// With file and line.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::parse(&String::from_utf8_lossy(&tokens::read(path)?), path)
    }

    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// With file and line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, FileError> {
        let mut maps = Self::default();
        tokens::each_line(text, path, |line| {
            let [map, system, user] = line.fields.as_slice() else {
                return Err("a line is a map, a system name and a database user".to_owned());
            };
            let ([map], [system], [user]) = (map.as_slice(), system.as_slice(), user.as_slice()) else {
                return Err("lists are not supported: write a line for each".to_owned());
            };
            let special = |text: &str| text.starts_with(['/', '+', '@']);
            if special(&system.text) || (!user.quoted && special(&user.text)) || user.text.starts_with('/') {
                let problem =
                    "regular expressions, roles and files are not supported: write a line for each name";
                return Err(problem.to_owned());
            }
            let pairs = &mut maps.0.entry(map.text.clone()).or_default().pairs;
            pairs.push((system.text.clone(), user.clone()));
            Ok(())
        })?;
        Ok(maps)
    }

    /// The map of a name. One that is not in the file lets nobody in, as in PostgreSQL: without a map, names would only have to
    /// be equal.
    pub fn map(&self, name: &str) -> &IdentMap {
        const NOBODY: &IdentMap = &IdentMap { pairs: Vec::new() };
        self.0.get(name).unwrap_or(NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_names_to_users() {
        let text = "a root postgres # comment\na \"o p\" all\nb root \"all\"";
        let maps = IdentMaps::parse(text, Path::new("ident")).unwrap();
        let a = maps.map("a");
        assert!(a.allows("root", "postgres") && a.allows("o p", "anybody"));
        assert!(!a.allows("root", "root") && !a.allows("other", "postgres"));
        let b = maps.map("b");
        assert!(b.allows("root", "all") && !b.allows("root", "postgres"));
        assert!(
            !maps.map("c").allows("root", "root"),
            "a map that is missing lets nobody in"
        );
        for text in ["a root", "a /^(.*)$ x", "a,b c d", "a x +staff"] {
            assert!(
                IdentMaps::parse(text, Path::new("ident"))
                    .unwrap_err()
                    .to_string()
                    .starts_with("ident:1: "),
                "{text}"
            );
        }
    }
}
