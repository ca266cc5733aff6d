//! [`Shared`]: what of a session others may see, and the system tables ask for.

use super::client::Identity;
use super::engine::Inner;
use super::settings::{SERVER_VERSION, Settings};
use crate::catalog::{ActivityFact, RoleFact, SessionFacts, SettingFact};
use crate::data::StoreView;
use crate::operate::shown;
use crate::users::WriteRight;
use corun_model::cache::coschedule::QueryId;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Longest statement that `pg_stat_activity` shows, PostgreSQL's number.
const SHOWN_BYTES_MAX: usize = 1024;

pub(super) struct Shared {
    pub(super) who: Identity,
    pub(super) database: String,
    started: i64,
    engine: Weak<Inner>,
    pub(super) settings: Mutex<Settings>,
    doing: Mutex<Doing>,
    /// Of the store that the database is.
    pub(super) view: Option<Arc<StoreView>>,
}

#[derive(Default)]
struct Doing {
    query: Arc<str>,
    started: Option<Instant>,
    state: &'static str,
    /// Its number at the coordinator.
    query_id: Option<QueryId>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("who", &self.who)
            .finish_non_exhaustive()
    }
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl Shared {
    pub(super) fn new(who: Identity, database: String, settings: Settings, engine: Weak<Inner>) -> Self {
        Shared {
            who,
            database,
            started: now(),
            engine,
            settings: Mutex::new(settings),
            doing: Mutex::new(Doing {
                state: "idle",
                ..Doing::default()
            }),
            view: None,
        }
    }

    /// A statement has begun.
    pub(super) fn begins(&self, query: &Arc<str>, begun: Instant) {
        let query = match query.len() <= SHOWN_BYTES_MAX {
            true => Arc::clone(query),
            // A long one would be kept until the next.
            false => query[..query.floor_char_boundary(SHOWN_BYTES_MAX)].into(),
        };
        let doing = Doing {
            query,
            started: Some(begun),
            state: "active",
            query_id: None,
        };
        // What was there is let go of behind the lock.
        let _before = std::mem::replace(&mut *self.doing.lock(), doing);
    }

    /// The coordinator has it under this number.
    pub(super) fn submitted(&self, id: QueryId) {
        self.doing.lock().query_id = Some(id);
    }

    /// It has ended.
    pub(super) fn ended(&self, state: &'static str) {
        let mut doing = self.doing.lock();
        (doing.state, doing.query_id) = (state, None);
    }

    pub(super) fn activity(&self) -> ActivityFact {
        let application = self.settings.lock().application_name().to_owned();
        let doing = self.doing.lock();
        ActivityFact {
            pid: pid(&self.who),
            database: self.database.clone(),
            user: self.who.user.clone(),
            application,
            client_address: self.who.address.map(|address| address.to_string()),
            client_port: self.who.address.map(|_| 0),
            started: Some(self.started),
            query_started: doing.started.map(|started| {
                let ago = i64::try_from(started.elapsed().as_micros()).unwrap_or(i64::MAX);
                now().saturating_sub(ago)
            }),
            state: doing.state.to_owned(),
            query_id: doing.query_id.and_then(|id| i64::try_from(id.0).ok()),
            waits_for: None,
            query: shown(&doing.query, SHOWN_BYTES_MAX),
        }
    }
}

fn pid(who: &Identity) -> i32 {
    i32::try_from(who.pid).unwrap_or(i32::MAX)
}

impl SessionFacts for Shared {
    fn session_user(&self) -> String {
        self.who.user.clone()
    }

    fn database(&self) -> String {
        self.database.clone()
    }

    fn search_path(&self) -> Vec<String> {
        let path = self.settings.lock().search_path(&self.who.user);
        // A schema of the user's own there is only where somebody made a folder of that name.
        let known = self.engine.upgrade().map(|engine| engine.schemas(&self.database));
        match known {
            Some(mut known) => {
                known.extend(self.view.iter().flat_map(|view| view.schemas()));
                path.into_iter().filter(|schema| known.contains(schema)).collect()
            }
            None => path,
        }
    }

    fn pid(&self) -> i32 {
        pid(&self.who)
    }

    fn version(&self) -> String {
        format!(
            "PostgreSQL {SERVER_VERSION} (corun {})",
            env!("CARGO_PKG_VERSION")
        )
    }

    fn settings(&self) -> Vec<SettingFact> {
        self.settings.lock().facts()
    }

    fn set(&self, name: &str, value: &str, transaction_only: bool) -> Result<String, String> {
        let set = self.settings.lock().set(name, Some(value), transaction_only);
        set.map_err(|refusal| refusal.message)
    }

    fn roles(&self) -> Vec<RoleFact> {
        let engine = self.engine.upgrade();
        let mut roles = engine.map(|engine| engine.rights.roles()).unwrap_or_default();
        if !roles.iter().any(|role| role.name == self.who.user) {
            let oid = roles.iter().map(|role| role.oid).max().unwrap_or(9) + 1;
            roles.push(RoleFact {
                oid,
                name: self.who.user.clone(),
                superuser: false,
                login: true,
                connections_max: -1,
                ..RoleFact::default()
            });
        }
        roles
    }

    fn activity(&self) -> Vec<ActivityFact> {
        let Some(engine) = self.engine.upgrade() else {
            return Vec::new();
        };
        let mut all = engine.activity();
        if !engine.rights.is_superuser(&self.who.user) {
            for other in all.iter_mut().filter(|other| other.user != self.who.user) {
                // What others ask is theirs, as in PostgreSQL.
                "<insufficient privilege>".clone_into(&mut other.query);
                (other.client_address, other.client_port) = (None, None);
            }
        }
        all
    }

    fn has_privilege(&self, user: Option<&str>, kind: &str, object: &str, privilege: &str) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return false;
        };
        let user = user.unwrap_or(&self.who.user);
        let rights = &engine.rights;
        // `WITH GRANT OPTION` is for superusers, who need none.
        let (privilege, grants) = match privilege.to_ascii_uppercase().split_once(" WITH ") {
            Some((privilege, _)) => (privilege.to_owned(), true),
            None => (privilege.to_ascii_uppercase(), false),
        };
        if grants && !rights.is_superuser(user) {
            return false;
        }
        // One of several is enough, as in PostgreSQL.
        let mut privileges = privilege.split(',').map(str::trim);
        match kind {
            "table" => {
                let (schema, table) = object.rsplit_once('.').unwrap_or(("public", object));
                let may = |right| rights.may_write(user, right, schema, table);
                privileges.any(|privilege| match privilege {
                    "SELECT" => rights.may_read(user, schema, table),
                    "INSERT" => may(WriteRight::Insert),
                    "UPDATE" => may(WriteRight::Update),
                    "DELETE" => may(WriteRight::Delete),
                    "TRUNCATE" => may(WriteRight::Truncate),
                    "REFERENCES" | "TRIGGER" => may(WriteRight::Define),
                    _ => false,
                })
            }
            "schema" => privileges.any(|privilege| match privilege {
                "USAGE" => rights.may_use(user, object),
                "CREATE" => rights.may_write(user, WriteRight::Define, object, ""),
                _ => false,
            }),
            "role" => rights.is_member(user, object),
            _ => privileges.any(|privilege| privilege != "CREATE"),
        }
    }

    fn holders(&self, schema: &str, table: Option<&str>) -> Vec<(String, String)> {
        let engine = self.engine.upgrade();
        engine
            .map(|engine| engine.rights.holders(schema, table))
            .unwrap_or_default()
    }
}
