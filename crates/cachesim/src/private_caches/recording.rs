//! [`Recording`]: what a backend of PostgreSQL touched while it ran statements with known keys, as text that can be kept.
//!
//! ```text
//!   line 1      {"recording":1,"server":"15.18", ...}                              what was recorded, and where
//!   next        {"relation":"item_pkey","level":0,"pages":547}                     each level of each relation, as large as it was
//!   the rest    {"statement":"item","instructions":61640,"at":[["item",0.25]],     one execution: where its keys lie on their axes,
//!                "blocks":[[3,17],[2,0]],"touches":"..."}                          its blocks as (relation, page), its touches
//! ```
//!
//! Touches that are certain to hit any cache simulated here are left out: see [`super::strip`]. Not here: who makes recordings
//! ([`super::lackey`]), and how they are replayed with other keys ([`super::layout`]).

use serde_json::{Value, json};

use super::axis::Axis;
use super::pack::{Packer, Unpacker};
use super::touch::{BLOCKS, Touch};

/// The version of the text.
const VERSION: u64 = 1;
/// Most levels of relations.
const RELATIONS_MAX: usize = 1024;
/// Most executions.
const EXECUTIONS_MAX: usize = 4096;

/// One level of a relation: a table is one level, an index one for each height of its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its name.
    pub name: String,
    /// 0 for tables and leaves, then upwards.
    pub level: u32,
    /// Pages of 8 KiB it had.
    pub pages: u32,
}

/// A page that an execution came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which of the recording's relations.
    pub relation: u32,
    /// Which of its pages, in the order of keys.
    pub page: u32,
}

/// One statement, run once.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution {
    /// Which statement.
    pub statement: String,
    /// Instructions it took.
    pub instructions: u64,
    /// Where its keys lie on their axes, each from 0 to below 1.
    pub at: Vec<(Axis, f64)>,
    /// The pages it came to, in the order of the first touch.
    pub blocks: Vec<Block>,
    /// What it touched, in order.
    pub touches: Vec<Touch>,
}

/// What was recorded in one session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The version of the server.
    pub server: String,
    /// What it ran on, for people.
    pub machine: String,
    /// Levels of relations.
    pub relations: Vec<Relation>,
    /// All executions, in the order they were run.
    pub executions: Vec<Execution>,
}

/// A text that is no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the recording: {reason}")]
pub struct RecordingError {
    /// Which line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl Recording {
    /// The executions of one statement.
    pub fn of<'a>(&'a self, statement: &'a str) -> impl Iterator<Item = &'a Execution> + 'a {
        self.executions
            .iter()
            .filter(move |execution| execution.statement == statement)
    }

    /// As text, a JSON object a line. Touches that cannot be packed are left out; those of [`super::lackey`] can.
    pub fn to_text(&self) -> String {
        let mut lines =
            vec![json!({ "recording": VERSION, "server": self.server, "machine": self.machine }).to_string()];
        lines.extend(self.relations.iter().map(|relation| {
            json!({ "relation": relation.name, "level": relation.level, "pages": relation.pages }).to_string()
        }));
        let mut packer = Packer::default();
        lines.extend(self.executions.iter().map(|execution| {
            let packed: Vec<u32> = execution
                .touches
                .iter()
                .filter_map(|touch| touch.packed())
                .collect();
            let blocks: Vec<_> = execution
                .blocks
                .iter()
                .map(|block| json!([block.relation, block.page]))
                .collect();
            let at: Vec<_> = execution
                .at
                .iter()
                .map(|(axis, at)| json!([axis.name(), at]))
                .collect();
            json!({
                "statement": execution.statement,
                "instructions": execution.instructions,
                "at": at,
                "blocks": blocks,
                "touches": packer.pack(&packed),
            })
            .to_string()
        }));
        lines.push(String::new());
        lines.join("\n")
    }

    /// Reads what [`Recording::to_text`] wrote.
    ///
    /// # Errors
    /// [`RecordingError`] names the first line that is not as it should be.
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        let mut recording = Recording::default();
        let mut unpacker = Unpacker::default();
        for (at, line) in text.lines().enumerate() {
            let wrong = |reason: &str| RecordingError {
                line: at + 1,
                reason: reason.to_owned(),
            };
            let object: Value = serde_json::from_str(line).map_err(|error| wrong(&error.to_string()))?;
            if at == 0 {
                if object["recording"].as_u64() != Some(VERSION) {
                    return Err(wrong("it is no recording of this version"));
                }
                recording.server = text_of(&object["server"]).unwrap_or_default();
                recording.machine = text_of(&object["machine"]).unwrap_or_default();
            } else if object["relation"].is_string() {
                let relation =
                    relation(&object).ok_or_else(|| wrong("a relation needs its name, level and pages"))?;
                if recording.relations.len() == RELATIONS_MAX {
                    return Err(wrong("there are too many relations"));
                }
                recording.relations.push(relation);
            } else {
                let execution = execution(&object, recording.relations.len(), &mut unpacker)
                    .map_err(|reason| wrong(&format!("an execution {reason}")))?;
                if recording.executions.len() == EXECUTIONS_MAX {
                    return Err(wrong("there are too many executions"));
                }
                recording.executions.push(execution);
            }
        }
        if recording.executions.is_empty() {
            return Err(RecordingError {
                line: text.lines().count(),
                reason: "nothing was executed".to_owned(),
            });
        }
        Ok(recording)
    }
}

fn text_of(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn number_of(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn relation(object: &Value) -> Option<Relation> {
    Some(Relation {
        name: text_of(&object["relation"])?,
        level: number_of(&object["level"])?,
        pages: number_of(&object["pages"]).filter(|&pages| pages > 0)?,
    })
}

fn execution(object: &Value, relations: usize, unpacker: &mut Unpacker) -> Result<Execution, &'static str> {
    let block = |value: &Value| {
        let block = Block {
            relation: number_of(&value[0])?,
            page: number_of(&value[1])?,
        };
        ((block.relation as usize) < relations).then_some(block)
    };
    let position = |value: &Value| {
        let at = value[1].as_f64().filter(|at| (0.0..1.0).contains(at))?;
        Some((Axis::named(value[0].as_str()?)?, at))
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let blocks: Option<Vec<Block>> = list(&object["blocks"]).iter().map(block).collect();
    let blocks = blocks.ok_or("has a block of no relation")?;
    if blocks.len() > BLOCKS as usize {
        return Err("has too many blocks");
    }
    let at: Option<Vec<(Axis, f64)>> = list(&object["at"]).iter().map(position).collect();
    let packed = object["touches"].as_str().and_then(|text| unpacker.unpack(text));
    let packed = packed.ok_or("has touches that cannot be read")?;
    let touches: Option<Vec<Touch>> = packed.iter().copied().map(Touch::unpacked).collect();
    let touches = touches.ok_or("has touches that cannot be read")?;
    let known = |touch: &Touch| {
        touch
            .place
            .block()
            .is_none_or(|block| (block as usize) < blocks.len())
    };
    if !touches.iter().all(known) {
        return Err("touches a block that it does not name");
    }
    Ok(Execution {
        statement: text_of(&object["statement"]).ok_or("has no statement")?,
        instructions: object["instructions"].as_u64().ok_or("has no instructions")?,
        at: at.ok_or("has a key outside its axis")?,
        blocks,
        touches,
    })
}

#[cfg(test)]
mod tests {
    use super::super::touch::{Place, Use};
    use super::*;

    fn recording() -> Recording {
        let touch = |place, what| Touch { place, what };
        Recording {
            server: "15.1".to_owned(),
            machine: "a machine".to_owned(),
            relations: vec![
                Relation {
                    name: "item".to_owned(),
                    level: 0,
                    pages: 10,
                },
                Relation {
                    name: "item_pkey".to_owned(),
                    level: 1,
                    pages: 1,
                },
            ],
            executions: vec![Execution {
                statement: "item".to_owned(),
                instructions: 1000,
                at: vec![(Axis::Item, 0.25)],
                blocks: vec![Block { relation: 1, page: 0 }, Block { relation: 0, page: 2 }],
                touches: vec![
                    touch(Place::Code { page: 1, line: 2 }, Use::Fetch),
                    touch(Place::Private { page: 7, line: 63 }, Use::Store),
                    touch(Place::Block { block: 1, line: 127 }, Use::Load),
                    touch(Place::Lock { block: 0 }, Use::Store),
                ],
            }],
        }
    }

    #[test]
    fn text_comes_back() {
        let recording = recording();
        assert_eq!(Recording::parse(&recording.to_text()), Ok(recording));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = recording().to_text();
        for (from, to, line, words) in [
            ("\"recording\":1", "\"recording\":2", 1, "this version"),
            ("\"pages\":10", "\"pages\":0", 2, "pages"),
            ("0.25", "1.25", 4, "its axis"),
            ("\"item\",0.25", "\"book\",0.25", 4, "its axis"),
            ("[1,0]", "[2,0]", 4, "no relation"),
            ("[[0,2],", "[[", 4, ""),
            (",[0,2]]", "]", 4, "does not name"),
            ("\"instructions\":1000", "\"instructions\":-1", 4, "instructions"),
            ("\"statement\"", "\"statements\"", 4, "no statement"),
        ] {
            let broken = text.replace(from, to);
            if broken == text {
                continue;
            }
            let error = Recording::parse(&broken).expect_err(from);
            assert_eq!(error.line, line, "{from}: {error}");
            assert!(error.reason.contains(words), "{from}: {error}");
        }
        assert!(Recording::parse("").is_err());
    }
}
