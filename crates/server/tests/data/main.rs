//! What a server's statements can read and write, on real files, stores and a server of the S3 protocol.

#[path = "../common/mod.rs"]
mod common;

mod buckets;
mod files;
mod folders;
mod gate;
mod s3;
mod stores;

use common::{ALL, lines};
use corun_server::data::{Data, DataError, FileRights};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::DFParserBuilder;

/// Runs a statement as the server does: through the gate, planned, through the gate again.
async fn run_with(
    data: &Data,
    context: &SessionContext,
    sql: &str,
    rights: FileRights,
) -> Result<Vec<String>, String> {
    let text = |error: DataFusionError| match error.find_root() {
        DataFusionError::External(external) => match external.downcast_ref::<DataError>() {
            Some(error) => error.to_string(),
            None => external.to_string(),
        },
        other => other.strip_backtrace(),
    };
    let mut statements = DFParserBuilder::new(sql)
        .build()
        .and_then(|mut parser| parser.parse_statements())
        .map_err(text)?;
    let statement = statements.pop_front().expect("a statement");
    data.gate(&statement, rights).map_err(|error| error.to_string())?;
    let plan = context.state().statement_to_plan(statement).await.map_err(text)?;
    let plan = data.gate_plan(plan, rights).map_err(|error| error.to_string())?;
    let frame = context.execute_logical_plan(plan).await.map_err(text)?;
    Ok(lines(&frame.collect().await.map_err(text)?))
}

async fn run(data: &Data, context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    run_with(data, context, sql, ALL).await
}

/// The rows of a query that works.
async fn rows(data: &Data, context: &SessionContext, sql: &str) -> Vec<String> {
    match run(data, context, sql).await {
        Ok(rows) => rows,
        Err(error) => panic!("{sql}: {error}"),
    }
}
