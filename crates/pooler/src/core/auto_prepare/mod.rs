//! Simple queries that run as prepared statements: which texts come again, what they have in common, and whether both ways are equal.

pub(in crate::core) mod lifted;
pub(in crate::core) mod literal_check;
pub(in crate::core) mod repeats;
pub(in crate::core) mod request;
pub(in crate::core) mod shapes;
pub(in crate::core) mod simple;
