//! Whose the tables are that statements drop or replace.

use super::client::ClientSession;
use corun_wire::error::Refusal;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};

impl ClientSession {
    /// Whether the user may drop or replace the external table that a plan drops or replaces.
    ///
    /// # Errors
    /// 42501 for one that somebody else has made.
    pub(super) fn check_owner(&self, plan: &LogicalPlan) -> Result<(), Refusal> {
        let name = match plan {
            LogicalPlan::Ddl(DdlStatement::DropTable(drop)) => &drop.name,
            LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) if create.or_replace => &create.name,
            _ => return Ok(()),
        };
        let usual = self.context.copied_config();
        let usual = &usual.options().catalog;
        let name = name
            .clone()
            .resolve(&usual.default_catalog, &usual.default_schema);
        let user = self.engine.data_user(&self.shared.who.user);
        self.engine
            .data
            .check_owner(user, &name.catalog, &name.schema, &name.table)?;
        Ok(())
    }
}
