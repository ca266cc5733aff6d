//! `[ranges.NAME]` and `[splits.NAME]`: which keys belong to which core or copy, and which queries run in parts (paper 004).

use super::choices::KeyType;
use super::settings::settings;
use super::values::{AutoCount, KeyValue};

settings! {
    /// One domain of keys, which the columns named share, and how it is cut.
    Range at Range {
        database: String = String::new(), Reload, "The database, by the name clients ask for.";
        columns: Vec<String> = Vec::new(), Reload, "Columns whose values are these keys, as \"table.column\" or \"schema.table.column\". Equal keys of different columns belong together.";
        key_type: KeyType = KeyType::Integer, Reload, "What the keys are.";
        minimum: Option<KeyValue> = None, Reload, "The least key, where the domain is to be cut evenly.";
        maximum: Option<KeyValue> = None, Reload, "The greatest key. Keys outside belong to the first and the last part.";
        splits: Vec<KeyValue> = Vec::new(), Reload, "Instead: where to cut, ascending; a value begins the next part. `corun proxy learn` proposes them.";
        buckets: u32 = 256, [1, 4096], Reload, "Parts that are counted and moved between cores as wholes, when `minimum` and `maximum` say where.";
    }
}

settings! {
    /// One query that may run as several with ranges of a key.
    Split at Split {
        database: String = String::new(), Reload, "The database, by the name clients ask for.";
        query: String = String::new(), Reload, "The query; texts that differ from it in literals and parameters only are meant as well.";
        key: String = String::new(), Reload, "The column whose ranges the parts have, as \"table.column\" or \"schema.table.column\".";
        splits: Vec<KeyValue> = Vec::new(), Reload, "Values that cut the key into ranges with about equal work, ascending; parts take their bounds from them.";
        minimum: Option<i64> = None, Reload, "Instead, for whole numbers: the least key, where the key is to be cut evenly.";
        maximum: Option<i64> = None, Reload, "The greatest key.";
        parts: AutoCount = AutoCount::Auto, [1, 64], Reload, "Parts; `auto`: as `split_parts` says.";
    }
}
