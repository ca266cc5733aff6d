//! Definitions that the SQL parser does not know, or knows in one order only: sequences and their options, identity with a sequence's name.
//!
//! ```text
//!   CREATE SEQUENCE, options in any order  ─► CreateSequence
//!   ALTER SEQUENCE s RESTART 5 ...         ─► AlterTable of s that sets options: `ALTER TABLE s SET (restart = 5)`
//!   ... AS IDENTITY (options in any order) ─► the same in the parser's order, for the parser
//!   ALTER TABLE t SET SCHEMA s             ─► refused by name
//!   COMMENT ON CONSTRAINT c ON t           ─► Comment of column t.c with `if_exists`, which PostgreSQL does not have
//! ```
//!
//! Order of calls: [`parsed`], before the parser. What it is not: a check of what the options say.

use super::error;
use corun_wire::error::{Refusal, code};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, CommentObject, DataType, Expr, Ident, ObjectName, ObjectNamePart,
    RenameTableNameKind, SequenceOptions, SqlOption, Statement, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};

/// A definition that is read here; `None`: it is the parser's.
pub(crate) fn parsed(text: &str) -> Option<Result<Statement, Refusal>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().ok()?;
    let words: Vec<&Token> = tokens
        .iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .collect();
    let is = |at: usize, word: &str| words.get(at).is_some_and(|token| is_word(token, word));
    let parsed = match () {
        () if is(0, "ALTER") && is(1, "SEQUENCE") => alter_sequence(text),
        () if is(0, "CREATE") && (1..3).any(|at| is(at, "SEQUENCE")) => create_sequence(text),
        () if is(0, "ALTER") && is(1, "TABLE") && sets_schema(&words) => {
            return Some(Err(error::unsupported("ALTER TABLE ... SET SCHEMA")));
        }
        () if is(0, "CREATE") && is(1, "UNLOGGED") && is(2, "TABLE") => {
            // It survives a crash, too, which nobody who asks for less minds.
            let logged = tokens.iter().filter(|token| !is_word(token, "UNLOGGED"));
            let logged: Vec<Token> = logged.cloned().collect();
            with_identity(&logged).unwrap_or_else(|| statement(logged))
        }
        () if is(0, "COMMENT") && is(2, "CONSTRAINT") => comment_on_constraint(text),
        () if is(0, "COMMENT") && !is(1, "ON") => return words.get(1).map(|token| Err(near(token))),
        () if is(1, "TABLE") || is(2, "TABLE") => with_identity(&tokens).or_else(|| with_types(&tokens))?,
        () => return None,
    };
    Some(parsed.map_err(told))
}

enum Wrong {
    Parser(ParserError),
    Told(Refusal),
}

impl From<ParserError> for Wrong {
    fn from(error: ParserError) -> Self {
        Wrong::Parser(error)
    }
}

impl From<Refusal> for Wrong {
    fn from(refusal: Refusal) -> Self {
        Wrong::Told(refusal)
    }
}

fn told(wrong: Wrong) -> Refusal {
    match wrong {
        Wrong::Told(refusal) => refusal,
        Wrong::Parser(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("sql parser error: ").unwrap_or(&text);
            Refusal::new(code::SYNTAX_ERROR, format!("syntax error: {text}"))
        }
    }
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(word))
}

fn sets_schema(words: &[&Token]) -> bool {
    let pairs = &mut words.windows(2);
    pairs.any(|pair| is_word(pair[0], "SET") && is_word(pair[1], "SCHEMA"))
}

/// Reads tokens one after the other.
struct Reader<'d> {
    parser: Parser<'d>,
}

impl Reader<'_> {
    /// Takes these words if they come next.
    fn takes(&mut self, words: &[&str]) -> bool {
        for (taken, word) in words.iter().enumerate() {
            if !is_word(&self.parser.peek_token().token, word) {
                (0..taken).for_each(|_| self.parser.prev_token());
                return false;
            }
            self.parser.next_token();
        }
        true
    }

    /// Takes these words, which must come next.
    fn needs(&mut self, words: &[&str]) -> Result<(), Wrong> {
        match self.takes(words) {
            true => Ok(()),
            false => Err(Wrong::Told(near(&self.parser.peek_token().token))),
        }
    }

    fn name(&mut self) -> Result<ObjectName, Wrong> {
        Ok(self.parser.parse_object_name(false)?)
    }

    fn number(&mut self) -> Result<Expr, Wrong> {
        let negative = self.parser.consume_token(&Token::Minus);
        if !negative {
            _ = self.parser.consume_token(&Token::Plus);
        }
        let token = self.parser.next_token().token;
        match token {
            Token::Number(number, _) => {
                let sign = if negative { "-" } else { "" };
                Ok(value(&format!("{sign}{number}")))
            }
            token => Err(Wrong::Told(near(&token))),
        }
    }

    fn end(&mut self) -> Result<(), Wrong> {
        match self.parser.peek_token().token {
            Token::EOF | Token::SemiColon => Ok(()),
            token => Err(Wrong::Told(near(&token))),
        }
    }
}

fn comment_on_constraint(text: &str) -> Result<Statement, Wrong> {
    let dialect = PostgreSqlDialect {};
    let parser = Parser::new(&dialect).try_with_sql(text)?;
    let mut reader = Reader { parser };
    reader.needs(&["COMMENT", "ON", "CONSTRAINT"])?;
    let constraint = reader.parser.parse_identifier()?;
    reader.needs(&["ON"])?;
    let mut object_name = reader.name()?;
    reader.needs(&["IS"])?;
    let comment = match reader.takes(&["NULL"]) {
        true => None,
        false => Some(reader.parser.parse_literal_string()?),
    };
    reader.end()?;
    object_name.0.push(ObjectNamePart::Identifier(constraint));
    Ok(Statement::Comment {
        object_type: CommentObject::Column,
        object_name,
        comment,
        if_exists: true,
    })
}

fn near(token: &Token) -> Refusal {
    match token {
        Token::EOF => error::syntax("syntax error at end of input"),
        token => error::syntax(format!("syntax error at or near \"{token}\"")),
    }
}

fn value(number: &str) -> Expr {
    match number.parse() {
        Ok(parsed) => Expr::Value(Value::Number(parsed, false).into()),
        Err(_) => Expr::Identifier(Ident::new(number)),
    }
}

/// What stands behind a sequence's name.
#[derive(Default)]
struct Options {
    of: Option<DataType>,
    options: Vec<SequenceOptions>,
    /// `RESTART`, with or without a number.
    restart: Option<Option<Expr>>,
    owned_by: Option<ObjectName>,
}

/// Options in any order, up to what is none.
fn options(reader: &mut Reader<'_>) -> Result<Options, Wrong> {
    let mut options = Options::default();
    loop {
        let option = if reader.takes(&["AS"]) {
            options.of = Some(reader.parser.parse_data_type()?);
            continue;
        } else if reader.takes(&["SEQUENCE", "NAME"]) {
            // Of pg_dump: the name that it would have anyway.
            reader.name()?;
            continue;
        } else if reader.takes(&["LOGGED"]) || reader.takes(&["UNLOGGED"]) {
            continue;
        } else if reader.takes(&["INCREMENT"]) {
            reader.takes(&["BY"]);
            SequenceOptions::IncrementBy(reader.number()?, true)
        } else if reader.takes(&["NO", "MINVALUE"]) {
            SequenceOptions::MinValue(None)
        } else if reader.takes(&["NO", "MAXVALUE"]) {
            SequenceOptions::MaxValue(None)
        } else if reader.takes(&["MINVALUE"]) {
            SequenceOptions::MinValue(Some(reader.number()?))
        } else if reader.takes(&["MAXVALUE"]) {
            SequenceOptions::MaxValue(Some(reader.number()?))
        } else if reader.takes(&["START"]) {
            reader.takes(&["WITH"]);
            SequenceOptions::StartWith(reader.number()?, true)
        } else if reader.takes(&["CACHE"]) {
            SequenceOptions::Cache(reader.number()?)
        } else if reader.takes(&["NO", "CYCLE"]) {
            // The parser's word for it.
            SequenceOptions::Cycle(true)
        } else if reader.takes(&["CYCLE"]) {
            SequenceOptions::Cycle(false)
        } else if reader.takes(&["RESTART"]) {
            let with = reader.takes(&["WITH"]);
            let token = reader.parser.peek_token().token;
            let has_number = matches!(token, Token::Number(..) | Token::Minus | Token::Plus);
            options.restart = Some(match with || has_number {
                true => Some(reader.number()?),
                false => None,
            });
            continue;
        } else if reader.takes(&["OWNED", "BY"]) {
            options.owned_by = Some(reader.name()?);
            continue;
        } else {
            return Ok(options);
        };
        let same = |known: &SequenceOptions| std::mem::discriminant(known) == std::mem::discriminant(&option);
        if options.options.iter().any(same) {
            return Err(Wrong::Told(error::syntax("conflicting or redundant options")));
        }
        options.options.push(option);
    }
}

fn reader<'d>(dialect: &'d PostgreSqlDialect, text: &str) -> Result<Reader<'d>, Wrong> {
    let parser = Parser::new(dialect).try_with_sql(text)?;
    Ok(Reader { parser })
}

fn create_sequence(text: &str) -> Result<Statement, Wrong> {
    let dialect = PostgreSqlDialect {};
    let mut reader = reader(&dialect, text)?;
    reader.takes(&["CREATE"]);
    let temporary = reader.takes(&["TEMP"]) || reader.takes(&["TEMPORARY"]);
    reader.takes(&["UNLOGGED"]);
    if !reader.takes(&["SEQUENCE"]) {
        return Err(Wrong::Told(near(&reader.parser.peek_token().token)));
    }
    let if_not_exists = reader.takes(&["IF", "NOT", "EXISTS"]);
    let name = reader.name()?;
    let options = options(&mut reader)?;
    reader.end()?;
    if options.restart.is_some() {
        return Err(Wrong::Told(error::syntax("syntax error at or near \"RESTART\"")));
    }
    Ok(Statement::CreateSequence {
        temporary,
        if_not_exists,
        name,
        data_type: options.of,
        sequence_options: options.options,
        owned_by: options.owned_by,
    })
}

fn alter_sequence(text: &str) -> Result<Statement, Wrong> {
    let dialect = PostgreSqlDialect {};
    let mut reader = reader(&dialect, text)?;
    reader.takes(&["ALTER", "SEQUENCE"]);
    let if_exists = reader.takes(&["IF", "EXISTS"]);
    let name = reader.name()?;
    let operation = if reader.takes(&["RENAME", "TO"]) {
        AlterTableOperation::RenameTable {
            table_name: RenameTableNameKind::To(reader.name()?),
        }
    } else if reader.takes(&["OWNER", "TO"]) {
        AlterTableOperation::OwnerTo {
            new_owner: reader.parser.parse_owner()?,
        }
    } else if reader.takes(&["SET", "SCHEMA"]) {
        return Err(Wrong::Told(error::unsupported("ALTER SEQUENCE ... SET SCHEMA")));
    } else {
        reader.takes(&["SET"]);
        AlterTableOperation::SetOptionsParens {
            options: set(options(&mut reader)?),
        }
    };
    reader.end()?;
    Ok(Statement::AlterTable(AlterTable {
        name,
        if_exists,
        only: false,
        operations: vec![operation],
        location: None,
        on_cluster: None,
        table_type: None,
        end_token: AttachedToken::empty(),
    }))
}

/// Options as those of a relation.
fn set(options: Options) -> Vec<SqlOption> {
    let pair = |key: &str, value: Expr| SqlOption::KeyValue {
        key: Ident::new(key),
        value,
    };
    let null = || Expr::Value(Value::Null.into());
    let mut set = Vec::new();
    if let Some(of) = options.of {
        set.push(pair("as", Expr::Identifier(Ident::new(of.to_string()))));
    }
    for option in options.options {
        set.push(match option {
            SequenceOptions::IncrementBy(value, _) => pair("increment", value),
            SequenceOptions::MinValue(value) => pair("minvalue", value.unwrap_or_else(null)),
            SequenceOptions::MaxValue(value) => pair("maxvalue", value.unwrap_or_else(null)),
            SequenceOptions::StartWith(value, _) => pair("start", value),
            SequenceOptions::Cache(value) => pair("cache", value),
            SequenceOptions::Cycle(no) => pair("cycle", Expr::Value(Value::Boolean(!no).into())),
        });
    }
    if let Some(value) = options.restart {
        set.push(pair("restart", value.unwrap_or_else(null)));
    }
    if let Some(owner) = options.owned_by {
        let parts = owner.0.iter().filter_map(|part| part.as_ident().cloned());
        set.push(pair("owned_by", Expr::CompoundIdentifier(parts.collect())));
    }
    set
}

/// The same statement with the options of each identity in the parser's order; `None`: it has none.
fn with_identity(tokens: &[Token]) -> Option<Result<Statement, Wrong>> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut found = false;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        out.push(token.clone());
        at += 1;
        if !is_word(token, "IDENTITY") {
            continue;
        }
        let blanks = &mut tokens[at..].iter();
        let skipped = blanks
            .take_while(|token| matches!(token, Token::Whitespace(_)))
            .count();
        let open = at + skipped;
        if tokens.get(open) != Some(&Token::LParen) {
            continue;
        }
        let length = tokens[open..].iter().position(|token| *token == Token::RParen)?;
        found = true;
        match ordered(&tokens[open + 1..open + length]) {
            Ok(ordered) if ordered.is_empty() => {}
            Ok(ordered) => {
                out.push(Token::LParen);
                out.extend(ordered);
                out.push(Token::RParen);
            }
            Err(wrong) => return Some(Err(wrong)),
        }
        at = open + length + 1;
    }
    found.then(|| statement(out))
}

/// `CREATE TABLE t (a, b) AS`: the parser wants types of the columns, which are not looked at; `None`: it is something else.
fn with_types(tokens: &[Token]) -> Option<Result<Statement, Wrong>> {
    let open = tokens.iter().position(|token| *token == Token::LParen)?;
    let length = tokens[open..].iter().position(|token| *token == Token::RParen)?;
    let (names, rest) = (&tokens[open + 1..open + length], &tokens[open + length + 1..]);
    let mut behind = rest.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    if !behind.next().is_some_and(|token| is_word(token, "AS")) {
        return None;
    }
    let mut out = tokens[..=open].to_vec();
    let names = names
        .iter()
        .filter(|token| !matches!(token, Token::Whitespace(_)));
    let mut wants_name = true;
    for name in names {
        match name {
            Token::Word(_) if wants_name => {
                out.push(name.clone());
                out.push(Token::Whitespace(Whitespace::Space));
                out.push(Token::make_word("text", None));
            }
            Token::Comma if !wants_name => out.push(name.clone()),
            _ => return None,
        }
        wants_name = !wants_name;
    }
    out.push(Token::RParen);
    out.extend_from_slice(rest);
    Some(statement(out))
}

fn statement(tokens: Vec<Token>) -> Result<Statement, Wrong> {
    let dialect = PostgreSqlDialect {};
    Ok(Parser::new(&dialect).with_tokens(tokens).parse_statement()?)
}

fn ordered(tokens: &[Token]) -> Result<Vec<Token>, Wrong> {
    let dialect = PostgreSqlDialect {};
    let mut reader = Reader {
        parser: Parser::new(&dialect).with_tokens(tokens.to_vec()),
    };
    let mut options = options(&mut reader)?.options;
    reader.end()?;
    options.sort_by_key(|option| match option {
        SequenceOptions::IncrementBy(..) => 0,
        SequenceOptions::MinValue(_) => 1,
        SequenceOptions::MaxValue(_) => 2,
        SequenceOptions::StartWith(..) => 3,
        SequenceOptions::Cache(_) => 4,
        SequenceOptions::Cycle(_) => 5,
    });
    let texts: Vec<String> = options.iter().map(ToString::to_string).collect();
    let tokens = Tokenizer::new(&dialect, &texts.join(" ")).tokenize();
    tokens.map_err(|error| Wrong::Told(error::syntax(format!("syntax error: {}", error.message))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> String {
        match parsed(sql) {
            None => "the parser's".to_owned(),
            Some(Ok(statement)) => statement.to_string(),
            Some(Err(refusal)) => format!("{}: {}", refusal.code, refusal.message),
        }
    }

    #[test]
    fn sequences_are_read_in_any_order() {
        assert_eq!(
            text(
                "create sequence s.q as integer start with 5 increment by -1 no minvalue no maxvalue cache 1"
            ),
            "CREATE SEQUENCE s.q AS INTEGER START WITH 5 INCREMENT BY -1 NO MINVALUE NO MAXVALUE CACHE 1"
        );
        assert_eq!(
            text("ALTER SEQUENCE q RESTART WITH 7 INCREMENT 2 NO CYCLE OWNED BY public.t.id"),
            "ALTER TABLE q SET (increment = 2, cycle = false, restart = 7, owned_by = public.t.id)"
        );
        assert_eq!(
            text("alter sequence if exists q restart"),
            "ALTER TABLE IF EXISTS q SET (restart = NULL)"
        );
        assert_eq!(text("alter sequence q owner to me"), "ALTER TABLE q OWNER TO me");
        assert_eq!(text("alter sequence q rename to r"), "ALTER TABLE q RENAME TO r");
        for wrong in [
            "create sequence",
            "create sequence q start",
            "create sequence q start 1 start 2",
            "alter sequence q restart 1 nonsense",
            "create sequence q minvalue x",
        ] {
            assert!(text(wrong).starts_with("42601"), "{wrong}: {}", text(wrong));
        }
    }

    #[test]
    fn identity_is_put_in_order_and_the_rest_is_the_parsers() {
        let sql = "alter table t alter id add generated by default as identity (sequence name public.q start with 3 increment by 1 no maxvalue)";
        assert_eq!(
            text(sql),
            "ALTER TABLE t ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY ( INCREMENT BY 1 NO MAXVALUE START WITH 3 )"
        );
        assert_eq!(
            text("create table t (id int generated always as identity)"),
            "the parser's"
        );
        assert_eq!(text("create table t (identity text)"), "the parser's");
        assert_eq!(
            text("create table t (a int generated always as identity ("),
            "the parser's"
        );
        assert!(text("alter table t set schema s").starts_with("0A000"));
        assert_eq!(
            text("create table t (a, \"B\") as select 1, 2"),
            "CREATE TABLE t (a TEXT, \"B\" TEXT) AS SELECT 1, 2"
        );
        assert_eq!(text("create table t (a int) as select 1"), "the parser's");
        assert_eq!(text("create unlogged table t (a int)"), "CREATE TABLE t (a INT)");
    }
}
