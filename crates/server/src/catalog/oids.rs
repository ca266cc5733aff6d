//! Object numbers: given out once for each name, and the same for all sessions until the process ends.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// PostgreSQL's first number for objects of users.
const FIRST: i32 = 16384;
/// Fixed numbers that clients know, and that the static tables refer to.
const FIXED: &[(&str, &str, &str, i32)] = &[
    ("schema", "", "pg_catalog", 11),
    ("schema", "", "public", 2200),
    ("class", "pg_catalog", "pg_type", 1247),
    ("class", "pg_catalog", "pg_attribute", 1249),
    ("class", "pg_catalog", "pg_proc", 1255),
    ("class", "pg_catalog", "pg_class", 1259),
    ("class", "pg_catalog", "pg_database", 1262),
    ("class", "pg_catalog", "pg_constraint", 2606),
    ("class", "pg_catalog", "pg_namespace", 2615),
    ("class", "pg_catalog", "pg_index", 2610),
    ("class", "pg_catalog", "pg_attrdef", 2604),
    ("class", "pg_catalog", "pg_trigger", 2620),
    ("class", "pg_catalog", "pg_description", 2609),
    ("class", "pg_catalog", "pg_authid", 1260),
    ("class", "pg_catalog", "pg_sequence", 2224),
    ("class", "pg_catalog", "pg_depend", 2608),
];

/// What stands behind a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Object {
    pub(crate) kind: &'static str,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// The text of an index or a constraint.
    pub(crate) definition: String,
    /// Columns of an index or a table.
    pub(crate) columns: Vec<String>,
    /// Defaults of a table's columns.
    pub(crate) defaults: Vec<Option<String>>,
    /// What the sequences of its identity columns are, as JSON.
    pub(crate) identities: Vec<Option<String>>,
    /// The definition as psql has it, where that is another.
    pub(crate) pretty: Option<String>,
    /// Comments on the object, and on its columns.
    pub(crate) comment: Option<String>,
    pub(crate) comments: Vec<Option<String>>,
    /// Bytes of a table's rows.
    pub(crate) bytes: i64,
}

#[derive(Default)]
struct Numbers {
    of: HashMap<(String, &'static str, String, String), i32>,
    objects: BTreeMap<i32, (String, Object)>,
}

static NUMBERS: LazyLock<Mutex<Numbers>> = LazyLock::new(Mutex::default);

/// The number of an object of a catalog; a new one if it has none.
pub(crate) fn of(catalog: &str, kind: &'static str, schema: &str, name: &str) -> i32 {
    enter(
        catalog,
        Object {
            kind,
            schema: schema.to_owned(),
            name: name.to_owned(),
            ..Object::default()
        },
    )
}

/// The number of a table, with what is known of it already.
pub(crate) fn table(catalog: &str, schema: &str, name: &str) -> i32 {
    relation(catalog, schema, name).unwrap_or_else(|| of(catalog, "class", schema, name))
}

/// The number of an index, with what is known of it already.
pub(crate) fn of_index(catalog: &str, schema: &str, table: &str, name: &str) -> i32 {
    let name = format!("{table}/{name}");
    let known = {
        let key = (catalog.to_owned(), "index", schema.to_owned(), name.clone());
        NUMBERS.lock().of.get(&key).copied()
    };
    known.unwrap_or_else(|| of(catalog, "index", schema, &name))
}

/// The same of an object with a definition, which replaces the one that is known.
pub(crate) fn enter(catalog: &str, object: Object) -> i32 {
    let mut numbers = NUMBERS.lock();
    let key = (
        catalog.to_owned(),
        object.kind,
        object.schema.clone(),
        object.name.clone(),
    );
    let next = FIRST + i32::try_from(numbers.of.len()).unwrap_or(i32::MAX - FIRST);
    let fixed = FIXED.iter().find(|(kind, schema, name, _)| {
        (*kind, *schema, *name) == (object.kind, &object.schema, &object.name)
    });
    let number = *numbers
        .of
        .entry(key)
        .or_insert(fixed.map_or(next, |fixed| fixed.3));
    numbers.objects.insert(number, (catalog.to_owned(), object));
    number
}

/// The object of a number, in this catalog.
pub(crate) fn object(catalog: &str, number: i32) -> Option<Object> {
    let numbers = NUMBERS.lock();
    let (of, object) = numbers.objects.get(&number)?;
    (of == catalog || number < FIRST).then(|| object.clone())
}

/// The number of a relation, if it has one.
pub(crate) fn relation(catalog: &str, schema: &str, name: &str) -> Option<i32> {
    let numbers = NUMBERS.lock();
    let of = |kind| {
        let key = (catalog.to_owned(), kind, schema.to_owned(), name.to_owned());
        numbers.of.get(&key).copied()
    };
    of("class").or_else(|| of("index"))
}
