//! [`Refusal`]: why a query runs whole.

/// Why a query is not split. Each is a sentence for people; it is no error, the query runs whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Longer than what is looked into.
    #[error("the text is longer than {0} bytes")]
    TooLong(usize),
    /// PostgreSQL's grammar does not accept it, or it is nested too deep.
    #[error("the text is not understood")]
    NotUnderstood,
    /// Not one plain SELECT.
    #[error("only a single plain SELECT is split; this is or has {0}")]
    NotPlainSelect(&'static str),
    /// Something in FROM that is no plain table.
    #[error("FROM may hold plain tables and inner, cross or left joins only; this has {0}")]
    From(&'static str),
    /// The key's table is not in FROM, or more than once.
    #[error("the table of the split key must stand once in FROM; it stands there {0} times")]
    KeyTable(usize),
    /// The key's table is on the side of an outer join that may be missing.
    #[error(
        "the table of the split key stands on the optional side of an outer join, so rows without it would come from every part"
    )]
    KeyOptional,
    /// A part of the grammar nothing is known about.
    #[error("it has {0}, which is not known to give the same in every part")]
    Construct(&'static str),
    /// A function that is not on the list.
    #[error("function {0} is not known to give the same in every part; only built-in immutable ones are")]
    Function(String),
    /// An operator that is not on the list.
    #[error("operator {0} is not known to give the same in every part")]
    Operator(String),
    /// A type that is not on the list.
    #[error("a cast to {0} is not known to give the same in every part")]
    Cast(String),
    /// `'now'` and the like.
    #[error("a string may stand for the time of this moment, which differs from part to part")]
    Clock,
    /// LIMIT without ORDER BY.
    #[error("LIMIT without ORDER BY takes any rows; split, it could take others than whole")]
    LimitWithoutOrder,
    /// LIMIT or OFFSET that is an expression.
    #[error("LIMIT and OFFSET must be constants or parameters")]
    LimitExpression,
    /// FETCH FIRST ... WITH TIES.
    #[error("FETCH FIRST ... WITH TIES is not re-applied at the merge")]
    WithTies,
    /// A sub-select whose answer may differ from part to part.
    #[error(
        "a sub-select has {0}, so its result may differ from part to part, and the pooler cannot evaluate it once"
    )]
    SubSelect(&'static str),
    /// A key type that is not known.
    #[error("the split key {0} has a type whose order is not known to be total")]
    KeyType(String),
    /// What the catalog was asked came back in another shape.
    #[error("the pooler does not understand what the catalog returned")]
    CatalogAnswer,
    /// A table that is not there for this user.
    #[error("table {0} is not visible")]
    NoTable(String),
    /// Not a plain table.
    #[error("{0} is {1}; only plain and partitioned tables are split")]
    TableKind(String, &'static str),
    /// The key's column does not exist.
    #[error("column {0} of the split key does not exist")]
    NoKeyColumn(String),
    /// A name that is no column of a table in reach, or of several.
    #[error("column {0} is not known, or not of one table only")]
    Column(String),
    /// A column of somebody's own type.
    #[error("column {0} has a type that is not PostgreSQL's own, so its operators are not known")]
    ColumnType(String),
    /// A function or operator of the same name is in the search path.
    #[error("{0} may be somebody's own: another one of that name is in the search path")]
    Shadowed(String),
    /// pg_catalog is not first in the search path.
    #[error("search_path names something before pg_catalog, so built-in names may mean something else")]
    SearchPath,
    /// Somebody's own cast between PostgreSQL's types.
    #[error("the database has casts of its own between built-in types")]
    OwnCasts,
    /// A partition is a foreign table.
    #[error("the database has foreign tables as partitions, which share no snapshot")]
    ForeignPartition,
    /// SERIALIZABLE is the default.
    #[error("transactions are serializable here, and parts share a snapshot at repeatable read only")]
    Serializable,
    /// A type at a place where the merge must know it.
    #[error("{0} has type number {1}, which the merge does not reproduce exactly")]
    MergeType(&'static str, u32),
    /// Text that is put in order by a collation only PostgreSQL has.
    #[error("text is put in order by a collation that is neither \"C\" nor the database's own")]
    Collation,
    /// A column in the output that is neither grouped nor aggregated.
    #[error("{0} is neither a group key nor in an aggregate, and groups reach over parts")]
    NotGrouped(String),
    /// An aggregate that cannot be put together from parts.
    #[error("aggregate {0} cannot be put together from parts while groups reach over them")]
    Aggregate(String),
    /// ORDER BY by a name that may or may not be one of the output.
    #[error("ORDER BY {0} may name an output column or another")]
    SortName(String),
    /// The rewritten statement does not read back as what was meant.
    #[error("the statement cannot be written out again")]
    Rewrite,
    /// The parts' columns are not those of the whole.
    #[error("the parts would have other columns than the whole")]
    Shape,
}
