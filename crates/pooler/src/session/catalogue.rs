//! [`Catalogue`]: what code of a database's own may do to the session that runs it: functions, and tables and views with triggers, rules,
//! policies, defaults and checks behind them.
//!
//! ```text
//!  question() ─► rows: functions with their bodies, and who uses whom ─► Catalogue::new
//!  a text's names ─► Catalogue::effects ─► nothing, what the server can be asked for, or what nobody can see
//! ```
//!
//! Bodies in SQL and PL/pgSQL are read word by word ([`Words`]). Of functions in C, those that are volatile may do anything; functions in
//! other languages may keep memory of their own. What is named counts as used, whatever its schema: names of the same spelling are one.
//!
//! What it is not: current at every moment. Definitions that change through the pooler make it stale at once; others are seen at the next
//! look.

use std::collections::{HashMap, HashSet};

pub use crate::understand::Effects;
use crate::understand::{Understood, Words, change_session, only_reads};

/// Rows of the answer beyond which it is not whole.
pub const ROWS_MAX: usize = 200_000;

/// Extensions whose functions keep nothing that another client could find.
const EXTENSIONS: [&str; 38] = [
    "address_standardizer",
    "amcheck",
    "autoinc",
    "bloom",
    "btree_gin",
    "btree_gist",
    "citext",
    "cube",
    "dict_int",
    "dict_xsyn",
    "earthdistance",
    "file_fdw",
    "fuzzystrmatch",
    "hstore",
    "insert_username",
    "intarray",
    "isn",
    "lo",
    "ltree",
    "moddatetime",
    "pageinspect",
    "pg_buffercache",
    "pg_freespacemap",
    "pg_prewarm",
    "pg_stat_statements",
    "pg_trgm",
    "pg_visibility",
    "pgcrypto",
    "pgrowlocks",
    "pgstattuple",
    "postgis",
    "postgis_raster",
    "postgis_topology",
    "postgres_fdw",
    "tcn",
    "unaccent",
    "uuid-ossp",
    "vector",
];

/// What an administrator vouches for: nothing of it stays in the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    /// Schemas with all their functions.
    pub schemas: Vec<String>,
    /// Functions: `name` or `schema.name`.
    pub functions: Vec<String>,
}

impl Trusted {
    fn has(&self, schema: &str, name: &str) -> bool {
        let qualified = |listed: &str| listed.split_once('.') == Some((schema, name));
        self.schemas.iter().any(|listed| listed == schema)
            || self
                .functions
                .iter()
                .any(|listed| listed == name || qualified(listed))
    }
}

/// What is known of a database's own code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Functions and relations that do something to the session.
    effects: HashMap<Box<str>, Effects>,
    /// What runs without being named: operators, casts, checks of types.
    implicit: Effects,
    /// What triggers of definitions do.
    events: Effects,
}

/// A function or a relation while effects are gathered.
#[derive(Default)]
struct Node {
    own: Effects,
    uses: HashSet<Name>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Function(Box<str>),
    Relation(Box<str>),
    Implicit,
    Event,
}

impl Catalogue {
    /// Of a database that does not tell.
    pub fn unreadable() -> Catalogue {
        Catalogue {
            implicit: Effects::unreadable(),
            ..Catalogue::default()
        }
    }

    /// From the rows that [`question`] returns.
    pub fn new(rows: &[Vec<Option<String>>], trusted: &Trusted) -> Catalogue {
        let mut nodes: HashMap<Name, Node> = HashMap::new();
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut bodies: Vec<(&str, Words)> = Vec::new();
        let column = |row: &'_ [Option<String>], at: usize| -> String {
            row.get(at).cloned().flatten().unwrap_or_default()
        };
        for row in rows {
            let [Some(kind), Some(id), Some(name), ..] = row.as_slice() else {
                continue;
            };
            if kind != "f" {
                continue;
            }
            names.insert(id, name);
            let node = nodes.entry(Name::Function(name.as_str().into())).or_default();
            let [schema, language, volatility, body, extension] = [3, 4, 5, 6, 7].map(|at| column(row, at));
            if trusted.has(&schema, name) || EXTENSIONS.contains(&extension.as_str()) {
                continue;
            }
            match language.as_str() {
                "sql" | "plpgsql" => {
                    let words = Words::of(body.as_bytes());
                    node.own.add(&words.effects);
                    bodies.push((name, words));
                }
                "internal" if only_reads(&body) => {}
                "c" | "internal" if volatility != "v" => {}
                _ => node.own.unreadable = true,
            }
        }
        for row in rows {
            let [Some(kind), Some(a), Some(b), ..] = row.as_slice() else {
                continue;
            };
            let function = |id: &str| names.get(id).map(|name| Name::Function((*name).into()));
            let relation = |name: &str| Some(Name::Relation(name.into()));
            let (user, used) = match kind.as_str() {
                "d" => (relation(a), function(b)),
                "r" => (relation(a), relation(b)),
                "g" => (function(a), function(b)),
                "x" => (Some(Name::Implicit), function(b)),
                "v" => (Some(Name::Event), function(b)),
                "e" => {
                    // One of PostgreSQL's own functions, called with anything; without a relation it is the check of a type.
                    let words = Words::of(format!("{b}(").as_bytes());
                    let of = match a.as_str() {
                        "" => Name::Implicit,
                        relation => Name::Relation(relation.into()),
                    };
                    nodes.entry(of).or_default().own.add(&words.effects);
                    continue;
                }
                _ => continue,
            };
            if let (Some(user), Some(used)) = (user, used) {
                nodes.entry(used.clone()).or_default();
                nodes.entry(user).or_default().uses.insert(used);
            }
        }
        for (name, words) in bodies {
            let used = words
                .names
                .into_iter()
                .flat_map(|name| [Name::Function(name.clone()), Name::Relation(name)]);
            let used: Vec<Name> = used.filter(|used| nodes.contains_key(used)).collect();
            if let Some(node) = nodes.get_mut(&Name::Function(name.into())) {
                node.uses.extend(used);
            }
        }
        let mut catalogue = Catalogue::gather(nodes);
        if rows.len() >= ROWS_MAX {
            tracing::warn!(
                "a database has too many functions and dependencies to tell what they do: every text may do anything"
            );
            catalogue.implicit = Effects::unreadable();
        }
        catalogue
    }

    /// Adds to each what those do that it uses, and those that they use.
    fn gather(mut nodes: HashMap<Name, Node>) -> Catalogue {
        // From those that do something to those that use them.
        let mut users: HashMap<Name, Vec<Name>> = HashMap::new();
        for (name, node) in &nodes {
            for used in &node.uses {
                users.entry(used.clone()).or_default().push(name.clone());
            }
        }
        let mut changed: Vec<Name> = nodes
            .iter()
            .filter(|(_, node)| !node.own.is_nothing())
            .map(|(name, _)| name.clone())
            .collect();
        while let Some(name) = changed.pop() {
            let Some(effects) = nodes.get(&name).map(|node| node.own.clone()) else {
                continue;
            };
            for user in users.get(&name).into_iter().flatten() {
                if let Some(node) = nodes.get_mut(user)
                    && !node.own.has(&effects)
                {
                    node.own.add(&effects);
                    changed.push(user.clone());
                }
            }
        }
        let mut catalogue = Catalogue::default();
        for (name, node) in nodes.into_iter().filter(|(_, node)| !node.own.is_nothing()) {
            match name {
                Name::Event => catalogue.events = node.own,
                Name::Function(name) | Name::Relation(name) => {
                    catalogue.effects.entry(name).or_default().add(&node.own)
                }
                Name::Implicit => catalogue.implicit = node.own,
            }
        }
        catalogue
    }

    /// What a text may do to the session beyond what it shows.
    pub fn effects(&self, understood: &Understood) -> Effects {
        let mut found = self.implicit.clone();
        found.unreadable |= understood.unreadable;
        if understood.wide {
            found.add(&self.events);
        }
        if !self.effects.is_empty() {
            for effects in understood.names.iter().filter_map(|name| self.effects.get(name)) {
                found.add(effects);
            }
        }
        found
    }
}

/// The query whose rows [`Catalogue::new`] reads: kind, and what belongs to it. Operators are PostgreSQL's own, whatever the search_path.
pub fn question() -> String {
    let asked: Vec<String> = change_session().map(|name| format!("'{name}'")).collect();
    let functions = format!("ARRAY[{}]::pg_catalog.name[]", asked.join(","));
    format!("{SETTINGS}{}", QUESTION.replace("$FUNCTIONS", &functions))
        .replace(" = ", " OPERATOR(pg_catalog.=) ")
        .replace(" <> ", " OPERATOR(pg_catalog.<>) ")
        .replace(" >= ", " OPERATOR(pg_catalog.>=) ")
}

/// The question must not fail for what its client has set.
const SETTINGS: &str = "SELECT pg_catalog.set_config('statement_timeout', '0', true), \
    pg_catalog.set_config('client_encoding', 'UTF8', true);";

/// Where an expression calls a function of PostgreSQL's own itself, no dependency says so: those of `$FUNCTIONS` are looked for.
const QUESTION: &str = "\
SELECT 'f', p.oid::pg_catalog.text, p.proname::pg_catalog.text, n.nspname::pg_catalog.text, l.lanname::pg_catalog.text, p.provolatile::pg_catalog.text, \
    CASE WHEN l.lanname <> 'c' AND p.prokind <> 'a' THEN \
        CASE WHEN p.prosrc = '' THEN pg_catalog.pg_get_functiondef(p.oid) ELSE p.prosrc END END, e.extname::pg_catalog.text \
FROM pg_catalog.pg_proc p \
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
JOIN pg_catalog.pg_language l ON l.oid = p.prolang \
LEFT JOIN (pg_catalog.pg_depend m JOIN pg_catalog.pg_extension e ON e.oid = m.refobjid AND m.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass) \
    ON m.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND m.objid = p.oid AND m.deptype = 'e' \
WHERE p.oid >= 16384 \
UNION ALL \
SELECT DISTINCT 'd', c.relname::pg_catalog.text, d.refobjid::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_depend d JOIN (\
    SELECT 'pg_catalog.pg_trigger'::pg_catalog.regclass AS class, oid AS object, tgrelid AS relation FROM pg_catalog.pg_trigger \
    UNION ALL SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, oid, ev_class FROM pg_catalog.pg_rewrite \
    UNION ALL SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, oid, polrelid FROM pg_catalog.pg_policy \
    UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, oid, conrelid FROM pg_catalog.pg_constraint \
    UNION ALL SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass, oid, adrelid FROM pg_catalog.pg_attrdef \
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, indexrelid, indrelid FROM pg_catalog.pg_index \
    UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, oid, oid FROM pg_catalog.pg_class WHERE oid >= 16384 \
    UNION ALL SELECT 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass, oid, stxrelid FROM pg_catalog.pg_statistic_ext\
) o ON d.classid = o.class AND d.objid = o.object \
JOIN pg_catalog.pg_class c ON c.oid = o.relation \
WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 \
UNION ALL \
SELECT DISTINCT 'r', v.relname::pg_catalog.text, t.relname::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_depend d \
JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid \
JOIN pg_catalog.pg_class v ON v.oid = w.ev_class \
JOIN pg_catalog.pg_class t ON t.oid = d.refobjid \
WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass \
    AND d.refobjid >= 16384 AND t.oid <> v.oid \
UNION ALL \
SELECT DISTINCT 'r', b.relname::pg_catalog.text, a.relname::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class b ON b.oid = k.confrelid JOIN pg_catalog.pg_class a ON a.oid = k.conrelid \
WHERE k.contype = 'f' \
UNION ALL \
SELECT DISTINCT 'r', b.relname::pg_catalog.text, a.relname::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class b ON b.oid = i.inhparent JOIN pg_catalog.pg_class a ON a.oid = i.inhrelid \
UNION ALL \
SELECT 'g', d.objid::pg_catalog.text, d.refobjid::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_depend d \
WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 \
UNION ALL \
SELECT 'x', '', d.refobjid::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_depend d LEFT JOIN pg_catalog.pg_constraint k \
    ON k.oid = d.objid AND d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass \
WHERE d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.refobjid >= 16384 AND (k.conrelid = 0::pg_catalog.oid \
    OR d.classid = 'pg_catalog.pg_cast'::pg_catalog.regclass OR d.classid = 'pg_catalog.pg_operator'::pg_catalog.regclass \
    OR d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass OR d.classid = 'pg_catalog.pg_amproc'::pg_catalog.regclass \
    OR d.classid = 'pg_catalog.pg_opclass'::pg_catalog.regclass OR d.classid = 'pg_catalog.pg_opfamily'::pg_catalog.regclass) \
UNION ALL \
SELECT 'v', '', evtfoid::pg_catalog.text, NULL, NULL, NULL, NULL, NULL FROM pg_catalog.pg_event_trigger \
UNION ALL \
SELECT DISTINCT 'r', b.relname::pg_catalog.text, a.relname::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_policy y ON y.oid = d.objid JOIN pg_catalog.pg_class b ON b.oid = y.polrelid \
JOIN pg_catalog.pg_class a ON a.oid = d.refobjid \
WHERE d.classid = 'pg_catalog.pg_policy'::pg_catalog.regclass AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND a.oid <> b.oid \
UNION ALL \
SELECT 'e', COALESCE(c.relname::pg_catalog.text, ''), p.proname::pg_catalog.text, NULL, NULL, NULL, NULL, NULL \
FROM (\
    SELECT ev_class AS relation, pg_catalog.concat(ev_action, ev_qual) AS tree FROM pg_catalog.pg_rewrite WHERE oid >= 16384 \
    UNION ALL SELECT adrelid, adbin::pg_catalog.text FROM pg_catalog.pg_attrdef \
    UNION ALL SELECT conrelid, conbin::pg_catalog.text FROM pg_catalog.pg_constraint WHERE contype = 'c' \
    UNION ALL SELECT polrelid, pg_catalog.concat(polqual, polwithcheck) FROM pg_catalog.pg_policy \
    UNION ALL SELECT tgrelid, tgqual::pg_catalog.text FROM pg_catalog.pg_trigger\
) s JOIN pg_catalog.pg_proc p ON pg_catalog.strpos(s.tree, pg_catalog.concat(':funcid ', p.oid, ' ')) <> 0 \
LEFT JOIN pg_catalog.pg_class c ON c.oid = s.relation \
WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace AND p.proname = ANY ($FUNCTIONS)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::understand::{Limits, Pins, Understanding};

    fn row(columns: &[&str]) -> Vec<Option<String>> {
        let mut row: Vec<Option<String>> = columns.iter().map(|column| Some((*column).to_owned())).collect();
        row.resize(8, None);
        row
    }

    fn function(id: &str, name: &str, language: &str, body: &str) -> Vec<Option<String>> {
        row(&["f", id, name, "public", language, "v", body])
    }

    fn catalogue() -> Catalogue {
        let rows = [
            function(
                "1",
                "tenant",
                "plpgsql",
                "begin perform set_config('app.tenant', new.t, false); return new; end",
            ),
            function("2", "outer_one", "sql", "select tenant()"),
            function(
                "3",
                "stamps",
                "plpgsql",
                "begin new.at := now(); update other set x = 1; return new; end",
            ),
            function("4", "dynamic", "plpgsql", "begin execute x; end"),
            function("5", "writes", "sql", "insert into guarded values (1)"),
            function("6", "memory", "plpython3u", ""),
            function("7", "locks", "sql", "select pg_advisory_lock(1)"),
            row(&["d", "guarded", "1"]),
            row(&["d", "stamped", "3"]),
            row(&["r", "seen", "guarded"]),
            row(&["r", "parent", "seen"]),
            row(&["g", "7", "4"]),
            row(&["v", "", "4"]),
            row(&["e", "straight", "set_config"]),
        ];
        Catalogue::new(&rows, &Trusted::default())
    }

    fn effects(catalogue: &Catalogue, text: &str) -> Effects {
        catalogue.effects(&Understanding::new(Limits::default()).of(text.as_bytes()))
    }

    fn of(text: &str) -> Effects {
        effects(&catalogue(), text)
    }

    #[test]
    fn what_is_proven_has_no_effects() {
        for text in [
            "select lower(x), count(*) from t join u using (a) where now() > b",
            "insert into stamped values (1)",
            "select stamps()",
            "with guardede as (select 1) select * from guardede",
        ] {
            assert!(of(text).is_nothing(), "{text}");
        }
    }

    #[test]
    fn effects_go_from_bodies_to_all_that_use_them() {
        for text in [
            "insert into guarded values (1)",
            "delete from public.parent",
            "select outer_one()",
            "select * from seen",
            "copy guarded from stdin",
            "call writes()",
            "select (select writes())",
        ] {
            let found = of(text);
            assert!(found.settings && !found.unreadable, "{text}");
            assert_eq!(
                found.names.iter().map(|name| &**name).collect::<Vec<_>>(),
                ["app.tenant"],
                "{text}"
            );
        }
        assert_eq!(of("select locks()").pins, Pins::ADVISORY_LOCK);
        assert!(
            of("select locks()").unreadable,
            "it has a default that calls dynamic()"
        );
    }

    #[test]
    fn what_nobody_can_see() {
        for text in [
            "select dynamic()",
            "select memory(1)",
            "create index on t (dynamic(x))",
            "do $$ begin execute 'x'; end $$",
            "create function f() returns void language plpgsql as $$ begin execute 'x'; end $$",
            "create table guarded2 (a int)",
            "select * from straight",
        ] {
            assert!(of(text).unreadable, "{text}");
        }
        let none = Catalogue::default();
        assert!(effects(&none, "create index on t (x)").is_nothing());
        let do_block = effects(
            &none,
            "do $$ begin set role bob; perform set_config('a.b', 'c', false); end $$",
        );
        assert!(do_block.is_nothing(), "the text itself shows it");
    }

    #[test]
    fn what_is_vouched_for_has_none() {
        let rows = [
            function("4", "dynamic", "plpgsql", "execute x"),
            function("6", "memory", "plperl", ""),
        ];
        let trusted = Trusted {
            schemas: Vec::new(),
            functions: vec!["public.dynamic".into(), "memory".into()],
        };
        let catalogue = Catalogue::new(&rows, &trusted);
        assert!(effects(&catalogue, "select dynamic(), memory()").is_nothing());
        let other = Trusted {
            schemas: vec!["other".into()],
            functions: vec!["other.dynamic".into()],
        };
        assert!(effects(&Catalogue::new(&rows, &other), "select dynamic()").unreadable);
    }

    #[test]
    fn the_question_names_no_operator_by_itself() {
        let text = question();
        for sign in [" = ", " <> ", " >= "] {
            assert!(!text.contains(sign));
        }
        pg_query::parse(&text, pg_query::ParserOptions::DEFAULT).expect("it is SQL");
    }
}
