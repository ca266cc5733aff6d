//! Keys whose value is one of a few words.

use corun_wire::tls::{TlsMode, TlsProtocols};

use super::settings::Setting;
use super::values::Raw;

/// Makes an enum that has its words a kind of setting.
macro_rules! setting_of_words {
    ($name:ident ($kind:literal)) => {
        impl Setting for $name {
            const KIND: &'static str = $kind;

            fn read(raw: &Raw) -> Result<Self, String> {
                let word = match raw {
                    Raw::Text(text) => text.trim().to_ascii_lowercase(),
                    // `auto_prepare = false` is what somebody writes who thinks of a switch.
                    Raw::Boolean(true) => "on".to_owned(),
                    Raw::Boolean(false) => "off".to_owned(),
                    _ => String::new(),
                };
                Self::WORDS
                    .iter()
                    .find(|(_, known)| *known == word)
                    .map(|(value, _)| *value)
                    .ok_or_else(|| {
                        let words: Vec<String> = Self::WORDS
                            .iter()
                            .map(|(_, word)| format!("\"{word}\""))
                            .collect();
                        format!("one of {}", words.join(", "))
                    })
            }

            fn show(&self) -> String {
                self.word().to_owned()
            }
        }
    };
}

setting_of_words! { TlsMode ("disable, allow, prefer, require, verify-ca or verify-full") }
setting_of_words! { TlsProtocols ("secure, tlsv1.2 or tlsv1.3") }

/// Makes an enum out of its words.
macro_rules! choices {
    ($( $(#[$outer:meta])* $name:ident ($kind:literal) { $( $(#[$inner:meta])* $variant:ident = $word:literal, )* } )*) => { $(
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$inner])* $variant, )*
        }

        impl $name {
            /// Every value with the word for it.
            pub const WORDS: &'static [($name, &'static str)] = &[ $( ($name::$variant, $word), )* ];

            /// The word in the file.
            pub fn word(self) -> &'static str {
                match self {
                    $( $name::$variant => $word, )*
                }
            }
        }

        setting_of_words! { $name ($kind) }
    )* };
}

choices! {
    /// When a server goes back to its pool.
    PoolMode("session, transaction or statement") {
        /// When the client leaves.
        Session = "session",
        /// When the transaction ends.
        Transaction = "transaction",
        /// When the statement ends; transactions of several statements are refused.
        Statement = "statement",
    }

    /// What follows from code that may do anything to the session that runs it.
    Doubtful("pin or trust") {
        /// The client keeps its server connection.
        Pin = "pin",
        /// The server is asked for what it can tell.
        Trust = "trust",
    }

    /// How clients prove who they are.
    AuthType("any, trust, plain, md5, scram-sha-256, cert or hba") {
        /// Nobody proves anything and the name is ignored: every database needs a user of its own.
        Any = "any",
        /// Nobody proves anything, but the user must be known.
        Trust = "trust",
        /// The password in clear text.
        Plain = "plain",
        /// MD5, or SCRAM for users who have a SCRAM secret.
        Md5 = "md5",
        /// SCRAM-SHA-256, with channel binding where client and TLS have it.
        Scram = "scram-sha-256",
        /// A client certificate whose common name is the user.
        Cert = "cert",
        /// What the rules of `auth_hba_file` say.
        Hba = "hba",
    }

    /// A mechanism that can judge for itself whether it pays.
    Switch("auto, on or off") {
        /// On where it can be and pays.
        Auto = "auto",
        /// On.
        On = "on",
        /// Off.
        Off = "off",
    }

    /// What becomes of a simple-protocol text.
    AutoPrepare("off, exact or parameterize") {
        /// It runs as it came.
        Off = "off",
        /// A repeated identical text runs as a prepared statement.
        Exact = "exact",
        /// Literals become parameters where the described types prove it equal.
        Parameterize = "parameterize",
    }

    /// How sockets are driven.
    Io("auto, epoll or io_uring") {
        /// io_uring where the kernel allows it and does not show it as waiting for disks (Linux 6.15), else epoll.
        Auto = "auto",
        /// epoll.
        Epoll = "epoll",
        /// io_uring; an error at the start where the kernel refuses it.
        IoUring = "io_uring",
    }

    /// Which of several hosts a new server connection goes to.
    LoadBalance("round-robin or disable") {
        /// The next in the list.
        RoundRobin = "round-robin",
        /// The same until it fails.
        Disable = "disable",
    }

    /// Which server connections a statement with a key goes to.
    Dispatch("auto, range, random or off") {
        /// By range, while it is measured to pay.
        Auto = "auto",
        /// To the core that has its range.
        Range = "range",
        /// To any core, for comparisons.
        Random = "random",
        /// As if there were no ranges.
        Off = "off",
    }

    /// Which copy a read goes to.
    ReplicaDispatch("least, range or round-robin") {
        /// The one with the fewest transactions under way.
        Least = "least",
        /// The one that has the range of its key.
        Range = "range",
        /// The next in turn.
        RoundRobin = "round-robin",
    }

    /// Where the parts of a query go, on cores with two hardware threads.
    SplitPlacement("spread or siblings") {
        /// One query at a time on all hardware threads (the paper's CARIC-DA-1).
        Spread = "spread",
        /// Half as many parts, and the same range of two queries on the two threads of a core (CARIC-DA-2).
        Siblings = "siblings",
    }

    /// Which heavy query runs beside which (paper 002, sections 5.2 and 6.3).
    HeavyQueuePolicy("fifo, sls, mls, learned or auto") {
        /// In order of arrival.
        Fifo = "fifo",
        /// Beside its like.
        Sls = "sls",
        /// Beside its opposite, in a cache that is partitioned between them.
        Mls = "mls",
        /// By the slow-downs learnt from run times.
        Learned = "learned",
        /// `mls` where the cache is partitioned, otherwise `sls` until run times speak against it.
        Auto = "auto",
    }

    /// What the keys of a range are.
    KeyType("integer, date, timestamp, text or uuid") {
        /// Whole numbers.
        Integer = "integer",
        /// Days.
        Date = "date",
        /// Moments, with or without time zone.
        Timestamp = "timestamp",
        /// Text, told apart by its first eight bytes.
        Text = "text",
        /// UUIDs.
        Uuid = "uuid",
    }

    /// How log lines look.
    LogFormat("text or json") {
        /// For people.
        Text = "text",
        /// One object a line.
        Json = "json",
    }

    /// How much is logged.
    LogLevel("error, warn, info, debug or trace") {
        /// What failed.
        Error = "error",
        /// And what is doubtful.
        Warn = "warn",
        /// And what happened.
        Info = "info",
        /// And why.
        Debug = "debug",
        /// And each message.
        Trace = "trace",
    }
}
