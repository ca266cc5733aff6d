//! [`Shapes`]: simple queries that differ in literals only, and what is known of running them as one statement.
//!
//! ```text
//!  text ─► key: whose, settings, skeleton ─► Entry ─► Known: its pieces fit? ─► Asked ─► Equal: runs as the lifted statement
//!                                              │                                   └───► Unequal: runs otherwise
//!                                              └► none fits: lift(text), LIFTS_MAX times at most
//! ```
//!
//! What was found holds for one stamp of the classifier's: definitions may have changed afterwards, and the server is asked again.
//!
//! What it is not: the question itself ([`crate::core::auto_prepare::literal_check`]).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;

use crate::auto_prepare::{Lifted, values_of};
use crate::session::prepared::Statement;

/// Skeletons remembered.
const SHAPES_MAX: usize = 4096;
/// Bytes they take at most, roughly.
const BYTES_MAX: usize = 16 << 20;
/// Texts of one skeleton that are lifted: each costs a parse and a question. Where literals that are kept always differ, nothing
/// would ever come again.
const LIFTS_MAX: u8 = 4;

/// What is known of a lifted text.
#[derive(Clone, Debug)]
pub(in crate::core) enum State {
    /// The server is to be asked; once more after this time.
    Asked(Duration),
    /// It is not the same.
    Unequal {
        /// When that was found.
        stamp: u64,
    },
    /// It is the same.
    Equal(Equal),
}

/// How a lifted text runs.
#[derive(Clone, Debug)]
pub(in crate::core) struct Equal {
    pub statement: Arc<Statement>,
    /// When that was found.
    pub stamp: u64,
    /// No value can be refused when it is bound.
    pub safe_in_block: bool,
    /// A value may be refused while the statement runs, which would have been refused before.
    pub refuses_late: bool,
}

/// What became of a text.
pub(in crate::core) enum Found<'a> {
    /// Nobody has lifted one like it.
    New,
    /// Not to be lifted.
    Kept,
    /// To be asked about.
    Ask(Arc<Lifted>),
    /// The server has been asked and has not answered yet.
    Asked,
    /// It runs like this, with these values.
    Equal(&'a Equal, Arc<Lifted>, Vec<Cow<'a, [u8]>>),
}

#[derive(Debug)]
struct Known {
    lifted: Arc<Lifted>,
    state: State,
}

#[derive(Debug, Default)]
struct Entry {
    lifts: u8,
    known: Vec<Known>,
}

/// The table of one event loop.
#[derive(Debug)]
pub(in crate::core) struct Shapes {
    entries: LruCache<Box<[u8]>, Entry>,
    bytes: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Self {
            entries: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

/// What an entry takes, roughly.
fn bytes(key: &[u8], entry: &Entry) -> usize {
    let known = entry.known.iter().map(|known| size(&known.lifted));
    128 + key.len() + known.sum::<usize>()
}

/// The text is there in pieces and whole, and twice in the statement.
fn size(lifted: &Lifted) -> usize {
    256 + 4 * lifted.text.len() + 16 * lifted.types.len()
}

impl Shapes {
    /// What is known of a text, as of `stamp`.
    pub fn find<'a>(&'a mut self, key: &[u8], text: &'a [u8], stamp: u64, now: Duration) -> Found<'a> {
        let Some(entry) = self.entries.get(key) else {
            return Found::New;
        };
        for known in &entry.known {
            let Some(values) = values_of(text, &known.lifted.shape) else {
                continue;
            };
            return match &known.state {
                State::Asked(again) if now < *again => Found::Asked,
                State::Equal(equal) if equal.stamp == stamp => {
                    Found::Equal(equal, Arc::clone(&known.lifted), values)
                }
                State::Unequal { stamp: found } if *found == stamp => Found::Kept,
                _ => Found::Ask(Arc::clone(&known.lifted)),
            };
        }
        if entry.lifts < LIFTS_MAX {
            Found::New
        } else {
            Found::Kept
        }
    }

    /// Notes what [`crate::auto_prepare::lift`] made of a text that was [`Found::New`].
    pub fn learn(&mut self, key: &[u8], lifted: Option<Arc<Lifted>>) {
        let mut entry = match self.entries.pop(key) {
            Some(entry) => {
                self.bytes -= bytes(key, &entry);
                entry
            }
            None => Entry::default(),
        };
        entry.lifts = entry.lifts.saturating_add(1);
        entry.known.extend(lifted.map(|lifted| Known {
            lifted,
            state: State::Asked(Duration::ZERO),
        }));
        self.bytes += bytes(key, &entry);
        self.entries.put(key.into(), entry);
        while self.entries.len() > SHAPES_MAX || self.bytes > BYTES_MAX {
            let Some((key, entry)) = self.entries.pop_lru() else {
                break;
            };
            self.bytes -= bytes(&key, &entry);
        }
    }

    /// Notes what is known of a lifted text now.
    pub fn set(&mut self, key: &[u8], lifted: &Arc<Lifted>, state: State) {
        let known = self.entries.get_mut(key).map(|entry| &mut entry.known);
        if let Some(known) =
            known.and_then(|all| all.iter_mut().find(|known| known.lifted.shape == lifted.shape))
        {
            known.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auto_prepare::lift;

    fn lifted(text: &str) -> Option<Arc<Lifted>> {
        lift(text.as_bytes()).map(Arc::new)
    }

    fn found(shapes: &mut Shapes, key: &str, text: &str, stamp: u64, now: u64) -> &'static str {
        match shapes.find(key.as_bytes(), text.as_bytes(), stamp, Duration::from_secs(now)) {
            Found::New => "new",
            Found::Kept => "kept",
            Found::Ask(_) => "ask",
            Found::Asked => "asked",
            Found::Equal(_, _, values) => match &*values[0] {
                b"6" => "equal with 6",
                _ => "equal with another",
            },
        }
    }

    #[test]
    fn a_shape_is_lifted_asked_about_and_found_equal_for_a_while() {
        let mut shapes = Shapes::default();
        let (first, second) = ("select a from t where b = 5", "select a from t where b = 6");
        assert_eq!(found(&mut shapes, "k", first, 1, 0), "new");
        let known = lifted(first).expect("a literal");
        shapes.learn(b"k", Some(Arc::clone(&known)));
        assert_eq!(found(&mut shapes, "k", second, 1, 0), "ask");
        shapes.set(b"k", &known, State::Asked(Duration::from_secs(1)));
        assert_eq!(found(&mut shapes, "k", second, 1, 0), "asked");
        assert_eq!(
            found(&mut shapes, "k", second, 1, 1),
            "ask",
            "the answer was lost"
        );
        shapes.set(b"k", &known, State::Unequal { stamp: 1 });
        assert_eq!(found(&mut shapes, "k", second, 1, 1), "kept");
        assert_eq!(
            found(&mut shapes, "k", second, 2, 1),
            "ask",
            "definitions changed"
        );
        let statements = crate::session::prepared::Statements::new(1);
        let mut understanding = crate::understand::Understanding::new(crate::understand::Limits::default());
        let statement = statements.intern(known.text.as_bytes(), &[0, 0], b"", || {
            understanding.of(first.as_bytes())
        });
        let equal = Equal {
            statement,
            stamp: 2,
            safe_in_block: true,
            refuses_late: false,
        };
        shapes.set(b"k", &known, State::Equal(equal));
        assert_eq!(found(&mut shapes, "k", second, 2, 1), "equal with 6");
        assert_eq!(
            found(&mut shapes, "k", second, 3, 1),
            "ask",
            "definitions changed"
        );
        assert_eq!(found(&mut shapes, "other", second, 2, 1), "new");
    }

    #[test]
    fn literals_that_are_kept_and_always_differ_are_given_up() {
        let mut shapes = Shapes::default();
        for limit in 0..u64::from(LIFTS_MAX) {
            let text = format!("select a from t where b = 5 limit {limit}");
            assert_eq!(found(&mut shapes, "k", &text, 1, 0), "new");
            shapes.learn(b"k", lifted(&text));
        }
        assert_eq!(
            found(&mut shapes, "k", "select a from t where b = 5 limit 77", 1, 0),
            "kept"
        );
        assert_eq!(
            found(&mut shapes, "k", "select a from t where b = 9 limit 2", 1, 0),
            "ask"
        );
    }

    #[test]
    fn the_table_is_bounded() {
        let mut shapes = Shapes::default();
        for number in 0..2 * SHAPES_MAX {
            shapes.learn(number.to_string().as_bytes(), None);
        }
        assert_eq!(shapes.entries.len(), SHAPES_MAX);
        let long = format!("select {}a from t where b = 5", "a, ".repeat(4000));
        let long = lifted(&long).expect("a literal");
        for number in 0..2 * SHAPES_MAX {
            shapes.learn(number.to_string().as_bytes(), Some(Arc::clone(&long)));
        }
        assert!(shapes.bytes <= BYTES_MAX, "{}", shapes.bytes);
        assert!(shapes.entries.len() > 100, "{}", shapes.entries.len());
        let counted: usize = shapes.entries.iter().map(|(key, entry)| bytes(key, entry)).sum();
        assert_eq!(shapes.bytes, counted);
    }
}
