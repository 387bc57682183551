"""The official client of version 7 against a running server: python elasticsearch_7.py URL"""

import sys
import warnings

from elasticsearch import ConflictError, Elasticsearch, NotFoundError, RequestError, __versionstr__, helpers

warnings.simplefilter("ignore")
client = Elasticsearch(sys.argv[1], timeout=120)
NAME = "t-seven"

# The client identifies the server before its first call.
assert client.info()["tagline"] == "You Know, for Search" and client.ping()
client.indices.delete(index=NAME, ignore=404)
assert client.indices.create(index=NAME, body={"mappings": {"properties": {"text": {"type": "text", "analyzer": "english"}}}})["acknowledged"]
try:
    client.indices.create(index=NAME)
    raise AssertionError("it is there")
except RequestError as error:
    assert (error.status_code, error.error) == (400, "resource_already_exists_exception")
done, errors = helpers.bulk(client, [{"_index": NAME, "_id": i, "text": f"running document {i}", "n": i} for i in range(501)], refresh=True)
assert done == 501 and not errors
found = client.search(index=NAME, body={"query": {"match_phrase": {"text": "run documents"}}, "track_total_hits": True}, size=3)
assert found["hits"]["total"] == {"value": 501, "relation": "eq"} and len(found["hits"]["hits"]) == 3
assert len(list(helpers.scan(client, index=NAME, size=100))) == 501
try:
    client.create(index=NAME, id="7", body={"text": "again"})
    raise AssertionError("it is there")
except ConflictError as error:
    assert error.error == "version_conflict_engine_exception"
assert client.update(index=NAME, id="7", body={"doc": {"n": 700}}, refresh=True)["result"] == "updated"
assert client.get(index=NAME, id="7")["_source"]["n"] == 700
try:
    client.get(index=NAME, id="none")
    raise AssertionError("it is not there")
except NotFoundError as error:
    assert error.info["found"] is False
several = client.msearch(body=[{"index": NAME}, {"query": {"match": {"text": "documents"}}, "size": 1}, {"index": "t-none"}, {}])
assert "error" in several["responses"][1] and len(several["responses"][0]["hits"]["hits"]) == 1
pit = client.open_point_in_time(index=NAME, keep_alive="1m")["id"]
page = client.search(body={"pit": {"id": pit}, "sort": [{"n": "desc"}], "size": 2})
assert [hit["_id"] for hit in page["hits"]["hits"]] == ["7", "500"] and len(page["hits"]["hits"][0]["sort"]) == 2
assert client.close_point_in_time(body={"id": pit})["num_freed"] == 1
client.indices.update_aliases(body={"actions": [{"add": {"index": NAME, "alias": f"{NAME}-alias"}}]})
assert client.count(index=f"{NAME}-alias")["count"] == 501
assert client.delete_by_query(index=NAME, body={"query": {"range": {"n": {"gte": 500}}}}, refresh=True)["deleted"] == 2
client.indices.forcemerge(index=NAME, max_num_segments=1)
client.indices.delete(index=NAME)
print(f"elasticsearch {__versionstr__}: ok")
