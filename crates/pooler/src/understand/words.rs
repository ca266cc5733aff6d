//! What the words of a text may do to a session, for texts whose grammar is not known and for the bodies of functions.
//!
//! A word counts wherever it could be one: a client that is asked about for nothing loses little, one that loses its temporary table is
//! wrong. What is in strings does not run unless something runs it, and that is a word too.

use std::collections::BTreeSet;

use super::functions::{left_by, runs_text};
use super::tokens::{Token, tokens};
use super::{Effects, Pins};

/// Names collected of one text; one with more may use anything.
const NAMES_MAX: usize = 2000;

/// What a text may do to the session, by its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Every name: functions and relations are among them.
    pub names: BTreeSet<Box<str>>,
    /// What they may do. Of text that is put together before it runs nothing can be seen.
    pub effects: Effects,
}

impl Words {
    /// Of a text of SQL, or the body of a function in SQL or PL/pgSQL.
    pub fn of(text: &[u8]) -> Words {
        let mut words = Words::default();
        // The session that runs it says how backslashes are read.
        let ways: &[bool] = if text.contains(&b'\\') {
            &[false, true]
        } else {
            &[false]
        };
        let read: Vec<_> = ways.iter().filter_map(|&escapes| tokens(text, escapes)).collect();
        words.effects.unreadable = read.is_empty();
        for tokens in read {
            words.read(&tokens);
        }
        words
    }

    fn read(&mut self, tokens: &[Token<'_>]) {
        for (at, token) in tokens.iter().enumerate() {
            let Token::Word(word) = token else { continue };
            self.word(word, &tokens[..at], &tokens[at + 1..]);
            if self.names.len() < NAMES_MAX {
                self.names.insert((&**word).into());
            } else {
                self.effects.unreadable |= !self.names.contains(&**word);
            }
        }
    }

    fn word(&mut self, word: &str, before: &[Token<'_>], after: &[Token<'_>]) {
        let next = |token: Token<'_>| after.first() == Some(&token);
        let calls = next(Token::Sign(b'('));
        let begins = begins_statement(before);
        let follows = |words: &[&str]| after.first().is_some_and(|token| token.is_one_of(words));
        match word {
            "set_config" if calls => self.set_config(&after[1..]),
            "set" => self.set(begins, after),
            "reset" | "discard" if begins => {
                self.effects.settings = true;
                self.effects.names.insert("role".into());
            }
            "pg_settings" => self.effects.settings = true,
            // EXECUTE FUNCTION is a trigger's, GRANT EXECUTE ON a right.
            "execute" => self.effects.unreadable |= !follows(&["function", "procedure", "on"]),
            "do" if begins => self.effects.unreadable = true,
            "temp" | "temporary" => self.effects.pins |= Pins::TEMP_TABLE,
            "listen" if begins => self.effects.pins |= Pins::LISTEN,
            "hold" if before.last().is_some_and(|token| token.is("with")) => {
                self.effects.pins |= Pins::HOLD_CURSOR
            }
            "prepare" if begins && !follows(&["transaction"]) => self.effects.pins |= Pins::SQL_PREPARE,
            "load" if begins && matches!(after.first(), Some(Token::String(_))) => {
                self.effects.pins |= Pins::LOAD
            }
            word if calls && runs_text(word) => self.effects.unreadable = true,
            word if word.starts_with("pg_temp") => self.effects.pins |= Pins::TEMP_TABLE,
            word => {
                let left = left_by(word);
                // The name of a lock's function may be handed to something that calls it.
                if calls || left == Pins::ADVISORY_LOCK {
                    self.effects.pins |= left;
                }
            }
        }
    }

    /// SET, or the SET of an UPDATE.
    fn set(&mut self, begins: bool, mut after: &[Token<'_>]) {
        while after
            .first()
            .is_some_and(|token| token.is_one_of(&["session", "characteristics", "as"]))
        {
            after = &after[1..];
        }
        if after.first().is_some_and(|token| token.is("local")) {
            return;
        }
        self.effects.settings |= begins;
        let mut name = String::new();
        for token in after {
            match token {
                Token::Word(word) if name.is_empty() || name.ends_with('.') => name.push_str(word),
                Token::Sign(b'.') if !name.is_empty() => name.push('.'),
                _ => break,
            }
        }
        match name.as_str() {
            // SET SESSION AUTHORIZATION.
            "authorization" if begins => self.effects.pins |= Pins::SESSION_AUTHORIZATION,
            name if begins || name.contains('.') => self.effects.change_setting(name),
            _ => {}
        }
    }

    /// The arguments of `set_config` begin here.
    fn set_config(&mut self, arguments: &[Token<'_>]) {
        let mut depth = 0_usize;
        let mut commas = 0;
        for (at, token) in arguments.iter().enumerate() {
            match token {
                Token::Sign(b'(') => depth += 1,
                Token::Sign(b')') if depth == 0 => break,
                Token::Sign(b')') => depth -= 1,
                Token::Sign(b',') if depth == 0 => {
                    commas += 1;
                    let last = &arguments[at + 1..];
                    if commas == 2
                        && last.first().is_some_and(|token| token.is("true"))
                        && last.get(1) == Some(&Token::Sign(b')'))
                    {
                        return; // It ends with the transaction.
                    }
                }
                _ => {}
            }
        }
        self.effects.settings = true;
        match arguments {
            [Token::String(Some(name)), Token::Sign(b','), ..] => self.effects.change_setting(name),
            _ => self.effects.unreadable = true,
        }
    }
}

/// Whether a statement can begin behind these tokens.
fn begins_statement(before: &[Token<'_>]) -> bool {
    match before.last() {
        None | Some(Token::Sign(b';' | b'>')) => true,
        Some(token) => token.is_one_of(&[
            "begin", "then", "else", "loop", "atomic", "analyze", "verbose", "also", "instead", "as",
        ]),
    }
}

/// Whether some word of the text could change what is defined.
pub(super) fn define(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 3] = [b"alter", b"create", b"drop"];
    words(text).any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
    text.split(move |byte| !is_word(byte))
        .filter(|word| word.len() >= 4)
}

/// How much of a text depends on the encoding of its bytes beyond ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Encoded {
    /// Nothing: they stand in strings and comments.
    Nowhere,
    /// Names, which a database's own code is known by.
    Names,
    /// Where strings end: in Shift JIS, GBK, GB18030, Big5 and Johab a backslash may be the second byte of a letter.
    Structure,
}

impl Encoded {
    pub fn of(text: &[u8]) -> Encoded {
        if text.is_ascii() {
            return Encoded::Nowhere;
        }
        if text.windows(2).any(|pair| pair[0] >= 0x80 && pair[1] == b'\\') {
            return Encoded::Structure;
        }
        let named = [false, true].into_iter().any(|escapes| {
            tokens(text, escapes).is_none_or(|tokens| {
                let beyond = |token: &Token<'_>| matches!(token, Token::Word(word) if !word.is_ascii());
                tokens.iter().any(beyond)
            })
        });
        if named { Encoded::Names } else { Encoded::Nowhere }
    }
}

/// Whether the session's own schema is named somewhere.
pub(super) fn name_pg_temp(text: &[u8]) -> bool {
    contains_word(text, b"pg_temp")
}

/// Whether `word` stands somewhere in a text, in whatever case, also as a part of another.
pub(crate) fn contains_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

/// Whether a value that a server reads as text may stand for the time of this moment (`'now'`, `'today'`): another reading of it
/// may give another time.
pub fn reads_the_clock(value: &[u8]) -> bool {
    value.split(|byte| !byte.is_ascii_alphabetic()).any(|word| {
        [&b"now"[..], b"today", b"tomorrow", b"yesterday"]
            .iter()
            .any(|time| word.eq_ignore_ascii_case(time))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Words {
        Words::of(text.as_bytes())
    }

    fn names(words: &Words) -> Vec<&str> {
        words.effects.names.iter().map(|name| &**name).collect()
    }

    #[test]
    fn what_statements_leave() {
        let prepared = Pins::SQL_PREPARE | Pins::LOAD;
        let another = Pins::SESSION_AUTHORIZATION | Pins::OTHER;
        for (text, pins) in [
            ("frobnicate TEMPORARY thing", Pins::TEMP_TABLE),
            ("x(Pg_Advisory_Lock(1))", Pins::ADVISORY_LOCK),
            (
                "select temperature, holder, load, seed from listeners",
                Pins::NONE,
            ),
            ("select 'listen'; listen a", Pins::LISTEN),
            ("declare c cursor with hold for select 1", Pins::HOLD_CURSOR),
            ("create table pg_temp.x (a int)", Pins::TEMP_TABLE),
            ("begin prepare p as select 1; load 'x'; end", prepared),
            ("set session authorization bob; select setseed(1)", another),
        ] {
            assert_eq!(of(text).effects.pins, pins, "{text}");
        }
        assert!(define(b"begin atomic; ALTER frob"));
        assert!(!define(b"select altered, dropped, created_at"));
    }

    #[test]
    fn where_the_encoding_matters() {
        let latin = |text: &str| -> Vec<u8> { text.chars().map(|letter| letter as u8).collect() };
        assert_eq!(Encoded::of(b"select E'\\'' from t"), Encoded::Nowhere);
        assert_eq!(
            Encoded::of(&latin("select 'M\u{fc}ller' -- gr\u{fc}n")),
            Encoded::Nowhere
        );
        assert_eq!(Encoded::of(&latin("select gr\u{fc}n()")), Encoded::Names);
        assert_eq!(Encoded::of(&latin("select 1 as \"gr\u{fc}n\"")), Encoded::Names);
        // Katakana SO is 83 5c in Shift JIS.
        assert_eq!(Encoded::of(b"select E'\x83\\', 1"), Encoded::Structure);
    }

    #[test]
    fn settings_that_are_named() {
        assert_eq!(
            names(&of("begin set role bob; set a.b = 1; reset x.y; end")),
            ["a.b", "role"]
        );
        assert_eq!(names(&of("perform set_config('My.Name', x, false)")), ["my.name"]);
        let local = of("perform set_config('my.name', f(x, true), true); set local role bob");
        assert_eq!((local.effects.settings, local.effects.unreadable), (false, false));
        assert_eq!(names(&local), [""; 0]);
        let update = of("begin update t set a = 1 where b; end");
        assert_eq!(
            (update.effects.settings, update.effects.unreadable),
            (false, false)
        );
        assert!(of("begin update t set a = 1; reset all; end").effects.settings);
        assert!(of("perform set_config(name, 'true', false)").effects.unreadable);
    }

    #[test]
    fn text_that_is_put_together_cannot_be_read() {
        for text in [
            "begin execute 'set role bob'; end",
            "do $$ begin end $$",
            "select query_to_xml('x', true, true, '')",
            "'a",
        ] {
            assert!(of(text).effects.unreadable, "{text}");
        }
        for text in [
            "create trigger t after insert on x execute function f()",
            "grant execute on function f() to bob",
            "insert into t values (1) on conflict do nothing",
        ] {
            assert!(!of(text).effects.unreadable, "{text}");
        }
    }
}
