//! [`World`]: the configuration with all that is read beside it, as one event loop after the other takes it over.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::auth::Secret;
use crate::config::{AuthType, Config, ConfigError, Effective, Finding};

/// Configuration, users, rules, certificates.
#[derive(Debug)]
pub struct World {
    /// The file.
    pub config: Config,
    /// Secrets of users, from `auth_file` and `[users]`.
    pub users: HashMap<String, Secret>,
}

/// Why there is no world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that it names is wrong.
    #[error("{0}")]
    File(String),
}

impl World {
    /// Reads the configuration file and what it names.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn load(file: &Path) -> Result<(Self, Vec<Finding>), WorldError> {
        let loaded = Config::load(file)?;
        Ok((Self::of(loaded.config)?, loaded.warnings))
    }

    /// Reads what a configuration names.
    ///
    /// # Errors
    /// What is wrong, with file and line.
    pub fn of(config: Config) -> Result<Self, WorldError> {
        let mut users = HashMap::new();
        for (name, user) in &config.users {
            if let Some(password) = &user.password
                && let Some(secret) = Secret::parse(password.reveal().as_bytes())
            {
                users.insert(name.clone(), secret);
            }
        }
        Ok(Self { config, users })
    }

    /// What holds for a database and user.
    pub fn effective(&self, database: &str, user: &str) -> Option<Arc<Effective>> {
        self.config.effective_database(database, user).map(Arc::new)
    }

    /// Whether the configuration lets everybody in under any name.
    pub fn is_any(&self) -> bool {
        self.config.proxy.auth_type == AuthType::Any
    }
}
