//! Roles, who is in which, and what they were given, as the system tables show it.

use super::facts::RoleFact;
use super::rows::row;
use super::tables::{OWNER, Rows, Source};

impl Source<'_> {
    /// Who was given rights, as PostgreSQL writes it; `None`: nobody.
    pub(crate) fn acl(&self, schema: &str, table: Option<&str>) -> Option<Vec<String>> {
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let item = |(name, letters): (String, String)| match plain(&name) {
            true => format!("{name}={letters}/{}", self.owner()),
            false => format!("\"{}\"={letters}/{}", name.replace('"', "\"\""), self.owner()),
        };
        let holders = self.facts.holders(schema, table);
        (!holders.is_empty()).then(|| holders.into_iter().map(item).collect())
    }
}

pub(crate) fn pg_roles(source: &Source<'_>) -> Rows {
    let roles = source.facts.roles().into_iter();
    roles
        .map(|role| {
            row![
                role.name,
                role.superuser,
                true,
                role.superuser,
                false,
                role.login,
                false,
                role.connections_max,
                "********",
                role.valid_until,
                role.superuser,
                (!role.limits.is_empty()).then_some(role.limits),
                role.oid
            ]
        })
        .collect()
}

/// Who is in which role.
pub(crate) fn pg_auth_members(source: &Source<'_>) -> Rows {
    let roles = source.facts.roles();
    let oid = |name: &String| roles.iter().find(|role| role.name == *name).map(|role| role.oid);
    let of = |member: &RoleFact| {
        let found = member.roles.iter().filter_map(oid);
        found
            .map(|role| row![role, member.oid, OWNER, false])
            .collect::<Vec<_>>()
    };
    roles.iter().flat_map(of).collect()
}

pub(crate) fn pg_user(source: &Source<'_>) -> Rows {
    let roles = source.facts.roles().into_iter().filter(|role| role.login);
    roles
        .map(|role| {
            row![
                role.name,
                role.oid,
                false,
                role.superuser,
                false,
                role.superuser,
                "********",
                role.valid_until
            ]
        })
        .collect()
}
