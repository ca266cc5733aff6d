//! [`Test`]: what a condition says of one column, its operands left open.
//!
//! An evaluated test is a set of keys outside of which the condition is certainly not true. Where nothing is known that is every
//! key, so that a doubt widens the set and never loses a key.

use model::ranges::Span;

use super::calendar::DAY_US;
use super::KeyKind;
use super::kind::{Form, Image, image};
use super::operands::{Given, Operands};

/// Elements of an array that are looked at; of a longer one nothing is known.
const ELEMENTS_MAX: usize = 256;

/// A comparison with the column on the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn of(operator: &str) -> Option<Comparison> {
        Some(match operator {
            "=" => Comparison::Equal,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The same with its sides exchanged.
    pub(super) fn flipped(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }

    /// Keys of values of which it is true.
    fn span(self, Image { key, whole }: Image) -> Span {
        // A value that shares its key with others may have smaller and larger ones beside it.
        match self {
            Comparison::Equal => Span::point(key),
            Comparison::Less if whole => Span::below(key),
            Comparison::Less | Comparison::LessOrEqual => Span::at_most(key),
            Comparison::Greater if whole => Span::above(key),
            Comparison::Greater | Comparison::GreaterOrEqual => Span::at_least(key),
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// `$n`, counted from 1.
    Parameter(u16),
    /// The literal with so many before it.
    Literal(u16),
    /// A literal of a text that has no skeleton, which no other text shares.
    Known(Box<[u8]>),
    Null,
}

/// A cast that keeps what is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    None,
    /// To an integer: rounds.
    Integer,
    Numeric,
    Text,
    Date,
    Timestamp,
    Uuid,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) source: Source,
    /// A minus stands before it.
    pub(super) negative: bool,
    pub(super) cast: Cast,
}

/// What an operand turns out to be.
enum Operated {
    Unknown,
    Null,
    Image(Image),
}

impl Operand {
    fn given<'o>(&'o self, operands: &'o impl Operands) -> Given<'o> {
        match &self.source {
            Source::Parameter(number) => operands.parameter(*number),
            Source::Literal(index) => operands.literal(*index),
            Source::Known(text) => Given::Text(text),
            Source::Null => Given::Null,
        }
    }

    fn evaluate(&self, kind: KeyKind, operands: &impl Operands) -> Operated {
        let (form, value) = match self.given(operands) {
            Given::Missing => return Operated::Unknown,
            Given::Null => return Operated::Null,
            Given::Text(value) => (Form::Text, value),
            Given::Quoted(value) => (Form::Quoted, value),
            Given::Binary(value) => (Form::Binary, value),
        };
        match image(kind, form, value, self.negative).and_then(|image| self.cast.applied(kind, image)) {
            Some(image) => Operated::Image(image),
            None => Operated::Unknown,
        }
    }

    fn bytes(&self) -> usize {
        match &self.source {
            Source::Known(text) => text.len(),
            _ => 0,
        }
    }
}

impl Cast {
    /// What is known of a value of this type when it is compared with a column.
    fn applied(self, kind: KeyKind, image: Image) -> Option<Image> {
        match (kind, self) {
            (_, Cast::None)
            | (KeyKind::Integer, Cast::Numeric)
            | (KeyKind::Date, Cast::Date | Cast::Timestamp)
            | (KeyKind::Timestamp, Cast::Timestamp)
            | (KeyKind::Text, Cast::Text)
            | (KeyKind::Uuid, Cast::Uuid) => Some(image),
            (KeyKind::Integer, Cast::Integer) => image.whole.then_some(image),
            (KeyKind::Timestamp, Cast::Date) => {
                let key = image.key.div_euclid(DAY_US).checked_mul(DAY_US)?;
                Some(Image { key, whole: true })
            }
            _ => None,
        }
    }
}

/// What is known of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Compare(Comparison, Operand),
    /// It is one of these.
    In(Box<[Operand]>),
    /// It is an element of this array.
    Any(Operand),
    /// It becomes one of these, rounded as its type wants it.
    Assigned(Box<[Operand]>),
    /// All of these hold, and perhaps more does.
    And(Box<[Test]>),
    /// One of these holds.
    Or(Box<[Test]>),
}

impl Test {
    /// Keys the column may have.
    pub(super) fn span(&self, kind: KeyKind, operands: &impl Operands) -> Span {
        match self {
            Test::Compare(comparison, operand) => match operand.evaluate(kind, operands) {
                Operated::Unknown => Span::ALL,
                Operated::Null => Span::NONE,
                Operated::Image(image) => comparison.span(image),
            },
            Test::In(list) => points(list, kind, operands, false),
            Test::Assigned(list) => points(list, kind, operands, true),
            Test::Any(array) => {
                if array.negative || array.cast.applied(kind, Image { key: 0, whole: true }).is_none() {
                    return Span::ALL;
                }
                elements(kind, array.given(operands)).unwrap_or(Span::ALL)
            }
            Test::And(tests) => {
                let mut span = Span::ALL;
                for test in tests {
                    span = span.intersect(test.span(kind, operands));
                }
                span
            }
            Test::Or(tests) => {
                let mut span = Span::NONE;
                for test in tests {
                    span = span.union(test.span(kind, operands));
                    if span.is_all() {
                        break;
                    }
                }
                span
            }
        }
    }

    /// Whether it leaves a few values only, as an equality does.
    pub(super) fn is_equality(&self) -> bool {
        match self {
            Test::Compare(comparison, _) => *comparison == Comparison::Equal,
            Test::In(_) | Test::Any(_) | Test::Assigned(_) => true,
            Test::And(tests) => tests.iter().any(Test::is_equality),
            Test::Or(tests) => tests.iter().all(Test::is_equality),
        }
    }

    /// Tests and operands in it.
    pub(super) fn nodes(&self) -> usize {
        match self {
            Test::Compare(..) | Test::Any(_) => 1,
            Test::In(list) | Test::Assigned(list) => list.len(),
            Test::And(tests) | Test::Or(tests) => 1 + tests.iter().map(Test::nodes).sum::<usize>(),
        }
    }

    /// Bytes on the heap, roughly.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Test::Compare(_, operand) | Test::Any(operand) => operand.bytes(),
            Test::In(list) | Test::Assigned(list) => {
                list.iter().map(|operand| size_of::<Operand>() + operand.bytes()).sum()
            }
            Test::And(tests) | Test::Or(tests) => {
                tests.iter().map(|test| size_of::<Test>() + test.bytes()).sum()
            }
        }
    }
}

fn points(list: &[Operand], kind: KeyKind, operands: &impl Operands, assigned: bool) -> Span {
    let mut span = Span::NONE;
    for operand in list {
        match operand.evaluate(kind, operands) {
            Operated::Null => {}
            Operated::Image(image) if image.whole || !assigned || kind != KeyKind::Integer => {
                span = span.union(Span::point(image.key));
            }
            Operated::Unknown | Operated::Image(_) => return Span::ALL,
        }
    }
    span
}

/// The elements of an array of one dimension. `None`: it is in doubt.
fn elements(kind: KeyKind, given: Given<'_>) -> Option<Span> {
    let mut span = Span::NONE;
    let mut add = |form, value| {
        let image = image(kind, form, value, false)?;
        span = span.union(Span::point(image.key));
        Some(())
    };
    match given {
        Given::Missing => return None,
        Given::Null => {}
        Given::Text(text) | Given::Quoted(text) => {
            let inside = text.trim_ascii().strip_prefix(b"{")?.strip_suffix(b"}")?;
            // Elements that are quoted or escaped, and arrays in it.
            if inside.iter().any(|byte| b"\"'\\{}".contains(byte)) {
                return None;
            }
            if inside.trim_ascii().is_empty() {
                return Some(Span::NONE);
            }
            if inside.iter().filter(|byte| **byte == b',').count() >= ELEMENTS_MAX {
                return None;
            }
            for element in inside.split(|byte| *byte == b',') {
                let element = element.trim_ascii();
                if !element.eq_ignore_ascii_case(b"null") {
                    add(Form::Text, element)?;
                }
            }
        }
        Given::Binary(bytes) => {
            // Dimensions, whether there are NULLs, the type of elements; for each dimension its length and first index.
            let field = |at: usize| {
                let bytes = bytes.get(at..at + 4)?;
                Some(i32::from_be_bytes(bytes.try_into().ok()?))
            };
            match field(0)? {
                0 => return Some(Span::NONE),
                1 => {}
                _ => return None,
            }
            let count = usize::try_from(field(12)?).ok().filter(|count| *count <= ELEMENTS_MAX)?;
            let mut at = 20;
            for _ in 0..count {
                let length = field(at)?;
                at += 4;
                if length != -1 {
                    let length = usize::try_from(length).ok()?;
                    add(Form::Binary, bytes.get(at..at.checked_add(length)?)?)?;
                    at += length;
                }
            }
        }
    }
    Some(span)
}
