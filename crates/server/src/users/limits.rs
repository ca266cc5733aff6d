//! [`UserLimits`]: what one user may take of the server.

use std::time::Duration;

use corun_datafusion::Weight;

use crate::data::DataError;

/// Names of the limits, in the file and in `ALTER ROLE ... SET`.
pub(super) const KEYS: [&str; 5] = ["memory", "statement_timeout", "connections", "queries", "weight"];

/// Units of memory, PostgreSQL's names first.
const SIZES: [(&str, u32); 9] = [
    ("", 0),
    ("B", 0),
    ("kB", 10),
    ("MB", 20),
    ("GB", 30),
    ("TB", 40),
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
];
/// Units of time in milliseconds; PostgreSQL's.
const TIMES: [(&str, u64); 5] = [("", 1), ("ms", 1), ("s", 1000), ("min", 60_000), ("h", 3_600_000)];

/// What one user may take; `None`: as much as there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Bytes that all its queries may hold together.
    pub memory_bytes: Option<usize>,
    /// How long a statement may run, whatever its session says.
    pub statement_timeout: Option<Duration>,
    /// Its sessions.
    pub connections: Option<usize>,
    /// Its queries that run at a time; others wait.
    pub queries: Option<usize>,
    /// Its share of turns beside other users.
    pub weight: Weight,
}

impl UserLimits {
    /// Sets the limit of a name; `None`: there is none.
    ///
    /// # Errors
    /// 42704 for a name that there is not, 22023 for a value that it does not take.
    pub(super) fn set(&mut self, key: &str, value: Option<&str>) -> Result<(), DataError> {
        let wrong = |of: &str| {
            let what = format!("invalid value for \"{key}\": \"{}\"", value.unwrap_or_default());
            DataError::new("22023", what).hint(of.to_owned())
        };
        let whole = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
        let count = || {
            value
                .map(|text| whole(text).ok_or_else(|| wrong("give a whole number above 0")))
                .transpose()
        };
        match key {
            "memory" => {
                let bytes = value.map(|text| size(text).ok_or_else(|| wrong("give a size, such as 512MB")));
                self.memory_bytes = bytes.transpose()?;
            }
            "statement_timeout" => {
                let time =
                    value.map(|text| time(text).ok_or_else(|| wrong("give a time above 0, such as 30s")));
                self.statement_timeout = time.transpose()?;
            }
            "connections" => self.connections = count()?,
            "queries" => self.queries = count()?,
            "weight" => {
                let weight = count()?.map(|number| u32::try_from(number).ok().and_then(Weight::new));
                let range = format!("give a whole number from {} to {}", Weight::MIN, Weight::MAX);
                self.weight = match weight {
                    None => Weight::default(),
                    Some(weight) => weight.ok_or_else(|| wrong(&range))?,
                };
            }
            _ => {
                let what = format!("there is no limit \"{key}\" of users");
                return Err(DataError::new("42704", what).nearest(key, &KEYS));
            }
        }
        Ok(())
    }

    /// Those that are set, as `pg_roles` shows them.
    pub(super) fn shown(&self) -> Vec<String> {
        let memory = self.memory_bytes.map(|bytes| format!("memory={bytes}B"));
        let time = self
            .statement_timeout
            .map(|time| format!("statement_timeout={}ms", time.as_millis()));
        let queries = self.queries.map(|queries| format!("queries={queries}"));
        let weight = (self.weight != Weight::default()).then(|| format!("weight={}", self.weight.get()));
        [memory, time, queries, weight].into_iter().flatten().collect()
    }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim()))
}

/// A size in bytes above 0.
fn size(text: &str) -> Option<usize> {
    let (number, unit) = split(text)?;
    let (_, shift) = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let bytes = number * 2f64.powi(i32::try_from(*shift).ok()?);
    (bytes >= 1.0 && bytes < 2f64.powi(53)).then_some(bytes as usize)
}

/// A time above 0; a number alone is milliseconds, as PostgreSQL has it.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let (_, factor) = TIMES.iter().find(|(name, _)| *name == unit)?;
    let milliseconds = number * *factor as f64;
    (milliseconds >= 1.0 && milliseconds <= f64::from(i32::MAX))
        .then(|| Duration::from_millis(milliseconds as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_units_and_ranges() {
        let mut limits = UserLimits::default();
        for (key, value) in [
            ("memory", "1.5GB"),
            ("statement_timeout", "2min"),
            ("connections", "3"),
            ("queries", "2"),
            ("weight", "100"),
        ] {
            limits.set(key, Some(value)).expect(key);
        }
        assert_eq!(limits.memory_bytes, Some(3 << 29));
        assert_eq!(limits.statement_timeout, Some(Duration::from_secs(120)));
        assert_eq!((limits.connections, limits.queries), (Some(3), Some(2)));
        assert_eq!(limits.weight.get(), 100);
        limits.set("memory", None).expect("none");
        assert_eq!(limits.memory_bytes, None);
        for (key, value, code) in [
            ("memory", "much", "22023"),
            ("memory", "0", "22023"),
            ("statement_timeout", "0", "22023"),
            ("statement_timeout", "3 weeks", "22023"),
            ("queries", "-1", "22023"),
            ("weight", "101", "22023"),
            ("wait", "1", "42704"),
        ] {
            assert_eq!(
                limits.set(key, Some(value)).expect_err(key).code,
                code,
                "{key} {value}"
            );
        }
    }
}
