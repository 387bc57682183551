//! Protection of connections in a cluster: a shared token and certificates.

use std::path::PathBuf;

use clap::Args;
use warpseek_cluster::{Security, Token};
use warpseek_console::Failure;

use crate::failures::cluster_failure;

/// Secrets and certificates. The token is never an argument, because other users of the machine
/// can see arguments.
#[derive(Args)]
#[command(next_help_heading = "Protection")]
pub(crate) struct Protection {
    /// File with the token that aggregators and nodes share [default: the variable
    /// WARPSEEK_CLUSTER_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate and its chain in PEM. Encrypts connections and authenticates both sides
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_authority")]
    tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificate of the authority that signed the certificates of the other side, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_authority: Option<PathBuf>,
    /// Listen on any address without tokens or certificates
    #[arg(long)]
    pub(crate) insecure: bool,
}

impl Protection {
    pub(crate) fn security(&self) -> Result<Security, Failure> {
        Ok(Security {
            token: Token::find(self.token_file.as_deref()).map_err(cluster_failure)?,
            certificate: self.tls_certificate.clone(),
            key: self.tls_key.clone(),
            authority: self.tls_authority.clone(),
        })
    }
}
