//! Logins with the credentials the proxy has, and whether `auth_query` finds secrets.

use std::time::Duration;

use super::login::{Passwords, open};
use super::{Line, judge};
use crate::config::{Effective, Endpoint};
use crate::core::ConfigFiles;
use crate::session::settings::literal;
use crate::split::quoted_name;
use crate::talk::{Conversation, TalkError, Target};

/// Where to, and as whom, for a pool.
pub(super) fn target(
    files: &ConfigFiles,
    effective: &Effective,
    endpoint: &Endpoint,
    limit: Duration,
) -> Target {
    Target {
        endpoint: endpoint.clone(),
        database: effective.dbname.clone(),
        user: effective.user.clone(),
        credentials: files.credentials(effective, None, None),
        tls: files.tls_client.clone(),
        parameters: effective
            .parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        limit,
    }
}

/// Runs `auth_query` of each database that has an `auth_user`, for that user itself.
pub(super) fn auth_queries(
    files: &ConfigFiles,
    names: &[String],
    limit: Duration,
    passwords: &mut Passwords<'_>,
    tell: &mut dyn FnMut(Line),
) {
    let mut seen = Vec::new();
    for name in names {
        let Some(client) = files.effective(name, "") else {
            continue;
        };
        let Some(auth_user) = &client.auth_user else {
            continue;
        };
        let database = client.auth_dbname.as_deref().unwrap_or(name);
        let Some(effective) = files.effective(database, auth_user) else {
            let text = format!("auth_dbname {database} is no database of the configuration");
            tell(Line::fail("auth_query", name, text).hint("Name one of [databases]."));
            continue;
        };
        let once = (database.to_owned(), auth_user.clone(), client.auth_query.clone());
        let Some(endpoint) = effective.hosts.first() else {
            continue;
        };
        if seen.contains(&once) {
            continue;
        }
        seen.push(once);
        let about = format!("{name}, {auth_user} at {endpoint}");
        let target = target(files, &effective, endpoint, limit);
        tell(match open(files, &target, passwords) {
            Ok((mut talk, _)) => ask(&about, &mut talk, auth_user, &client.auth_query),
            // Why is said where the host was looked at.
            Err(failed) => {
                let mut line = judge::failed_login(&about, &target.user, &target.database, &failed);
                line.check = "auth_query";
                line
            }
        });
    }
}

fn ask(about: &str, talk: &mut Conversation, user: &str, query: &str) -> Line {
    let account = quoted_name(user);
    let hint = format!(
        "Let auth_query call a SECURITY DEFINER function of the superuser that reads pg_authid: GRANT EXECUTE ON FUNCTION ... TO \
         {account}. Or GRANT SELECT ON pg_catalog.pg_authid TO {account}, which shows it all secrets."
    );
    match talk.query(&query.replace("$1", &literal(user))) {
        Ok(found) => {
            let row = found.rows.first();
            let named = row.and_then(|row| row.first()?.as_deref()) == Some(user);
            let secret = row.and_then(|row| row.get(1)?.as_deref());
            match (named, secret) {
                (true, Some(secret)) if !secret.is_empty() => {
                    Line::ok("auth_query", about, format!("finds the secret of {user}"))
                }
                (true, _) => Line::warn("auth_query", about, format!("finds {user}, and no secret"))
                    .hint("That user has no password or it has expired; others may have one."),
                (false, _) => Line::fail("auth_query", about, format!("does not find {user}"))
                    .hint("It must return the name as asked for, and the secret: two columns."),
            }
        }
        Err(TalkError::Failed(said)) => {
            let text = format!("{} (SQLSTATE {})", said.message, said.code);
            Line::fail("auth_query", about, text).hint(hint)
        }
        Err(error) => Line::fail("auth_query", about, error.to_string()),
    }
}
