//! From the text of a file to settings: which key stands where, is it known, does its value fit.
//!
//! Reading goes on after an error, so that a person sees all of them at once. Not here: what settings mean together
//! (`check`).

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::{Findings, place};
use super::import::advice;
use super::nearest::nearest;
use super::renamed::renamed_key;
use super::settings::Section;
use super::values::Raw;
use super::{CONSOLE_HINT, CONSOLES, Config, keys};

/// A text on its way to a configuration.
struct Reading<'a> {
    text: &'a str,
    /// What was understood.
    config: Config,
    /// What was found.
    findings: Findings,
    /// Lines on which the text is not TOML; what was recovered from them is not judged.
    broken: Vec<usize>,
}

/// Reads a text as far as it can be understood; `file` is its name in findings.
pub(super) fn read(text: &str, file: &str) -> (Config, Findings) {
    let mut reading = Reading {
        text,
        config: Config::default(),
        findings: Findings::of(file),
        broken: Vec::new(),
    };
    let (root, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().map_or((0, 0), |span| place(text, span.start));
        reading.broken.push(at.0);
        let hint = "text needs quotes, a table's name brackets; see https://toml.io".to_owned();
        let what = error.message().lines().next().unwrap_or("not TOML").to_owned();
        reading.findings.error_at(at, what, Some(hint));
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
                None => format!("settings stand below {}", Section::headings("or")),
            };
            let what = format!("`{name}` stands outside of any table");
            reading.findings.error_at(at, what, Some(hint));
            continue;
        };
        reading.findings.stands(name, at);
        match Section::ALL.into_iter().find(|section| section.table() == name) {
            Some(section) if section.is_named() => reading.named_tables(table, section),
            Some(section) => reading.table(table, name, section),
            None => {
                let hint = match nearest(name, Section::ALL.map(Section::table)) {
                    _ if name == "pgbouncer" => {
                        "corun calls this table [proxy]; `corun proxy import` converts PgBouncer's files"
                            .to_owned()
                    }
                    Some(near) => format!("did you mean [{near}]?"),
                    None => format!("the tables are {}", Section::headings("and")),
                };
                let what = format!("unknown table [{name}]");
                reading.findings.error_at(at, what, Some(hint));
            }
        }
    }
    (reading.config, reading.findings)
}

impl Reading<'_> {
    /// Reads the tables of all databases, users, ranges, splits or peers.
    fn named_tables(&mut self, tables: &DeTable<'_>, section: Section) {
        let kind = section.table();
        for (name, value) in tables {
            let at = place(self.text, name.span().start);
            let name = name.get_ref().as_ref();
            let path = format!("{kind}.{name}");
            let DeValue::Table(table) = value.get_ref() else {
                let hint = format!("write a table: [{kind}.NAME], or {{ key = value, ... }} behind the name");
                let what = format!("`{path}` is not a table");
                self.findings.error_at(at, what, Some(hint));
                continue;
            };
            self.findings.stands(&path, at);
            if name.is_empty() || name.contains('\0') {
                let hint = match section {
                    Section::Range | Section::Split => "give the table a name to be shown by",
                    Section::Peer => "give the table the `peer_id` of the other process",
                    _ => "give the table the name clients connect with",
                };
                let what = format!("[{kind}.\"\"] has no name");
                self.findings.error_at(at, what, Some(hint.to_owned()));
                continue;
            }
            if section == Section::Database && CONSOLES.contains(&name) {
                let what = format!("no database can be called `{name}`");
                self.findings.error_at(at, what, Some(CONSOLE_HINT.to_owned()));
            }
            // A table without keys counts as well.
            self.config.table(section, name);
            self.table(table, &path, section);
        }
    }

    /// Reads the keys of one table.
    fn table(&mut self, table: &DeTable<'_>, path: &str, section: Section) {
        let name = path.split_once('.').map_or("", |(_, name)| name);
        for (key, value) in table {
            let at = place(self.text, key.span().start);
            if self.broken.contains(&at.0) {
                continue;
            }
            let key = key.get_ref().as_ref();
            self.findings.stands(&format!("{path}.{key}"), at);
            match self.config.table(section, name).set(key, &raw(value)) {
                Some(Ok(())) => {}
                Some(Err(expected)) => {
                    let at = place(self.text, value.span().start);
                    let mut keys = keys().into_iter();
                    let meaning = keys
                        .find(|known| known.section == section && known.name == key)
                        .map(|known| format!("`{key}`: {}", known.meaning));
                    let what = format!("`{key}` takes {expected}");
                    self.findings.error_at(at, what, meaning);
                }
                None => {
                    let (what, hint) = unknown(key, section);
                    self.findings.error_at(at, what, hint);
                }
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
    let elsewhere = keys.iter().filter(|known| known.name == key);
    let headings: Vec<&str> = elsewhere.map(|known| known.section.heading()).collect();
    if !headings.is_empty() {
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
