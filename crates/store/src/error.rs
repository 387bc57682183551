//! Errors of stores. They do not repeat secrets, which URLs may contain.

use std::io;
use std::path::{Path, PathBuf};

/// The result of the functions of this crate.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be opened. The URL is not repeated, since it may contain a secret.
    #[error("{what}")]
    Url {
        /// The problem with the URL.
        what: String,
    },
    /// The store refused an operation or could not be reached.
    #[error("{object}: {what}")]
    Failed {
        /// The object or folder.
        object: String,
        /// The message of the store, without query strings, which may contain secrets.
        what: String,
    },
    /// An object does not exist.
    #[error("{object} is missing from the store")]
    Missing {
        /// The object.
        object: String,
    },
    /// An object is larger than the caller allows.
    #[error("{object} has {bytes} bytes, which is too large")]
    TooLarge {
        /// The object.
        object: String,
        /// Size of the object in bytes.
        bytes: u64,
    },
    /// The system refused an operation on a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The threads of a [`BlockingStore`](crate::BlockingStore) could not be started.
    #[error("threads for a store: {0}")]
    Threads(io::Error),
}

impl StoreError {
    /// Returns a function that turns an error of an operation on `path` into a `StoreError`, for
    /// `map_err`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| StoreError::Io { path: path.to_owned(), source }
    }

    /// Creates an error about a URL.
    pub(crate) fn url(what: impl std::fmt::Display) -> Self {
        StoreError::Url { what: redacted(&what.to_string()) }
    }

    /// Returns a function that turns an error of an operation on `object` into a `StoreError`,
    /// for `map_err`.
    pub(crate) fn failed(object: &str) -> impl FnOnce(object_store::Error) -> Self + '_ {
        move |error| StoreError::Failed {
            object: object.to_owned(),
            what: redacted(&error.to_string()),
        }
    }
}

/// Removes the parameters of URLs from a message, since they may contain signatures.
fn redacted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let end = rest[at..].find(|c: char| c.is_whitespace() || "\"'<>".contains(c));
        let (address, after) = rest.split_at(end.map_or(rest.len(), |end| at + end));
        out += address.split(['?', '#']).next().unwrap_or_default();
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_repeated() {
        let text =
            "GET https://a.example/b?sig=secret#x failed, see \"http://c.example/?d=e\"; ok?";
        let clean = "GET https://a.example/b failed, see \"http://c.example/\"; ok?";
        assert_eq!(redacted(text), clean);
        assert_eq!(redacted("no address?"), "no address?");
    }
}
