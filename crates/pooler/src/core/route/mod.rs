//! Where a request goes: hosts of a database, their addresses, and the CPUs of event loops.

pub(in crate::core) mod balance;
pub(in crate::core) mod fleet;
pub(in crate::core) mod places;
pub(in crate::core) mod resolve;
