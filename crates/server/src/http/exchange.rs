//! The frame around every request: checks before it is answered; metrics, the log and headers
//! afterwards.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use warpseek::query::Cancel;

use crate::app::App;
use crate::error::{Failure, Kind};
use crate::http::admission::PANICKED;
use crate::http::answer::written;
use crate::http::caller::Presence;
use crate::http::native_routes;
use crate::http::origin;
use crate::http::params::{self, Params};
use crate::indexes::names;
use crate::operations::telemetry::counters::count_request;

const PRODUCT: HeaderName = HeaderName::from_static("x-elastic-product");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");

/// A request in progress: the parts of it that are needed once its answer is ready.
pub(crate) struct Exchange {
    start: Instant,
    method: Method,
    path: String,
    params: Params,
    id: Option<HeaderValue>,
    opaque: Option<HeaderValue>,
    is_logged: bool,
    /// Guard that sets the client's flag if the client disconnects before the answer is ready.
    presence: Presence,
}

impl Exchange {
    pub(crate) fn begin(app: &App, request: &mut Request) -> Self {
        let params = Params::parse(request.uri().query());
        let gone = Cancel::new();
        request.extensions_mut().insert(params.clone());
        request.extensions_mut().insert(gone.clone());
        let header = |name| request.headers().get(name).cloned();
        Exchange {
            start: Instant::now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            params,
            id: header(REQUEST_ID).or_else(|| HeaderValue::from_str(&app.request_id()).ok()),
            opaque: header(OPAQUE_ID),
            is_logged: app.logs_requests,
            presence: Presence::of(gone),
        }
    }

    /// Checks whether the request may be answered: the state of the server, the request's origin,
    /// its key and its options.
    pub(crate) fn admit(&self, app: &App, headers: &HeaderMap, route: &str) -> Result<(), Failure> {
        let Exchange { method, path, params, .. } = self;
        let is_open = native_routes::is_open(route);
        if !app.is_accepting() && !is_open && route != "/metrics" {
            return Err(Failure::new(Kind::NotReady, "the server is starting or shutting down"));
        }
        origin::check(method, headers, &app.config.cors.origins)?;
        if !is_open {
            app.keys.check(method, path, headers)?;
        }
        params::check_path(path)?;
        native_routes::check_options(method, route, params)
    }

    /// Serializes the answer, updates the metrics and logs the request.
    pub(crate) fn end(self, route: &str, response: Response) -> Response {
        self.presence.answered();
        // The server's native routes refuse unknown options instead.
        let ignored = !names::is_own(&self.path) && response.status().is_success();
        let mut response = written(response, &self.params, ignored);
        let headers = response.headers_mut();
        headers.insert(PRODUCT, HeaderValue::from_static("Elasticsearch"));
        if let Some(id) = &self.id {
            headers.insert(REQUEST_ID, id.clone());
        }
        if let Some(opaque) = self.opaque {
            headers.insert(OPAQUE_ID, opaque);
        }
        let (status, took) = (response.status().as_u16(), self.start.elapsed());
        count_request(&self.method, route, status, took);
        if self.is_logged {
            let id = self.id.as_ref().and_then(|id| id.to_str().ok()).unwrap_or("");
            tracing::info!(
                id,
                method = self.method.as_str(),
                path = self.path,
                status,
                ms = took.as_secs_f64() * 1e3,
                "request"
            );
        }
        response
    }
}

/// Wraps every request that goes to the router: checks it first, and finishes its response.
pub(crate) async fn around(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let exchange = Exchange::begin(&app, &mut request);
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let response = match exchange.admit(&app, request.headers(), route) {
        Ok(()) => {
            // Panics in the work of handlers are caught where it runs; this catches those of the
            // layers around it.
            let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
            answer.unwrap_or_else(|_| Failure::broken(PANICKED).into_response())
        }
        Err(failure) => failure.into_response(),
    };
    exchange.end(route, response)
}
