//! What a report shows, as data: a file of TOML for each suite.
//!
//! ```text
//!   title, lead, quick      the page's title, the sentences under it, and what they say besides of a quick run
//!   quick_without           rows that the page of a quick run leaves out
//!   nothing_below           a gain of fewer percent is none
//!   derive.NAME             a key that is made of another one
//!   like.NAME               what tables with `like = "NAME"` have besides what they say themselves
//!   [[say]]                 sentences of the rows before the lead
//!   answers, [[tile]]       big numbers at the top
//!   [[figure]]              a card, shown where a run has rows for it: where, needs, text, say, entry, plot, table, claim
//! ```
//!
//! `where` names keys of rows and their values: one, a list of which one will do, or `{ not = .. }`. Rows of controls are found only by
//! one that names `control`. Words have gaps ([`super::words`]), numbers may be computed ([`super::expression`]).

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::say::{EntrySpec, Keep, SaySpec};
use crate::filter::Filter;

/// A report.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportSpec {
    pub(super) title: String,
    pub(super) lead: String,
    pub(super) quick: String,
    /// Rows that the page of a quick run leaves out.
    #[serde(default)]
    pub(super) quick_without: Option<Filter>,
    pub(super) nothing_below: f64,
    #[serde(default)]
    pub(super) derive: BTreeMap<String, Derive>,
    /// Before the lead.
    #[serde(default)]
    pub(super) say: Vec<SaySpec>,
    /// How many answers were checked: `{n}` rows.
    #[serde(default)]
    pub(super) answers: Option<TileSpec>,
    #[serde(default)]
    pub(super) tile: Vec<TileSpec>,
    pub(super) figure: Vec<FigureSpec>,
    /// Filled in by [`merge`].
    #[serde(default, rename = "like")]
    _like: Table,
}

/// A key made of the text of another, or of words with others in their gaps: what stands before or after some text, then replaced, then
/// in other words, of which `*` is for the rest. It is a number, too, where it reads as one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Derive {
    #[serde(default)]
    pub(super) of: String,
    /// Instead of `of`.
    #[serde(default)]
    pub(super) text: Option<String>,
    /// The key that it is made of where a row has no `of`.
    #[serde(default)]
    pub(super) or: String,
    #[serde(default)]
    pub(super) before: String,
    #[serde(default)]
    pub(super) after: String,
    #[serde(default)]
    pub(super) replace: Vec<(String, String)>,
    #[serde(default)]
    pub(super) words: BTreeMap<String, String>,
}

/// A big number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TileSpec {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
    pub(super) note: String,
    /// What the note says of other rows.
    #[serde(default)]
    pub(super) say: Vec<SaySpec>,
    #[serde(default)]
    pub(super) pick: Pick,
}

/// One row of several, and a number of it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pick {
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    /// The row with the same keys but for these; its median is `other`.
    #[serde(default)]
    pub(super) over: Option<Filter>,
    /// The number, where it is not the median.
    #[serde(default)]
    pub(super) of: Option<String>,
    #[serde(default)]
    pub(super) take: Take,
    /// What is smallest or largest, where that is not the number itself.
    #[serde(default)]
    pub(super) by: Option<String>,
}

/// Which of several rows.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Take {
    #[default]
    First,
    Smallest,
    Largest,
    /// All of them: the mean of their numbers, and the first one's keys.
    Mean,
}

/// A card.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureSpec {
    pub(super) title: String,
    #[serde(rename = "where")]
    pub(super) filter: Filter,
    /// What one of its rows must be, too.
    #[serde(default)]
    pub(super) needs: Filter,
    #[serde(default)]
    pub(super) text: Vec<String>,
    /// Whether the card says in general how its numbers came about, and why some are missing.
    #[serde(default = "yes")]
    pub(super) origin: bool,
    #[serde(default)]
    pub(super) say: Vec<SaySpec>,
    #[serde(default)]
    pub(super) entry: Vec<EntrySpec>,
    #[serde(default)]
    pub(super) plot: Vec<PlotSpec>,
    #[serde(default)]
    pub(super) table: Option<TableSpec>,
    #[serde(default)]
    pub(super) claim: Vec<ClaimSpec>,
}

fn yes() -> bool {
    true
}

/// A plot, or one for each value of some keys: bars or boxes if it says how they are called, else lines.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlotSpec {
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    /// Keys that each plot has the same values of.
    #[serde(default)]
    pub(super) each: Vec<String>,
    #[serde(default)]
    pub(super) keep: Keep,
    #[serde(default)]
    pub(super) caption: String,
    /// What the values are.
    pub(super) axis: String,
    /// The value of a row, where it is not its median.
    #[serde(default)]
    pub(super) y: Option<String>,
    /// The row with the same keys but for these; its median is `other` in `y`.
    #[serde(default)]
    pub(super) over: Option<Filter>,
    /// Whether values, and of lines the places too, have a logarithmic axis.
    #[serde(default)]
    pub(super) log: bool,
    /// The name of a bar.
    #[serde(default)]
    pub(super) bars: Option<String>,
    /// The name of a box, whose row has its quantiles: `p05`, `p25`, the median, `p75`, `p95` and the largest.
    #[serde(default)]
    pub(super) boxes: Option<String>,
    /// Stands behind a bar's number.
    #[serde(default)]
    pub(super) unit: String,
    /// Whether rows of controls are bars, too.
    #[serde(default)]
    pub(super) controls: bool,
    /// Whether the paper's value stands under a bar whose row has one.
    #[serde(default)]
    pub(super) paper: bool,
    /// Where bars begin.
    #[serde(default)]
    pub(super) base: f64,
    /// The colours of bars, and of lines by their names; the first that fits is a bar's, or a line's first row's.
    #[serde(default)]
    pub(super) colours: Vec<SeriesSpec>,
    /// What lies along the lines.
    #[serde(default)]
    pub(super) x: String,
    #[serde(default)]
    pub(super) x_axis: String,
    #[serde(default)]
    pub(super) x_log: bool,
    /// Exactly these ticks along the lines, or round ones.
    #[serde(default)]
    pub(super) x_ticks: Option<Vec<f64>>,
    /// A tick at each place where a line has a point.
    #[serde(default)]
    pub(super) x_points: bool,
    #[serde(default)]
    pub(super) series: Vec<SeriesSpec>,
    /// Instead of `series`: the name of the line a row belongs to.
    #[serde(default)]
    pub(super) by: Option<String>,
    /// Level lines.
    #[serde(default)]
    pub(super) level: Vec<LevelSpec>,
}

/// A line or a colour of bars, by its rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesSpec {
    pub(super) name: String,
    pub(super) colour: usize,
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    /// What must hold for the row, too.
    #[serde(default)]
    pub(super) when: Option<String>,
}

/// A level line at a picked row's number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelSpec {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) pick: Pick,
}

/// A table with a line for each row, or for each value of some keys; columns that no line has anything for are left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSpec {
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
    #[serde(default)]
    pub(super) keep: Keep,
    #[serde(default)]
    pub(super) each: Vec<String>,
    /// How many columns, from the right, are aligned right.
    #[serde(default)]
    pub(super) numbers: usize,
    pub(super) column: Vec<ColumnSpec>,
}

/// The words for the line's first row that has them, controls among them; a dash where there is none. Neighbours of one name are one column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnSpec {
    pub(super) name: String,
    pub(super) text: String,
    #[serde(default, rename = "where")]
    pub(super) filter: Filter,
}

/// What the paper states, and what is held against it: an amount in percent, or whether something holds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimSpec {
    pub(super) paper: String,
    /// What the paper has; the run's is `amount`.
    #[serde(default)]
    pub(super) percent: Option<f64>,
    #[serde(default)]
    pub(super) amount: String,
    #[serde(default)]
    pub(super) holds: String,
    pub(super) here: String,
    /// The words where the amount is below zero; it is told without its sign.
    #[serde(default)]
    pub(super) loss: Option<String>,
    pub(super) values: BTreeMap<String, Pick>,
}

/// The report of a suite or command that has one.
///
/// # Panics
/// If the data are not what they must be, which a test rules out.
pub(super) fn of(name: &str) -> Option<ReportSpec> {
    let text = match name {
        "memory-latency" => include_str!("memory_latency.toml"),
        "instruction-cache" => include_str!("instruction_cache.toml"),
        "heavy-queue" => include_str!("heavy_queue.toml"),
        "characterize" => concat!(
            include_str!("characterize.toml"),
            include_str!("characterize_names.toml")
        ),
        "floor" => include_str!("floor.toml"),
        "join" => include_str!("join.toml"),
        "aggregate" => concat!(include_str!("aggregate.toml"), include_str!("queries.toml")),
        "ssb" => concat!(include_str!("ssb.toml"), include_str!("queries.toml")),
        "tpcds" => concat!(include_str!("tpcds.toml"), include_str!("queries.toml")),
        "h2o" => concat!(include_str!("h2o.toml"), include_str!("queries.toml")),
        "tpch" => concat!(include_str!("tpch.toml"), include_str!("queries.toml")),
        "proxy" => include_str!("proxy.toml"),
        "key-ranges" => include_str!("key_ranges.toml"),
        "llc" => include_str!("llc.toml"),
        "oltp" => include_str!("oltp.toml"),
        "demo" => concat!(include_str!("demo.toml"), include_str!("demo_names.toml")),
        "demo-terminal" => concat!(
            include_str!("demo_terminal.toml"),
            include_str!("demo_names.toml")
        ),
        _ => return None,
    };
    let spec = parse(text);
    Some(spec.unwrap_or_else(|error| panic!("the report of {name}: {error}")))
}

fn parse(text: &str) -> Result<ReportSpec, toml::de::Error> {
    let mut table: Table = toml::from_str(text)?;
    let likes = table
        .get("like")
        .and_then(Value::as_table)
        .cloned()
        .unwrap_or_default();
    for (_, value) in &mut table {
        merge(value, &likes);
    }
    table.try_into()
}

/// Fills in what tables say they are like: `like = "NAME"`, or several names of which the first one wins.
fn merge(value: &mut Value, likes: &Table) {
    match value {
        Value::Table(table) => {
            let names = match table.remove("like") {
                Some(Value::Array(names)) => names,
                other => other.into_iter().collect(),
            };
            for name in names {
                let like = name.as_str().and_then(|name| likes.get(name));
                let mut like = like.unwrap_or_else(|| panic!("there is no like.{name}")).clone();
                merge(&mut like, likes);
                fill_in(table, &like);
            }
            table.iter_mut().for_each(|(_, value)| merge(value, likes));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| merge(value, likes)),
        _ => {}
    }
}

/// Adds what `table` lacks, in tables within it as well, and puts what lists lack in front.
fn fill_in(table: &mut Table, like: &Value) {
    for (key, value) in like.as_table().into_iter().flatten() {
        match (table.get_mut(key), value) {
            (Some(Value::Table(own)), value) => fill_in(own, value),
            (Some(Value::Array(own)), Value::Array(value)) => drop(own.splice(0..0, value.iter().cloned())),
            (Some(_), _) => {}
            (None, _) => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}
