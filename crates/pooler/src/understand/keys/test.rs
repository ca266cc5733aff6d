//! [`Test`]: what a condition says of one column, its operands left open.
//!
//! An evaluated test is a set of keys outside of which the condition is certainly not true. Where nothing is known that is every
//! key, so that a doubt widens the set and never loses a key.

use corun_model::pooler::ranges::{INTERVALS_MAX, Span};

use super::calendar::DAY_US;
use super::kind::{Form, Image, image};
use super::operands::{Given, Operands};
use super::{KeyKind, NODES_MAX};

/// Keys of a list or array that are looked at; of a longer one nothing is known.
const POINTS_MAX: usize = NODES_MAX;

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
            Test::In(list) | Test::Assigned(list) => list
                .iter()
                .map(|operand| size_of::<Operand>() + operand.bytes())
                .sum(),
            Test::And(tests) | Test::Or(tests) => {
                tests.iter().map(|test| size_of::<Test>() + test.bytes()).sum()
            }
        }
    }
}

/// Keys of a list on the stack. Uniting them one by one with a span costs a quarter of a microsecond each.
struct Points {
    keys: [i64; POINTS_MAX],
    count: usize,
}

impl Points {
    fn new() -> Self {
        Points {
            keys: [0; POINTS_MAX],
            count: 0,
        }
    }

    /// `None`: there is no room.
    fn add(&mut self, key: i64) -> Option<()> {
        *self.keys.get_mut(self.count)? = key;
        self.count += 1;
        Some(())
    }

    /// Intervals that hold them all, with the widest gaps between them.
    fn span(mut self) -> Span {
        let keys = &mut self.keys[..self.count];
        keys.sort_unstable();
        // The widest gaps, each with the place of the key behind it; gaps that are none are 1 at most.
        let mut gaps = [(1_u64, usize::MAX); INTERVALS_MAX - 1];
        for (at, pair) in keys.windows(2).enumerate() {
            let gap = (pair[1].abs_diff(pair[0]), at + 1);
            if let Some(smallest) = gaps.iter_mut().min_by_key(|(gap, _)| *gap)
                && gap.0 > smallest.0
            {
                *smallest = gap;
            }
        }
        gaps.sort_unstable_by_key(|(_, at)| *at);
        let (mut span, mut begin) = (Span::NONE, 0);
        for end in gaps.iter().map(|(_, at)| (*at).min(keys.len())) {
            if let (Some(low), Some(high)) = (keys.get(begin), keys[..end].last())
                && begin < end
            {
                span = span.union(Span::between(*low, *high));
            }
            begin = end;
        }
        if let (Some(low), Some(high)) = (keys.get(begin), keys.last()) {
            span = span.union(Span::between(*low, *high));
        }
        span
    }
}

fn points(list: &[Operand], kind: KeyKind, operands: &impl Operands, assigned: bool) -> Span {
    let known = |operand: &Operand| match operand.evaluate(kind, operands) {
        Operated::Image(image) if !image.whole && assigned && kind == KeyKind::Integer => Operated::Unknown,
        other => other,
    };
    if let [operand] = list {
        return match known(operand) {
            Operated::Null => Span::NONE,
            Operated::Image(image) => Span::point(image.key),
            Operated::Unknown => Span::ALL,
        };
    }
    let mut points = Points::new();
    for operand in list {
        match known(operand) {
            Operated::Null => {}
            Operated::Image(image) if points.add(image.key).is_some() => {}
            Operated::Image(_) | Operated::Unknown => return Span::ALL,
        }
    }
    points.span()
}

/// The elements of an array of one dimension. `None`: it is in doubt.
fn elements(kind: KeyKind, given: Given<'_>) -> Option<Span> {
    let mut points = Points::new();
    let mut add = |form, value| points.add(image(kind, form, value, false)?.key);
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
            let count = usize::try_from(field(12)?)
                .ok()
                .filter(|count| *count <= POINTS_MAX)?;
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
    Some(points.span())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn points_lie_in_their_span_and_its_gaps_are_the_widest(
            keys in prop::collection::vec(prop_oneof![-20_i64..20, any::<i64>(), Just(i64::MIN), Just(i64::MAX)], 0..12),
        ) {
            let mut points = Points::new();
            keys.iter().for_each(|key| points.add(*key).expect("room"));
            let span = points.span();
            prop_assert!(keys.iter().all(|key| span.contains(*key)), "{}", span);
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            let mut gaps: Vec<u64> = sorted.windows(2).map(|pair| pair[1].abs_diff(pair[0])).filter(|gap| *gap > 1).collect();
            gaps.sort_unstable_by(|a, b| b.cmp(a));
            gaps.truncate(INTERVALS_MAX - 1);
            let mut left: Vec<u64> = span.intervals().windows(2).map(|pair| pair[1].0.abs_diff(pair[0].1)).collect();
            left.sort_unstable_by(|a, b| b.cmp(a));
            prop_assert_eq!(left, gaps);
            prop_assert_eq!(span.is_none(), keys.is_empty());
        }
    }
}
