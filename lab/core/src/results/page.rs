//! The page: a table for each section, with the numbers looked up.

use std::collections::{BTreeMap, BTreeSet};

use super::published::{Absolute, Entry, Published, Run, Section};
use super::recorded::Records;
use super::{PUBLISHED, Problem, RECORDS, REGENERATE, ResultsError};
use crate::filter::{Filter, differ};
use crate::row::{Label, Row};
use crate::stats::Spread;

/// Units a number can be shown in, and how many of the row's own unit are one of them.
const UNITS: [(&str, f64); 7] = [
    ("M", 1e6),
    ("k", 1e3),
    ("MB", 1e6),
    ("ms", 1.0),
    ("us", 1.0),
    ("ns", 1.0),
    ("/s", 1.0),
];

/// `YYYY-MM-DD`, with which the folder of a record begins.
const DATE_LENGTH: usize = 10;

/// Rows of the page, counted.
#[derive(Default)]
struct Count {
    results: usize,
    losses: usize,
}

/// The whole page.
pub(super) fn page(published: &Published, records: &Records) -> Result<String, ResultsError> {
    let mut count = Count::default();
    let mut sections = String::new();
    for section in &published.sections {
        sections += &self::section(published, section, records, &mut count)?;
    }
    let Count { results, losses } = count;
    let sections = sections.trim_end();
    let introduction = published.introduction.trim();
    let machines: String = published
        .machines
        .iter()
        .map(|(name, machine)| format!("- {name}: {machine}\n"))
        .collect();
    let closing = match published.closing.trim() {
        "" => String::new(),
        closing => format!("\n\n{closing}"),
    };
    Ok(format!(
        "<!-- Made from {PUBLISHED} and the records beside it. Do not edit: {REGENERATE} -->\n\n\
         # Results\n\n{introduction}\n\n{machines}\n{results} results, losses among them: {losses}.\n\n{sections}{closing}\n"
    ))
}

fn section(
    published: &Published,
    section: &Section,
    records: &Records,
    count: &mut Count,
) -> Result<String, ResultsError> {
    if !published.machines.contains_key(&section.machine) {
        return Err(ResultsError::Machine {
            section: section.title.clone(),
            machine: section.machine.clone(),
        });
    }
    let files = section.files();
    let dates: BTreeSet<&str> = files.iter().filter_map(|file| file.get(..DATE_LENGTH)).collect();
    let machine: Vec<&str> = [section.machine.as_str()].into_iter().chain(dates).collect();
    let mut text = format!(
        "## {}\n\nMachine: {}.\n\n\
         | what | versus | ratio, median (min to max) | A/A | pairs |\n| --- | --- | --- | --- | --- |\n",
        section.title,
        machine.join(", ")
    );
    for run in &section.runs {
        for (index, entry) in run.results.iter().enumerate() {
            let line = line(run, index, entry, records).map_err(|problem| {
                let versus = if entry.versus.is_empty() { "" } else { ", versus " };
                ResultsError::Entry {
                    entry: format!("{}{}{versus}{}", run.what, entry.what, entry.versus),
                    problem,
                }
            })?;
            count.results += 1;
            count.losses += usize::from(line.loss);
            text += &format!(
                "| {} |\n",
                line.cells.map(|cell| cell.replace('|', "\\|")).join(" | ")
            );
        }
    }
    text += &format!("\n{}\n", sources(&files));
    match section.notes.trim() {
        "" => {}
        notes => text += &format!("\n{notes}\n"),
    }
    Ok(text + "\n")
}

/// Where the numbers of a section are from: files, folder by folder.
fn sources(files: &BTreeSet<&str>) -> String {
    let mut folders: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (folder, file) in files.iter().filter_map(|file| file.split_once('/')) {
        folders.entry(folder).or_default().push(format!("`{file}`"));
    }
    if folders.is_empty() {
        return "No record was kept.".to_owned();
    }
    let folders = folders.iter();
    let texts: Vec<String> = folders
        .map(|(folder, files)| format!("Records in `{RECORDS}/{folder}`: {}.", files.join(", ")))
        .collect();
    texts.join(" ")
}

/// A row of a table.
struct Line {
    cells: [String; 5],
    loss: bool,
}

fn line(run: &Run, index: usize, entry: &Entry, records: &Records) -> Result<Line, Problem> {
    let start = if index == 0 { run.what.as_str() } else { "the same" };
    let mut what = format!("{start}{}", entry.what);
    let mut versus = entry.versus.clone();
    if let Some(shown) = &entry.shown {
        let source = if quoted(run, entry, records)? {
            ""
        } else {
            ", no record"
        };
        let pairs = entry
            .shown_pairs
            .map_or_else(String::new, |pairs| pairs.to_string());
        return Ok(Line {
            cells: [
                what,
                versus,
                format!("{shown}{source}"),
                entry.shown_control.clone(),
                pairs,
            ],
            loss: false,
        });
    }
    let file = run.file.as_deref().ok_or(Problem::NoSource)?;
    let filter = run.filter.and(&entry.filter).or_text("metric", "ratio");
    let (row, spread) = one(records, file, &filter)?;
    let control = control(run, file, records)?.or_else(|| own_noise(row));
    for (absolute, text, between) in [(&entry.corun, &mut what, ": "), (&entry.other, &mut versus, ", ")] {
        if let Some(absolute) = absolute {
            *text += &format!("{between}{}", number_of(run, absolute, file, records)?);
        }
    }
    let loss = entry.unit.is_none() && is_loss(spread, control);
    let mut shown = in_unit(spread, entry.unit.as_deref().unwrap_or_default())?;
    if row.label == Label::Simulated {
        shown += ", simulated";
    }
    if row.suite == "by_hand" {
        shown += ", by hand";
    }
    if loss {
        shown += ", **loss**";
    }
    let control = control.map_or_else(String::new, |control| {
        format!("{} to {}", digits(control.min), digits(control.max))
    });
    Ok(Line {
        cells: [what, versus, shown, control, spread.n.to_string()],
        loss,
    })
}

/// Whether a number that is written in the list stands in a record; without a record nothing can be quoted.
fn quoted(run: &Run, entry: &Entry, records: &Records) -> Result<bool, Problem> {
    let Some(file) = &run.file else {
        return Ok(false);
    };
    if entry.quotes.is_empty() {
        return Err(Problem::NoQuotes(file.clone()));
    }
    for quote in &entry.quotes {
        let count = records.get(file).count(quote);
        if count != 1 {
            return Err(Problem::Quote {
                file: file.clone(),
                quote: quote.clone(),
                count,
            });
        }
    }
    Ok(true)
}

/// The spread of a side against itself: of the one control, or of the medians of several queries' controls.
fn control(run: &Run, file: &str, records: &Records) -> Result<Option<Spread>, Problem> {
    let whole = |filter: &Filter| {
        run.filter
            .and(filter)
            .or_text("metric", "ratio")
            .or_text("control", "a/a")
    };
    if let Some(filter) = &run.control {
        return one(records, file, &whole(filter)).map(|(_, spread)| Some(spread));
    }
    let Some(filter) = &run.controls else {
        return Ok(None);
    };
    let filter = whole(filter);
    let rows = records.get(file).rows.iter().filter(|row| filter.finds(row));
    let medians: Vec<f64> = rows.filter_map(Row::median).collect();
    Spread::of(&medians).map(Some).ok_or_else(|| Problem::NoRow {
        file: file.to_owned(),
        filter: filter.to_string(),
    })
}

/// The spread that a suite wrote into the row itself, where it keeps no row of the control.
fn own_noise(row: &Row) -> Option<Spread> {
    let (min, max) = (row.number("noise_low")?, row.number("noise_high")?);
    Some(Spread {
        min,
        max,
        ..Spread::one(1.0)
    })
}

/// Whether every pair lost, by more than the control explains where there is one.
fn is_loss(ratio: Spread, control: Option<Spread>) -> bool {
    ratio.max < 1.0 && control.is_none_or(|control| ratio.median < control.min)
}

/// The one row the filter finds.
fn one<'a>(records: &'a Records, file: &str, filter: &Filter) -> Result<(&'a Row, Spread), Problem> {
    let (file, text) = (file.to_owned(), filter.to_string());
    let rows = &records.get(&file).rows;
    let found: Vec<&Row> = rows.iter().filter(|row| filter.finds(row)).collect();
    let row = match found.as_slice() {
        [] => return Err(Problem::NoRow { file, filter: text }),
        [row] => *row,
        several => {
            return Err(Problem::SeveralRows {
                file,
                filter: text,
                count: several.len(),
                differ: differ(several),
            });
        }
    };
    match (row.answer_ok, row.spread) {
        (Some(false), _) => Err(Problem::WrongAnswer { file, filter: text }),
        (_, None) => Err(Problem::Unavailable { file, filter: text }),
        (_, Some(spread)) => Ok((row, spread)),
    }
}

/// The median of a number beside the ratio, with its unit.
fn number_of(run: &Run, absolute: &Absolute, file: &str, records: &Records) -> Result<String, Problem> {
    let filter = run.filter.only("case").and(&absolute.filter);
    let (_, spread) = one(records, file, &filter)?;
    in_unit(Spread::one(spread.median), &absolute.unit)
}

/// `1.23 (1.10 to 1.30)`, with the unit if there is one; a number that was taken once stands alone.
fn in_unit(spread: Spread, unit: &str) -> Result<String, Problem> {
    let own = match unit {
        "" => 1.0,
        unit => UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, own)| *own)
            .ok_or_else(|| Problem::Unit(unit.to_owned()))?,
    };
    let Spread { n, min, median, max } = spread.scaled(1.0 / own);
    let blank = if unit.is_empty() { "" } else { " " };
    let median = format!("{}{blank}{unit}", digits(median));
    if n == 1 {
        return Ok(median);
    }
    Ok(format!("{median} ({} to {})", digits(min), digits(max)))
}

/// Three digits, as far as the number has them behind the point.
fn digits(number: f64) -> String {
    if number >= 99.95 {
        format!("{number:.0}")
    } else if number >= 9.995 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    }
}
