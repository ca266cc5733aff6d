//! Futures that run side by side, each in a task of its own.

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use tokio::task::JoinSet;

/// Waits for all of them; results come in their order. One alone runs where it is polled. Those that run end when one fails or this future is
/// dropped.
///
/// # Errors
/// The first that there is; a runtime that shuts down.
///
/// # Panics
/// Where one of them does.
pub(crate) async fn all<T: Send + 'static>(
    futures: impl IntoIterator<Item = impl Future<Output = Result<T>> + Send + 'static>,
) -> Result<Vec<T>> {
    let mut futures: Vec<_> = futures.into_iter().collect();
    if futures.len() == 1 {
        return Ok(vec![futures.remove(0).await?]);
    }
    let mut tasks = JoinSet::new();
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    for (number, future) in futures.into_iter().enumerate() {
        tasks.spawn(async move { future.await.map(|result| (number, result)) });
    }
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok(result) => {
                let (number, result) = result?;
                results[number] = Some(result);
            }
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(error) => return Err(exec_datafusion_err!("a part of a query has stopped: {error}")),
        }
    }
    Ok(results.into_iter().flatten().collect())
}
