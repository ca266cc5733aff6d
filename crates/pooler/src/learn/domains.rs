//! [`Domain`]: columns whose values are the same keys, so that a key's rows in all their tables belong together. Pure.
//!
//! Columns belong together because a foreign key says so, because statements join them, or because they have the name of the only
//! table's primary key that is called so.

use std::collections::BTreeMap;

use super::schema::{Place, Schema};
use super::statements::Statements;

/// Columns of one domain at most: no configuration lists more.
const COLUMNS_MAX: usize = 64;

/// A candidate for `[ranges.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    /// The column the others refer to.
    pub root: Place,
    /// All of them, itself first.
    pub columns: Vec<Place>,
    /// Bytes of tables that an index finds the rows of a key in.
    pub bytes: u64,
    /// Calls of statements with such keys.
    pub keyed: u64,
}

impl Domain {
    /// The column whose table is the largest, of those that an index begins with.
    pub fn largest(&self, schema: &Schema) -> Place {
        let led = self.columns.iter().filter(|&&place| schema.column(place).leads);
        // Of equals the first.
        led.rev()
            .max_by_key(|place| (schema.table(**place).rows, schema.table(**place).bytes))
            .copied()
            .unwrap_or(self.root)
    }
}

/// Sets of columns.
struct Groups(BTreeMap<Place, Place>);

impl Groups {
    fn of(&self, mut place: Place) -> Place {
        while let Some(&other) = self.0.get(&place) {
            place = other;
        }
        place
    }

    /// `to` stands for both.
    fn unite(&mut self, from: Place, to: Place) {
        let (from, to) = (self.of(from), self.of(to));
        if from != to {
            self.0.insert(from, to);
        }
    }
}

/// Finds them, the best first: those that most statements name keys of, then those with the most data.
pub(super) fn domains(schema: &Schema, statements: &Statements) -> Vec<Domain> {
    let mut groups = Groups(BTreeMap::new());
    let same_keys = |one: Place, other: Place| {
        let kind = schema.column(one).kind;
        kind.is_some() && kind == schema.column(other).kind
    };
    for &(own, other) in &schema.references {
        if same_keys(own, other) {
            groups.unite(own, other);
        }
    }
    let joined = statements.known.iter().flat_map(|known| &known.joins.equal);
    for &(one, other) in joined {
        // Two columns that merely hold the same kind of value are often compared, too.
        if same_keys(one, other) {
            match (schema.column(one).alone, schema.column(other).alone) {
                (true, _) => groups.unite(other, one),
                (false, true) => groups.unite(one, other),
                (false, false) => {}
            }
        }
    }
    let mut keys: BTreeMap<&str, Option<Place>> = BTreeMap::new();
    for place in schema.places().filter(|&place| schema.column(place).alone) {
        keys.entry(&schema.column(place).name)
            .and_modify(|known| *known = None)
            .or_insert(Some(place));
    }
    for place in schema.places() {
        if let Some(Some(key)) = keys.get(schema.column(place).name.as_str())
            && *key != place
            && same_keys(place, *key)
        {
            groups.unite(place, *key);
        }
    }
    let mut members: BTreeMap<Place, Vec<Place>> = BTreeMap::new();
    for place in schema.places() {
        if schema.column(place).kind.is_some() && schema.shown(place).is_some() {
            members.entry(groups.of(place)).or_default().push(place);
        }
    }
    let mut found: Vec<Domain> = members
        .into_iter()
        .filter_map(|(root, mut columns)| {
            columns.sort_by_key(|&place| (place != root, place));
            columns.truncate(COLUMNS_MAX);
            let root = *columns.first()?;
            // Where no index leads to the rows of a key, all of the table is read, and no core has it.
            let led: Vec<Place> = columns
                .iter()
                .copied()
                .filter(|&place| schema.column(place).leads)
                .collect();
            let key = columns.len() > 1 || columns.iter().any(|&place| schema.column(place).alone);
            if led.is_empty() {
                return None;
            }
            let keyed = statements.keyed(&columns);
            if !key && keyed == 0 {
                return None;
            }
            let mut tables: Vec<usize> = led.iter().map(|place| place.table).collect();
            tables.dedup();
            Some(Domain {
                root,
                bytes: tables.iter().map(|&table| schema.tables[table].bytes).sum(),
                keyed,
                columns,
            })
        })
        .collect();
    found.sort_by(|a, b| {
        (b.keyed, b.bytes, b.columns.len())
            .cmp(&(a.keyed, a.bytes, a.columns.len()))
            .then(a.root.cmp(&b.root))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::joins::tests::shop;
    use super::super::statements::{Source, Statement, understood};
    use super::*;

    fn names(schema: &Schema, domain: &Domain) -> Vec<String> {
        domain
            .columns
            .iter()
            .filter_map(|&place| schema.shown(place))
            .collect()
    }

    fn statement(text: &str, calls: u64) -> Statement {
        Statement {
            text: text.to_owned(),
            calls,
            total_us: calls as f64,
        }
    }

    #[test]
    fn keys_that_are_referred_to_or_joined_belong_together() {
        let mut schema = shop();
        let (line, order) = (Place { table: 0, column: 0 }, Place { table: 1, column: 0 });
        schema.references.push((line, order));
        let statements = understood(
            &schema,
            vec![statement(
                "select * from order_line join item on i_id = ol_i_id where i_id = $1",
                7,
            )],
            Source::Server,
        );
        let found = domains(&schema, &statements);
        // What statements ask for comes first, however small.
        assert_eq!(names(&schema, &found[0]), ["item.i_id", "order_line.ol_i_id"]);
        assert_eq!(found[0].keyed, 7);
        assert_eq!(names(&schema, &found[1]), ["orders.o_id", "order_line.ol_o_id"]);
        assert_eq!(schema.table(found[1].largest(&schema)).name, "order_line");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn names_of_primary_keys_count_where_there_is_one_of_them() {
        let mut schema = shop();
        schema.tables[0].columns[0].name = "o_id".to_owned();
        let none = understood(&schema, Vec::new(), Source::Server);
        let found = domains(&schema, &none);
        assert_eq!(names(&schema, &found[0]), ["orders.o_id", "order_line.o_id"]);
        schema.tables[2].columns[0].name = "o_id".to_owned();
        let found = domains(&schema, &none);
        assert!(found.iter().all(|domain| domain.columns.len() == 1), "{found:?}");
    }
}
