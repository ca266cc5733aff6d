//! `[users.NAME]`: what differs for one user.

use std::time::Duration;

use super::choices::{PoolMode, Switch};
use super::settings::settings;
use super::values::Secret;

settings! {
    /// Settings of one user; what is `None` comes from the database or `[proxy]`.
    User at User {
        password: Option<Secret> = None, Reload, "Password, MD5 or SCRAM secret, for users who are not in `auth_file`.";
        pool_mode: Option<PoolMode> = None, Reload, "`pool_mode` of this user's pools, before the database's.";
        pool_size: Option<u32> = None, [1, 100000], Reload, "`default_pool_size` of this user's pools, before the database's.";
        reserve_pool_size: Option<u32> = None, [0, 100000], Reload, "`reserve_pool_size` of this user's pools, before the database's.";
        max_user_connections: Option<u32> = None, [0, 1000000], Reload, "`max_user_connections` of this user.";
        max_user_client_connections: Option<u32> = None, [0, 1000000], Reload, "`max_user_client_connections` of this user.";
        query_timeout: Option<Duration> = None, Reload, "`query_timeout` of this user's clients.";
        query_wait_timeout: Option<Duration> = None, Reload, "`query_wait_timeout` of this user's clients, before the database's.";
        client_idle_timeout: Option<Duration> = None, Reload, "`client_idle_timeout` of this user's clients.";
        idle_transaction_timeout: Option<Duration> = None, Reload, "`idle_transaction_timeout` of this user's clients.";
        transaction_timeout: Option<Duration> = None, Reload, "`transaction_timeout` of this user's clients.";
        heavy_queue: Option<Switch> = None, Reload, "`heavy_queue` of this user's pools, before the database's.";
    }
}
