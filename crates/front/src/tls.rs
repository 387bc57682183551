//! TLS with a certificate and a key from files, which are reloaded when they change.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The names of the settings for the two files, for use in errors.
#[derive(Clone, Copy, Debug)]
pub struct TlsOptions {
    /// The name of the setting for the certificate.
    pub certificate: &'static str,
    /// The name of the setting for the private key.
    pub key: &'static str,
}

/// A certificate and a key, for encrypting connections.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    options: TlsOptions,
    now: RwLock<Now>,
}

struct Now {
    config: Arc<ServerConfig>,
    /// The state of the files when they were last read, whether or not they were valid.
    seen: Seen,
}

/// Modification time and size of the two files, to detect changes.
type Seen = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// Reads both files.
    pub fn read(certificate: &Path, key: &Path, options: TlsOptions) -> Result<Self, String> {
        let seen = seen(certificate, key);
        let config = config(certificate, key, options)?;
        let now = RwLock::new(Now { config, seen });
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Tls { certificate, key, options, now })
    }

    /// Encrypts a connection.
    pub(crate) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let config = self.now.read().unwrap_or_else(PoisonError::into_inner).config.clone();
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Reloads the files if they have changed, or if `always` is set. If they are not valid, the
    /// current certificate stays in use.
    pub fn reload(&self, always: bool) {
        let found = seen(&self.certificate, &self.key);
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if !always && now.seen == found {
            return;
        }
        now.seen = found;
        match config(&self.certificate, &self.key, self.options) {
            Ok(config) => {
                now.config = config;
                tracing::info!(certificate = %self.certificate.display(), "new connections use the new certificate");
            }
            Err(error) => tracing::error!(error, "keeping the present certificate"),
        }
    }
}

fn seen(certificate: &Path, key: &Path) -> Seen {
    [certificate, key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn config(
    certificate: &Path,
    key: &Path,
    options: TlsOptions,
) -> Result<Arc<ServerConfig>, String> {
    let wrong = |path: &Path, fix: &str, e: &dyn std::fmt::Display| {
        format!("{}: {e}; {fix}", path.display())
    };
    let TlsOptions { certificate: named, key: key_named } = options;
    let certificate_fix = &format!("{named} must be a PEM file of the certificate and its chain");
    let key_fix = &format!("{key_named} must be a PEM file of the private key of {named}");
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|e| wrong(certificate, certificate_fix, &e))?;
    if certificates.is_empty() {
        return Err(wrong(certificate, certificate_fix, &"the file contains no certificate"));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|e| wrong(key, key_fix, &e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = versions
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|e| wrong(key, key_fix, &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
