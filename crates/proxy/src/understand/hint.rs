//! [`Hint`]: what a comment at the beginning of a text asks of the proxy.

/// `/* corun: primary */` or `/* corun: replica */` before the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hint {
    /// Run on the primary, though it only reads.
    Primary,
    /// Run on a replica, though it is not known to read only. The replica refuses what writes.
    Replica,
}

impl Hint {
    /// Reads the comments before the first word. The first that begins with `corun:` and names a known hint counts; unknown ones
    /// are ignored, so that a later version may know more.
    pub(super) fn of(text: &[u8]) -> Option<Hint> {
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
            {
                let word = words[6..].trim_ascii();
                if word.eq_ignore_ascii_case(b"primary") {
                    return Some(Hint::Primary);
                }
                if word.eq_ignore_ascii_case(b"replica") {
                    return Some(Hint::Replica);
                }
            }
            rest = behind.trim_ascii_start();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_hints_in_leading_comments_count() {
        let check = |text: &str, expected| assert_eq!(Hint::of(text.as_bytes()), expected, "{text}");
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
}
