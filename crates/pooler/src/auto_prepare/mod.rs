//! Simple-protocol texts that run as prepared statements, so that the server parses and plans them once.
//!
//! ```text
//!  text ─► Understood::plain? ─► exact: runs_alike()? ─► Parse(text) once ─► Bind, Execute, Sync each time
//!                    │
//!                    └► parameterize: the second text of a kind: lift(text), run as it came
//!                         ─► outside transaction blocks: both are parsed and described
//!                         ─► proven(lifted, types, rows as it came, rows lifted)? ─► values_of(text, shape) each time,
//!                                                                                   Bind in text format, Execute, Sync
//! ```
//!
//! # What differs between a text and the same text prepared, and what is done about it
//!
//! - *Only one statement, and only SELECT, VALUES, INSERT, UPDATE, DELETE*: [`Understood::plain`]. Several statements are one
//!   transaction in the simple protocol; SELECT INTO makes a table; a text with `$n` is an error there.
//! - *Literals are read when the statement is parsed.* `'today'` is that day for ever: texts with such words are refused
//!   ([`runs_alike`]). How dates, intervals, money and names are read depends on settings: a prepared statement may be run only
//!   under the values of [`SETTINGS_READ_WHEN_PARSED`], and by the role, it was parsed under.
//! - *Notices of the parser come once* (backslashes, names that are too long): such texts are refused.
//! - *Results keep their type.* After a table was changed the server refuses with 0A000 "cached plan must not change result
//!   type". Outside transaction blocks the text then runs as it came. After a text with [`Understood::defines`], and after a while
//!   in any case, everything is parsed and proven anew; in the transaction that defines something texts run as they came.
//! - *Names keep their meaning.* A new table earlier in the search path is not noticed by a plan. So a client with something
//!   temporary ([`Pins::TEMP_TABLE`]) runs every text as it came.
//! - *Prepared statements can be seen* in pg_prepared_statements, and DEALLOCATE ALL drops them
//!   ([`Understood::discards_prepared`]). Texts that look there are refused.
//! - *Another plan may be chosen*, as with every prepared statement: rows without ORDER BY may come in another order, and of two
//!   errors at run time the other may come first.
//! - *Lifted texts* moreover change `current_query()` and the server's log.
//! - *Errors.* One that comes before the statement runs, outside transaction blocks, is answered by running the text as it came:
//!   a value that cannot be read, for one. Once Bind has succeeded every value has been read, and an error is the text's own, but
//!   for [`Lifted::refuses_late`]: then the text runs as it came, too, and draws numbers from sequences again. Inside a block a
//!   lifted text may be run only if [`Lifted::inputs_cannot_fail`]. Places are mapped by [`LiftedShape::position_in`].
//! - *A query is described before its first row, RETURNING only when everything has been done.* In the extended protocol the
//!   description comes first in any case; whoever relays it holds it back. Where the text does not say which of the two it is, it
//!   is refused ([`may_be_prepared`]).
//!
//! What it is not: it sends nothing. It decides on texts and what servers described.
//!
//! [`Understood::plain`]: crate::understand::Understood::plain
//! [`Understood::discards_prepared`]: crate::understand::Understood::discards_prepared
//! [`Pins::TEMP_TABLE`]: crate::understand::Pins::TEMP_TABLE
//! [`Understood::defines`]: crate::understand::Understood::defines

mod exact;
mod lift;
mod lifted;
mod proof;
mod sites;

pub use exact::{SETTINGS_READ_WHEN_PARSED, TEXT_BYTES_MAX, may_be_prepared, runs_alike};
pub use lift::{LITERALS_MAX, lift};
pub use lifted::{Lifted, LiftedShape, LiteralKind, Slot, Use, values_of};
pub use proof::proven;
