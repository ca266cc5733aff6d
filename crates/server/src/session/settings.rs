//! [`Settings`]: the settings of PostgreSQL that clients send, per session, with what each takes.
//!
//! Settings of DataFusion and corun (`datafusion.*`, `corun.*`) are not here: those the session's context keeps.

mod bounds;
mod known;

pub(super) use self::bounds::check as check_bounds;
pub(super) use self::known::SERVER_VERSION;
use self::known::{SETTINGS, Setting, Takes};
use super::store_transaction::Isolation;
use super::zone::Zone;
use crate::catalog::SettingFact;
use corun_datafusion::nearest;
use corun_wire::error::{Refusal, code};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest value, and most settings that a client makes up (`app.user`).
const VALUE_BYTES_MAX: usize = 64 << 10;
/// Of a name; PostgreSQL's number.
pub(super) const NAME_BYTES_MAX: usize = 63;
const MADE_UP_MAX: usize = 256;

/// Its row of the table, by any of its names.
fn find(name: &str) -> Option<&'static Setting> {
    let name = match name.to_ascii_lowercase().as_str() {
        "names" => "client_encoding",
        "time zone" => "timezone",
        "transaction isolation level" => "transaction_isolation",
        "session authorization" => "session_authorization",
        _ => name,
    };
    SETTINGS
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

type Values = BTreeMap<String, String>;

/// A session's settings. The texts are shared until one is changed: a transaction that begins copies nothing.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Those now, by the names of the table.
    now: Arc<Values>,
    /// What `RESET` leads to.
    defaults: Arc<Values>,
    /// What is left once the transaction has ended: committed, and rolled back.
    ends: Option<(Arc<Values>, Arc<Values>)>,
    often: Often,
    /// Changes with each change.
    pub(super) version: u64,
    /// What `statement_timeout` may be at most; the user's.
    pub(super) statement_timeout_max: Option<Duration>,
    /// Whether transactions may write.
    writable: bool,
}

/// What each statement asks for, read from the texts when one has changed.
#[derive(Debug, Clone, Copy)]
struct Often {
    zone: Zone,
    statement_timeout: Option<Duration>,
    lock_timeout: Option<Duration>,
    /// Outside of a transaction block, and in one.
    isolation: [Isolation; 2],
    /// Likewise.
    read_only: [bool; 2],
    waits_for_disk: bool,
}

impl Settings {
    /// Those of a session that begins, with what the server and the client have set.
    ///
    /// # Errors
    /// A value that is not taken.
    pub(super) fn new<'s>(
        fixed: &[(&str, &str)],
        statement_timeout_max: Option<Duration>,
        given: impl Iterator<Item = (&'s str, &'s str)>,
        writable: bool,
    ) -> Result<Settings, Refusal> {
        let (zone, _) =
            Zone::of("UTC").ok_or_else(|| Refusal::new(code::INTERNAL_ERROR, "there is no UTC"))?;
        let known = SETTINGS
            .iter()
            .map(|of| (of.name.to_owned(), of.default.to_owned()));
        let mut now: Values = known.collect();
        if writable {
            for name in ["transaction_read_only", "default_transaction_read_only"] {
                now.insert(name.to_owned(), "off".to_owned());
            }
        }
        for (name, value) in fixed {
            now.insert((*name).to_owned(), (*value).to_owned());
        }
        let mut settings = Settings {
            now: Arc::new(now),
            defaults: Arc::default(),
            ends: None,
            often: Often {
                zone,
                statement_timeout: None,
                lock_timeout: None,
                isolation: [Isolation::ReadCommitted; 2],
                read_only: [true; 2],
                waits_for_disk: true,
            },
            version: 1,
            statement_timeout_max,
            writable,
        };
        settings.read_often();
        for (name, value) in given {
            settings.set(name, Some(value), false)?;
        }
        settings.defaults = Arc::clone(&settings.now);
        Ok(settings)
    }

    /// A setting's name as it is written, and its value.
    ///
    /// # Errors
    /// No such setting.
    pub(super) fn get(&self, name: &str) -> Result<(&str, &str), Refusal> {
        let key = find(name).map_or_else(|| name.to_ascii_lowercase(), |of| of.name.to_owned());
        let found = self.now.get_key_value(&key);
        found
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .ok_or_else(|| unknown(name))
    }

    pub(super) fn value(&self, name: &str) -> &str {
        self.now.get(name).map_or("", String::as_str)
    }

    /// Sets one, and returns the value as it is kept; `None`: to what it was when the session began. Outside of a transaction `local` changes
    /// nothing.
    ///
    /// # Errors
    /// No such setting; a value that it does not take.
    pub(super) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<String, Refusal> {
        if let (Some(of), Some(value)) = (find(name), value)
            && of.name == "statement_timeout"
        {
            self.check_timeout(value)?;
        }
        let (key, value) = match (find(name), value) {
            (Some(of), None) => (of.name.to_owned(), self.default_of(of)),
            (Some(of), Some(value)) => (of.name.to_owned(), checked(of, value, self.writable)?),
            // Names of a client's own have a point in them.
            (None, value) if name.contains('.') => {
                if name.len() > NAME_BYTES_MAX {
                    let what = format!("a parameter's name has more than {NAME_BYTES_MAX} bytes");
                    return Err(Refusal::new("42602", what));
                }
                let key = name.to_ascii_lowercase();
                if !self.now.contains_key(&key) && self.now.len() >= SETTINGS.len() + MADE_UP_MAX {
                    return Err(Refusal::new(
                        code::PROGRAM_LIMIT,
                        "this session has too many settings of its own",
                    ));
                }
                (key, value.unwrap_or_default().to_owned())
            }
            (None, _) => return Err(unknown(name)),
        };
        if value.len() > VALUE_BYTES_MAX {
            return Err(invalid(name, "a text of this length"));
        }
        match &mut self.ends {
            None if local => return Ok(value),
            Some((committed, _)) if !local => {
                Arc::make_mut(committed).insert(key.clone(), value.clone());
            }
            _ => {}
        }
        Arc::make_mut(&mut self.now).insert(key, value.clone());
        self.renewed();
        Ok(value)
    }

    /// Whether the user may let statements run so long.
    fn check_timeout(&self, value: &str) -> Result<(), Refusal> {
        let (Some(most), Some(wanted)) = (self.statement_timeout_max, milliseconds(value)) else {
            return Ok(());
        };
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        match (1..=most).contains(&wanted) {
            true => Ok(()),
            false => {
                let what = format!(
                    "{wanted} ms is outside the valid range for parameter \"statement_timeout\" (1 .. {most})"
                );
                Err(Refusal::new(code::INVALID_PARAMETER_VALUE, what).hint("The range is this user's."))
            }
        }
    }

    fn default_of(&self, of: &Setting) -> String {
        self.defaults
            .get(of.name)
            .cloned()
            .unwrap_or_else(|| of.default.to_owned())
    }

    /// `RESET ALL`.
    pub(super) fn reset_all(&mut self) {
        self.now = Arc::clone(&self.defaults);
        if let Some((committed, _)) = &mut self.ends {
            *committed = Arc::clone(&self.now);
        }
        self.renewed();
    }

    /// A transaction begins, as all do where nothing else is said.
    pub(super) fn begin(&mut self) {
        self.ends = Some((Arc::clone(&self.now), Arc::clone(&self.now)));
        for (name, default) in [
            ("transaction_isolation", "default_transaction_isolation"),
            ("transaction_read_only", "default_transaction_read_only"),
        ] {
            if self.value(name) != self.value(default) {
                let value = self.value(default).to_owned();
                Arc::make_mut(&mut self.now).insert(name.to_owned(), value);
                self.read_often();
            }
        }
    }

    /// It ends.
    pub(super) fn end(&mut self, commit: bool) {
        if let Some((committed, rolled_back)) = self.ends.take() {
            let after = if commit { committed } else { rolled_back };
            // Most transactions change no setting, and what was planned before holds.
            if !Arc::ptr_eq(&after, &self.now) && after != self.now {
                self.now = after;
                self.renewed();
            }
        }
    }

    fn renewed(&mut self) {
        self.version += 1;
        self.read_often();
    }

    fn read_often(&mut self) {
        let time = |name| {
            let milliseconds = milliseconds(self.value(name))?;
            (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
        };
        self.often = Often {
            zone: Zone::of(self.value("TimeZone")).map_or(self.often.zone, |(zone, _)| zone),
            statement_timeout: time("statement_timeout"),
            lock_timeout: time("lock_timeout"),
            isolation: ["default_transaction_isolation", "transaction_isolation"]
                .map(|name| Isolation::of(self.value(name))),
            read_only: ["default_transaction_read_only", "transaction_read_only"]
                .map(|name| self.value(name) != "off"),
            waits_for_disk: self.value("synchronous_commit") != "off",
        };
    }

    /// Those that clients are told.
    pub(super) fn reported(&self) -> Vec<(String, String)> {
        let reported = SETTINGS.iter().filter(|of| of.reported);
        reported
            .map(|of| (of.name.to_owned(), self.value(of.name).to_owned()))
            .collect()
    }

    pub(super) fn zone(&self) -> Zone {
        self.often.zone
    }

    /// The time zone as DataFusion names it.
    pub(super) fn zone_name(&self) -> String {
        self.value("TimeZone").to_owned()
    }

    pub(super) fn application_name(&self) -> &str {
        self.value("application_name")
    }

    /// `None`: for ever.
    pub(super) fn statement_timeout(&self) -> Option<Duration> {
        self.often.statement_timeout
    }

    /// How long a statement waits for a lock; `None`: for ever.
    pub(super) fn lock_timeout(&self) -> Option<Duration> {
        self.often.lock_timeout
    }

    /// Of the transaction, in a block of the client's or outside of one.
    pub(super) fn isolation(&self, in_block: bool) -> Isolation {
        self.often.isolation[usize::from(in_block)]
    }

    /// Whether the transaction writes nothing, likewise.
    pub(super) fn is_read_only(&self, in_block: bool) -> bool {
        self.often.read_only[usize::from(in_block)]
    }

    /// Whether what runs now may write nothing.
    pub(super) fn writes_nothing(&self) -> bool {
        self.is_read_only(self.ends.is_some())
    }

    /// Whether a commit is told once it is on disk (`synchronous_commit`).
    pub(super) fn waits_for_disk(&self) -> bool {
        self.often.waits_for_disk
    }

    /// Schemas of the search path, in order.
    pub(super) fn search_path(&self, user: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut name = String::new();
        let mut quoted = false;
        let mut chars = self.value("search_path").chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    name.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => names.push(std::mem::take(&mut name)),
                c if c.is_whitespace() && !quoted => {}
                c if quoted => name.push(c),
                c => name.extend(c.to_lowercase()),
            }
        }
        names.push(name);
        names.retain(|name| !name.is_empty() && name != "pg_catalog");
        for name in &mut names {
            if name == "$user" {
                user.clone_into(name);
            }
        }
        names
    }

    /// All of them.
    pub(super) fn facts(&self) -> Vec<SettingFact> {
        let fact = |(name, value): (&String, &String)| SettingFact {
            name: name.clone(),
            value: value.clone(),
            description: find(name).map_or("", |of| of.description).to_owned(),
        };
        self.now.iter().map(fact).collect()
    }
}

fn unknown(name: &str) -> Refusal {
    let refusal = Refusal::new(
        code::UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    );
    let known: Vec<&str> = SETTINGS.iter().map(|of| of.name).collect();
    match nearest(name, &known) {
        Some(nearest) => refusal.hint(format!("Perhaps you meant \"{nearest}\".")),
        None => refusal,
    }
}

fn invalid(name: &str, value: &str) -> Refusal {
    Refusal::new(
        code::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"{name}\": \"{value}\""),
    )
}

/// A value as it is kept.
fn checked(of: &Setting, value: &str, writable: bool) -> Result<String, Refusal> {
    let wrong = || invalid(of.name, value);
    match of.takes {
        Takes::Text => Ok(value.to_owned()),
        Takes::Bool => match boolean(value).ok_or_else(wrong)? {
            false if of.name.ends_with("read_only") && !writable => Err(Refusal::new(
                code::NOT_SUPPORTED,
                format!(
                    "parameter \"{}\" cannot be turned off: this server only reads",
                    of.name
                ),
            )),
            true => Ok("on".to_owned()),
            false => Ok("off".to_owned()),
        },
        Takes::Whole(least, most) => {
            let number: i64 = value.trim().parse().map_err(|_| wrong())?;
            match (least..=most).contains(&number) {
                true => Ok(number.to_string()),
                false => Err(Refusal::new(
                    code::INVALID_PARAMETER_VALUE,
                    format!(
                        "{number} is outside the valid range for parameter \"{}\" ({least} .. {most})",
                        of.name
                    ),
                )),
            }
        }
        Takes::Time => {
            let time = milliseconds(value).ok_or_else(|| {
                wrong().hint(
                    "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
                )
            })?;
            Ok(shown(time))
        }
        Takes::One(known) => {
            // `SET standard_conforming_strings = true`, as some write it.
            let spelt = match boolean(value) {
                Some(true) if known.contains(&"on") => "on",
                _ => value,
            };
            let found = known.iter().find(|known| known.eq_ignore_ascii_case(spelt));
            found
                .map(|found| (*found).to_owned())
                .ok_or_else(|| wrong().hint(format!("Available values: {}.", known.join(", "))))
        }
        Takes::Encoding => {
            let name: String = value.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
            match name.to_ascii_lowercase().as_str() {
                "utf8" | "unicode" => Ok("UTF8".to_owned()),
                _ => Err(wrong().hint("Texts are UTF8 here.")),
            }
        }
        Takes::DateStyle => {
            date_style(value).ok_or_else(|| wrong().hint("Dates are written in ISO style here."))
        }
        Takes::TimeZone => {
            // `INTERVAL '+02:00' HOUR TO MINUTE` and bare hours are offsets.
            let hours = value
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|hours| hours.abs() <= 15.0);
            let named = match hours {
                Some(hours) => {
                    let minutes = (hours.abs() * 60.0).round() as i64;
                    let sign = if hours < 0.0 { '-' } else { '+' };
                    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
                }
                None => value.trim().to_owned(),
            };
            let name = if matches!(named.to_ascii_lowercase().as_str(), "local" | "default") {
                "UTC"
            } else {
                &named
            };
            Zone::of(name).map(|(_, name)| name).ok_or_else(wrong)
        }
        Takes::Fixed => Err(Refusal::new(
            code::CANT_CHANGE_RUNTIME_PARAM,
            format!("parameter \"{}\" cannot be changed", of.name),
        )),
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// `ISO` with an order of day, month and year.
fn date_style(value: &str) -> Option<String> {
    let mut order = "MDY";
    for part in value.split(',').map(str::trim) {
        order = match part.to_ascii_lowercase().as_str() {
            "iso" => order,
            "mdy" | "us" | "noneuro" | "noneuropean" => "MDY",
            "dmy" | "euro" | "european" => "DMY",
            "ymd" => "YMD",
            _ => return None,
        };
    }
    Some(format!("ISO, {order}"))
}

const UNITS: &[(&str, f64)] = &[
    ("us", 0.001),
    ("ms", 1.0),
    ("s", 1000.0),
    ("min", 60_000.0),
    ("h", 3_600_000.0),
    ("d", 86_400_000.0),
];

fn milliseconds(value: &str) -> Option<u64> {
    let value = value.trim();
    let end = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(end)?;
    let factor = match unit.trim() {
        "" => 1.0,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let milliseconds = number.parse::<f64>().ok()? * factor;
    (milliseconds <= f64::from(i32::MAX)).then_some(milliseconds.round() as u64)
}

/// In the largest unit that is whole.
fn shown(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0".to_owned();
    }
    let fits = |(_, factor): &&(&str, f64)| *factor >= 1.0 && milliseconds.is_multiple_of(*factor as u64);
    match UNITS.iter().rev().find(fits) {
        Some((unit, factor)) => format!("{}{unit}", milliseconds / *factor as u64),
        None => format!("{milliseconds}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(&[], None, [("application_name", "test")].into_iter(), false).unwrap()
    }

    #[test]
    fn values_are_checked_and_written_as_postgresql_does() {
        let mut it = settings();
        for (name, value, kept) in [
            ("statement_timeout", "5000", "5s"),
            ("STATEMENT_TIMEOUT", "90 s", "90s"),
            ("statement_timeout", "1.5s", "1500ms"),
            ("client_encoding", "'utf-8'", "UTF8"),
            ("datestyle", "iso, dmy", "ISO, DMY"),
            ("timezone", "europe/paris", "Europe/Paris"),
            ("timezone", "-3.5", "-03:30"),
            ("extra_float_digits", "3", "3"),
            ("standard_conforming_strings", "true", "on"),
            ("app.user", "7", "7"),
        ] {
            it.set(name, Some(value), false).unwrap();
            assert_eq!(it.get(name).unwrap().1, kept, "{name}");
        }
        for (name, value, sqlstate) in [
            ("statement_timeout", "soon", "22023"),
            ("client_encoding", "latin1", "22023"),
            ("datestyle", "german", "22023"),
            ("timezone", "nowhere", "22023"),
            ("server_version", "16", "55P02"),
            ("transaction_read_only", "off", "0A000"),
            ("extra_float_digits", "9", "22023"),
            ("serch_path", "x", "42704"),
        ] {
            let refusal = it.set(name, Some(value), false).unwrap_err();
            assert_eq!(refusal.code, sqlstate, "{name}");
        }
        let refusal = it.set("serch_path", None, false).unwrap_err();
        assert_eq!(refusal.hint.unwrap(), "Perhaps you meant \"search_path\".");
    }

    #[test]
    fn what_a_transaction_set_ends_with_it() {
        let mut it = settings();
        it.begin();
        it.set("application_name", Some("a"), false).unwrap();
        it.set("statement_timeout", Some("1s"), true).unwrap();
        it.end(true);
        assert_eq!((it.application_name(), it.statement_timeout()), ("a", None));
        it.begin();
        it.set("application_name", Some("b"), false).unwrap();
        it.end(false);
        assert_eq!(it.application_name(), "a");
        it.reset_all();
        assert_eq!(it.application_name(), "test");
    }

    #[test]
    fn statements_run_no_longer_than_their_user_may() {
        let mut it = settings();
        it.statement_timeout_max = Some(Duration::from_secs(2));
        it.set("statement_timeout", Some("1500ms"), false).unwrap();
        for value in ["0", "2001", "1h"] {
            let refusal = it.set("STATEMENT_TIMEOUT", Some(value), false).unwrap_err();
            assert_eq!(refusal.code, "22023", "{value}");
        }
        assert_eq!(it.statement_timeout(), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn paths_are_lists_of_names() {
        let mut it = settings();
        assert_eq!(it.search_path("ada"), ["ada", "public"]);
        it.set("search_path", Some("Sales, \"Odd, Name\", pg_catalog"), false)
            .unwrap();
        assert_eq!(it.search_path("ada"), ["sales", "Odd, Name"]);
    }
}
