//! A shortcut for searches of one index. They bypass the router and its layers, which take a good
//! part of the time of a short search.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{FromRequest, Path, Request, State};
use axum::http::{HeaderName, Method, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::app::App;
use crate::elasticsearch;
use crate::error::Failure;
use crate::http::admission::PANICKED;
use crate::http::call::{Call, params_of};
use crate::http::exchange::Exchange;
use crate::native;

/// Headers that a layer around the router would evaluate.
const LAYERED: [HeaderName; 3] =
    [header::ACCEPT_ENCODING, header::CONTENT_ENCODING, header::ORIGIN];

/// A search of one index that can bypass the router, by API.
pub(crate) enum DirectSearch {
    Elasticsearch(String),
    Native(String),
}

impl DirectSearch {
    /// Recognizes a search that the router would pass on unchanged.
    pub(crate) fn of<B>(request: &axum::http::Request<B>) -> Option<Self> {
        if *request.method() != Method::POST
            || LAYERED.iter().any(|name| request.headers().contains_key(name))
        {
            return None;
        }
        let path = request.uri().path();
        let (index, make): (_, fn(String) -> Self) =
            match path.strip_prefix("/v1/indexes/").and_then(|path| path.strip_suffix("/search")) {
                Some(index) => (index, DirectSearch::Native),
                None => {
                    (path.strip_prefix('/')?.strip_suffix("/_search")?, DirectSearch::Elasticsearch)
                }
            };
        // Other paths may be percent-encoded or belong to other routes.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = !index.is_empty() && !index.starts_with('_') && index.bytes().all(plain);
        is_name.then(|| make(index.to_owned()))
    }

    fn route(&self) -> &'static str {
        match self {
            DirectSearch::Elasticsearch(_) => "/{index}/_search",
            DirectSearch::Native(_) => "/v1/indexes/{index}/search",
        }
    }

    /// Answers the search as the router would.
    pub(crate) async fn answer(self, app: Arc<App>, mut request: Request) -> Response {
        let (route, exchange) = (self.route(), Exchange::begin(&app, &mut request));
        let admitted = exchange.admit(&app, request.headers(), route).and_then(|()| match &self {
            DirectSearch::Elasticsearch(_) => {
                elasticsearch::routes::check_options(&Method::POST, route, &params_of(&request))
            }
            DirectSearch::Native(_) => Ok(()),
        });
        let response = match admitted {
            Ok(()) => {
                let search = AssertUnwindSafe(self.search(&app, request)).catch_unwind();
                search.await.unwrap_or_else(|_| Failure::broken(PANICKED).into_response())
            }
            Err(failure) => failure.into_response(),
        };
        exchange.end(route, response)
    }

    async fn search(self, app: &Arc<App>, request: Request) -> Response {
        let call = match Call::from_request(request, app).await {
            Ok(call) => call,
            Err(failure) => return failure.into_response(),
        };
        let state = State(app.clone());
        match self {
            DirectSearch::Elasticsearch(index) => {
                elasticsearch::routes::search_index(state, Path(index), call).await
            }
            DirectSearch::Native(index) => native::search_index(state, Path(index), call).await,
        }
        .into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_router_has_to_see_goes_there() {
        let direct = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            match DirectSearch::of(&request.body(()).unwrap())? {
                DirectSearch::Elasticsearch(index) => Some(format!("elasticsearch {index}")),
                DirectSearch::Native(index) => Some(format!("native {index}")),
            }
        };
        assert_eq!(direct("POST", "/books/_search?q=a", &[]).unwrap(), "elasticsearch books");
        let path = "/v1/indexes/books.v1-2_x/search";
        assert_eq!(direct("POST", path, &[("api-key", "k")]).unwrap(), "native books.v1-2_x");
        for (method, path, headers) in [
            ("GET", "/books/_search", &[][..]),
            ("POST", "/_search", &[]),
            ("POST", "//_search", &[]),
            ("POST", "/_all/_search", &[]),
            ("POST", "/a,b/_search", &[]),
            ("POST", "/a%2Fb/_search", &[]),
            ("POST", "/b*/_search", &[]),
            ("POST", "/a/b/_search", &[]),
            ("POST", "/books/_search/", &[]),
            ("POST", "/books/_search/point_in_time", &[]),
            ("POST", "/v1/indexes/a/b/search", &[]),
            ("POST", "/v1/indexes//search", &[]),
            ("POST", "/books/_search", &[("accept-encoding", "gzip")]),
            ("POST", "/books/_search", &[("content-encoding", "gzip")]),
            ("POST", "/books/_search", &[("origin", "http://localhost")]),
        ] {
            assert_eq!(direct(method, path, headers), None, "{method} {path}");
        }
    }
}
