"""The documents that other programs read, /openapi.json and /metrics, with standard parsers."""

import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV31SpecValidator
from prometheus_client.parser import text_string_to_metric_families

url = sys.argv[1]


def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode()


ask("PUT", "/books/_doc/1?refresh=true", {"title": "Emma \"quoted\" \\ and\nmore"})
ask("POST", "/books/_search", {"query": {"match": {"title": "emma"}}})
ask("POST", "/v1/indexes/books/search", {"query": "emma"})

document = json.loads(ask("GET", "/openapi.json"))
OpenAPIV31SpecValidator(document).validate()
assert "/v1/indexes/{index}/search" in document["paths"]

samples = {}
for family in text_string_to_metric_families(ask("GET", "/metrics")):
    for sample in family.samples:
        samples.setdefault(sample.name, []).append(sample)
for name in [
    "warpseek_http_requests_total",
    "warpseek_http_request_duration_seconds_bucket",
    "warpseek_search_duration_seconds_count",
    "warpseek_search_queue_depth",
    "warpseek_index_documents",
    "warpseek_index_size_bytes",
    "warpseek_gpu_memory_bytes",
    "warpseek_build_info",
]:
    assert name in samples, name
[documents] = [s for s in samples["warpseek_index_documents"] if s.labels == {"index": "books"}]
assert documents.value == 1
searches = [s for s in samples["warpseek_search_duration_seconds_count"] if s.labels["index"] == "books"]
assert sum(s.value for s in searches) == 2, searches
print("openapi.json is valid, metrics are as they should be")
