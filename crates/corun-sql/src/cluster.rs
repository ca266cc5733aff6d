//! `corun-sql worker`, and the workers of `corun-sql sql`: certificates, addresses, and signals.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use corun_cli::arguments::byte_size;
use corun_cli::failure::Usage;
use corun_cli::out;
use corun_distributed::{Address, Cluster, Scheme, Tls, TlsFiles, Worker, WorkerOptions};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A process's certificate.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// This process's certificate, and those between it and the authority (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_authority"])]
    tls_certificate: Option<PathBuf>,

    /// The certificate's key (PEM); nobody but its owner may read it.
    #[arg(long, value_name = "FILE", requires_all = ["tls_certificate", "tls_authority"])]
    tls_key: Option<PathBuf>,

    /// The authority that signed the certificates of all workers and of who uses them (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["tls_certificate", "tls_key"])]
    tls_authority: Option<PathBuf>,
}

impl TlsArgs {
    fn read(&self) -> Result<Option<Tls>> {
        let files = match (&self.tls_certificate, &self.tls_key, &self.tls_authority) {
            (Some(certificate), Some(key), Some(authority)) => TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
            },
            _ => return Ok(None),
        };
        Ok(Some(files.read()?))
    }
}

/// The workers of a shell.
#[derive(Debug, Args)]
pub struct WorkersArgs {
    /// Run statements over files on these workers (`corun-sql worker`), which read the same paths.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    workers: Vec<String>,

    #[command(flatten)]
    tls: TlsArgs,
}

impl WorkersArgs {
    /// Whether workers are named.
    pub fn are_there(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Connects to the workers, if any are named.
    ///
    /// # Errors
    /// What is no address; a worker that cannot be used.
    pub async fn connect(&self) -> Result<Option<Cluster>> {
        connect(&self.workers, self.tls.read()?).await
    }
}

/// Connects to workers, if any are named.
///
/// # Errors
/// What is no address; a worker that cannot be used; certificates without workers.
pub async fn connect(workers: &[String], tls: Option<Tls>) -> Result<Option<Cluster>> {
    if workers.is_empty() {
        return match tls {
            Some(_) => bail!(Usage(
                "certificates are for --workers, of which there are none".to_owned()
            )),
            None => Ok(None),
        };
    }
    let scheme = match tls {
        Some(_) => Scheme::Tls,
        None => Scheme::Plain,
    };
    let addresses = workers.iter().map(|text| Address::parse(text, scheme));
    let addresses = addresses
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Usage(error.to_string()))?;
    Ok(Some(Cluster::connect(addresses, tls).await?))
}

/// Arguments of `corun-sql worker`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  corun-sql worker /data                              for coordinators on this machine
  corun-sql worker --listen 0.0.0.0:7600 --tls-certificate w1.pem --tls-key w1.key --tls-authority ca.pem /data
  corun-sql sql --workers localhost:7600 /data/lineitem.parquet -c 'select count(*) from lineitem'

A worker reads the files of its folders by the paths that the coordinator names, so these are the same on all machines,
and writes none but temporary ones. Everyone who has a certificate of the authority may send it statements.
SIGTERM and SIGINT end it; statements under way have ten seconds.")]
pub struct WorkerArgs {
    /// Folders whose files statements may read.
    #[arg(value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,

    /// Where to listen; with port 0, any free port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7600")]
    listen: SocketAddr,

    /// Memory that all statements may hold together, such as 2GiB [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = byte_size, allow_negative_numbers = true)]
    memory_limit: Option<usize>,

    /// Serve everyone who reaches an address that is not this machine's own, without certificates.
    #[arg(long, conflicts_with = "tls_certificate")]
    insecure: bool,

    #[command(flatten)]
    tls: TlsArgs,
}

/// Runs `corun-sql worker`.
///
/// # Errors
/// An address that cannot be listened on, or that others reach without certificates; folders or certificates that cannot be read.
pub fn run(args: &WorkerArgs) -> Result<()> {
    let tls = args.tls.read()?;
    if tls.is_none() && !args.insecure && !args.listen.ip().is_loopback() {
        bail!(Usage(format!(
            "others reach {}, and there are no certificates\n\
             hint: give --tls-certificate, --tls-key and --tls-authority; or --insecure, where nobody else is on the network",
            args.listen
        )));
    }
    let worker = Worker::new(&WorkerOptions {
        folders: args.folders.clone(),
        memory_limit_bytes: args.memory_limit,
        tls,
    })?;
    let runtime = crate::runtime()?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))?;
        let mut ends = [SignalKind::terminate(), SignalKind::interrupt()]
            .map(signal)
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .context("cannot wait for signals")?;
        out::line(&format!("listening on {}", listener.local_addr()?))?;
        let stop = async move {
            let waiting = ends.iter_mut().map(|end| Box::pin(end.recv()));
            futures::future::select_all(waiting).await;
        };
        Ok(worker.serve(listener, stop).await?)
    });
    // A stage that was told to end may compute on until its next pause; leaving does not wait for that.
    runtime.shutdown_background();
    served
}
