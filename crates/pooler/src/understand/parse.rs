//! From a text to its parse tree, and from there to what it means, whatever the text.

use std::borrow::Cow;
use std::sync::Arc;

use pg_query::ParserOptions;
use pg_query::protobuf as pb;

use super::hint::hint;
use super::statement::Reader;
use super::understood::Access;
use super::words::Encoded;
use super::{HeavyQueueHint, Shape, Understood, Words, keys, rough, words};

/// Levels of brackets beyond which a text is not parsed. The decoder of the tree gives up at a hundred messages, which is about
/// fifty levels, so that nothing deeper would be understood anyway.
const BRACKETS_MAX: usize = 200;

/// Tokens between brackets, commas and semicolons beyond which a text is not parsed. A chain such as `1+1+1...` nests as deep
/// as it is long; the parser checks its stack against the thread's, this bound keeps it from taking minutes.
const CHAIN_MAX: usize = 20_000;

/// Whether the text may be handed to the parser.
fn shallow(text: &[u8]) -> bool {
    let (mut depth, mut chain) = (0_usize, 0_usize);
    for byte in text {
        match byte {
            0 => return false,
            b'(' | b'[' => {
                depth += 1;
                chain = 0;
            }
            b')' | b']' => {
                depth = depth.saturating_sub(1);
                chain = 0;
            }
            b',' | b';' => chain = 0,
            b' ' | b'+' | b'-' | b'*' | b'/' | b'|' | b':' | b'=' | b'<' | b'>' | b'~' | b'!' | b'@'
            | b'#' | b'%' | b'^' | b'&' => {
                chain += 1;
            }
            _ => {}
        }
        if depth > BRACKETS_MAX || chain > CHAIN_MAX {
            return false;
        }
    }
    true
}

/// Parses, if that is safe. `None`: not a text of this grammar, or nested too deep.
pub(crate) fn guarded_parse(text: &str) -> Option<pb::ParseResult> {
    if !shallow(text.as_bytes()) {
        return None;
    }
    pg_query::parse(text, ParserOptions::DEFAULT)
        .ok()
        .map(|result| result.protobuf)
}

/// What a text means. Bytes that are not UTF-8 belong to names and strings in every encoding a server may have, so replacing
/// them leaves the structure as it is. Clients have encodings in which that is not so: [`Understood::ambiguous`].
pub(super) fn understand(text: &[u8], text_max: usize) -> Understood {
    let mut understood = as_utf8(text, text_max);
    understood.hint = hint(text);
    let encoded = Encoded::of(text);
    understood.ambiguous = encoded != Encoded::Nowhere || text.contains(&b'\\');
    if encoded == Encoded::Structure {
        // Nothing may rely on where its strings end.
        understood.access = Access::Unknown;
        understood.plain = false;
        understood.keys = None;
    }
    understood
}

fn as_utf8(text: &[u8], text_max: usize) -> Understood {
    let unknown = || {
        // Without its strings, where they can be told apart: data may hold any word.
        let mut skeleton = Vec::new();
        let plain = rough::skeleton(text, &mut skeleton).is_some();
        let defines = words::define(if plain { &skeleton } else { text });
        Understood {
            defines,
            recodes: defines,
            ..Understood::unparsed(Words::of(text))
        }
    };
    if text.len() > text_max {
        return unknown();
    }
    let utf8: Cow<'_, str> = String::from_utf8_lossy(text);
    let Some(tree) = guarded_parse(&utf8) else {
        // Another grammar may change settings by other words.
        return Understood {
            settings: true,
            ..unknown()
        };
    };
    let mut understood = Reader::read(text, &tree);
    understood.heavy_queue = HeavyQueueHint::of(text);
    understood.keys = keys::plan(&tree, text).map(Arc::new);
    understood.shape = match pg_query::fingerprint(&utf8, ParserOptions::DEFAULT, 0) {
        Ok(fingerprint) => Shape(fingerprint.value),
        Err(_) => Shape::UNKNOWN,
    };
    // The normaliser replaces every literal in statements on data only.
    if understood.kind.is_data() {
        understood.normalised = pg_query::normalize(&utf8).ok().map(Arc::from);
    }
    understood
}
