//! [`shown`]: a statement's text as others may see it.

/// Words of statements that may have secrets in their literals: options of object stores, passwords, signed URLs.
const SECRET_WORDS: [&str; 7] = [
    "options",
    "password",
    "secret",
    "token",
    "credential",
    "signature",
    "sig=",
];

/// What stands for a literal.
const HIDDEN: &str = "'***'";

/// The first `bytes_max` bytes of a text. Literals are hidden where a word before or after them says that they may be secret, and where they
/// are URLs with a user.
pub fn shown(text: &str, bytes_max: usize) -> String {
    let text = &text[..text.floor_char_boundary(bytes_max)];
    let lower = text.to_ascii_lowercase();
    let all = SECRET_WORDS.iter().any(|word| lower.contains(word));
    if !all && !text.contains("://") {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '$', '"']) {
        let (before, literal) = rest.split_at(at);
        out.push_str(before);
        let length = literal_bytes(literal);
        let (literal, behind) = literal.split_at(length);
        let is_literal = literal.len() > 1 && !literal.starts_with('"');
        let is_cut = behind.is_empty() && !literal.ends_with('\'');
        let is_secret = all || literal.contains("://") && (literal.contains('@') || is_cut);
        out.push_str(if is_literal && is_secret { HIDDEN } else { literal });
        rest = behind;
    }
    out + rest
}

/// Length of the literal or quoted name that a text begins with; one that does not end goes to the end. 1 for a dollar that begins none.
fn literal_bytes(text: &str) -> usize {
    let quote = match text.as_bytes()[0] {
        b'$' => {
            let tag = text[1..].find('$').map(|end| &text[..end + 2]);
            let is_tag = |tag: &&str| {
                let name = &tag[1..tag.len() - 1];
                !name.starts_with(|c: char| c.is_ascii_digit())
                    && name.chars().all(|c| c.is_alphanumeric() || c == '_')
            };
            let Some(tag) = tag.filter(is_tag) else { return 1 };
            let end = text[tag.len()..].find(tag);
            return end.map_or(text.len(), |end| end + 2 * tag.len());
        }
        quote => quote,
    };
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == b'\\' && quote == b'\'' {
            // Maybe an escape, maybe not: the longer reading hides more.
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shown("select 'äö'", 9), "select '");
        assert_eq!(shown("select 'ä'", 100), "select 'ä'");
    }

    #[test]
    fn secrets_are_not_shown() {
        for (text, expected) in [
            ("select 'a', $1 from \"it's\"", "select 'a', $1 from \"it's\""),
            (
                "create external table t location 's3://b/' OPTIONS ('aws.secret_access_key' 'ab''c')",
                "create external table t location '***' OPTIONS ('***' '***')",
            ),
            ("alter user ann PASSWORD 'pw", "alter user ann PASSWORD '***'"),
            ("set password to $q$it's$q$ -- $1", "set password to '***' -- $1"),
            ("set token = E'a\\'b' -- c", "set token = E'***' -- c"),
            (
                "select * from 'https://ann:pw@host/x' where a = 'b'",
                "select * from '***' where a = 'b'",
            ),
            ("select * from 'https://host/x'", "select * from 'https://host/x'"),
        ] {
            assert_eq!(shown(text, 1000), expected);
            // Any cut of it is as safe.
            for most in 0..text.len() {
                let cut = shown(text, most);
                assert!(!cut.contains("ab''c") && !cut.contains("ann:"), "{cut}");
            }
        }
    }
}
