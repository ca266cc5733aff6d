//! From the text of a file to settings: which key stands where, is it known, does its value fit.
//!
//! Reading goes on after an error, so that a person sees all of them at once. Not here: what settings mean together
//! (`check`).

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{Finding, Severity, place};
use super::import::advice;
use super::nearest::nearest;
use super::renamed::renamed_key;
use super::settings::{Key, Section};
use super::values::Raw;
use super::{CONSOLES, Config, ConfigError, Database, Loaded, Range, Split, User, keys};

/// Names of the tables a file may have.
const TABLES: [&str; 6] = ["proxy", "databases", "users", "corun", "ranges", "splits"];

/// Findings past this number are not collected.
const FINDINGS_MAX: usize = 200;

/// A configuration on its way, with what was found so far.
pub(super) struct Reading {
    /// What was understood.
    pub config: Config,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Name of the file in findings.
    file: String,
    /// Where each key stands, `databases.NAME` and `databases.NAME.KEY` included.
    places: BTreeMap<String, (usize, usize)>,
    /// Lines on which the text is not TOML; what was recovered from them is not judged.
    broken: Vec<usize>,
}

impl Reading {
    /// Settings that stand in no file.
    pub fn of(config: Config, file: &str) -> Reading {
        Reading {
            config,
            findings: Vec::new(),
            file: file.to_owned(),
            places: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    /// Adds a finding about a key, or about the nearest thing that stands in the file.
    pub fn found(&mut self, severity: Severity, key: &str, what: String, hint: &str) {
        let mut path = key;
        let place = loop {
            if let Some(place) = self.places.get(path) {
                break *place;
            }
            match path.rsplit_once('.') {
                Some((table, _)) => path = table,
                None => break (0, 0),
            }
        };
        self.add(severity, place, what, Some(hint.to_owned()));
    }

    fn add(
        &mut self,
        severity: Severity,
        (line, column): (usize, usize),
        what: String,
        hint: Option<String>,
    ) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                severity,
                file: self.file.clone(),
                line,
                column,
                what,
                hint,
            });
        }
    }

    /// The configuration with its warnings, or all findings if one of them is an error.
    pub fn finish(mut self) -> Result<Loaded, ConfigError> {
        self.findings
            .sort_by_key(|finding| (finding.line, finding.column));
        if self
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Error)
        {
            return Err(ConfigError::Wrong {
                findings: self.findings,
            });
        }
        Ok(Loaded {
            config: self.config,
            warnings: self.findings,
        })
    }
}

/// Reads a text as far as it can be understood.
pub(super) fn read(text: &str, file: &str) -> Reading {
    let mut reading = Reading::of(Config::default(), file);
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or((0, 0), |span| place(text, span.start));
        reading.broken.push(at.0);
        let hint = "text needs quotes, a table's name brackets; see https://toml.io".to_owned();
        let what = error.message().lines().next().unwrap_or("not TOML").to_owned();
        reading.add(Severity::Error, at, what, Some(hint));
    }
    for (name, value) in root.get_ref() {
        let at = place(text, name.span().start);
        if reading.broken.contains(&at.0) {
            continue;
        }
        let name = name.get_ref().as_ref();
        let DeValue::Table(table) = value.get_ref() else {
            let hint = match keys().iter().find(|key| key.name == name) {
                Some(key) => format!("the key belongs below {}", key.section.heading()),
                None => {
                    "settings stand below [proxy], [databases.NAME], [users.NAME], [corun], [ranges.NAME] or \
                     [splits.NAME]"
                        .to_owned()
                }
            };
            reading.add(
                Severity::Error,
                at,
                format!("`{name}` stands outside of any table"),
                Some(hint),
            );
            continue;
        };
        reading.places.insert(name.to_owned(), at);
        match name {
            "proxy" => read_table(&mut reading, text, table, name, Section::Proxy),
            "corun" => read_table(&mut reading, text, table, name, Section::Corun),
            "databases" => read_named(&mut reading, text, table, Section::Database),
            "users" => read_named(&mut reading, text, table, Section::User),
            "ranges" => read_named(&mut reading, text, table, Section::Range),
            "splits" => read_named(&mut reading, text, table, Section::Split),
            _ => {
                let hint = match (name, nearest(name, TABLES)) {
                    ("pgbouncer", _) => {
                        "corun calls this table [proxy]; `corun proxy import` converts PgBouncer's files"
                            .to_owned()
                    }
                    (_, Some(near)) => format!("did you mean [{near}]?"),
                    (_, None) => {
                        "the tables are [proxy], [databases.NAME], [users.NAME], [corun], [ranges.NAME] and \
                         [splits.NAME]"
                            .to_owned()
                    }
                };
                reading.add(Severity::Error, at, format!("unknown table [{name}]"), Some(hint));
            }
        }
    }
    reading
}

/// Reads the tables of all databases, users, ranges or splits.
fn read_named(reading: &mut Reading, text: &str, tables: &DeTable<'_>, section: Section) {
    let kind = match section {
        Section::Database => "databases",
        Section::Range => "ranges",
        Section::Split => "splits",
        _ => "users",
    };
    for (name, value) in tables {
        let at = place(text, name.span().start);
        let path = format!("{kind}.{}", name.get_ref());
        let name = name.get_ref().as_ref();
        let DeValue::Table(table) = value.get_ref() else {
            let hint = format!("write a table: [{kind}.NAME], or {{ key = value, ... }} behind the name");
            reading.add(
                Severity::Error,
                at,
                format!("`{path}` is not a table"),
                Some(hint),
            );
            continue;
        };
        reading.places.insert(path.clone(), at);
        if name.is_empty() || name.contains('\0') {
            let hint = match section {
                Section::Range | Section::Split => "give the table a name to be shown by".to_owned(),
                _ => "give the table the name clients connect with".to_owned(),
            };
            reading.add(
                Severity::Error,
                at,
                format!("[{kind}.\"\"] has no name"),
                Some(hint),
            );
            continue;
        }
        if section == Section::Database && CONSOLES.contains(&name) {
            let hint =
                "clients reach the console under this name; choose another and set `dbname`".to_owned();
            reading.add(
                Severity::Error,
                at,
                format!("no database can be called `{name}`"),
                Some(hint),
            );
        }
        let config = &mut reading.config;
        let name_owned = name.to_owned();
        match section {
            Section::Database => drop(config.databases.insert(name_owned, Database::default())),
            Section::Range => drop(config.ranges.insert(name_owned, Range::default())),
            Section::Split => drop(config.splits.insert(name_owned, Split::default())),
            _ => drop(config.users.insert(name_owned, User::default())),
        }
        read_table(reading, text, table, &path, section);
    }
}

/// Reads the keys of one table.
fn read_table(reading: &mut Reading, text: &str, table: &DeTable<'_>, path: &str, section: Section) {
    for (key, value) in table {
        let at = place(text, key.span().start);
        if reading.broken.contains(&at.0) {
            continue;
        }
        let key = key.get_ref().as_ref();
        reading.places.insert(format!("{path}.{key}"), at);
        let raw = raw(value);
        let name = path.split_once('.').map_or("", |(_, name)| name);
        let config = &mut reading.config;
        let outcome = match section {
            Section::Proxy => config.proxy.set(key, &raw),
            Section::Corun => config.corun.set(key, &raw),
            Section::Database => config
                .databases
                .entry(name.to_owned())
                .or_default()
                .set(key, &raw),
            Section::User => config.users.entry(name.to_owned()).or_default().set(key, &raw),
            Section::Range => config.ranges.entry(name.to_owned()).or_default().set(key, &raw),
            Section::Split => config.splits.entry(name.to_owned()).or_default().set(key, &raw),
        };
        match outcome {
            Some(Ok(())) => {}
            Some(Err(expected)) => {
                let at = place(text, value.span().start);
                let meaning = keys()
                    .into_iter()
                    .find(|known| known.section == section && known.name == key)
                    .map(|known| format!("`{key}`: {}", known.meaning));
                reading.add(Severity::Error, at, format!("`{key}` takes {expected}"), meaning);
            }
            None => {
                let (what, hint) = unknown(key, section);
                reading.add(Severity::Error, at, what, hint);
            }
        }
    }
}

/// What is wrong with a key that this section does not have, and what to write instead.
fn unknown(key: &str, section: Section) -> (String, Option<String>) {
    let Some(new) = renamed_key(key) else {
        let what = format!("unknown key `{key}` in {}", section.heading());
        return (what, Some(hint_for_unknown(key, section)));
    };
    let here = keys()
        .iter()
        .any(|known| known.name == new && known.section == section);
    let hint = (!here).then(|| hint_for_unknown(new, section));
    (format!("{key} is now called {new}"), hint)
}

/// What somebody who wrote an unknown key probably wants.
fn hint_for_unknown(key: &str, section: Section) -> String {
    let keys = keys();
    let elsewhere: Vec<&Key> = keys.iter().filter(|known| known.name == key).collect();
    if !elsewhere.is_empty() {
        let headings: Vec<&str> = elsewhere.iter().map(|known| known.section.heading()).collect();
        return format!("the key belongs below {}", headings.join(" or "));
    }
    if let Some(advice) = advice(key) {
        return advice.to_owned();
    }
    let here = keys.iter().filter(|known| known.section == section);
    if let Some(near) = nearest(key, here.map(|known| known.name)) {
        return format!("did you mean `{near}`?");
    }
    match nearest(key, keys.iter().map(|known| known.name))
        .and_then(|near| keys.iter().find(|known| known.name == near))
    {
        Some(near) => format!("did you mean `{}` below {}?", near.name, near.section.heading()),
        None => "the manual's page on corun.toml lists every key".to_owned(),
    }
}

/// A TOML value without its place.
fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.as_ref().to_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Raw::Integer)
            .unwrap_or(Raw::Other),
        DeValue::Float(number) => number.as_str().parse().map(Raw::Float).unwrap_or(Raw::Other),
        DeValue::Boolean(value) => Raw::Boolean(*value),
        DeValue::Array(items) => Raw::List(items.iter().map(raw).collect()),
        DeValue::Datetime(_) | DeValue::Table(_) => Raw::Other,
    }
}
