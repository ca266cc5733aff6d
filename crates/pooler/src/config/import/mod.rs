//! From PgBouncer's files to `corun.toml`.
//!
//! [`import_pgbouncer`] reads pgbouncer.ini with what it includes and writes a file that means the same here. Whatever
//! cannot be carried over is a finding that says what it meant and what to do. Order within: `ini` reads lines, this file
//! maps them, `keys` knows the settings without counterpart. Not here: the contents of userlist.txt, which stays as it is
//! and is named by `auth_file`.

mod ini;
mod keys;

use std::path::Path;

pub(crate) use ini::until_quote;
pub(super) use keys::advice;

use super::finding::{Finding, Severity};
use super::settings::{Section, Settings, quote, quote_name};
use super::values::Raw;
use super::{CONSOLE_HINT, CONSOLES, Config, ConfigError, Proxy, nearest};
use ini::Entry;

/// A converted file.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The text of `corun.toml`; has the passwords that pgbouncer.ini had.
    pub toml: String,
    /// What was not carried over, and what the check says of the result; errors are what must be set right by hand.
    pub findings: Vec<Finding>,
}

/// One table of the result.
#[derive(Default)]
struct Table {
    heading: String,
    comment: Vec<String>,
    rows: Vec<Row>,
}

struct Row {
    comment: Vec<String>,
    key: String,
    value: String,
}

impl Table {
    /// Sets a row; a key that comes again replaces the first, as in PgBouncer.
    fn set(&mut self, key: &str, value: String, comment: &[String]) {
        self.rows.retain(|row| row.key != key);
        self.rows.push(Row {
            comment: comment.to_vec(),
            key: key.to_owned(),
            value,
        });
    }
}

struct Import {
    findings: Vec<Finding>,
    proxy: Table,
    databases: Vec<Table>,
    users: Vec<Table>,
    peers: Vec<Table>,
}

/// Converts the text of a pgbouncer.ini, and checks the result. `file` is its name in findings; relative names of files in it are
/// looked for in `folder`. `userlist`, if given, becomes `auth_file`.
pub fn import_pgbouncer(text: &str, file: &str, folder: &Path, userlist: Option<&Path>) -> Imported {
    let mut imported = convert(text, file, folder, userlist);
    match Config::parse(&imported.toml, "corun.toml") {
        Ok(loaded) => imported.findings.extend(loaded.warnings),
        Err(ConfigError::Wrong { findings }) => imported.findings.extend(findings),
        // Parsing touches no file.
        Err(ConfigError::Unreadable { .. }) => {}
    }
    imported
}

/// The same, unchecked.
pub(super) fn convert(text: &str, file: &str, folder: &Path, userlist: Option<&Path>) -> Imported {
    let ini = ini::parse(text, file, folder);
    let mut import = Import {
        findings: ini.unusable,
        proxy: Table {
            heading: "[proxy]".to_owned(),
            ..Table::default()
        },
        databases: Vec::new(),
        users: Vec::new(),
        peers: Vec::new(),
    };
    for entry in &ini.entries {
        match entry.section.as_str() {
            "pgbouncer" => import.proxy_setting(entry, folder),
            "databases" => import.table(entry, Section::Database),
            "users" => import.table(entry, Section::User),
            "peers" => import.table(entry, Section::Peer),
            section => {
                let key = &entry.key;
                let what = format!("`{key}` stands in [{section}], which PgBouncer does not know either");
                import.refused(
                    entry,
                    what,
                    "the key belongs below [pgbouncer], [databases] or [users]",
                );
            }
        }
    }
    if !import.proxy.rows.iter().any(|row| row.key == "auth_type") {
        let comment = vec!["PgBouncer's default; without this line it would be scram-sha-256.".to_owned()];
        import.proxy.set("auth_type", "\"md5\"".to_owned(), &comment);
    }
    if let Some(userlist) = userlist {
        let value = quote(&userlist.display().to_string());
        import.proxy.set("auth_file", value, &[]);
    }
    import.finish(file)
}

impl Import {
    fn found(&mut self, entry: &Entry, what: String, hint: &str) {
        let finding = found(Severity::Warning, &entry.file, entry.line, what, hint);
        self.findings.push(finding);
    }

    /// Reports what PgBouncer would not start with: to go on without it could open what was to be closed.
    fn refused(&mut self, entry: &Entry, what: String, hint: &str) {
        let finding = found(Severity::Error, &entry.file, entry.line, what, hint);
        self.findings.push(finding);
    }

    /// Reports a key that this section does not have: a setting of PgBouncer without counterpart, or an unknown one.
    fn unknown(&mut self, entry: &Entry, key: &str, section: Section) {
        let keys = super::keys().into_iter();
        let known = keys
            .filter(|known| known.section == section)
            .map(|known| known.name);
        if let Some(advice) = advice(key) {
            return self.found(entry, format!("`{key}` has no counterpart"), advice);
        }
        let hint = match nearest(key, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "remove the line, if the key is one of a later PgBouncer".to_owned(),
        };
        self.refused(entry, format!("`{key}` is not known"), &hint);
    }

    fn proxy_setting(&mut self, entry: &Entry, folder: &Path) {
        let key = entry.key.as_str();
        let mut value = entry.value.clone();
        if key.ends_with("_file") && !value.is_empty() && advice(key).is_none() {
            let beside = folder.join(&value);
            // PgBouncer looks from where it was started.
            let from_here = std::path::absolute(&value).unwrap_or_default();
            let there = if !beside.exists() && from_here.exists() {
                from_here
            } else {
                beside
            };
            value = there.display().to_string();
        }
        match key {
            "auth_type" if matches!(value.as_str(), "pam" | "ldap") => {
                let what = format!("`auth_type = {value}` has no counterpart; the result says scram-sha-256");
                let hint = "give users a SCRAM secret in `auth_file`, or look them up with `auth_query`";
                self.found(entry, what, hint);
                value = "scram-sha-256".to_owned();
            }
            "unix_socket_mode"
                if value.parse::<u32>().is_ok_and(|mode| mode > 0) && !value.starts_with('0') =>
            {
                let what = format!(
                    "`unix_socket_mode = {value}` was a decimal number to PgBouncer; the result says 0{value}"
                );
                self.found(
                    entry,
                    what,
                    "see whether these are the rights the socket is to have",
                );
            }
            "client_tls_protocols" | "server_tls_protocols" => {
                let (protocols, old) = tls_protocols(&value);
                if old {
                    let hint = "clients or servers that speak nothing newer cannot connect any more";
                    self.found(entry, format!("`{key}`: TLS 1.0 and 1.1 are not spoken"), hint);
                }
                value = protocols.to_owned();
            }
            _ => {}
        }
        let mut proxy = Proxy::default();
        match proxy.set(key, &Raw::Text(value)) {
            Some(Ok(())) => self
                .proxy
                .set(key, proxy.toml(key).unwrap_or_default(), &entry.comment),
            Some(Err(expected)) => {
                let what = format!("`{key}` takes {expected}");
                self.refused(entry, what, "set the key right, or remove the line");
            }
            None => self.unknown(entry, key, Section::Proxy),
        }
    }

    /// The connection string of a database or a peer, or the settings of a user.
    fn table(&mut self, entry: &Entry, section: Section) {
        if section == Section::Database && CONSOLES.contains(&entry.key.as_str()) {
            let what = format!("no database can be called `{}`", entry.key);
            self.found(entry, what, CONSOLE_HINT);
            return;
        }
        let mut table = Table {
            heading: format!("[{}.{}]", section.table(), quote_name(&entry.key)),
            comment: entry.comment.clone(),
            rows: Vec::new(),
        };
        let mut config = Config::default();
        for (key, value) in self.pairs(entry) {
            let key = match key.as_str() {
                // An alias of old.
                "reserve_pool" if section == Section::Database => "reserve_pool_size",
                key => key,
            };
            // "-1 means this value is not set", and an empty value is none.
            if value.is_empty() || (key == "query_wait_timeout" && value.trim() == "-1") {
                continue;
            }
            let settings = config.table(section, "");
            match settings.set(key, &Raw::Text(value)) {
                Some(Ok(())) => table.set(key, settings.toml(key).unwrap_or_default(), &[]),
                Some(Err(expected)) => {
                    let heading = &table.heading;
                    let what = format!("`{key}` of {heading} takes {expected}");
                    self.refused(entry, what, "set the key right, or remove the line");
                }
                None => self.unknown(entry, key, section),
            }
        }
        let tables = match section {
            Section::Database => &mut self.databases,
            Section::Peer => &mut self.peers,
            _ => &mut self.users,
        };
        tables.retain(|other| other.heading != table.heading);
        tables.push(table);
    }

    fn pairs(&mut self, entry: &Entry) -> Vec<(String, String)> {
        match ini::pairs(&entry.value) {
            Ok(pairs) => pairs,
            Err(what) => {
                let what = format!("`{}`: {what}", entry.key);
                self.refused(entry, what, "PgBouncer refuses this line too; set it right");
                Vec::new()
            }
        }
    }

    fn finish(self, file: &str) -> Imported {
        let mut toml = format!("# Made from {} by `corun proxy import`.\n", file_name(file));
        for table in std::iter::once(&self.proxy)
            .chain(&self.databases)
            .chain(&self.users)
            .chain(&self.peers)
        {
            toml.push('\n');
            push_comment(&mut toml, &table.comment);
            toml.push_str(&table.heading);
            toml.push('\n');
            for row in &table.rows {
                push_comment(&mut toml, &row.comment);
                toml.push_str(&format!("{} = {}\n", row.key, row.value));
            }
        }
        Imported {
            toml,
            findings: self.findings,
        }
    }
}

/// What is to be said of a line of PgBouncer's file.
fn found(severity: Severity, file: &str, line: usize, what: String, hint: &str) -> Finding {
    Finding {
        severity,
        file: file.to_owned(),
        line,
        column: 0,
        what,
        hint: Some(hint.to_owned()),
    }
}

/// The last part of a path: the result may go to others, who need not know where the file was.
fn file_name(file: &str) -> String {
    let name = Path::new(file).file_name().unwrap_or_default();
    // A line break would end the comment it stands in.
    name.to_string_lossy().replace(char::is_control, " ")
}

fn push_comment(toml: &mut String, lines: &[String]) {
    for line in lines {
        let line = line.replace(|c: char| c.is_control() && c != '\t', " ");
        toml.push_str(format!("# {line}").trim_end());
        toml.push('\n');
    }
}

/// Our word for PgBouncer's list of TLS versions, and whether old ones were in it.
fn tls_protocols(list: &str) -> (&'static str, bool) {
    let words: Vec<String> = list
        .split([',', ':'])
        .map(|word| word.trim().to_ascii_lowercase())
        .collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let all = has("all") || has("legacy");
    let old = all || has("tlsv1.0") || has("tlsv1.1");
    match (has("tlsv1.2"), has("tlsv1.3")) {
        (true, false) if !all => ("tlsv1.2", old),
        (false, true) if !all => ("tlsv1.3", old),
        _ => ("secure", old),
    }
}
