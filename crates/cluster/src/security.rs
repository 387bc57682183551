//! Authentication and encryption: a shared token, and certificates of both sides. No message or
//! debug output ever contains either.

use std::fmt;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};
use tonic::{Request, Status};

use crate::error::ClusterError;

/// Environment variables of the token of nodes and of that of clients, used if no file is given.
const TOKEN_VARIABLE: &str = "WARPSEEK_CLUSTER_TOKEN";
const CLIENT_TOKEN_VARIABLE: &str = "WARPSEEK_CLUSTER_CLIENT_TOKEN";

/// Minimum length of a token in bytes.
const MIN_TOKEN_BYTES: usize = 16;

/// A secret that aggregators share with nodes, or clients with an aggregator.
#[derive(Clone)]
pub struct Token(MetadataValue<Ascii>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns the token of the nodes: the contents of the file, or else the value of the
    /// variable WARPSEEK_CLUSTER_TOKEN, or `None` if it is not set.
    pub fn find(file: Option<&Path>) -> Result<Option<Self>, ClusterError> {
        Self::find_in(file, TOKEN_VARIABLE)
    }

    /// Returns the token that clients of an aggregator need: the contents of the file, or else
    /// the value of the variable WARPSEEK_CLUSTER_CLIENT_TOKEN, or `None` if it is not set.
    pub fn find_of_clients(file: Option<&Path>) -> Result<Option<Self>, ClusterError> {
        Self::find_in(file, CLIENT_TOKEN_VARIABLE)
    }

    fn find_in(file: Option<&Path>, variable: &str) -> Result<Option<Self>, ClusterError> {
        let (text, source) = match file {
            Some(path) => (read_text(path)?, path.display().to_string()),
            None => match std::env::var(variable) {
                Ok(text) => (text, variable.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(_) => return Err(ClusterError::Setup(format!("{variable} is not text"))),
            },
        };
        match Self::new(text.trim()) {
            Some(token) => Ok(Some(token)),
            None => Err(ClusterError::Setup(format!(
                "{source}: a token must have at least {MIN_TOKEN_BYTES} ASCII characters and no spaces"
            ))),
        }
    }

    /// Creates a token from text. Returns `None` if it is too short or contains characters that
    /// cannot be sent.
    pub fn new(text: &str) -> Option<Self> {
        let sound =
            text.len() >= MIN_TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value: MetadataValue<Ascii> =
            sound.then(|| format!("Bearer {text}").parse().ok()).flatten()?;
        value.set_sensitive(true);
        Some(Token(value))
    }

    /// Returns the text of the token, for a server that compares it with those of requests. It must
    /// not be shown or logged.
    pub fn secret(&self) -> &str {
        self.0.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
    }

    /// Returns true if the value of a request's header is this token. The comparison takes the
    /// same time wherever the two differ.
    pub(crate) fn admits(&self, given: Option<&MetadataValue<Ascii>>) -> bool {
        let Some(given) = given else { return false };
        let (given, own) = (given.as_encoded_bytes(), self.0.as_encoded_bytes());
        given.len() == own.len() && given.iter().zip(own).fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

/// Protection of connections. Without a token or certificates, only machines that trust each
/// other should be connected.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The secret that requests must have.
    pub token: Option<Token>,
    /// File of the certificate with its chain, in PEM.
    pub certificate: Option<PathBuf>,
    /// File of the certificate's private key, in PEM.
    pub key: Option<PathBuf>,
    /// File of the authority that signed the certificates of the other side, in PEM.
    pub authority: Option<PathBuf>,
}

impl Security {
    /// Reads the three files, if connections are encrypted. Either all or none of them must be
    /// given.
    fn files(&self) -> Result<Option<(Identity, Certificate)>, ClusterError> {
        match (&self.certificate, &self.key, &self.authority) {
            (None, None, None) => Ok(None),
            (Some(certificate), Some(key), Some(authority)) => {
                let identity = Identity::from_pem(read_text(certificate)?, read_text(key)?);
                Ok(Some((identity, Certificate::from_pem(read_text(authority)?))))
            }
            _ => Err(ClusterError::Setup(
                "both sides of a connection need certificates: give a certificate, its key and the authority of the other side's certificates, or none of the three".to_owned(),
            )),
        }
    }

    /// Returns true if connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.certificate.is_some()
    }

    /// Returns the configuration of a server, which refuses clients without a certificate of the
    /// authority.
    pub(crate) fn server(&self) -> Result<Option<ServerTlsConfig>, ClusterError> {
        let tls = |(identity, authority)| {
            ServerTlsConfig::new().identity(identity).client_ca_root(authority)
        };
        Ok(self.files()?.map(tls))
    }

    /// Returns the configuration of a client.
    pub(crate) fn client(&self) -> Result<Option<ClientTlsConfig>, ClusterError> {
        let tls = |(identity, authority)| {
            ClientTlsConfig::new().identity(identity).ca_certificate(authority)
        };
        Ok(self.files()?.map(tls))
    }
}

fn read_text(path: &Path) -> Result<String, ClusterError> {
    std::fs::read_to_string(path)
        .map_err(|source| ClusterError::File { path: path.to_owned(), source })
}

/// Adds the token to requests.
#[derive(Clone, Debug)]
pub(crate) struct TokenSender(pub(crate) Option<Token>);

impl Interceptor for TokenSender {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.0.clone());
        }
        Ok(request)
    }
}

/// Refuses requests without the token.
#[derive(Clone, Debug)]
pub(crate) struct TokenCheck(pub(crate) Option<Token>);

impl Interceptor for TokenCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        match &self.0 {
            Some(token) if !token.admits(request.metadata().get("authorization")) => Err(
                Status::unauthenticated("the token is missing, or is not the token of this node"),
            ),
            _ => Ok(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_plain_and_never_shown() {
        let edge = "0123456789abcdef";
        assert!(Token::new(edge).is_some() && Token::new(&edge[1..]).is_none());
        assert!(
            Token::new("0123456789 abcdef").is_none() && Token::new("0123456789äbcdef").is_none()
        );
        assert!(!format!("{:?}", Token::new(edge)).contains("0123"));
        assert_eq!(Token::new(edge).unwrap().secret(), edge);
    }

    #[test]
    fn only_the_same_token_is_admitted() {
        let token = Token::new("0123456789abcdef").unwrap();
        let given = |text: &str| Token::new(text).unwrap().0;
        assert!(token.admits(Some(&given("0123456789abcdef"))));
        assert!(!token.admits(Some(&given("0123456789abcdeF"))));
        assert!(!token.admits(Some(&given("0123456789abcdefg"))) && !token.admits(None));
        let refused = TokenCheck(Some(token)).call(Request::new(())).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unauthenticated);
        assert!(TokenCheck(None).call(Request::new(())).is_ok());
    }

    #[test]
    fn half_of_the_files_is_refused() {
        let half = Security { certificate: Some("a.pem".into()), ..Security::default() };
        assert!(matches!(half.server(), Err(ClusterError::Setup(_))));
        assert!(matches!(Security::default().client(), Ok(None)));
    }
}
