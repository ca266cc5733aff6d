//! `pg_catalog`: tables made from the session's relations and facts, and the static ones of `datafusion-pg-catalog`.

use super::constraints::{
    corun_index_keys, pg_attrdef, pg_constraint, pg_depend, pg_description, pg_index, pg_indexes,
};
use super::facts::SessionFacts;
use super::oids;
use super::relations::{Column, Index, Place, Relation, schemas};
use super::roles::{pg_auth_members, pg_roles, pg_user};
use super::rows::{Value, row, table};
use super::sequences::{pg_sequence, pg_sequences};
use super::settings::pg_settings;
use super::stored::Sequence;
use super::types;
use crate::data::StoreView;
use datafusion::catalog::{CatalogProvider, TableProvider};
use datafusion::error::Result;
use std::sync::Arc;

/// The owner of everything.
pub(crate) const OWNER: i32 = 10;
/// Access methods, as `pg_am` has them.
const HEAP: i32 = 2;
const BTREE: i32 = 403;

/// What the tables are made from.
pub(crate) struct Source<'a> {
    pub(crate) catalog: &'a str,
    pub(crate) catalogs: Vec<String>,
    pub(crate) provider: &'a dyn CatalogProvider,
    /// Of the store that the catalog is, if it is one.
    pub(crate) view: Option<&'a StoreView>,
    pub(crate) path: Vec<String>,
    pub(crate) facts: &'a dyn SessionFacts,
    pub(crate) relations: Vec<Relation>,
    pub(crate) sequences: Vec<Sequence>,
}

pub(crate) type Rows = Vec<Vec<Value>>;
type Make = fn(&Source<'_>) -> Rows;

/// Each table: name, columns, rows, and whether it needs the relations.
pub(crate) const TABLES: &[(&str, &str, Make, bool)] = &[
    (
        "pg_class",
        "oid:oid relname:name relnamespace:regnamespace reltype:oid reloftype:oid relowner:oid relam:oid relfilenode:oid reltablespace:oid \
         relpages:int4 reltuples:float4 relallvisible:int4 reltoastrelid:oid relhasindex:bool relisshared:bool relpersistence:char \
         relkind:char relnatts:int2 relchecks:int2 relhasrules:bool relhastriggers:bool relhassubclass:bool relrowsecurity:bool \
         relforcerowsecurity:bool relispopulated:bool relreplident:char relispartition:bool relrewrite:oid relfrozenxid:int4 \
         relminmxid:int4 relhasoids:bool relacl:text[] reloptions:text[] relpartbound:text",
        pg_class,
        true,
    ),
    (
        "pg_attribute",
        "attrelid:oid attname:name atttypid:oid attlen:int2 attnum:int2 attcacheoff:int4 atttypmod:int4 attndims:int2 attbyval:bool \
         attalign:char attstorage:char attcompression:char attnotnull:bool atthasdef:bool atthasmissing:bool attidentity:char \
         attgenerated:char attisdropped:bool attislocal:bool attinhcount:int2 attcollation:oid attstattarget:int2 attacl:text[] \
         attoptions:text[] attfdwoptions:text[] attmissingval:text",
        pg_attribute,
        true,
    ),
    (
        "pg_index",
        "indexrelid:oid indrelid:oid indnatts:int2 indnkeyatts:int2 indisunique:bool indnullsnotdistinct:bool indisprimary:bool \
         indisexclusion:bool indimmediate:bool indisclustered:bool indisvalid:bool indcheckxmin:bool indisready:bool indislive:bool \
         indisreplident:bool indkey:int2vector indcollation:oidvector indclass:oidvector indoption:int2vector indexprs:text indpred:text",
        pg_index,
        true,
    ),
    // Not PostgreSQL's: what `unnest(indkey, indoption) WITH ORDINALITY` beside pg_index would be.
    (
        "corun_index_keys",
        "indexrelid:oid indrelid:oid indisunique:bool indisprimary:bool indexprs:text key:int2 option:int2 arridx:int8",
        corun_index_keys,
        true,
    ),
    (
        "pg_constraint",
        "oid:oid conname:name connamespace:oid contype:char condeferrable:bool condeferred:bool conenforced:bool convalidated:bool \
         conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype:char confdeltype:char confmatchtype:char \
         conislocal:bool coninhcount:int2 connoinherit:bool conperiod:bool conkey:int2[] confkey:int2[] conpfeqop:oid[] conppeqop:oid[] \
         conffeqop:oid[] confdelsetcols:int2[] conexclop:oid[] conbin:text",
        pg_constraint,
        true,
    ),
    (
        "pg_attrdef",
        "oid:oid adrelid:oid adnum:int2 adbin:text",
        pg_attrdef,
        true,
    ),
    (
        "pg_depend",
        "classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 deptype:char",
        pg_depend,
        true,
    ),
    (
        "pg_description",
        "objoid:oid classoid:oid objsubid:int4 description:text",
        pg_description,
        true,
    ),
    (
        "pg_indexes",
        "schemaname:name tablename:name indexname:name tablespace:name indexdef:text",
        pg_indexes,
        true,
    ),
    (
        "pg_tables",
        "schemaname:name tablename:name tableowner:name tablespace:name hasindexes:bool hasrules:bool hastriggers:bool rowsecurity:bool",
        pg_tables,
        true,
    ),
    (
        "pg_views",
        "schemaname:name viewname:name viewowner:name definition:text",
        pg_views,
        true,
    ),
    (
        "pg_stat_user_tables",
        "relid:oid schemaname:name relname:name seq_scan:int8 seq_tup_read:int8 idx_scan:int8 idx_tup_fetch:int8 n_live_tup:int8 \
         n_dead_tup:int8",
        pg_stat_user_tables,
        true,
    ),
    (
        "pg_namespace",
        "oid:oid nspname:name nspowner:oid nspacl:text[]",
        pg_namespace,
        false,
    ),
    (
        "pg_database",
        "oid:oid datname:name datdba:oid encoding:int4 datlocprovider:char datistemplate:bool datallowconn:bool dathasloginevt:bool \
         datconnlimit:int4 datfrozenxid:int4 datminmxid:int4 dattablespace:oid datcollate:text datctype:text datlocale:text \
         daticulocale:text daticurules:text datcollversion:text datacl:text[]",
        pg_database,
        false,
    ),
    (
        "pg_roles",
        "rolname:name rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool rolreplication:bool \
         rolconnlimit:int4 rolpassword:text rolvaliduntil:timestamptz rolbypassrls:bool rolconfig:text[] oid:oid",
        pg_roles,
        false,
    ),
    (
        "pg_auth_members",
        "roleid:oid member:oid grantor:oid admin_option:bool",
        pg_auth_members,
        false,
    ),
    (
        "pg_user",
        "usename:name usesysid:oid usecreatedb:bool usesuper:bool userepl:bool usebypassrls:bool passwd:text valuntil:timestamptz \
         useconfig:text[]",
        pg_user,
        false,
    ),
    (
        "pg_settings",
        "name:text setting:text unit:text category:text short_desc:text extra_desc:text context:text vartype:text source:text \
         min_val:text max_val:text enumvals:text[] boot_val:text reset_val:text sourcefile:text sourceline:int4 pending_restart:bool",
        pg_settings,
        false,
    ),
    (
        "pg_stat_activity",
        "datid:oid datname:name pid:int4 leader_pid:int4 usesysid:oid usename:name application_name:text client_addr:text \
         client_hostname:text client_port:int4 backend_start:timestamptz xact_start:timestamptz query_start:timestamptz \
         state_change:timestamptz wait_event_type:text wait_event:text state:text backend_xid:int4 backend_xmin:int4 query_id:int8 \
         query:text backend_type:text",
        pg_stat_activity,
        false,
    ),
    (
        "pg_locks",
        "locktype:text database:oid relation:oid page:int4 tuple:int2 virtualxid:text transactionid:int4 classid:oid objid:oid \
         objsubid:int2 virtualtransaction:text pid:int4 mode:text granted:bool fastpath:bool waitstart:timestamptz",
        |_| Vec::new(),
        false,
    ),
    (
        "pg_cursors",
        "name:text statement:text is_holdable:bool is_binary:bool is_scrollable:bool creation_time:timestamptz",
        |_| Vec::new(),
        false,
    ),
    (
        "pg_sequence",
        "seqrelid:oid seqtypid:oid seqstart:int8 seqincrement:int8 seqmax:int8 seqmin:int8 seqcache:int8 seqcycle:bool",
        pg_sequence,
        true,
    ),
    (
        "pg_sequences",
        "schemaname:name sequencename:name sequenceowner:name data_type:text start_value:int8 min_value:int8 max_value:int8 \
         increment_by:int8 cycle:bool cache_size:int8 last_value:int8",
        pg_sequences,
        true,
    ),
    (
        "pg_matviews",
        "schemaname:name matviewname:name matviewowner:name tablespace:name hasindexes:bool ispopulated:bool definition:text",
        |_| Vec::new(),
        false,
    ),
];

/// One of [`TABLES`].
///
/// # Errors
/// None that is known.
pub(crate) fn make(name: &str, source: &Source<'_>) -> Option<Result<Arc<dyn TableProvider>>> {
    let (_, columns, rows, _) = TABLES.iter().find(|(known, ..)| *known == name)?;
    Some(table(columns, &rows(source)))
}

impl Source<'_> {
    pub(crate) fn schema(&self, name: &str) -> i32 {
        oids::of(self.catalog, "schema", "", name)
    }

    pub(crate) fn owner(&self) -> String {
        let roles = self.facts.roles().into_iter();
        roles
            .filter(|role| role.oid == OWNER)
            .map(|role| role.name)
            .next()
            .unwrap_or_else(|| "postgres".to_owned())
    }

    /// Schemas, by name.
    pub(crate) fn schemas(&self) -> Vec<String> {
        schemas(&Place {
            catalog: self.catalog,
            provider: self.provider,
            view: self.view,
            path: &self.path,
        })
    }

    pub(crate) fn indexes(&self) -> impl Iterator<Item = (&Relation, &Index)> {
        let of = |relation| Relation::indexes_of(relation);
        self.relations.iter().flat_map(of)
    }

    /// Whether foreign keys of any table refer to this.
    fn is_referenced(&self, oid: i32) -> bool {
        let mut keys = self.relations.iter().flat_map(|relation| &relation.foreign_keys);
        keys.any(|key| key.parent.0 == oid)
    }
}

impl Relation {
    fn indexes_of(&self) -> impl Iterator<Item = (&Relation, &Index)> {
        self.indexes.iter().map(move |index| (self, index))
    }
}

#[derive(Default)]
struct Class<'a> {
    oid: i32,
    name: &'a str,
    schema: i32,
    kind: &'a str,
    method: i32,
    rows: f32,
    columns: usize,
    checks: usize,
    indexed: bool,
    /// Foreign keys are kept by triggers in PostgreSQL.
    triggered: bool,
    acl: Option<Vec<String>>,
}

fn class(of: &Class<'_>) -> Vec<Value> {
    row![
        of.oid,
        of.name,
        of.schema,
        0,
        0,
        OWNER,
        of.method,
        of.oid,
        0,
        0,
        of.rows,
        0,
        0,
        of.indexed,
        false,
        "p",
        of.kind,
        of.columns as i64,
        of.checks as i64,
        false,
        of.triggered,
        false,
        false,
        false,
        true,
        if of.kind == "r" { "d" } else { "n" },
        false,
        0,
        0,
        0,
        false,
        of.acl.clone()
    ]
}

fn pg_class(source: &Source<'_>) -> Rows {
    let tables = source.relations.iter().map(|relation| {
        class(&Class {
            oid: relation.oid,
            name: &relation.name,
            schema: source.schema(&relation.schema),
            kind: relation.kind,
            method: if relation.kind == "r" { HEAP } else { 0 },
            rows: relation.rows,
            columns: relation.columns.len(),
            checks: relation.checks.len(),
            indexed: !relation.indexes.is_empty(),
            triggered: !relation.foreign_keys.is_empty() || source.is_referenced(relation.oid),
            acl: source.acl(&relation.schema, Some(&relation.name)),
        })
    });
    let indexes = source.indexes().map(|(relation, index)| {
        class(&Class {
            oid: index.oid,
            name: &index.name,
            schema: source.schema(&relation.schema),
            kind: "i",
            method: BTREE,
            rows: relation.rows,
            columns: index.columns.len(),
            ..Class::default()
        })
    });
    let sequences = source.sequences.iter().map(|sequence| {
        class(&Class {
            oid: sequence.oid,
            name: &sequence.name,
            schema: source.schema(&sequence.schema),
            kind: "S",
            rows: 1.0,
            columns: super::sequences::COLUMNS.len(),
            ..Class::default()
        })
    });
    let system = super::schema::system_tables().map(|name| {
        class(&Class {
            oid: oids::of(source.catalog, "class", "pg_catalog", name),
            name,
            schema: source.schema("pg_catalog"),
            kind: if VIEWS.contains(&name) { "v" } else { "r" },
            method: if VIEWS.contains(&name) { 0 } else { HEAP },
            rows: -1.0,
            ..Class::default()
        })
    });
    let information = super::information::names().map(|name| {
        class(&Class {
            oid: oids::of(source.catalog, "class", "information_schema", name),
            name,
            schema: source.schema("information_schema"),
            kind: "v",
            method: 0,
            rows: -1.0,
            ..Class::default()
        })
    });
    let own = tables.chain(indexes).chain(sequences);
    own.chain(system).chain(information).collect()
}

/// System tables that PostgreSQL has as views.
const VIEWS: &[&str] = &[
    "pg_roles",
    "pg_settings",
    "pg_stat_activity",
    "pg_locks",
    "pg_indexes",
    "pg_tables",
    "pg_views",
    "pg_matviews",
    "pg_user",
    "pg_sequences",
    "pg_stat_user_tables",
    "pg_stat_gssapi",
    "pg_replication_slots",
];

fn pg_attribute(source: &Source<'_>) -> Rows {
    let attribute = |relation: i32, number: i64, column: &Column| {
        let of = column.of;
        let length = types::length(of.oid);
        row![
            relation,
            column.name.as_str(),
            of.oid,
            length,
            number,
            -1,
            of.modifier,
            i64::from(types::is_array(of.oid)),
            matches!(length, 1 | 2 | 4 | 8),
            types::align(of.oid),
            types::storage(of.oid),
            "",
            !column.nullable,
            column.default.is_some(),
            false,
            column.identity,
            "",
            false,
            true,
            0,
            types::collation(of.oid),
            -1
        ]
    };
    let columns = source.relations.iter().flat_map(|relation| {
        let columns = relation.columns.iter().zip(1..);
        columns.map(|(column, number)| attribute(relation.oid, number, column))
    });
    let of_indexes = source.indexes().flat_map(|(relation, index)| {
        index.columns.iter().zip(1..).map(|(column, number)| {
            let column = Column {
                nullable: true,
                default: None,
                identity: "",
                ..relation.columns[*column as usize - 1].clone()
            };
            attribute(index.oid, number, &column)
        })
    });
    let of_sequences = source.sequences.iter().flat_map(|sequence| {
        let columns = super::sequences::COLUMNS.iter().zip(1..);
        columns.map(|((name, oid), number)| {
            let column = Column {
                name: (*name).to_owned(),
                of: types::PgType {
                    oid: *oid,
                    modifier: -1,
                },
                nullable: false,
                default: None,
                identity: "",
                comment: None,
            };
            attribute(sequence.oid, number, &column)
        })
    });
    columns.chain(of_indexes).chain(of_sequences).collect()
}

fn pg_tables(source: &Source<'_>) -> Rows {
    let owner = source.owner();
    let of = |relation: &Relation| {
        let indexed = !relation.indexes.is_empty();
        row![
            relation.schema.clone(),
            relation.name.clone(),
            owner.clone(),
            Value::Null,
            indexed,
            false,
            false,
            false
        ]
    };
    source
        .relations
        .iter()
        .filter(|relation| relation.kind == "r")
        .map(of)
        .collect()
}

fn pg_views(source: &Source<'_>) -> Rows {
    let owner = source.owner();
    let of = |relation: &Relation| {
        row![
            relation.schema.clone(),
            relation.name.clone(),
            owner.clone(),
            relation.definition.clone()
        ]
    };
    source
        .relations
        .iter()
        .filter(|relation| relation.kind == "v")
        .map(of)
        .collect()
}

fn pg_stat_user_tables(source: &Source<'_>) -> Rows {
    let of = |relation: &Relation| {
        let rows = (relation.rows >= 0.0).then_some(relation.rows as i64);
        row![
            relation.oid,
            relation.schema.clone(),
            relation.name.clone(),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            rows,
            0
        ]
    };
    source
        .relations
        .iter()
        .filter(|relation| relation.kind == "r")
        .map(of)
        .collect()
}

fn pg_namespace(source: &Source<'_>) -> Rows {
    let system = ["pg_catalog".to_owned(), "information_schema".to_owned()];
    let names = system.into_iter().chain(source.schemas());
    names
        .map(|name| {
            row![
                source.schema(&name),
                name.as_str(),
                OWNER,
                source.acl(&name, None)
            ]
        })
        .collect()
}

fn pg_database(source: &Source<'_>) -> Rows {
    let of = |name: &String| {
        let oid = oids::of("", "database", "", name);
        row![
            oid,
            name.as_str(),
            OWNER,
            6,
            "c",
            false,
            true,
            false,
            -1,
            0,
            0,
            1663,
            "C.UTF-8",
            "C.UTF-8"
        ]
    };
    source.catalogs.iter().map(of).collect()
}

fn pg_stat_activity(source: &Source<'_>) -> Rows {
    let roles = source.facts.roles();
    let sessions = source.facts.activity().into_iter();
    sessions
        .map(|of| {
            let role = roles
                .iter()
                .find(|role| role.name == of.user)
                .map(|role| role.oid);
            let (wait_type, wait) = of.waits_for.clone().unzip();
            row![
                oids::of("", "database", "", &of.database),
                of.database,
                of.pid,
                Value::Null,
                role,
                of.user,
                of.application,
                of.client_address,
                Value::Null,
                of.client_port,
                of.started,
                of.query_started,
                of.query_started,
                of.query_started,
                wait_type,
                wait,
                of.state,
                Value::Null,
                Value::Null,
                of.query_id,
                of.query,
                "client backend"
            ]
        })
        .collect()
}
