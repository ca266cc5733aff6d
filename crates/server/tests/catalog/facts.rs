//! A session's facts, made up.

use corun_server::catalog::{ActivityFact, RoleFact, SessionFacts, SettingFact};
use std::sync::Mutex;

#[derive(Debug)]
pub struct Facts {
    path: Mutex<Vec<String>>,
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            path: Mutex::new(vec!["public".to_owned()]),
        }
    }
}

impl SessionFacts for Facts {
    fn session_user(&self) -> String {
        "ada".to_owned()
    }

    fn database(&self) -> String {
        "corun".to_owned()
    }

    fn search_path(&self) -> Vec<String> {
        self.path.lock().unwrap().clone()
    }

    fn pid(&self) -> i32 {
        4711
    }

    fn version(&self) -> String {
        "PostgreSQL 15.0 (corun)".to_owned()
    }

    fn settings(&self) -> Vec<SettingFact> {
        let path = self.search_path().join(", ");
        [
            ("search_path", path.as_str()),
            ("server_version", "15.0"),
            ("TimeZone", "UTC"),
        ]
        .map(|(name, value)| SettingFact {
            name: name.to_owned(),
            value: value.to_owned(),
            description: String::new(),
        })
        .to_vec()
    }

    fn set(&self, name: &str, value: &str, _: bool) -> Result<String, String> {
        if name == "TimeZone" {
            return Ok(value.to_owned());
        }
        if name != "search_path" {
            return Err(format!("unrecognized configuration parameter \"{name}\""));
        }
        *self.path.lock().unwrap() = value.split(',').map(|schema| schema.trim().to_owned()).collect();
        Ok(value.to_owned())
    }

    fn roles(&self) -> Vec<RoleFact> {
        let role = |oid, name: &str, superuser| RoleFact {
            oid,
            name: name.to_owned(),
            superuser,
            login: true,
            connections_max: -1,
            ..RoleFact::default()
        };
        vec![role(10, "ada", true), role(16001, "bob", false)]
    }

    fn activity(&self) -> Vec<ActivityFact> {
        vec![ActivityFact {
            pid: 4711,
            database: "corun".to_owned(),
            user: "ada".to_owned(),
            state: "active".to_owned(),
            query: "select 1".to_owned(),
            started: Some(0),
            ..ActivityFact::default()
        }]
    }

    fn has_privilege(&self, user: Option<&str>, kind: &str, object: &str, privilege: &str) -> bool {
        user != Some("bob") || (kind, object, privilege) == ("table", "public.orders", "SELECT")
    }
}
