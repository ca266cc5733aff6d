//! A real driver, tokio-postgres, as a client.

use std::time::Duration;

use tokio_postgres::{Client, Error, NoTls};

use super::raw::Login;

/// Runs what the driver does; panics if it takes more than a minute.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let all = async {
        tokio::time::timeout(Duration::from_secs(60), future)
            .await
            .expect("in a minute")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(all)
}

/// Logs in. The connection ends with the client.
pub async fn connect(login: &Login) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(&login.for_driver(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
