//! Indexes in a session that a program brings along.

use crate::setting::options;
use corun_datafusion::{Coordinator, IndexedTable};
use corun_model::cache::coschedule::PolicyName;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_datafusions_own_schemas_have_indexes_too() {
    let state = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(corun_datafusion::install(state).build());
    for sql in ["create schema apart", "create table apart.t as values (1), (2)"] {
        context.sql(sql).await.unwrap();
    }
    let coordinator = Coordinator::around(&context, options(PolicyName::Fifo)).unwrap();
    coordinator
        .query("create index i on apart.t (column1)")
        .await
        .unwrap();
    let table = context.table_provider("apart.t").await.unwrap();
    assert!(table.is::<IndexedTable>());
    let rows = context.sql("select * from apart.t").await.unwrap();
    assert_eq!(rows.count().await.unwrap(), 2);
}
