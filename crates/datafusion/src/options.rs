//! `SET corun.*`: what a session may choose about corun's operators.
//!
//! The values travel in DataFusion's `ConfigOptions` as an extension, so `SET corun.join = 'off'` works in SQL and
//! embedders set them on their `SessionConfig`.

use corun_exec::InstructionSet;
use datafusion::common::config::{ConfigExtension, ConfigField, ConfigOptions, Visit};
use datafusion::common::{config_err, extensions_options};
use datafusion::error::{DataFusionError, Result};
use std::fmt;
use std::str::FromStr;

extensions_options! {
    /// Options of corun's operators, under the prefix `corun`.
    pub struct CorunOptions {
        /// `auto`: corun's join wherever it is not slower than the stock one; `on`: wherever it is possible;
        /// `off`: stock joins only.
        pub join: JoinChoice, default = JoinChoice::Auto
        /// Build one table shared by all partitions and drop the hash repartitioning of both join inputs where no
        /// operator above needs it.
        pub join_shared_build: bool, default = true
        /// Build on the clearly smaller input of an inner, semi or anti join where DataFusion has no statistics to tell.
        pub join_build_side: bool, default = true
        /// Bytes that the rows and the table of one join's build side may take; more of them go to files.
        /// 0: half of what the memory pool has free.
        pub join_memory_bytes: usize, default = 0
        /// Join in another order where that is estimated to leave far fewer rows between the joins.
        pub join_order: bool, default = true
        /// Let joins higher in a chain drop rows that cannot match before the lower joins carry them.
        pub join_prefilter: bool, default = true
        /// `auto`: group rows in tables that stay in the cores' caches where the first rows tell that this is faster, and the functions are
        /// those that can be folded; `on`: without looking at them; `off`: as DataFusion does.
        pub aggregate: JoinChoice, default = JoinChoice::Auto
        /// Group rows before they are joined to what their groups are called by, where that is text.
        pub group_before_joins: bool, default = true
        /// Make the groups of grouping sets, such as those of ROLLUP, from those of the finest set.
        pub finest_groups: bool, default = true
        /// Evaluate cheap conditions first, leave constants out of groups, and make outer joins anti joins (IS NULL) or inner
        /// joins (another join drops their NULLs) where they are; compute aggregates without groups over one table in one scan.
        pub rewrite: bool, default = true
        /// Run parts that a statement has more than once, such as a `WITH` query with several uses, once for all of them.
        pub share_parts: bool, default = true
        /// Take what another statement of the same sessions is making, or has made and is kept, where it is the same. `auto`: from the
        /// second time that a statement wants it; `on`: from the first; `off`: never.
        pub share_work: JoinChoice, default = JoinChoice::Auto
        /// Bytes of results that are kept for later statements, of all sessions that share them; of a limited memory pool at most an eighth.
        /// 0: only what runs at the same time is shared.
        pub shared_work_bytes: usize, default = 64 << 20
        /// Keep columns of Parquet files in memory, decoded, for the statements that read them next. `auto`: from the second time that they
        /// are read, a fourth of them each time; `on`: all from the first; `off`: never.
        pub keep_columns: JoinChoice, default = JoinChoice::Auto
        /// Bytes of columns that are kept, of all sessions that share them; 0: an eighth of the machine's memory; of a limited memory pool
        /// at most an eighth.
        pub kept_columns_bytes: usize, default = 0
        /// `auto`: join through an index where that is estimated to be faster; `on`: wherever it is possible; `off`: nowhere.
        pub index_join: JoinChoice, default = JoinChoice::Auto
        /// Whether what joins read at random passes by the shared cache instead of displacing what others keep there. `auto`:
        /// where `llc_bytes` is given, and table and payload are at least three times that; `on`: always; `off`: never.
        pub streaming: JoinChoice, default = JoinChoice::Auto
        /// The widest instructions that joins look keys up with, of those the processor has.
        pub join_instructions: InstructionChoice, default = InstructionChoice::Auto
        /// Measure once, for a quarter of a second, which techniques pay on this machine, and keep the answer in the
        /// user's cache folder. Off, or with `l2_bytes` given: the size of the L2 decides.
        pub calibrate: bool, default = true
        /// Bytes of private cache a core has; 0: ask the machine.
        pub l2_bytes: usize, default = 0
        /// Bytes of last-level cache that this process can count on; 0: ask the machine.
        pub llc_bytes: usize, default = 0
    }
}

impl ConfigExtension for CorunOptions {
    const PREFIX: &'static str = "corun";
}

/// Makes an option of a few words, the first of which is the default.
macro_rules! choice {
    ($(#[$what:meta])* $name:ident: $words:literal {
        $(#[$first_means:meta])* $first:ident = $first_word:literal,
        $($(#[$means:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$what])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum $name {
            $(#[$first_means])*
            #[default]
            $first,
            $($(#[$means])* $variant,)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $name::$first => $first_word,
                    $($name::$variant => $word,)*
                })
            }
        }

        impl FromStr for $name {
            type Err = DataFusionError;

            fn from_str(text: &str) -> Result<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $first_word => Ok($name::$first),
                    $($word => Ok($name::$variant),)*
                    _ => config_err!(concat!("must be ", $words, ", not '{}'"), text),
                }
            }
        }

        impl ConfigField for $name {
            fn visit<V: Visit>(&self, visitor: &mut V, key: &str, description: &'static str) {
                visitor.some(key, self, description);
            }

            fn set(&mut self, _key: &str, value: &str) -> Result<()> {
                *self = value.parse()?;
                Ok(())
            }
        }
    };
}

choice! {
    /// Which joins are done corun's way.
    JoinChoice: "'auto', 'on' or 'off'" {
        /// Where it is not slower.
        Auto = "auto",
        /// Everywhere it is possible.
        On = "on",
        /// Nowhere.
        Off = "off",
    }
}

choice! {
    /// The widest instructions that joins look keys up with.
    InstructionChoice: "'auto', 'avx2' or 'portable'" {
        /// The widest that the processor has.
        Auto = "auto",
        /// At most AVX2.
        Avx2 = "avx2",
        /// Only those that every processor of the target has.
        Portable = "portable",
    }
}

impl From<InstructionChoice> for InstructionSet {
    fn from(choice: InstructionChoice) -> InstructionSet {
        match choice {
            InstructionChoice::Auto => InstructionSet::Avx512,
            InstructionChoice::Avx2 => InstructionSet::Avx2,
            InstructionChoice::Portable => InstructionSet::Portable,
        }
    }
}

impl CorunOptions {
    /// The options of this session, or the defaults when the extension was not registered.
    pub fn of(config: &ConfigOptions) -> CorunOptions {
        config
            .extensions
            .get::<CorunOptions>()
            .cloned()
            .unwrap_or_default()
    }
}
