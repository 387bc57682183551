//! The mapping from errors to status codes and response bodies.
//!
//! A failure has a kind, which decides the status code and the error type that Elasticsearch's
//! clients know, and a reason for people. All routes report failures in Elasticsearch's format,
//! so that clients have one format to parse.

use axum::http::StatusCode;
use serde_json::{Value, json};
use warpseek::index::IndexError;
use warpseek::ngram::NgramError;
use warpseek::plan::ExecError;
use warpseek::{Error, ServiceError};
use warpseek_front::RemoteFailure;
pub(crate) use warpseek_front::brief;
pub(crate) use warpseek_front::plain;

/// An error that a request is answered with.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
    /// The index that the failure is about.
    pub(crate) index: Option<String>,
}

/// The kinds of failures. Each has a status code and an error type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A body, query or option that cannot be parsed.
    Parsing,
    /// A valid body, query or option that makes no sense or refers to something unavailable.
    IllegalArgument,
    /// A mapping that conflicts with the index.
    Mapper,
    /// A document that does not fit the mapping.
    Document,
    /// A field that a strict mapping does not declare.
    Strict,
    /// A bulk or multi-search request with a bad line.
    Action,
    IndexName,
    IndexExists,
    IndexMissing,
    DocumentMissing,
    Conflict,
    SnapshotExists,
    SnapshotMissing,
    /// A snapshot, or an index copied into the folder, differs from what was written.
    Damaged,
    /// A scroll or point in time that has expired or was closed.
    ContextMissing,
    /// Another missing resource, such as a task.
    NotFound,
    AliasName,
    AliasMissing,
    NoSuchRoute,
    Method,
    Unauthenticated,
    Forbidden,
    TooLarge,
    /// The body of the request did not arrive in time.
    TooSlow,
    /// Too many requests are waiting.
    Overload,
    /// The server is starting or shutting down.
    NotReady,
    /// The time limit was exceeded and a partial answer is not acceptable.
    Timeout,
    /// The client has disconnected.
    Gone,
    /// The attempt takes too long on this thread and is restarted on another. Clients never see
    /// this kind.
    HandOver,
    /// An internal error.
    Broken,
}

impl Kind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::Parsing
            | Kind::IllegalArgument
            | Kind::Mapper
            | Kind::Document
            | Kind::Strict
            | Kind::Action
            | Kind::IndexName
            | Kind::AliasName
            | Kind::IndexExists
            | Kind::Gone
            | Kind::SnapshotExists => StatusCode::BAD_REQUEST,
            Kind::IndexMissing
            | Kind::DocumentMissing
            | Kind::ContextMissing
            | Kind::NotFound
            | Kind::AliasMissing
            | Kind::SnapshotMissing
            | Kind::NoSuchRoute => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::Conflict => StatusCode::CONFLICT,
            Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Kind::Overload => StatusCode::TOO_MANY_REQUESTS,
            Kind::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::Broken | Kind::Damaged | Kind::HandOver => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns Elasticsearch's name of the error type.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Parsing => "parsing_exception",
            Kind::IllegalArgument | Kind::NoSuchRoute | Kind::Method => {
                "illegal_argument_exception"
            }
            Kind::Mapper => "mapper_parsing_exception",
            Kind::Document => "document_parsing_exception",
            Kind::Strict => "strict_dynamic_mapping_exception",
            Kind::Action => "action_request_validation_exception",
            Kind::IndexName => "invalid_index_name_exception",
            Kind::AliasName => "invalid_alias_name_exception",
            Kind::AliasMissing => "aliases_not_found_exception",
            Kind::NotFound => "resource_not_found_exception",
            Kind::IndexExists => "resource_already_exists_exception",
            Kind::IndexMissing => "index_not_found_exception",
            Kind::DocumentMissing => "document_missing_exception",
            Kind::Conflict => "version_conflict_engine_exception",
            Kind::ContextMissing => "search_context_missing_exception",
            Kind::Unauthenticated | Kind::Forbidden => "security_exception",
            Kind::TooLarge => "content_too_long_exception",
            Kind::Overload => "es_rejected_execution_exception",
            Kind::NotReady => "cluster_block_exception",
            Kind::Timeout | Kind::TooSlow => "timeout_exception",
            Kind::Gone => "task_cancelled_exception",
            Kind::SnapshotExists => "invalid_snapshot_name_exception",
            Kind::SnapshotMissing => "snapshot_missing_exception",
            Kind::Damaged => "snapshot_restore_exception",
            Kind::Broken | Kind::HandOver => "internal_server_error",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Failure { kind, reason: bounded(reason.into()), index: None }
    }

    pub(crate) fn parsing(reason: impl Into<String>) -> Self {
        Failure::new(Kind::Parsing, reason)
    }

    pub(crate) fn illegal(reason: impl Into<String>) -> Self {
        Failure::new(Kind::IllegalArgument, reason)
    }

    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Failure::new(Kind::Broken, reason)
    }

    pub(crate) fn damaged(reason: impl Into<String>) -> Self {
        Failure::new(Kind::Damaged, reason)
    }

    /// Reports a feature of Elasticsearch that warpseek does not support.
    pub(crate) fn unsupported(what: &str) -> Self {
        Failure::parsing(format!(
            "[{what}] is not supported by warpseek; see docs/reference/elasticsearch.md"
        ))
    }

    pub(crate) fn no_index(name: &str) -> Self {
        let index = Some(name.to_owned());
        Failure {
            kind: Kind::IndexMissing,
            reason: bounded(format!("no such index [{name}]")),
            index,
        }
    }

    pub(crate) fn of_index(self, name: &str) -> Self {
        Failure { index: Some(name.to_owned()), ..self }
    }

    pub(crate) fn status(&self) -> u16 {
        self.kind.status().as_u16()
    }

    /// Logs the failure if it is the server's fault.
    pub(crate) fn log(&self) {
        if matches!(self.kind, Kind::Broken | Kind::Damaged) {
            tracing::error!(reason = self.reason, "a request failed");
        }
    }

    /// Returns the cause alone, as in items of a bulk response.
    pub(crate) fn cause(&self) -> Value {
        let mut cause = json!({"type": self.kind.name(), "reason": self.reason});
        if let Some(index) = &self.index {
            let index = brief(index);
            cause["index"] = json!(index);
            if self.kind == Kind::IndexMissing {
                cause["resource.type"] = json!("index_or_alias");
                cause["resource.id"] = json!(index);
            }
        }
        cause
    }

    /// Returns the whole body of the response.
    pub(crate) fn body(&self) -> Value {
        let cause = self.cause();
        let mut error = cause.clone();
        error["root_cause"] = json!([cause]);
        json!({"error": error, "status": self.status()})
    }
}

/// Maximum length of a reason in bytes. It keeps responses and log lines short, whatever a
/// request contains.
const MAX_REASON: usize = 2000;

/// Shortens a long reason by cutting out its middle: the beginning states the problem, the end the
/// solution.
fn bounded(reason: String) -> String {
    if reason.len() <= MAX_REASON {
        return reason;
    }
    let head = reason.floor_char_boundary(MAX_REASON / 2);
    let tail = reason.ceil_char_boundary(reason.len() - MAX_REASON / 4);
    let left_out = tail - head;
    format!("{}... ({left_out} bytes omitted) ...{}", &reason[..head], &reason[tail..])
}

/// Rewords an error about a schema or record for the authors of mappings and documents. Fields
/// get the names they have in the mapping, instead of those in the stored line.
fn of_mappings(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, part) in text.split('"').enumerate() {
        // Names are in quotes.
        match i % 2 {
            0 if i > 0 => out.push(']'),
            1 => out.push('['),
            _ => {}
        }
        match i % 2 {
            0 => out.push_str(&part.replace("schema", "mapping").replace("attribute [", "field [")),
            _ => out.push_str(part.strip_prefix("source.").unwrap_or(part)),
        }
    }
    out.replace("attribute [", "field [").replace("its source", "its value")
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::Index(error) => error.into(),
            Error::Query(error) => error.into(),
            Error::Ngram(error) => error.into(),
            Error::Text(_) => Failure::new(Kind::Mapper, of_mappings(&reason)),
            Error::Options(_) | Error::NoText => Failure::illegal(reason),
            _ => Failure::broken(reason),
        }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let reason = error.to_string();
        match error {
            ServiceError::Refused { .. } => Failure::new(Kind::Overload, reason),
            ServiceError::Exec(error) => error.into(),
            _ => Failure::broken(reason),
        }
    }
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        let kind = match &error {
            IndexError::Refused { .. } | IndexError::Attribute { .. } => Kind::Document,
            IndexError::Conflict { .. } => Kind::Conflict,
            IndexError::Schema { .. } | IndexError::StaticField { .. } => Kind::Mapper,
            IndexError::TooManyDocuments => Kind::IllegalArgument,
            // Another process is writing to the index and will finish eventually.
            IndexError::Locked { .. } => Kind::NotReady,
            _ => Kind::Broken,
        };
        let reason = error.to_string();
        match kind {
            Kind::Document | Kind::Mapper => Failure::new(kind, of_mappings(&reason)),
            _ => Failure::new(kind, reason),
        }
    }
}

impl From<NgramError> for Failure {
    fn from(error: NgramError) -> Self {
        let kind = match &error {
            NgramError::TooManyGrams(_) | NgramError::Misses(_) | NgramError::NotGrams => {
                Kind::IllegalArgument
            }
            _ => Kind::Broken,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        let reason = error.to_string();
        match error {
            ExecError::Index(_) | ExecError::NoAnswer | ExecError::OtherSnapshot => {
                Failure::broken(reason)
            }
            ExecError::Device { .. } => Failure::broken(reason),
            ExecError::Stopped => Failure::new(Kind::Timeout, reason),
            ExecError::Syntax(_) | ExecError::Json(_) => Failure::parsing(reason),
            _ => Failure::illegal(reason),
        }
    }
}

impl From<RemoteFailure> for Failure {
    fn from(RemoteFailure { status, reason }: RemoteFailure) -> Self {
        match status {
            400 => Failure::illegal(reason),
            503 => Failure::new(Kind::NotReady, reason),
            _ => Failure::broken(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_brings_is_repeated_in_part() {
        let long = "ü".repeat(500_000);
        for failure in [
            Failure::no_index(&long),
            Failure::parsing(format!("unknown key [{long}]; there is [query]")),
            Failure::from(IndexError::Conflict { id: long.clone() }),
        ] {
            let body = failure.of_index(&long).body().to_string();
            assert!(body.len() < 5 * MAX_REASON && body.contains("bytes"), "{}", body.len());
        }
        assert!(
            Failure::parsing(format!("[{long}]; there is [query]")).reason.ends_with("[query]")
        );
        assert_eq!(brief("a"), "a");
    }

    #[test]
    fn the_body_has_what_clients_read() {
        let body = Failure::no_index("books").body();
        assert_eq!(body["status"], 404);
        assert_eq!(body["error"]["type"], "index_not_found_exception");
        assert_eq!(body["error"]["root_cause"][0]["reason"], "no such index [books]");
        assert_eq!(body["error"]["index"], "books");
    }

    #[test]
    fn errors_of_mappings_have_the_names_of_clients() {
        for (text, wanted) in [
            (
                "attribute \"a.b\": its source \"source.a.b\" leads through \"source.a\", which is the value of \"a\"; remove one",
                "field [a.b]: its value [a.b] leads through [a], which is the value of [a]; remove one",
            ),
            ("schema: it has 256 text fields", "mapping: it has 256 text fields"),
            ("field \"source.schema\": found two", "field [schema]: found two"),
            ("no names", "no names"),
        ] {
            assert_eq!(of_mappings(text), wanted);
        }
    }

    #[test]
    fn errors_of_the_library_keep_their_reason() {
        let conflict = Failure::from(IndexError::Conflict { id: "7".into() });
        assert_eq!((conflict.status(), conflict.kind), (409, Kind::Conflict));
        let tree = Failure::from(ExecError::Tree("it may have 3 parts".into()));
        assert_eq!(tree.status(), 400);
        assert!(tree.reason.contains("3 parts"));
        assert_eq!(Failure::from(ExecError::NoAnswer).status(), 500);
    }
}
