//! The web page at `/ui`: files that are part of the program. All data that it shows comes from
//! `/v1`.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use xxhash_rust::xxh3::xxh3_64;

use crate::app::App;

/// Content security policy: scripts, styles and requests go to this server alone, and no other
/// page may embed this one in a frame.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
struct Part {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

macro_rules! part {
    ($name:literal, $kind:ident) => {
        Part {
            path: concat!("/ui/", $name),
            kind: $kind,
            text: include_str!(concat!("page/", $name)),
        }
    };
}

/// All files of the page.
const PARTS: [Part; 24] = [
    Part { path: "/ui/", kind: HTML, text: include_str!("page/index.html") },
    part!("icon.svg", SVG),
    part!("style.css", CSS),
    part!("api.js", SCRIPT),
    part!("ask.js", SCRIPT),
    part!("chart.js", SCRIPT),
    part!("curl.js", SCRIPT),
    part!("dom.js", SCRIPT),
    part!("explain.js", SCRIPT),
    part!("facets.js", SCRIPT),
    part!("filters.js", SCRIPT),
    part!("format.js", SCRIPT),
    part!("hits.js", SCRIPT),
    part!("indexes.js", SCRIPT),
    part!("key.js", SCRIPT),
    part!("load.js", SCRIPT),
    part!("main.js", SCRIPT),
    part!("options.js", SCRIPT),
    part!("problem.js", SCRIPT),
    part!("ranges.js", SCRIPT),
    part!("search.js", SCRIPT),
    part!("theme.js", SCRIPT),
    part!("trace.js", SCRIPT),
    part!("why.js", SCRIPT),
];

/// The page's address without the slash that its links need.
const BARE: &str = "/ui";

/// Entity tags that change with the contents, in the order of the parts. They are weak, since a
/// response may be compressed.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    PARTS.iter().map(|part| format!("W/\"{:016x}\"", xxh3_64(part.text.as_bytes()))).collect()
});

pub(crate) fn routes() -> Router<Arc<App>> {
    // The redirect is relative, so that it also works behind a proxy that adds a prefix.
    let redirect =
        async || (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "ui/")]).into_response();
    let router = Router::new().route(BARE, get(redirect));
    (0..PARTS.len()).fold(router, |router, number| {
        let handler = async move |request: Request| served(number, request.headers());
        router.route(PARTS[number].path, get(handler))
    })
}

fn served(number: usize, asked: &HeaderMap) -> Response {
    let (part, tag) = (&PARTS[number], &TAGS[number]);
    let known = asked.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_known = known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => part.text.into_response(),
    };
    let fixed: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, part.kind),
        // Browsers keep the file but revalidate it each time, so that a new version of the server
        // shows at once.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::native_routes::is_open;

    #[test]
    fn the_page_needs_no_key() {
        assert!(is_open(BARE) && PARTS.iter().all(|part| is_open(part.path)));
    }
}
