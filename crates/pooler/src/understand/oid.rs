//! The numbers of PostgreSQL's own types, as pg_type has them.

pub(crate) const BOOL: u32 = 16;
pub(crate) const BYTEA: u32 = 17;
pub(crate) const NAME: u32 = 19;
pub(crate) const INT8: u32 = 20;
pub(crate) const INT2: u32 = 21;
pub(crate) const INT4: u32 = 23;
pub(crate) const TEXT: u32 = 25;
pub(crate) const OID: u32 = 26;
pub(crate) const JSON: u32 = 114;
pub(crate) const CIDR: u32 = 650;
pub(crate) const FLOAT4: u32 = 700;
pub(crate) const FLOAT8: u32 = 701;
pub(crate) const MACADDR: u32 = 829;
pub(crate) const INET: u32 = 869;
pub(crate) const INT4_ARRAY: u32 = 1007;
pub(crate) const TEXT_ARRAY: u32 = 1009;
pub(crate) const INT8_ARRAY: u32 = 1016;
pub(crate) const BPCHAR: u32 = 1042;
pub(crate) const VARCHAR: u32 = 1043;
pub(crate) const DATE: u32 = 1082;
pub(crate) const TIME: u32 = 1083;
pub(crate) const TIMESTAMP: u32 = 1114;
pub(crate) const TIMESTAMPTZ: u32 = 1184;
pub(crate) const TIMETZ: u32 = 1266;
pub(crate) const NUMERIC: u32 = 1700;
pub(crate) const UUID: u32 = 2950;
pub(crate) const JSONB: u32 = 3802;

/// The first number of types that are not PostgreSQL's own.
pub(crate) const FIRST_OF_USERS: u32 = 16384;
