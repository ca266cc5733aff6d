//! [`SqlServer`]: `corun-server`'s front over a folder, in this process.

use std::net::SocketAddr;
use std::path::Path;

use crate::demo::Side;
use crate::pg_client::DATABASE;
use crate::pg_client::address::{Address, Transport};
use corun_datafusion::CoordinatorOptions;
use corun_server::data::DataConfig;
use corun_server::front::{Access, AccessFiles, Front, FrontConfig};
use corun_server::session::{Engine, EngineConfig};
use lab_core::error::BenchError;

/// A server on a free port of the loopback interface; dropped, it ends.
pub(super) struct SqlServer {
    pub(super) address: Address,
    _front: Front,
}

impl SqlServer {
    /// Serves the tables of a folder as a side of the demo does.
    ///
    /// # Errors
    /// Files that cannot be read, a coordinator that cannot be set up, no free port.
    pub(super) fn start(folder: &Path, side: Side, partitions: usize) -> Result<SqlServer, BenchError> {
        let data = DataConfig {
            catalogs: vec![(DATABASE.to_owned(), folder.to_owned())],
            ..DataConfig::default()
        };
        let mut config = match side {
            Side::Stock => EngineConfig::stock(data),
            Side::Corun | Side::Policy(_) => EngineConfig::new(data),
        };
        config.engine.partitions = partitions;
        config.engine.share_work = false;
        if let Side::Policy(policy) = side {
            let machine = CoordinatorOptions::for_machine(&corun_topology::discover(), None)?;
            config.coordinator = Some(CoordinatorOptions { policy, ..machine });
        }
        let engine = Engine::start(config).map_err(BenchError::machine)?;
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let access = Access::load(&AccessFiles::default(), &listen).map_err(BenchError::machine)?;
        let config = FrontConfig {
            listen,
            ..FrontConfig::default()
        };
        let front = Front::start(config, access, engine).map_err(BenchError::machine)?;
        let port = front.addresses().first().map_or(0, SocketAddr::port);
        Ok(SqlServer {
            address: Address {
                transport: Transport::Tcp,
                folder: folder.to_owned(),
                port,
            },
            _front: front,
        })
    }
}
