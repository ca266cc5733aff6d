//! Commands of the console, in PgBouncer's words, and the few that are ours.

use super::own_rows::*;
use super::rows::*;
use super::stats::{AveragesRow, StatsRow, TotalRow, TotalsRow};
use super::table::Row;
use crate::config::{nearest, renamed_table, until_quote};
use corun_wire::error::{Refusal, code};

/// Where the number for `KILL_CLIENT` is.
pub(crate) const CLIENT_IDS: &str = "SHOW CLIENTS has it in the column id.";
/// Longest line that is looked at.
const LINE_BYTES_MAX: usize = 10_000;

/// Makes the enum of commands with their first words.
macro_rules! commands {
    ($( $(#[$doc:meta])* $variant:ident $(($argument:ty))? $({ $($fields:tt)* })? = $word:literal, )*) => {
        /// What somebody typed.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command {
            $( $(#[$doc])* $variant $(($argument))? $({ $($fields)* })?, )*
        }

        /// First words of commands.
        const WORDS: &[&str] = &[ $( $word, )* ];

        impl Command {
            /// The tag of its end, as PgBouncer says it.
            pub fn tag(&self) -> &'static str {
                match self {
                    $( Command::$variant { .. } => $word, )*
                }
            }
        }
    };
}

commands! {
    /// Nothing but blanks and a semicolon.
    Empty = "",
    /// A table.
    Show(Show) = "SHOW",
    /// Lets go of servers as they become free, one database's or all; clients wait.
    Pause(Option<String>) = "PAUSE",
    /// As `PAUSE`, but it waits for nobody.
    Suspend = "SUSPEND",
    /// The end of `PAUSE`, `SUSPEND` and `KILL`.
    Resume(Option<String>) = "RESUME",
    /// Reads the configuration again.
    Reload = "RELOAD",
    /// Drops clients and servers now, one database's or all.
    Kill(Option<String>) = "KILL",
    /// Drops one client, by its number in `SHOW CLIENTS`.
    KillClient(u64) = "KILL_CLIENT",
    /// Refuses new clients of a database.
    Disable(String) = "DISABLE",
    /// The end of `DISABLE`.
    Enable(String) = "ENABLE",
    /// Replaces servers as they become free, one database's or all.
    Reconnect(Option<String>) = "RECONNECT",
    /// Waits until the servers that must go have gone.
    WaitClose(Option<String>) = "WAIT_CLOSE",
    /// Ends the process.
    Shutdown(Shutdown) = "SHUTDOWN",
    /// Changes a setting until the next start.
    Set {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    } = "SET",
}

/// What a shutdown waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing.
    Immediate,
    /// Transactions in progress, or whatever else keeps a server in its pool's mode.
    WaitForServers,
    /// All clients leave by themselves.
    WaitForClients,
}

/// Makes the enum of tables with their words and the type of their rows.
macro_rules! shows {
    ($( $(#[$doc:meta])* $variant:ident = $word:literal $(of $row:ty)?, )*) => {
        /// Which table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Show {
            $( $(#[$doc])* $variant, )*
        }

        /// Every table with the word behind `SHOW`.
        pub const SHOWS: &[(Show, &str)] = &[ $( (Show::$variant, $word), )* ];

        impl Show {
            /// The columns of the table, before there is one.
            pub(super) fn columns(self) -> &'static [(&'static str, bool)] {
                match self {
                    $($( Show::$variant => <$row as Row>::COLUMNS, )?)*
                    Show::Help => &[],
                }
            }
        }
    };
}

shows! {
    /// Usage.
    Help = "HELP",
    /// Settings.
    Config = "CONFIG" of ConfigRow,
    /// Databases and their limits.
    Databases = "DATABASES" of DatabaseRow,
    /// Pools: one for each database and user.
    Pools = "POOLS" of PoolRow,
    /// Clients.
    Clients = "CLIENTS" of ClientRow,
    /// Server connections.
    Servers = "SERVERS" of ServerRow,
    /// Users and their limits.
    Users = "USERS" of UserRow,
    /// Event loops and what they do.
    Cores = "CORES" of CoreRow,
    /// Shapes of statements that run one after the other.
    Cohorts = "COHORTS" of CohortRow,
    /// Which core has which keys.
    Ranges = "RANGES" of RangeRow,
    /// Domains of keys and what was seen of them.
    Keys = "KEYS" of KeyRow,
    /// Queries that may run in parts.
    Splits = "SPLITS" of SplitRow,
    /// Servers behind databases: role, health, lag.
    Hosts = "HOSTS" of HostRow,
    /// Prepared statements.
    Prepared = "PREPARED" of PreparedRow,
    /// Shapes of statements by the time they took.
    Queries = "QUERIES" of QueryRow,
    /// Heavy queries that run or wait in the queue of the machine.
    Queue = "QUEUE" of QueueRow,
    /// What these cost each other.
    HeavyQueue = "HEAVY_QUEUE" of SlowdownRow,
    /// Totals and averages of each database.
    Stats = "STATS" of StatsRow,
    /// Totals of each database.
    StatsTotals = "STATS_TOTALS" of TotalsRow,
    /// Averages of each database.
    StatsAverages = "STATS_AVERAGES" of AveragesRow,
    /// Totals and averages of everything.
    Totals = "TOTALS" of TotalRow,
    /// How many there are of each kind of thing.
    Lists = "LISTS" of ListRow,
    /// Clients and servers with their buffers.
    Sockets = "SOCKETS" of SocketRow,
    /// Those that do something.
    ActiveSockets = "ACTIVE_SOCKETS" of SocketRow,
    /// Memory of each kind of thing.
    Memory = "MEM" of MemoryRow,
    /// Looked-up host names.
    DnsHosts = "DNS_HOSTS" of DnsHostRow,
    /// Zones of host names; there are none.
    DnsZones = "DNS_ZONES" of DnsZoneRow,
    /// Linked processes; there are none.
    Peers = "PEERS" of PeerRow,
    /// Their pools; there are none.
    PeerPools = "PEER_POOLS" of PeerPoolRow,
    /// The version.
    Version = "VERSION" of VersionRow,
    /// Whether it is paused.
    State = "STATE" of StateRow,
}

/// What PgBouncer's console takes and this one does not: the command, why, and what to use instead.
const NOT_OFFERED: &[(&str, &str, &str)] = &[(
    "SHOW FDS",
    "file descriptors are not shown",
    "SHOW SOCKETS has the connections; the system has the numbers in /proc/PID/fd.",
)];

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    /// Not a command.
    #[error("invalid command '{command}', use SHOW HELP;")]
    Unknown {
        /// The line, shortened.
        command: String,
        /// What was probably meant.
        near: Option<&'static str>,
    },
    /// A table by its old name.
    #[error("SHOW {old} is now called SHOW {new}")]
    Renamed {
        /// The word it came with, in capitals.
        old: String,
        /// The word that it has now.
        new: &'static str,
    },
    /// A command that PgBouncer has.
    #[error("{why}")]
    NotOffered {
        /// Why this console has not.
        why: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
    /// A command of one database without its name.
    #[error("a database is required")]
    DatabaseMissing,
    /// `KILL_CLIENT` without a number.
    #[error("invalid client pointer supplied")]
    NoClientId,
    /// A quote that does not end.
    #[error("a quote does not end")]
    QuoteOpen,
    /// Too long.
    #[error("a command has at most {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// Two commands in one text.
    #[error("one command at a time")]
    Several,
}

impl ConsoleError {
    /// The error as the client gets it.
    pub fn refusal(&self) -> Refusal {
        let refusal = Refusal::new(code::SYNTAX_ERROR, self.to_string());
        match self {
            ConsoleError::Unknown { near: Some(near), .. } => refusal.hint(format!("Did you mean {near}?")),
            ConsoleError::NotOffered { instead, .. } => {
                Refusal::new(code::NOT_SUPPORTED, self.to_string()).hint(*instead)
            }
            // In PgBouncer's words and with its code.
            ConsoleError::NoClientId => {
                Refusal::new(code::PROTOCOL_VIOLATION, self.to_string()).hint(CLIENT_IDS)
            }
            ConsoleError::DatabaseMissing => refusal.hint("SHOW DATABASES lists their names."),
            _ => refusal,
        }
    }
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word as it came.
    Word(String),
    /// The inside of quotes.
    Quoted(String),
    Equals,
    Semicolon,
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(text) if text.eq_ignore_ascii_case(word))
    }

    fn text(&self) -> Option<&str> {
        match self {
            Token::Word(text) | Token::Quoted(text) => Some(text),
            Token::Equals | Token::Semicolon => None,
        }
    }
}

impl Command {
    /// Reads one command; words in any case, a semicolon at the end or none.
    ///
    /// # Errors
    /// Says why the text is no command.
    pub fn parse(line: &str) -> Result<Command, ConsoleError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(ConsoleError::TooLong);
        }
        let mut tokens = tokens(line)?;
        while tokens.last() == Some(&Token::Semicolon) {
            tokens.pop();
        }
        if tokens.contains(&Token::Semicolon) {
            return Err(ConsoleError::Several);
        }
        let Some((first, rest)) = tokens.split_first() else {
            return Ok(Command::Empty);
        };
        let unknown = || unknown(line, first, rest);
        let Token::Word(word) = first else {
            return Err(unknown());
        };
        // One database, or none for all.
        let database = || match rest {
            [] => Ok(None),
            [one] => one.text().map(|name| Some(name.to_owned())).ok_or_else(unknown),
            _ => Err(unknown()),
        };
        let one_database = || database()?.ok_or(ConsoleError::DatabaseMissing);
        let alone = |command: Command| {
            if rest.is_empty() {
                Ok(command)
            } else {
                Err(unknown())
            }
        };
        match word.to_ascii_uppercase().as_str() {
            "SHOW" => show(rest).map(Command::Show).ok_or_else(unknown),
            "PAUSE" => Ok(Command::Pause(database()?)),
            "RESUME" => Ok(Command::Resume(database()?)),
            "RECONNECT" => Ok(Command::Reconnect(database()?)),
            "WAIT_CLOSE" => Ok(Command::WaitClose(database()?)),
            "KILL" => Ok(Command::Kill(database()?)),
            "DISABLE" => Ok(Command::Disable(one_database()?)),
            "ENABLE" => Ok(Command::Enable(one_database()?)),
            "SUSPEND" => alone(Command::Suspend),
            "RELOAD" => alone(Command::Reload),
            "KILL_CLIENT" => match rest {
                [one] => one
                    .text()
                    .and_then(|id| id.parse().ok())
                    .map(Command::KillClient)
                    .ok_or(ConsoleError::NoClientId),
                [] => Err(ConsoleError::NoClientId),
                _ => Err(unknown()),
            },
            "SHUTDOWN" => match rest {
                [] => Ok(Command::Shutdown(Shutdown::Immediate)),
                [one] if one.is("WAIT_FOR_SERVERS") => Ok(Command::Shutdown(Shutdown::WaitForServers)),
                [one] if one.is("WAIT_FOR_CLIENTS") => Ok(Command::Shutdown(Shutdown::WaitForClients)),
                _ => Err(unknown()),
            },
            "SET" => set(rest).ok_or_else(unknown),
            _ => Err(unknown()),
        }
    }

    /// Whether users who may only look may use it.
    pub fn only_looks(&self) -> bool {
        matches!(self, Command::Show(_) | Command::Empty)
    }
}

fn show(rest: &[Token]) -> Option<Show> {
    // `SHOW STATS TOTALS` is what older consoles of other poolers took.
    let [Token::Word(word)] = rest else { return None };
    SHOWS
        .iter()
        .find(|(_, known)| known.eq_ignore_ascii_case(word))
        .map(|(show, _)| *show)
}

fn set(rest: &[Token]) -> Option<Command> {
    let (key, values) = match rest {
        [Token::Word(key), Token::Equals, values @ ..] => (key, values),
        [Token::Word(key), to, values @ ..] if to.is("TO") => (key, values),
        _ => return None,
    };
    // Lists come without quotes too: `SET admin_users = a, b`.
    let mut value = String::new();
    for token in values {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(token.text()?);
    }
    (!values.is_empty()).then(|| Command::Set {
        key: key.to_ascii_lowercase(),
        value,
    })
}

fn unknown(line: &str, first: &Token, rest: &[Token]) -> ConsoleError {
    if let [Token::Word(word)] = rest
        && first.is("SHOW")
        && let Some(new) = renamed_table(word)
    {
        let old = word.to_ascii_uppercase();
        return ConsoleError::Renamed { old, new };
    }
    let words: Vec<&str> = std::iter::once(first)
        .chain(rest)
        .filter_map(Token::text)
        .collect();
    let line_of_words = words.join(" ");
    let mut known = NOT_OFFERED.iter();
    if let Some(&(_, why, instead)) = known.find(|(known, ..)| known.eq_ignore_ascii_case(&line_of_words)) {
        return ConsoleError::NotOffered { why, instead };
    }
    let near = match (first, rest) {
        (first, []) if first.is("HELP") => Some("SHOW HELP"),
        (first, [Token::Word(word)]) if first.is("SHOW") => {
            nearest(word, SHOWS.iter().map(|(_, word)| *word))
        }
        (Token::Word(word), _) => {
            let words = WORDS.iter().copied().filter(|known| !known.is_empty());
            let near = nearest(word, words.chain(["HELP"])).filter(|near| !near.eq_ignore_ascii_case(word));
            near.map(|near| if near == "HELP" { "SHOW HELP" } else { near })
        }
        _ => None,
    };
    let mut command: String = line.trim().trim_end_matches(';').chars().take(100).collect();
    // `SET` may have a password in it.
    if first.is("SET") {
        "SET ...".clone_into(&mut command);
    }
    ConsoleError::Unknown { command, near }
}

fn tokens(line: &str) -> Result<Vec<Token>, ConsoleError> {
    let mut found = Vec::new();
    let mut rest = line.trim_start();
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        let (token, behind) = match letter {
            ';' => (Token::Semicolon, after),
            '=' => (Token::Equals, after),
            '\'' | '"' => {
                let (text, behind) = until_quote(after, letter).ok_or(ConsoleError::QuoteOpen)?;
                (Token::Quoted(text), behind)
            }
            _ => {
                let ends = |letter: char| letter.is_whitespace() || ";='\"".contains(letter);
                let (word, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
                (Token::Word(word.to_owned()), behind)
            }
        };
        found.push(token);
        rest = behind.trim_start();
    }
    Ok(found)
}

/// What `SHOW HELP` says, as the detail of a notice.
pub fn help() -> String {
    let words: Vec<&str> = SHOWS.iter().map(|(_, word)| *word).collect();
    let mut text = String::new();
    for words in words.chunks(8) {
        text.push_str(&format!("\n\tSHOW {}", words.join("|")));
    }
    text.push_str(
        "\n\tSET key = value\n\tRELOAD\n\tPAUSE [db]\n\tRESUME [db]\n\tDISABLE db\n\tENABLE db\n\tRECONNECT [db]\
         \n\tKILL [db]\n\tKILL_CLIENT id\n\tSHUTDOWN [WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS]\n\tWAIT_CLOSE [db]",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read() {
        let some = |name: &str| Some(name.to_owned());
        let cases = [
            ("", Command::Empty),
            (" ; ;", Command::Empty),
            ("show pools;", Command::Show(Show::Pools)),
            ("SHOW  Stats_Totals", Command::Show(Show::StatsTotals)),
            ("pause", Command::Pause(None)),
            ("PAUSE shop ;", Command::Pause(some("shop"))),
            ("RESUME \"My \"\"db\"\"\"", Command::Resume(some("My \"db\""))),
            ("RELOAD;", Command::Reload),
            ("KILL", Command::Kill(None)),
            ("KILL shop", Command::Kill(some("shop"))),
            ("kill_client 17;", Command::KillClient(17)),
            ("DISABLE shop", Command::Disable("shop".to_owned())),
            ("ENABLE *", Command::Enable("*".to_owned())),
            ("RECONNECT", Command::Reconnect(None)),
            ("WAIT_CLOSE a-b.c", Command::WaitClose(some("a-b.c"))),
            ("SHUTDOWN", Command::Shutdown(Shutdown::Immediate)),
            (
                "SHUTDOWN wait_for_clients",
                Command::Shutdown(Shutdown::WaitForClients),
            ),
            (
                "SHUTDOWN WAIT_FOR_SERVERS;",
                Command::Shutdown(Shutdown::WaitForServers),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(Command::parse(line), Ok(expected), "{line}");
        }
        for (line, key, value) in [
            ("SET query_timeout=5", "query_timeout", "5"),
            ("set Query_Timeout TO '5s';", "query_timeout", "5s"),
            (
                "SET server_check_query = 'select ''a;b'''",
                "server_check_query",
                "select 'a;b'",
            ),
            ("SET admin_users = a, b", "admin_users", "a, b"),
            ("SET auth_user = ''", "auth_user", ""),
        ] {
            let expected = Command::Set {
                key: key.to_owned(),
                value: value.to_owned(),
            };
            assert_eq!(Command::parse(line), Ok(expected), "{line}");
        }
        for (show, word) in SHOWS {
            assert_eq!(Command::parse(&format!("SHOW {word}")), Ok(Command::Show(*show)));
            assert!(help().contains(word));
        }
    }

    #[test]
    fn the_answer_to_an_old_name_is_the_new_one() {
        for (old, new) in crate::config::RENAMED_TABLES {
            let error = Command::parse(&format!("show {};", old.to_lowercase())).expect_err("renamed");
            assert_eq!(error.to_string(), format!("SHOW {old} is now called SHOW {new}"));
            assert!(Command::parse(&format!("SHOW {new}")).is_ok());
        }
        assert!(!crate::config::RENAMED_TABLES.is_empty());
    }

    #[test]
    fn what_is_no_command_is_refused_with_a_hint() {
        let near = |line: &str| match Command::parse(line) {
            Err(ConsoleError::Unknown { near, .. }) => near,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(near("SHOW POLS"), Some("POOLS"));
        assert_eq!(near("PUASE"), Some("PAUSE"));
        assert_eq!(near("HELP"), Some("SHOW HELP"));
        assert_eq!(near("HLEP"), Some("SHOW HELP"));
        assert_eq!(near("select 1"), None);
        assert_eq!(near("SHOW POOLS extra"), None);
        assert_eq!(near("SHOW"), None);
        assert_eq!(near("RELOAD now"), None);
        assert_eq!(near("SHUTDOWN now"), None);
        assert_eq!(near("SET a"), None);
        assert_eq!(near("PAUSE a b"), None);
        assert_eq!(near("\"SHOW\" POOLS"), None);
        for (line, expected) in [
            ("DISABLE", ConsoleError::DatabaseMissing),
            ("KILL_CLIENT", ConsoleError::NoClientId),
            ("KILL_CLIENT -1", ConsoleError::NoClientId),
            ("KILL_CLIENT abc", ConsoleError::NoClientId),
            ("PAUSE 'a", ConsoleError::QuoteOpen),
            ("SHOW POOLS; SHOW LISTS", ConsoleError::Several),
        ] {
            assert_eq!(Command::parse(line), Err(expected), "{line}");
        }
        assert_eq!(Command::parse(&" ".repeat(20_000)), Err(ConsoleError::TooLong));
        let error = Command::parse("SET password 'hush'").expect_err("no equals sign");
        assert!(!error.to_string().contains("hush"));
        assert!(!Command::Reload.only_looks() && Command::Show(Show::Pools).only_looks());
    }

    #[test]
    fn what_is_refused_is_never_suggested() {
        for &(command, why, instead) in NOT_OFFERED {
            let expected = ConsoleError::NotOffered { why, instead };
            assert_eq!(
                Command::parse(&format!("{};", command.to_lowercase())),
                Err(expected)
            );
            let word = command.rsplit(' ').next().expect("a word");
            assert!(!help().contains(word), "{command}");
            // Whatever is left out, changed or doubled in it.
            for at in 0..command.len() {
                for letters in ["", "x", &command[at..=at].repeat(2)] {
                    let slip = format!("{}{letters}{}", &command[..at], &command[at + 1..]);
                    if let Err(ConsoleError::Unknown { near: Some(near), .. }) = Command::parse(&slip) {
                        assert_ne!(near, word, "{slip}");
                    }
                }
            }
        }
    }
}
