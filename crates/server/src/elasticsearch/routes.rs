//! The routes of Elasticsearch and OpenSearch, which begin at the root.

mod admin;
mod aliases;
mod bulk;
mod deleting;
mod documents;
mod fields;
mod indices;
mod naming;
mod options;
mod points_in_time;
mod searching;
mod tasks;

pub(crate) use admin::analyze;
pub(crate) use bulk::parse_bulk;
pub(crate) use documents::{id_of, merge_fields, new_id};
pub(crate) use indices::declared;
pub(crate) use options::check_options;
pub(crate) use searching::{read_pairs, search_index};

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post, put};
use serde_json::{Value, json};

use crate::app::App;
use crate::http::answer::{Answer, Reply};

/// The version reported to clients, which refuse versions of any other form.
const VERSION: &str = "8.19.3";

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(info))
        .route("/_bulk", post(bulk::all).put(bulk::all))
        .route("/{index}/_bulk", post(bulk::one).put(bulk::one))
        .route("/{index}", put(indices::create).delete(indices::delete).get(indices::get))
        .route("/_mapping", get(indices::mapping_of_all))
        .route(
            "/{index}/_mapping",
            get(indices::mapping).put(indices::put_mapping).post(indices::put_mapping),
        )
        .route("/{index}/_mappings", get(indices::mapping).put(indices::put_mapping))
        .route("/_settings", get(indices::settings_of_all))
        .route("/{index}/_settings", get(indices::settings).put(indices::put_settings))
        .route("/{index}/_settings/{name}", get(indices::settings_named))
        .route("/{index}/_mapping/field/{field}", get(indices::mapping_of_fields))
        .route("/{index}/_doc", post(documents::add))
        .route(
            "/{index}/_doc/{id}",
            put(documents::put).post(documents::put).get(documents::get).delete(documents::delete),
        )
        .route("/{index}/_create/{id}", put(documents::create).post(documents::create))
        .route("/{index}/_source/{id}", get(documents::source))
        .route("/{index}/_update/{id}", post(documents::update))
        .route("/_mget", get(documents::mget_all).post(documents::mget_all))
        .route("/{index}/_mget", get(documents::mget).post(documents::mget))
        .route("/_search", get(searching::search_all).post(searching::search_all))
        .route("/{index}/_search", get(search_index).post(search_index))
        .route("/_msearch", get(searching::msearch_all).post(searching::msearch_all))
        .route("/{index}/_msearch", get(searching::msearch).post(searching::msearch))
        .route("/_count", get(searching::count_all).post(searching::count_all))
        .route("/{index}/_count", get(searching::count).post(searching::count))
        .route(
            "/_search/scroll",
            get(searching::scroll).post(searching::scroll).delete(searching::end_scroll),
        )
        .route("/_search/scroll/_all", delete(searching::end_all_scrolls))
        .route(
            "/_search/scroll/{id}",
            delete(searching::end_scroll_in_path)
                .get(searching::scroll_in_path)
                .post(searching::scroll_in_path),
        )
        .route("/{index}/_delete_by_query", post(deleting::delete_by_query))
        .route("/{index}/_explain/{id}", get(searching::explain).post(searching::explain))
        .route("/_refresh", get(admin::refresh_all).post(admin::refresh_all))
        .route("/{index}/_refresh", get(admin::refresh).post(admin::refresh))
        .route("/_flush", get(admin::flush_all).post(admin::flush_all))
        .route("/{index}/_flush", get(admin::flush).post(admin::flush))
        .route("/_forcemerge", post(admin::force_merge_all))
        .route("/{index}/_forcemerge", post(admin::force_merge))
        .route("/_tasks", get(tasks::running))
        .route("/_tasks/{id}", get(tasks::get))
        .merge(point_in_time_routes())
        .merge(alias_routes())
        .route("/_field_caps", get(fields::caps_of_all).post(fields::caps_of_all))
        .route("/{index}/_field_caps", get(fields::caps).post(fields::caps))
        .route("/_validate/query", get(fields::validate_all).post(fields::validate_all))
        .route("/{index}/_validate/query", get(fields::validate).post(fields::validate))
        .route("/_analyze", get(admin::analyze_all).post(admin::analyze_all))
        .route("/{index}/_analyze", get(analyze).post(analyze))
        .route("/_cluster/health", get(admin::health))
        .route("/_cluster/health/{index}", get(admin::health_of))
        .route("/_cat/indices", get(admin::cat_indices))
        .route("/_cat/indices/{index}", get(admin::cat_indices_of))
        .route("/_cat/count", get(admin::cat_count).post(admin::cat_count))
        .route("/_cat/count/{index}", get(admin::cat_count_of).post(admin::cat_count_of))
        .route("/_stats", get(admin::stats_all))
        .route("/_stats/{metric}", get(admin::stats_of_all))
        .route("/{index}/_stats", get(admin::stats))
        .route("/{index}/_stats/{metric}", get(admin::stats_of))
        .route("/_cluster/settings", get(admin::cluster_settings))
        .route("/_cat/health", get(admin::cat_health))
        .route_layer(axum::middleware::from_fn(options::checked))
}

fn point_in_time_routes() -> Router<Arc<App>> {
    Router::new()
        .route("/{index}/_pit", post(points_in_time::open))
        .route("/_pit", delete(points_in_time::close))
        .route("/{index}/_search/point_in_time", post(points_in_time::open_in_opensearch))
        .route("/_search/point_in_time", delete(points_in_time::close_in_opensearch))
        .route("/_search/point_in_time/_all", delete(points_in_time::close_all_in_opensearch))
}

fn alias_routes() -> Router<Arc<App>> {
    let one = || get(aliases::one).put(aliases::put).post(aliases::put).delete(aliases::delete);
    Router::new()
        .route("/_aliases", get(aliases::all).post(aliases::change))
        .route("/_alias", get(aliases::all))
        .route("/_alias/{alias}", get(aliases::by_alias))
        .route("/{index}/_alias", get(aliases::of_index))
        .route("/{index}/_alias/{alias}", one())
        .route("/{index}/_aliases/{alias}", one())
        .route("/_cat/aliases", get(aliases::cat))
}

async fn info() -> Reply {
    Ok(Answer::json(json!({
        "name": "warpseek",
        "cluster_name": "warpseek",
        "cluster_uuid": "warpseek",
        "version": {
            "number": VERSION,
            "build_flavor": "default",
            "build_type": "warpseek",
            "build_hash": env!("CARGO_PKG_VERSION"),
            "build_date": "1970-01-01T00:00:00.000Z",
            "build_snapshot": false,
            "lucene_version": "9.12.0",
            "minimum_wire_compatibility_version": "7.17.0",
            "minimum_index_compatibility_version": "7.0.0",
        },
        "tagline": "You Know, for Search",
    })))
}

/// Returns the `_shards` object that clients expect. There are no real shards.
fn shards(count: usize) -> Value {
    json!({"total": count, "successful": count, "failed": 0})
}
