//! The system schemas of a session: a catalog's own schemas with `pg_catalog` and `information_schema` beside them.

use super::facts::SessionFacts;
use super::information;
use super::relations::{self, Place};
use super::stored;
use super::tables::{self, Source};
use crate::data::StoreView;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProviderList, SchemaProvider, TableProvider,
};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_pg_catalog::pg_catalog::{PG_CATALOG_TABLES, PgCatalogSchemaProvider, PgCatalogStaticTables};
use std::sync::{Arc, LazyLock};

type StaticSchema = PgCatalogSchemaProvider<Arc<dyn CatalogProviderList>, EmptyContextProvider>;

/// PostgreSQL's own types, functions and operators: read once.
static STATIC: LazyLock<Option<(Arc<PgCatalogStaticTables>, StaticSchema)>> = LazyLock::new(|| {
    let tables = Arc::new(PgCatalogStaticTables::try_new().ok()?);
    let none: Arc<dyn CatalogProviderList> = Arc::new(MemoryCatalogProviderList::new());
    let schema = PgCatalogSchemaProvider::try_new(none, Arc::clone(&tables), EmptyContextProvider).ok()?;
    Some((tables, schema))
});

/// The static tables, for the function that lists keywords.
pub(crate) fn static_tables() -> Option<Arc<PgCatalogStaticTables>> {
    STATIC.as_ref().map(|(tables, _)| Arc::clone(tables))
}

/// Names in `pg_catalog`, sorted.
pub(crate) fn system_tables() -> impl Iterator<Item = &'static str> {
    let own = tables::TABLES.iter().map(|(name, ..)| *name);
    let names: std::collections::BTreeSet<&'static str> =
        PG_CATALOG_TABLES.iter().copied().chain(own).collect();
    names.into_iter()
}

/// Which of the two schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    PgCatalog,
    Information,
}

/// A session's view of a catalog.
#[derive(Debug, Clone)]
pub(crate) struct SessionCatalog {
    pub(crate) name: String,
    pub(crate) inner: Arc<dyn CatalogProvider>,
    pub(crate) all: Arc<dyn CatalogProviderList>,
    pub(crate) facts: Arc<dyn SessionFacts>,
    /// Of the store that the catalog is, if it is one and the session writes to it.
    pub(crate) view: Option<Arc<StoreView>>,
}

impl SessionCatalog {
    fn system(&self, name: &str) -> Option<System> {
        match name {
            "pg_catalog" => Some(System::PgCatalog),
            "information_schema" => Some(System::Information),
            _ => None,
        }
    }

    /// What tables are made from; the relations only where a table needs them, since that looks at files.
    async fn source(&self, relations: bool) -> Source<'_> {
        let mut catalogs = self.all.catalog_names();
        catalogs.sort();
        let path = self.facts.search_path();
        let place = Place {
            catalog: &self.name,
            provider: &*self.inner,
            view: self.view.as_deref(),
            path: &path,
        };
        let (relations, sequences) = match relations {
            true => (relations::of(&place).await, stored::sequences(&place)),
            false => Default::default(),
        };
        Source {
            catalog: &self.name,
            catalogs,
            provider: &*self.inner,
            view: self.view.as_deref(),
            facts: &*self.facts,
            relations,
            sequences,
            path,
        }
    }
}

impl CatalogProvider for SessionCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.inner.schema_names();
        names.extend(["pg_catalog".to_owned(), "information_schema".to_owned()]);
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match self.system(name) {
            Some(system) => Some(Arc::new(SystemSchema {
                system,
                catalog: self.clone(),
            })),
            None => self.inner.schema(name),
        }
    }
}

#[derive(Debug)]
struct SystemSchema {
    system: System,
    catalog: SessionCatalog,
}

/// Views that DataFusion's own statements read.
const OF_DATAFUSION: &[&str] = &["df_settings", "routines", "parameters"];

#[async_trait::async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        match self.system {
            System::PgCatalog => system_tables().map(str::to_owned).collect(),
            System::Information => information::names()
                .chain(OF_DATAFUSION.iter().copied())
                .map(str::to_owned)
                .collect(),
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        match self.system {
            System::PgCatalog => {
                let own = tables::TABLES.iter().find(|(known, ..)| *known == name);
                match (own, &*STATIC) {
                    (Some((.., relations)), _) => {
                        let source = self.catalog.source(*relations).await;
                        tables::make(&name, &source).transpose()
                    }
                    (None, Some((_, schema))) => schema.table(&name).await,
                    (None, None) => Ok(None),
                }
            }
            System::Information if OF_DATAFUSION.contains(&name.as_str()) => {
                InformationSchemaProvider::new(Arc::clone(&self.catalog.all))
                    .table(&name)
                    .await
            }
            System::Information => {
                let source = self.catalog.source(true).await;
                information::make(&name, &source).transpose()
            }
        }
    }

    fn register_table(&self, _: String, _: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("permission denied: the schema is the system's")
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
