//! The list of what is published, as it stands in `records/published.toml`; what each key means is said there too.
//!
//! A section has runs, a run has results. All results of a run come from one file and share one control. This module only holds the
//! list: [`super::page`] looks the numbers up.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::filter::Filter;

/// The whole list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    /// Prose above the first section.
    pub(super) introduction: String,
    /// Names of machines, and what they are.
    pub(super) machines: BTreeMap<String, String>,
    /// In the order of the page.
    #[serde(rename = "section")]
    pub(super) sections: Vec<Section>,
    /// Prose below the last section.
    #[serde(default)]
    pub(super) closing: String,
}

/// A table, and the prose below it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    pub(super) title: String,
    /// One of the machines' names.
    pub(super) machine: String,
    #[serde(default)]
    pub(super) notes: String,
    #[serde(rename = "run")]
    pub(super) runs: Vec<Run>,
}

/// Results of one run that share a control.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    /// What the first row says; the others say "the same".
    pub(super) what: String,
    /// The record, below `records`.
    #[serde(default)]
    pub(super) file: Option<String>,
    /// What all rows of the run have.
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    /// The row in which a side meets itself.
    #[serde(default)]
    pub(super) control: Option<Filter>,
    /// Such rows of several queries: their medians are the spread.
    #[serde(default)]
    pub(super) controls: Option<Filter>,
    pub(super) results: Vec<Entry>,
}

/// One row of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Stands after the run's words.
    #[serde(default)]
    pub(super) what: String,
    /// The other side, in words.
    #[serde(default)]
    pub(super) versus: String,
    /// What the row has besides what all rows of the run have.
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    /// Unit of the number; without one it is a ratio.
    #[serde(default)]
    pub(super) unit: Option<String>,
    /// What corun took or reached in that run, shown after `what`.
    #[serde(default)]
    pub(super) corun: Option<Absolute>,
    /// What the other side took or reached, shown after `versus`.
    #[serde(default)]
    pub(super) other: Option<Absolute>,
    /// The number itself, where no row of a record has it.
    #[serde(default)]
    pub(super) shown: Option<String>,
    /// The control's spread beside a number that is `shown`.
    #[serde(default)]
    pub(super) shown_control: String,
    /// How many pairs are behind a number that is `shown`.
    #[serde(default)]
    pub(super) shown_pairs: Option<usize>,
    /// The words of the record that have what is `shown`; one blank is as good as many.
    #[serde(default)]
    pub(super) quotes: Vec<String>,
}

/// A number beside the ratio: a unit, and a filter to which the run's `case` is added.
#[derive(Debug, Deserialize)]
pub(super) struct Absolute {
    pub(super) unit: String,
    #[serde(flatten)]
    pub(super) filter: Filter,
}

impl Published {
    /// Every record the list names.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.sections.iter().flat_map(Section::files).collect()
    }
}

impl Section {
    /// Every record the section names.
    pub(super) fn files(&self) -> BTreeSet<&str> {
        self.runs.iter().filter_map(|run| run.file.as_deref()).collect()
    }
}
