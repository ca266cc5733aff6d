//! What it means when a connection ends: the worker is lost, and the statement can run again without it.
//!
//! A loss passes through other workers on its way to the coordinator, as text; so it is known by how its text begins.

use datafusion::error::DataFusionError;
use tonic::Status;

const LOST: &str = "lost worker ";

/// The error for a connection to `address` that could not be made or has ended.
pub(crate) fn lost(address: &str, cause: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::Execution(format!("{LOST}{address}: {cause}"))
}

/// An error without the name of its kind.
pub(crate) fn plain(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    match text.strip_prefix("Execution error: ") {
        Some(plain) => plain.to_owned(),
        None => text,
    }
}

/// Whether an error says that a worker is lost, here or at another worker.
pub(crate) fn is_loss(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Execution(text) if text.starts_with(LOST))
}

/// An error that came from the worker at `address`: of the connection, or of what ran there.
pub(crate) fn of_worker(address: &str, error: DataFusionError) -> DataFusionError {
    if let DataFusionError::External(cause) = &error
        && let Some(status) = cause.downcast_ref::<Status>()
    {
        return lost(address, reason(status));
    }
    if is_loss(&error) || names_worker(&error) {
        return error;
    }
    let named = |text: &str| format!("worker {address}: {text}");
    // What is around it says through whose hands it went; people are shown the innermost.
    match error.find_root() {
        DataFusionError::ResourcesExhausted(text) => DataFusionError::ResourcesExhausted(named(text)),
        DataFusionError::Execution(text) => DataFusionError::Execution(named(text)),
        _ => DataFusionError::Context(format!("worker {address}"), Box::new(error)),
    }
}

fn names_worker(error: &DataFusionError) -> bool {
    let begins = |text: &str| text.starts_with("worker ");
    match error.find_root() {
        DataFusionError::ResourcesExhausted(text) | DataFusionError::Execution(text) => begins(text),
        _ => matches!(error, DataFusionError::Context(what, _) if begins(what)),
    }
}

/// The innermost cause: those outside only say that something below them failed.
fn reason(status: &Status) -> String {
    let mut cause: &dyn std::error::Error = status;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    match cause.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ends_of_connections_are_losses() {
        let end = DataFusionError::External(Box::new(Status::unavailable("broken pipe")));
        let end = of_worker("a:1", end);
        assert!(is_loss(&end), "{end}");
        assert_eq!(
            end.strip_backtrace(),
            "Execution error: lost worker a:1: broken pipe"
        );
        // It keeps its name on the way.
        let end = of_worker("b:2", end);
        assert!(is_loss(&end) && end.to_string().contains("a:1"), "{end}");

        let failure = of_worker("a:1", DataFusionError::ResourcesExhausted("no memory".into()));
        assert!(!is_loss(&failure), "{failure}");
        let failure = DataFusionError::Shared(std::sync::Arc::new(failure));
        let failure = of_worker("b:2", failure);
        assert_eq!(
            failure.strip_backtrace(),
            "Resources exhausted: worker a:1: no memory"
        );
        let failure = of_worker("b:2", of_worker("a:1", DataFusionError::Internal("no".into())));
        let text = failure.to_string();
        assert!(text.contains("a:1") && !text.contains("b:2"), "{text}");
    }
}
