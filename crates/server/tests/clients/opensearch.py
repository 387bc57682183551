"""opensearch-py against a running server: python opensearch.py URL"""

import sys
import warnings

from opensearchpy import OpenSearch, __versionstr__, helpers
from opensearchpy.exceptions import ConflictError, NotFoundError, RequestError

client = OpenSearch(sys.argv[1], timeout=120)
warnings.simplefilter("ignore")
NAME = "t-open"

assert client.info()["version"]["number"] and client.ping()
client.indices.delete(index=NAME, ignore=404)
made = client.indices.create(index=NAME, body={"settings": {"index": {"knn": True}}, "mappings": {"properties": {"content": {"type": "text"}, "v": {"type": "knn_vector", "dimension": 3}}}})
assert made["acknowledged"] and client.indices.exists(index=NAME)
try:
    client.indices.create(index=NAME)
    raise AssertionError("it is there")
except RequestError as error:
    assert error.error == "resource_already_exists_exception" and error.status_code == 400

assert client.index(index=NAME, id="0", body={"content": "the first"}, refresh=True)["result"] == "created"
try:
    client.create(index=NAME, id="0", body={"content": "again"})
    raise AssertionError("it is there")
except ConflictError as error:
    assert error.error == "version_conflict_engine_exception"
done, errors = helpers.bulk(client, [{"_index": NAME, "_id": i, "content": f"document {i}", "meta": {"n": i, "lang": "en" if i % 2 else "de"}, "v": [1, 2, 3]} for i in range(1, 26)], refresh="wait_for")
assert done == 25 and not errors
found = client.search(index=NAME, body={"query": {"bool": {"must": {"match": {"content": "document"}}, "filter": {"term": {"meta.lang.keyword": "en"}}}}, "_source": {"exclude": ["v"]}}, size=100, timeout=120)
assert found["hits"]["total"]["value"] == 13 and "v" not in found["hits"]["hits"][0]["_source"]
assert client.count(index=NAME)["count"] == 26
assert client.get(index=NAME, id="7")["_source"]["v"] == [1, 2, 3]
assert not client.exists(index=NAME, id="none")
try:
    client.get(index=NAME, id="none")
    raise AssertionError("it is not there")
except NotFoundError as error:
    assert error.status_code == 404
assert client.mget(index=NAME, body={"ids": ["1", "none"]})["docs"][1]["found"] is False
several = client.msearch(body=[{"index": NAME}, {"query": {"match": {"content": "first"}}}, {}, {"query": {"wildcard": {"content": "f*"}}}])
assert several["responses"][0]["hits"]["hits"][0]["_id"] == "0" and several["responses"][1]["status"] == 400
everything = list(helpers.scan(client, index=NAME, query={"query": {"match_all": {}}}, size=7))
assert len({hit["_id"] for hit in everything}) == 26
client.indices.refresh(index=NAME)
pit = client.create_pit(index=NAME, keep_alive="1m")["pit_id"]
client.index(index=NAME, id="late", body={"content": "later than the point in time"}, refresh=True)
seen, after = [], {}
while hits := client.search(body={"size": 10, "pit": {"id": pit, "keep_alive": "1m"}, "sort": [{"_shard_doc": "asc"}], **after})["hits"]["hits"]:
    seen += [hit["_id"] for hit in hits]
    after = {"search_after": hits[-1]["sort"]}
assert len(seen) == len(set(seen)) == 26 and "late" not in seen
assert client.delete_pit(body={"pit_id": [pit]})["pits"] == [{"pit_id": pit, "successful": True}]
client.create_pit(index=NAME, keep_alive="1m")
assert len(client.delete_all_pits()["pits"]) == 1
assert client.search(index=NAME, body={"query": {"match_phrase": {"content": "the point in time"}}})["hits"]["hits"][0]["_id"] == "late"
client.delete(index=NAME, id="late", refresh=True)
client.indices.put_alias(index=NAME, name=f"{NAME}-alias")
assert client.count(index=f"{NAME}-alias")["count"] == 26
assert client.update(index=f"{NAME}-alias", id="7", body={"doc": {"seen": True}})["result"] == "updated"
counted = client.search(index=NAME, body={"size": 0, "aggs": {"langs": {"terms": {"field": "meta.lang.keyword"}}}})
assert [bucket["doc_count"] for bucket in counted["aggregations"]["langs"]["buckets"]] == [13, 12]
deleted = client.delete_by_query(index=NAME, body={"query": {"range": {"meta.n": {"gt": 20}}}}, refresh=True)
assert deleted["deleted"] == 5 and client.count(index=NAME)["count"] == 21
assert client.delete(index=NAME, id="1")["result"] == "deleted"
assert client.cat.count(index=NAME, format="json")[0]["count"]
client.indices.delete(index=NAME)
print(f"opensearch-py {__versionstr__}: ok")
