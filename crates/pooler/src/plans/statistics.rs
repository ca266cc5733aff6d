//! [`Statistics`]: whether what estimates stand on is still the same.
//!
//! One cheap question ([`Statistics::question`]) reads catalog rows of the relations by their object ids and nothing else; everybody
//! may read them. Asked at most every so often, its answer is compared with the one before. What it sees:
//!
//! | changed by | seen in |
//! | --- | --- |
//! | ANALYZE, also by autovacuum | counters of `pg_stat_*`, `relpages`, `reltuples` |
//! | growth of a table | nothing, until the server analyses or vacuums it; its planner looks at the size of the file itself |
//! | ALTER TABLE, TRUNCATE, CLUSTER | `xmin` of the row in `pg_class`, `relfilenode`, `xmin` of columns |
//! | CREATE INDEX, DROP INDEX, an index that became valid | ids and flags in `pg_index` |
//! | CREATE STATISTICS | ids in `pg_statistic_ext` |
//! | DROP and CREATE | object ids |
//! | settings of the server, database or user | their values |
//!
//! Rows of `pg_statistic` themselves are for superusers only, so its `xmin` is not looked at.

use corun_model::pooler::pg_hash::Memory;
use corun_model::units::Bytes;

use super::fingerprint::Fingerprint;
use super::memory_setting;
use crate::split::{qualified, quoted};

/// Relations that are looked at.
const RELATIONS_MAX: usize = 256;

/// The setting that says whether the server has pg_hint_plan in this session; see [`has_hints`]. It exists only once the library is loaded,
/// by `shared_preload_libraries`, `session_preload_libraries` or `LOAD`, or where somebody has set a value for it all the same: then
/// hints change no plan.
pub const HINTS_SETTING: &str = "pg_hint_plan.enable_hint";

/// Reads its value; there is none where nobody has heard of it.
pub fn has_hints(value: Option<&str>) -> bool {
    matches!(value, Some("on" | "true" | "yes" | "1"))
}

/// A table by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relation {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
}

/// What an answer says beside the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Estimates hold.
    Nothing,
    /// Statistics or definitions: estimates and corrections are to be forgotten.
    Statistics,
    /// Settings alone: estimates are to be made anew, corrections hold.
    Settings,
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    relations: u64,
    settings: u64,
    tables: Vec<(Relation, f64)>,
    /// What hash tables are allowed.
    pub memory: Memory,
    /// `server_version_num`.
    pub version: u32,
}

impl Statistics {
    /// The text to ask, about at most 256 relations. The rows of its answer, four columns of
    /// text, go to [`Statistics::read`].
    pub fn question(relations: &[Relation]) -> String {
        let names: Vec<String> = relations
            .iter()
            .take(RELATIONS_MAX)
            .map(|relation| quoted(&qualified(Some(&relation.schema), &relation.name)))
            .collect();
        format!(
            "select n.nspname::text, c.relname::text, c.reltuples::text, pg_catalog.concat_ws(' ', c.oid, c.xmin, c.relfilenode, c.relpages, c.reltuples, \
               pg_catalog.pg_stat_get_analyze_count(c.oid), pg_catalog.pg_stat_get_autoanalyze_count(c.oid), \
               pg_catalog.pg_stat_get_vacuum_count(c.oid), pg_catalog.pg_stat_get_autovacuum_count(c.oid), \
               (select pg_catalog.string_agg(i.indexrelid::text || i.indisvalid::text, ',' order by i.indexrelid) \
                  from pg_catalog.pg_index i where i.indrelid = c.oid), \
               (select pg_catalog.string_agg(a.xmin::text, ',' order by a.attnum) \
                  from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0), \
               (select pg_catalog.string_agg(s.oid::text, ',' order by s.oid) \
                  from pg_catalog.pg_statistic_ext s where s.stxrelid = c.oid)) \
             from pg_catalog.unnest(array[{names}]::text[]) u (name) \
               join pg_catalog.pg_class c on c.oid = pg_catalog.to_regclass(u.name) \
               join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
             union all select null, null, 'work_mem', pg_catalog.current_setting('work_mem') \
             union all select null, null, 'hash_mem_multiplier', pg_catalog.current_setting('hash_mem_multiplier', true) \
             union all select null, null, 'version', pg_catalog.current_setting('server_version_num') \
             union all select null, null, 'planner', (select pg_catalog.string_agg(name || '=' || setting, ',' order by name) \
               from pg_catalog.pg_settings where category like 'Query Tuning%' or name like 'max_parallel_%')",
            names = names.join(", ")
        )
    }

    /// Reads the answer; `None` if it is none.
    pub fn read(rows: &[Vec<Option<String>>]) -> Option<Self> {
        let mut relations = Vec::new();
        let mut settings = Fingerprint::default();
        let mut memory = Memory {
            work_mem: Bytes(0),
            // 12 has no such setting.
            hash_mem_multiplier: 1.0,
        };
        let mut version = 0;
        for row in rows {
            let [schema, relation, name, value] = &row[..] else {
                return None;
            };
            let (name, value) = (name.as_deref()?, value.as_deref().unwrap_or_default());
            if let (Some(schema), Some(relation)) = (schema, relation) {
                let relation = Relation {
                    schema: schema.clone(),
                    name: relation.clone(),
                };
                relations.push((relation, name, value));
                continue;
            }
            match name {
                "work_mem" => memory.work_mem = memory_setting(value)?,
                "hash_mem_multiplier" if value.is_empty() => {}
                "hash_mem_multiplier" => memory.hash_mem_multiplier = value.parse().ok()?,
                "version" => version = value.parse().ok()?,
                _ => {}
            }
            settings.text(name);
            settings.text(value);
        }
        if memory.work_mem.0 == 0 || version == 0 {
            return None;
        }
        relations.sort_unstable();
        let mut hash = Fingerprint::default();
        let mut tables = Vec::new();
        for (relation, rows, value) in relations {
            for text in [&relation.schema, &relation.name, rows, value] {
                hash.text(text);
            }
            // Of a relation that was never analysed the server says -1, or 0 up to 13.
            if let Some(rows) = rows.parse().ok().filter(|rows: &f64| *rows > 0.0) {
                tables.push((relation, rows));
            }
        }
        Some(Self {
            relations: hash.value(),
            settings: settings.value(),
            tables,
            memory,
            version,
        })
    }

    /// Rows of the relations, where the server knows them.
    pub fn tables(&self) -> &[(Relation, f64)] {
        &self.tables
    }

    /// What changed since an earlier answer to the same question.
    pub fn since(&self, before: &Statistics) -> Changed {
        if self.relations != before.relations {
            Changed::Statistics
        } else if self.settings != before.settings {
            Changed::Settings
        } else {
            Changed::Nothing
        }
    }
}
