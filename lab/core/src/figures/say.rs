//! What a card says in words of its rows: sentences and entries, one for all rows or for each value of some keys.
//!
//! A gap is filled with what the rows have for it, each once: `{component}` may be `L2 misses; L1-D misses`.

use serde::Deserialize;

use super::select::Rows;
use super::words;
use crate::filter::Filter;
use crate::report::page::Entry;
use crate::row::Row;

/// A sentence, left out where one of its gaps has nothing.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SaySpec {
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    #[serde(default)]
    pub(super) each: Vec<String>,
    #[serde(default)]
    pub(super) keep: Keep,
    pub(super) text: String,
}

/// A heading with sentences, each left out where one of its gaps has nothing, and a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntrySpec {
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    pub(super) each: Vec<String>,
    pub(super) heading: String,
    #[serde(default)]
    pub(super) text: Vec<String>,
    #[serde(default)]
    pub(super) command: String,
}

/// Which of the rows that were found stay.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keep {
    /// Those with the largest value of a key, and those that do not have it.
    #[serde(default)]
    pub(super) most: Option<String>,
    /// Those with the smallest value of a key.
    #[serde(default)]
    pub(super) least: Option<String>,
    /// Those with the smallest value of a key and those with the largest.
    #[serde(default)]
    pub(super) ends: Option<String>,
    /// Those for which this holds.
    #[serde(default)]
    pub(super) when: Option<String>,
    /// Those with the largest numbers first.
    #[serde(default)]
    pub(super) sorted: bool,
}

impl SaySpec {
    pub(super) fn sentences(&self, rows: &Rows<'_>) -> Vec<String> {
        let groups = rows.all(&self.filter).each(&self.each).into_iter();
        groups
            .filter_map(|group| group.keep(&self.keep).words_of_all(&self.text))
            .collect()
    }
}

impl EntrySpec {
    pub(super) fn entries(&self, rows: &Rows<'_>) -> Vec<Entry> {
        let groups = rows.all(&self.filter).each(&self.each).into_iter();
        let entry = |group: Rows<'_>| {
            Some(Entry {
                heading: group.words_of_all(&self.heading)?,
                text: self
                    .text
                    .iter()
                    .filter_map(|text| group.words_of_all(text))
                    .collect(),
                command: group.words_of_all(&self.command).unwrap_or_default(),
            })
        };
        groups.filter_map(entry).collect()
    }
}

impl Rows<'_> {
    /// The rows that stay, in their order.
    pub(super) fn keep(&self, keep: &Keep) -> Self {
        let mut kept = self.clone();
        let ends = [
            (&keep.most, false, true),
            (&keep.least, true, false),
            (&keep.ends, true, true),
        ];
        for (key, of_least, of_most) in ends {
            let Some(key) = key else { continue };
            let numbers = || self.rows.iter().filter_map(|row| self.number(row, key));
            let (least, most) = (numbers().reduce(f64::min), numbers().reduce(f64::max));
            kept = kept.only(|row| {
                let number = self.number(row, key);
                number.is_none() || (of_most && number == most) || (of_least && number == least)
            });
        }
        kept = kept.only(|row| self.holds(row, keep.when.as_deref()));
        if keep.sorted {
            let number = |row: &&Row| row.median().unwrap_or(f64::NEG_INFINITY);
            kept.rows.sort_by(|a, b| number(b).total_cmp(&number(a)));
        }
        kept
    }

    /// Words with what the rows have in their gaps, each once; none where a gap outside brackets has nothing.
    pub(super) fn words_of_all(&self, text: &str) -> Option<String> {
        words::fill(text, &|key, format| {
            let mut found: Vec<String> = Vec::new();
            for word in self.rows.iter().filter_map(|row| self.word(row, key, format)) {
                if !found.contains(&word) {
                    found.push(word);
                }
            }
            (!found.is_empty()).then(|| found.join("; "))
        })
    }
}
