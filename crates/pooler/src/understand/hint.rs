//! [`Hint`] and [`HeavyQueueHint`]: what comments at the beginning of a text ask of the proxy.

/// `/* corun: primary */` or `/* corun: replica */` before the first word.
pub use corun_model::pooler::replicas::split::Hint;

/// The name of the hint about the heavy queue.
const HEAVY_QUEUE: &[u8] = b"heavy_queue";

/// `/* corun: heavy_queue=none */` or `/* corun: heavy_queue=analytic */` before the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeavyQueueHint {
    /// Never in the queue of heavy queries.
    None,
    /// In it from the first time on, whatever it took so far.
    Analytic,
}

const HINTS: [(&str, Hint); 2] = [("primary", Hint::Primary), ("replica", Hint::Replica)];
const HEAVY_QUEUE_HINTS: [(&str, HeavyQueueHint); 2] = [
    ("none", HeavyQueueHint::None),
    ("analytic", HeavyQueueHint::Analytic),
];

/// Reads the comments before the first word. The first that begins with `corun:` and names a known hint of this kind counts; unknown
/// ones are ignored, so that a later version may know more.
pub(super) fn hint(text: &[u8]) -> Option<Hint> {
    first(text, |word| named(word, &HINTS))
}

impl HeavyQueueHint {
    /// The same for hints about the queue.
    pub(super) fn of(text: &[u8]) -> Option<HeavyQueueHint> {
        first(text, |word| {
            let (name, value) = word.split_at_checked(HEAVY_QUEUE.len())?;
            let value = value.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
            let queue = name.eq_ignore_ascii_case(HEAVY_QUEUE);
            named(value, &HEAVY_QUEUE_HINTS).filter(|_| queue)
        })
    }
}

fn named<T: Copy>(word: &[u8], known: &[(&str, T)]) -> Option<T> {
    let found = known
        .iter()
        .find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, hint)| *hint)
}

/// What `read` makes of the first comment for us, of those before the first word, that it knows.
fn first<T>(text: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut rest = text.trim_ascii_start();
    loop {
        let (comment, behind) = if let Some(inside) = rest.strip_prefix(b"/*") {
            let end = inside.windows(2).position(|pair| pair == b"*/")?;
            (&inside[..end], &inside[end + 2..])
        } else {
            let inside = rest.strip_prefix(b"--")?;
            let end = inside.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
            (&inside[..end], &inside[end..])
        };
        let words = comment.trim_ascii();
        if words
            .get(..6)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"corun:"))
            && let Some(found) = read(words[6..].trim_ascii())
        {
            return Some(found);
        }
        rest = behind.trim_ascii_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hints_in_leading_comments_count() {
        let check = |text: &str, expected| assert_eq!(hint(text.as_bytes()), expected, "{text}");
        check("/* corun: primary */ select 1", Some(Hint::Primary));
        check("  /*CORUN:replica*/select 1", Some(Hint::Replica));
        check("-- other\n/* corun: replica */ select 1", Some(Hint::Replica));
        check("-- corun: primary\nselect 1", Some(Hint::Primary));
        check("/* corun: unheard of */ select 1", None);
        check("select 1 /* corun: primary */", None);
        check("/* corun: primary select 1", None);
        check("/* corun", None);
        check("", None);
    }

    #[test]
    fn hints_about_the_queue_stand_beside_others() {
        let check =
            |text: &str, expected| assert_eq!(HeavyQueueHint::of(text.as_bytes()), expected, "{text}");
        check(
            "/* corun: heavy_queue=none */ select 1",
            Some(HeavyQueueHint::None),
        );
        check(
            "-- CORUN: Heavy_Queue = Analytic\nselect 1",
            Some(HeavyQueueHint::Analytic),
        );
        check(
            "/* corun: replica */ /*corun:heavy_queue=none*/ select 1",
            Some(HeavyQueueHint::None),
        );
        check("/* corun: heavy_queue */ select 1", None);
        check("/* corun: heavy_queue=often */ select 1", None);
        check("/* corun: lane=none */ select 1", None);
        check("select 1 /* corun: heavy_queue=none */", None);
        assert_eq!(
            hint(b"/* corun: heavy_queue=none */ /* corun: primary */ select 1"),
            Some(Hint::Primary)
        );
    }
}
