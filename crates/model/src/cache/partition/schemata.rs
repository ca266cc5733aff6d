//! The text of a resctrl group's `schemata` file: what the group may use of each resource in each domain.
//!
//! ```text
//!     L3:0=7ff;1=3      cache: a mask of ways a domain, hexadecimal
//!     MB:0=100;1=50     memory bandwidth: a number a domain, decimal
//! ```
//!
//! Kernels pad names (and older ones values) for looks; reading accepts that, writing does not do it. Domain numbers are
//! cache ids and may have gaps. Pure text: reading and writing the file is the machine crate's job.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use thiserror::Error;

/// What a group may use: one value for each resource and domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Schemata(BTreeMap<String, BTreeMap<u32, u32>>);

/// Text that is not a schemata file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{line}` is not a line of a schemata file")]
pub struct SchemataError {
    /// The line at fault.
    pub line: String,
}

/// Whether values of this resource are masks of ways, written in hexadecimal; all others are numbers.
fn is_cache(resource: &str) -> bool {
    resource.starts_with('L')
}

impl Schemata {
    /// Reads the file's text.
    ///
    /// # Errors
    /// When a line is not `NAME:domain=value;...` with numbers of 32 bits, or names a domain twice.
    pub fn parse(text: &str) -> Result<Self, SchemataError> {
        let mut schemata = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let fail = || SchemataError {
                line: line.trim().to_owned(),
            };
            let (resource, values) = line.split_once(':').ok_or_else(fail)?;
            let resource = resource.trim();
            for value in values.split(';').filter(|value| !value.trim().is_empty()) {
                let (domain, value) = value.split_once('=').ok_or_else(fail)?;
                let domain: u32 = domain.trim().parse().map_err(|_| fail())?;
                let value = if is_cache(resource) {
                    super::WayMask::parse(value).map(|mask| mask.0)
                } else {
                    value.trim().parse().ok()
                };
                if schemata.get(resource, domain).is_some() {
                    return Err(fail());
                }
                schemata.set(resource, domain, value.ok_or_else(fail)?);
            }
        }
        Ok(schemata)
    }

    /// Sets the value of a resource in a domain: a mask's bits for caches, a number for bandwidth.
    pub fn set(&mut self, resource: &str, domain: u32, value: u32) {
        self.0
            .entry(resource.to_owned())
            .or_default()
            .insert(domain, value);
    }

    /// The value of a resource in a domain.
    pub fn get(&self, resource: &str, domain: u32) -> Option<u32> {
        self.0.get(resource)?.get(&domain).copied()
    }

    /// Every value with its resource and domain, both ascending.
    pub fn values(&self) -> impl Iterator<Item = (&str, u32, u32)> {
        self.0.iter().flat_map(|(resource, domains)| {
            domains
                .iter()
                .map(move |(&domain, &value)| (resource.as_str(), domain, value))
        })
    }

    /// The domains of a resource, ascending.
    pub fn domains(&self, resource: &str) -> impl Iterator<Item = u32> {
        self.0.get(resource).into_iter().flat_map(|d| d.keys().copied())
    }

    /// Whether `found` has every value of this one; it may have more.
    pub fn is_part_of(&self, found: &Self) -> bool {
        self.0.iter().all(|(resource, domains)| {
            domains
                .iter()
                .all(|(domain, value)| found.get(resource, *domain) == Some(*value))
        })
    }

    /// The same as texts of at most `bytes_max` bytes each, to be written one after the other.
    ///
    /// The kernel takes at most a page in one write, and keeps the values a write does not name, so a long text may be
    /// cut between any two values. A text is cut only where it has to be, because the kernel takes one write as a whole
    /// or not at all.
    ///
    /// # Panics
    /// When `bytes_max` is below 64, too little for one value.
    pub fn writes(&self, bytes_max: usize) -> Vec<String> {
        assert!(bytes_max >= 64, "too little room for one value of a resource");
        let mut writes: Vec<String> = Vec::new();
        for (resource, domains) in &self.0 {
            // Whether the last text ends in a line of this resource, to which values can be added.
            let mut open = false;
            for (&domain, &value) in domains {
                let value = if is_cache(resource) {
                    format!("{domain}={value:x}")
                } else {
                    format!("{domain}={value}")
                };
                let longest = resource.len() + value.len() + 2;
                match writes.last_mut() {
                    Some(text) if text.len() + longest <= bytes_max => {
                        if open {
                            text.pop();
                            text.push(';');
                        } else {
                            text.push_str(&format!("{resource}:"));
                        }
                        text.push_str(&format!("{value}\n"));
                    }
                    _ => writes.push(format!("{resource}:{value}\n")),
                }
                open = true;
            }
        }
        writes
    }
}

impl fmt::Display for Schemata {
    /// Lines as the kernel takes them, each with the newline it insists on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.writes(usize::MAX)
            .iter()
            .try_for_each(|text| f.write_str(text))
    }
}

impl From<Schemata> for String {
    fn from(schemata: Schemata) -> Self {
        schemata.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_padded_text_and_prints_plain_text() {
        let schemata = Schemata::parse("    MB:0= 100;2=  50\nL3CODE:0=00ff;2=f\n").expect("kernel text");
        assert_eq!(schemata.get("MB", 2), Some(50));
        assert_eq!(schemata.get("L3CODE", 0), Some(0xff));
        assert_eq!(schemata.get("L3CODE", 1), None);
        assert_eq!(schemata.domains("MB").collect::<Vec<_>>(), [0, 2]);
        let values: Vec<_> = schemata.values().collect();
        assert_eq!(
            values,
            [
                ("L3CODE", 0, 0xff),
                ("L3CODE", 2, 0xf),
                ("MB", 0, 100),
                ("MB", 2, 50)
            ]
        );
        assert_eq!(schemata.to_string(), "L3CODE:0=ff;2=f\nMB:0=100;2=50\n");
    }

    #[test]
    fn refuses_other_text() {
        for bad in [
            "L3",
            "L3:uninitialized",
            "L3:0=zz",
            "L3:x=1",
            "MB:0=ff",
            "L3:0=1;0=2",
            "L3:0",
        ] {
            assert!(Schemata::parse(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn a_part_is_recognised() {
        let whole = Schemata::parse("L3:0=f;1=3\nMB:0=50\n").unwrap();
        let part = |text| Schemata::parse(text).unwrap().is_part_of(&whole);
        assert!(part("L3:1=3\n") && part(""));
        assert!(!part("L3:1=7\n") && !part("L2:0=f\n") && !part("L3:2=f\n"));
    }

    fn any_schemata() -> impl Strategy<Value = Schemata> {
        let values = proptest::collection::btree_map((0usize..4, 0u32..200), any::<u32>(), 0..60);
        values.prop_map(|values| {
            let mut schemata = Schemata::default();
            for ((resource, domain), value) in values {
                schemata.set(["L2", "L3CODE", "L3DATA", "MB"][resource], domain, value);
            }
            schemata
        })
    }

    proptest! {
        #[test]
        fn printing_and_reading_are_inverse(schemata in any_schemata()) {
            prop_assert_eq!(Schemata::parse(&schemata.to_string()), Ok(schemata));
        }

        #[test]
        fn cut_texts_together_say_the_same(schemata in any_schemata(), bytes_max in 64usize..400) {
            let mut together = Schemata::default();
            for text in schemata.writes(bytes_max) {
                prop_assert!(text.len() <= bytes_max && text.ends_with('\n'));
                for (resource, domains) in Schemata::parse(&text).expect("each is a text of its own").0 {
                    for (domain, value) in domains {
                        prop_assert_eq!(together.get(&resource, domain), None);
                        together.set(&resource, domain, value);
                    }
                }
            }
            prop_assert_eq!(together, schemata);
        }

        #[test]
        fn reading_never_panics(text in "[L3MB:;=0-9a-f \n]{0,40}") {
            let _ = Schemata::parse(&text);
        }
    }
}
