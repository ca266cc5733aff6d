//! PostgreSQL's own relations.

/// Whether it is a table of the schema pg_catalog: data that all servers of a cluster share. The views there speak of the
/// server they are asked on.
pub(super) fn is_catalog(name: &str) -> bool {
    CATALOGS.binary_search(&name).is_ok()
}

/// Of PostgreSQL 15: names in pg_class with relkind = 'r', schema pg_catalog. Sorted.
const CATALOGS: &[&str] = &[
    "pg_aggregate",
    "pg_am",
    "pg_amop",
    "pg_amproc",
    "pg_attrdef",
    "pg_attribute",
    "pg_auth_members",
    "pg_authid",
    "pg_cast",
    "pg_class",
    "pg_collation",
    "pg_constraint",
    "pg_conversion",
    "pg_database",
    "pg_db_role_setting",
    "pg_default_acl",
    "pg_depend",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_data_wrapper",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_init_privs",
    "pg_language",
    "pg_largeobject",
    "pg_largeobject_metadata",
    "pg_namespace",
    "pg_opclass",
    "pg_operator",
    "pg_opfamily",
    "pg_parameter_acl",
    "pg_partitioned_table",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_range",
    "pg_replication_origin",
    "pg_rewrite",
    "pg_seclabel",
    "pg_sequence",
    "pg_shdepend",
    "pg_shdescription",
    "pg_shseclabel",
    "pg_statistic",
    "pg_statistic_ext",
    "pg_statistic_ext_data",
    "pg_subscription",
    "pg_subscription_rel",
    "pg_tablespace",
    "pg_transform",
    "pg_trigger",
    "pg_ts_config",
    "pg_ts_config_map",
    "pg_ts_dict",
    "pg_ts_parser",
    "pg_ts_template",
    "pg_type",
    "pg_user_mapping",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogs_are_sorted_and_hold_no_views() {
        assert!(CATALOGS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(is_catalog("pg_class"));
        assert!(!is_catalog("pg_stat_activity"));
    }
}
