//! [`lift`]: from a text to its parameters.

use pg_query::protobuf::a_const::Val;

use super::exact::{TEXT_BYTES_MAX, lexically};
use super::lifted::{Lifted, LiftedShape, LiteralKind, Slot, literal, values_of};
use super::sites::{Site, sites};
use crate::understand::{contains_word, guarded_parse, rough};

/// Literals lifted at most. Texts with more are left as they are.
pub const LITERALS_MAX: usize = 256;

/// Makes parameters of the literals of a text where that may be equal; [`super::proven`] decides whether it is. `None` where there
/// is none or the text is doubtful. The text must be one that [`super::runs_alike`] but for the words that tell the time, which may
/// stand in literals that are lifted.
pub fn lift(text: &[u8]) -> Option<Lifted> {
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() <= TEXT_BYTES_MAX)?;
    // Neither parameters of its own, nor anything whose characters are doubtful.
    let mut skeleton = Vec::new();
    rough::skeleton(text.as_bytes(), &mut skeleton)?;
    if skeleton.contains(&b'$') || contains_word(&skeleton, b"current_query") {
        return None;
    }
    let tree = guarded_parse(text)?;
    let [statement] = tree.stmts.as_slice() else {
        return None;
    };
    let mut sites = sites(statement.stmt.as_ref()?.node.as_ref()?);
    sites.sort_by_key(|site| site.location);
    if sites.windows(2).any(|pair| pair[0].location == pair[1].location) || sites.len() > LITERALS_MAX {
        return None;
    }
    let (mut pieces, mut slots, mut at) = (Vec::new(), Vec::new(), 0);
    for site in &sites {
        let Some((end, slot)) = slot(text, site) else {
            continue;
        };
        // Two literals that touch are left as they are.
        if site.location < at || site.location == at && at > 0 {
            continue;
        }
        pieces.push(Box::from(&text[at..site.location]));
        slots.push(slot);
        at = end;
    }
    pieces.push(Box::from(&text[at..]));
    if slots.is_empty() {
        return None;
    }
    let shape = LiftedShape { pieces, slots };
    let values: Vec<Vec<u8>> = values_of(text.as_bytes(), &shape)?
        .into_iter()
        .map(|value| value.into_owned())
        .collect();
    let lifted = Lifted::new(shape, values);
    // What is left is parsed once and for all.
    lexically(lifted.text.as_bytes()).then_some(lifted)
}

/// The literal at a site as the text has it: where it ends and what it is, if that is what the parser read there.
fn slot(text: &str, site: &Site<'_>) -> Option<(usize, Slot)> {
    let bytes = text.as_bytes();
    let begin = site.location;
    let before = begin.checked_sub(1).map(|at| bytes[at]).unwrap_or(b' ');
    let runs_on = before.is_ascii_alphanumeric()
        || matches!(before, b'_' | b'$' | b'.' | b'&' | b'\'')
        || before >= 0x80;
    if runs_on {
        return None;
    }
    let written = literal(&bytes[begin..])?;
    let end = begin + written.length;
    let same = match (site.value, written.kind) {
        (Val::Sval(read), LiteralKind::String) => {
            *written.value == *read.sval.as_bytes() && !goes_on(&bytes[end..])
        }
        (Val::Ival(read), LiteralKind::Int4) => text[begin..end].parse() == Ok(read.ival),
        (Val::Fval(read), LiteralKind::Int4 | LiteralKind::Int8 | LiteralKind::Decimal) => {
            text[begin..end] == read.fval
        }
        _ => false,
    };
    same.then_some((
        end,
        Slot {
            kind: written.kind,
            negative: written.negative,
            used: site.used,
        },
    ))
}

/// Whether a string might go on in the next line, perhaps behind a comment.
fn goes_on(behind: &[u8]) -> bool {
    let next = behind.trim_ascii_start();
    next.starts_with(b"'") || next.starts_with(b"--")
}
