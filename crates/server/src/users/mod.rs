//! Users: who there is, what they log in with, and what they may read.
//!
//! ```text
//!  userlist.txt  "ann" "SCRAM-SHA-256$..."      everyone in it may read everything
//!  users.toml    [user.ann] secret, roles ...   what their roles may read
//!                [role.analyst] read = [...]
//! ```
//!
//! Order of calls: [`UserTable::load`] once; the front asks it for secrets, sessions ask it for rights ([`crate::session::Rights`]). A pure
//! table: it reads its file once and nothing else. What it is not: `GRANT` in SQL, which does not change the file.

mod file;
mod grants;
mod table;

pub use file::{UserEntry, add_user};
pub use grants::{Grants, Pattern};
pub use table::UserTable;
