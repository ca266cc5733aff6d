//! Users: who there is, what they log in with, what they may read and change, and what they may take.
//!
//! ```text
//!  userlist.txt  "ann" "SCRAM-SHA-256$..."      everyone in it may read everything
//!  users.toml    [user.ann] secret, roles ...   what they and their roles may read
//!                [role.analyst] read, insert, create ...
//!                  ▲ file::change ◄── Change ◄── CREATE ROLE, GRANT ...
//! ```
//!
//! Order of calls: [`UserTable::load`] once, and [`LiveUsers::new`] over it; the front asks that for secrets, sessions ask it for rights
//! ([`crate::session::Rights`]) and send it what statements change. A [`UserTable`] never changes: another takes its place. What it is not: a
//! place for sessions or sockets.

mod change;
mod file;
mod grants;
mod limits;
mod live;
mod table;

pub use change::{Change, Password, Right, RoleOptions};
pub use file::{UserEntry, add_user};
pub use grants::{Grants, Pattern, SchemaRight, TableRight, WriteRight};
pub use limits::UserLimits;
pub use live::LiveUsers;
pub use table::UserTable;
