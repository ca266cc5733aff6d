//! A real driver, tokio-postgres, as a client.

use tokio_postgres::{Client, Error, NoTls};

use super::raw::Login;

/// Runs what the driver does; panics if it is lost.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let all = async {
        tokio::time::timeout(super::wait::PATIENCE, future)
            .await
            .expect("an end")
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
