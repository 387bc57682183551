"""The official client, versions 8 and 9, against a server: python elasticsearch_8_9.py URL"""

import asyncio
import sys
import warnings

from elasticsearch import ApiError, AsyncElasticsearch, BadRequestError, ConflictError, Elasticsearch, NotFoundError, __versionstr__, helpers

URL = sys.argv[1]
client = Elasticsearch(URL, request_timeout=120)


def refused(kind, error_type, call):
    try:
        call()
    except kind as error:
        assert error.error == error_type, (error.error, error_type)
        return error
    raise AssertionError(f"expected {error_type}")


def fresh(name, **body):
    client.options(ignore_status=404).indices.delete(index=name)
    return client.indices.create(index=name, **body)


def information():
    info = client.info()
    assert info["tagline"] == "You Know, for Search"
    assert len(info["version"]["number"].split(".")) == 3
    assert client.ping()
    health = client.cluster.health(wait_for_status="yellow")
    assert health["status"] == "green" and not health["timed_out"]


def indices():
    made = fresh("t-books", mappings={"properties": {"title": {"type": "text"}, "year": {"type": "integer"}, "tag": {"type": "keyword"}}}, settings={"number_of_shards": 1})
    assert made["acknowledged"] and made["index"] == "t-books"
    assert client.indices.exists(index="t-books") and not client.indices.exists(index="t-none")
    error = refused(BadRequestError, "resource_already_exists_exception", lambda: client.indices.create(index="t-books"))
    assert error.status_code == 400
    refused(NotFoundError, "index_not_found_exception", lambda: client.indices.delete(index="t-none"))
    refused(BadRequestError, "invalid_index_name_exception", lambda: client.indices.create(index="Upper"))
    mapping = client.indices.get_mapping(index="t-books")
    assert mapping["t-books"]["mappings"]["properties"]["title"] == {"type": "text"}
    client.indices.put_mapping(index="t-books", properties={"pages": {"type": "long"}})
    assert client.indices.get(index="t-books")["t-books"]["mappings"]["properties"]["pages"] == {"type": "long"}
    assert client.indices.get_settings(index="t-books")["t-books"]["settings"]["index"]["number_of_shards"] == "1"


def documents():
    first = client.index(index="t-books", id="1", document={"title": "Rust in practice", "year": 2019, "tag": ["systems", "language"]})
    assert first["result"] == "created" and first.meta.status == 201
    # Reads see writes that were not refreshed.
    assert client.get(index="t-books", id="1")["_source"]["year"] == 2019
    again = client.index(index="t-books", id="1", document={"title": "Rust in practice", "year": 2020, "tag": ["systems", "language"]})
    assert again["result"] == "updated" and again.meta.status == 200
    refused(ConflictError, "version_conflict_engine_exception", lambda: client.create(index="t-books", id="1", document={"title": "x"}))
    client.create(index="t-books", id="a/b c+d", document={"title": "Memory models", "year": 2021}, refresh=True)
    assert client.get(index="t-books", id="a/b c+d")["found"]
    assert client.exists(index="t-books", id="1") and not client.exists(index="t-books", id="2")
    missing = client.options(ignore_status=404).get(index="t-books", id="2")
    assert missing["found"] is False and "error" not in missing
    assert client.get(index="t-books", id="1", source_includes=["title"])["_source"] == {"title": "Rust in practice"}
    own = client.index(index="t-books", document={"title": "An own id"}, refresh="wait_for")
    assert own["_id"] and client.delete(index="t-books", id=own["_id"])["result"] == "deleted"
    gone = client.options(ignore_status=404).delete(index="t-books", id=own["_id"])
    assert gone["result"] == "not_found" and gone.meta.status == 404
    many = client.mget(index="t-books", ids=["1", "2"])
    assert [doc["found"] for doc in many["docs"]] == [True, False]
    changed = client.update(index="t-books", id="1", doc={"pages": 7})
    assert changed["result"] == "updated"
    assert client.update(index="t-books", id="1", doc={"pages": 7})["result"] == "noop"
    assert client.get(index="t-books", id="1")["_source"]["pages"] == 7
    refused(NotFoundError, "document_missing_exception", lambda: client.update(index="t-books", id="2", doc={"pages": 1}))
    up = client.update(index="t-books", id="3", doc={"title": "Gardens", "year": 2022}, doc_as_upsert=True, refresh=True)
    assert up["result"] == "created"
    refused(BadRequestError, "document_parsing_exception", lambda: client.index(index="t-books", id="9", document={"year": "soon"}))


def searching():
    found = client.search(index="t-books", query={"match": {"title": "rust"}})
    assert found["hits"]["total"] == {"value": 1, "relation": "eq"}
    hit = found["hits"]["hits"][0]
    assert hit["_id"] == "1" and hit["_score"] == found["hits"]["max_score"] > 0 and hit["_index"] == "t-books"
    everything = client.search(index="t-books")
    assert everything["hits"]["total"]["value"] == 3 and everything["hits"]["hits"][0]["_score"] == 1.0
    def ids(**body):
        return sorted(hit["_id"] for hit in client.search(index="t-books", **body)["hits"]["hits"])
    assert ids(query={"bool": {"filter": {"range": {"year": {"gte": 2021}}}}}) == ["3", "a/b c+d"]
    assert ids(query={"bool": {"must": {"match_all": {}}, "must_not": [{"term": {"tag": "systems"}}]}}) == ["3", "a/b c+d"]
    assert ids(query={"terms": {"tag": ["systems", "other"]}}) == ["1"]
    assert ids(query={"ids": {"values": ["3", "4"]}}) == ["3"]
    assert ids(query={"term": {"_id": "3"}}) == ["3"]
    assert ids(query={"exists": {"field": "tag"}}) == ["1"]
    assert ids(query={"multi_match": {"query": "rust memory", "fields": ["title^2"]}}) == ["1", "a/b c+d"]
    assert ids(query={"match": {"nothing": "x"}}) == []
    assert ids(q="title:rust") == ["1"]
    only = client.search(index="t-books", query={"bool": {"filter": [{"term": {"tag": "systems"}}]}})
    assert only["hits"]["hits"][0]["_score"] == 0.0
    part = client.search(index="t-books", query={"match": {"title": "rust"}}, source=["year"], size=1, track_total_hits=False, highlight={"fields": {"title": {}}})
    assert part["hits"]["hits"][0]["_source"] == {"year": 2020} and "total" not in part["hits"]
    assert part["hits"]["hits"][0]["highlight"]["title"] == ["<em>Rust</em> in practice"]
    assert client.count(index="t-books")["count"] == 3
    assert client.count(index="t-books", query={"term": {"year": 2022}})["count"] == 1
    refused(BadRequestError, "illegal_argument_exception", lambda: client.search(index="t-books", from_=9_999, size=2))
    refused(BadRequestError, "parsing_exception", lambda: client.search(index="t-books", query={"knn": {"field": "v"}}))
    refused(NotFoundError, "index_not_found_exception", lambda: client.search(index="t-none"))
    several = client.msearch(searches=[{"index": "t-books"}, {"query": {"match": {"title": "rust"}}}, {"index": "t-none"}, {"query": {"match_all": {}}}, {"index": "t-books"}, {"size": 0}])
    assert [answer["status"] for answer in several["responses"]] == [200, 404, 200]
    assert several["responses"][0]["hits"]["hits"][0]["_id"] == "1"
    explained = client.explain(index="t-books", id="1", query={"match": {"title": "rust"}})
    assert explained["matched"] and explained["explanation"]["value"] == hit["_score"]
    tokens = client.indices.analyze(index="t-books", field="title", text="Rust's Memory")
    assert [token["token"] for token in tokens["tokens"]] == ["rust's", "memory"]
    assert client.cat.count(index="t-books", format="json")[0]["count"] == "3"
    assert "t-books" in str(client.cat.indices(h="index"))
    assert client.indices.stats(index="t-books")["_all"]["primaries"]["docs"]["count"] == 3


def objects():
    """elasticsearch.dsl sends the number of the document with a second save, update or delete."""
    from elasticsearch.dsl import Document, Keyword, Text

    class Article(Document):
        title = Text()
        tag = Keyword()

        class Index:
            name = "t-objects"

    client.options(ignore_status=404).indices.delete(index="t-objects")
    Article.init(using=client)
    article = Article(title="First", tag="a", meta={"id": "1"})
    assert article.save(using=client, refresh=True) == "created"
    article.title = "Second"
    assert article.save(using=client) == "updated"
    article.update(using=client, tag="b")
    stale = Article.get(id="1", using=client)
    assert (stale.title, stale.tag) == ("Second", "b")
    article.update(using=client, tag="c")
    stale.title = "Lost"
    refused(ConflictError, "version_conflict_engine_exception", lambda: stale.save(using=client))
    refused(ConflictError, "version_conflict_engine_exception", lambda: stale.delete(using=client))
    client.indices.refresh(index="t-objects")
    [found] = Article.search(using=client).extra(seq_no_primary_term=True).query("match", title="second").execute()
    assert found.tag == "c" and found.meta.seq_no == Article.get(id="1", using=client).meta.seq_no
    found.delete(using=client)
    assert not Article.exists(id="1", using=client)
    client.indices.delete(index="t-objects")


def ignored_options_are_warned_about():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        client.search(index="t-books", query={"match": {"title": {"query": "rust", "fuzziness": "AUTO"}}})
    assert any("fuzziness" in str(warning.message) for warning in seen), [str(w.message) for w in seen]


def bulks():
    fresh("t-bulk")
    actions = [{"_index": "t-bulk", "_id": i, "text": f"document number {i}", "n": i, "even": i % 2 == 0, "at": f"2020-01-{i % 28 + 1:02}"} for i in range(1001)]
    done, errors = helpers.bulk(client, actions, refresh=True)
    assert done == 1001 and not errors
    assert client.count(index="t-bulk")["count"] == 1001
    assert client.search(index="t-bulk", query={"term": {"even": True}}, size=0)["hits"]["total"]["value"] == 501
    assert client.search(index="t-bulk", query={"range": {"at": {"lte": "2020-01-01"}}}, size=0)["hits"]["total"]["value"] == 36
    assert client.search(index="t-bulk", query={"term": {"text.keyword": "document number 7"}})["hits"]["hits"][0]["_id"] == "7"
    try:
        helpers.bulk(client, [{"_op_type": "create", "_index": "t-bulk", "_id": "7", "text": "again"}, {"_op_type": "delete", "_index": "t-bulk", "_id": "none"}])
        raise AssertionError("duplicates must be told")
    except helpers.BulkIndexError as error:
        assert [next(iter(item.values()))["status"] for item in error.errors] == [409, 404]
        assert error.errors[0]["create"]["error"]["type"] == "version_conflict_engine_exception"
    everything = list(helpers.scan(client, index="t-bulk", query={"query": {"match": {"text": "document"}}}, size=100))
    assert len(everything) == 1001 and len({hit["_id"] for hit in everything}) == 1001
    pages, seen = 0, []
    for start in range(0, 30, 10):
        page = client.search(index="t-bulk", query={"range": {"n": {"lt": 25}}}, from_=start, size=10)
        seen += [hit["_id"] for hit in page["hits"]["hits"]]
        pages += 1
    assert len(seen) == len(set(seen)) == 25 and pages == 3
    deleted = client.delete_by_query(index="t-bulk", query={"range": {"n": {"gte": 25}}}, refresh=True)
    assert deleted["deleted"] == deleted["total"] == 976 and deleted["failures"] == []
    assert client.count(index="t-bulk")["count"] == 25


def phrases():
    fresh("t-phrases")
    helpers.bulk(client, [{"_index": "t-phrases", "_id": str(i), "text": text} for i, text in enumerate(["a quick brown fox", "brown and quick", "quick dark brown"])], refresh=True)
    def ids(query):
        return sorted(hit["_id"] for hit in client.search(index="t-phrases", query=query)["hits"]["hits"])
    assert ids({"match_phrase": {"text": "quick brown"}}) == ["0"]
    assert ids({"match_phrase": {"text": {"query": "quick brown", "slop": 1}}}) == ["0", "2"]
    assert ids({"query_string": {"query": '"brown fox" OR "dark brown"'}}) == ["0", "2"]
    assert ids({"multi_match": {"query": "and quick", "type": "phrase"}}) == ["1"]
    refused(BadRequestError, "parsing_exception", lambda: client.search(index="t-phrases", query={"match_phrase_prefix": {"text": "quick br"}}))
    bare = fresh("t-bare", mappings={"properties": {"text": {"type": "text", "index_options": "docs"}}})
    assert bare["acknowledged"]
    error = refused(BadRequestError, "illegal_argument_exception", lambda: client.search(index="t-bare", query={"match_phrase": {"text": "a b"}}))
    assert "position data" in str(error)


def points_in_time():
    fresh("t-pit")
    helpers.bulk(client, [{"_index": "t-pit", "_id": f"{i:02}", "n": i, "half": i // 2} for i in range(25)], refresh=True)
    pit = client.open_point_in_time(index="t-pit", keep_alive="1m")["id"]
    client.delete_by_query(index="t-pit", query={"match_all": {}}, refresh=True)
    for sort in ([{"n": "asc"}], [{"_shard_doc": "asc"}], [{"half": "asc"}]):
        seen, after = [], None
        while True:
            page = client.search(size=4, pit={"id": pit, "keep_alive": "1m"}, sort=sort, search_after=after)
            assert page["pit_id"] == pit
            if not page["hits"]["hits"]:
                break
            seen += [hit["_id"] for hit in page["hits"]["hits"]]
            after = page["hits"]["hits"][-1]["sort"]
        assert seen == [f"{i:02}" for i in range(25)], (sort, seen)
    assert client.close_point_in_time(id=pit)["succeeded"]
    refused(NotFoundError, "search_context_missing_exception", lambda: client.search(pit={"id": pit}))
    assert client.count(index="t-pit")["count"] == 0


def updates_are_not_lost():
    from concurrent.futures import ThreadPoolExecutor
    fresh("t-updates")
    client.index(index="t-updates", id="1", document={"x": 0})
    def update(i):
        if i % 2:
            return client.update(index="t-updates", id="1", doc={f"f{i}": i})["result"] == "updated"
        done, errors = helpers.bulk(client, [{"_op_type": "update", "_index": "t-updates", "_id": "1", "doc": {f"f{i}": i}}])
        return done == 1 and not errors
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(update, range(64)))
    assert client.get(index="t-updates", id="1")["_source"] == {"x": 0} | {f"f{i}": i for i in range(64)}
    def create(i):
        return client.options(ignore_status=409).create(index="t-updates", id="2", document={"by": i}).meta.status
    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(create, range(16))) == [201] + [409] * 15


def aliases():
    fresh("t-old")
    client.indices.create(index="t-new", aliases={"t-both": {}})
    client.indices.put_alias(index="t-old", name="t-now")
    client.indices.update_aliases(actions=[{"add": {"index": "t-old", "alias": "t-both"}}])
    assert client.index(index="t-now", id="1", document={"text": "old"}, refresh=True)["_index"] == "t-old"
    client.indices.update_aliases(actions=[{"remove": {"index": "t-old", "alias": "t-now"}}, {"add": {"index": "t-new", "alias": "t-now"}}])
    assert client.index(index="t-now", id="2", document={"text": "new"}, refresh=True)["_index"] == "t-new"
    assert client.count(index="t-both")["count"] == 2 and client.count(index="t-now")["count"] == 1
    assert client.indices.exists_alias(name="t-now") and not client.indices.exists_alias(name="t-none")
    assert client.indices.get_alias(name="t-now").body == {"t-new": {"aliases": {"t-now": {}}}}
    refused(BadRequestError, "illegal_argument_exception", lambda: client.index(index="t-both", document={"text": "where?"}))
    refused(NotFoundError, "aliases_not_found_exception", lambda: client.indices.delete_alias(index="t-old", name="t-now"))
    client.indices.delete(index="t-old")
    client.indices.delete(index="t-new")
    refused(NotFoundError, "index_not_found_exception", lambda: client.count(index="t-both"))


def counts_and_upkeep():
    fresh("t-counts", mappings={"properties": {"tag": {"type": "keyword"}}})
    helpers.bulk(client, [{"_index": "t-counts", "_id": str(i), "tag": "abc"[i % 3], "n": i} for i in range(10)], refresh=True)
    found = client.search(index="t-counts", size=0, aggs={"tags": {"terms": {"field": "tag", "size": 2}}, "n": {"stats": {"field": "n"}}, "some": {"range": {"field": "n", "ranges": [{"to": 5}]}}})["aggregations"]
    assert found["tags"]["buckets"] == [{"key": "a", "doc_count": 4}, {"key": "b", "doc_count": 3}] and found["tags"]["sum_other_doc_count"] == 3
    assert found["n"] == {"count": 10, "min": 0.0, "max": 9.0, "avg": 4.5, "sum": 45.0} and found["some"]["buckets"][0]["doc_count"] == 5
    refused(BadRequestError, "parsing_exception", lambda: client.search(index="t-counts", aggs={"x": {"percentiles": {"field": "n"}}}))
    task = client.delete_by_query(index="t-counts", query={"term": {"tag": "b"}}, wait_for_completion=False, refresh=True)["task"]
    while not (state := client.tasks.get(task_id=task))["completed"]:
        pass
    assert state["response"]["deleted"] == 3
    assert client.indices.forcemerge(index="t-counts", max_num_segments=1)["_shards"]["failed"] == 0
    assert client.indices.flush(index="t-counts")["_shards"]["successful"] == 1
    assert client.field_caps(index="t-counts", fields="*")["fields"]["tag"]["keyword"]["aggregatable"]
    assert client.indices.validate_query(index="t-counts", query={"match": {"tag": "a"}})["valid"]


def scores_are_those_of_elasticsearch():
    fresh("t-scores", mappings={"properties": {"text": {"type": "text"}}})
    texts = ["one two three", "two three", "three four five six", "one one two"]
    helpers.bulk(client, [{"_index": "t-scores", "_id": str(i), "text": text} for i, text in enumerate(texts)], refresh=True)
    import math
    def bm25(word, text, k1=1.2, b=0.75):
        lengths = [len(t.split()) for t in texts]
        df, tf = sum(word in t.split() for t in texts), text.split().count(word)
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        return 0 if not tf else (k1 + 1) * idf * tf / (tf + k1 * (1 - b + b * len(text.split()) / (sum(lengths) / len(lengths))))
    found = client.search(index="t-scores", query={"match": {"text": "one three"}})["hits"]["hits"]
    assert len(found) == 4
    for hit in found:
        want = bm25("one", texts[int(hit["_id"])]) + bm25("three", texts[int(hit["_id"])])
        assert abs(hit["_score"] - want) < 1e-5 * want, (hit["_score"], want)


def other_ways_to_ask():
    compressed = Elasticsearch(URL, http_compress=True, request_timeout=120)
    helpers.bulk(compressed, [{"_index": "t-gzip", "_id": str(i), "text": "word " * 100} for i in range(20)], refresh=True)
    assert compressed.search(index="t-gzip", query={"match": {"text": "word"}}, size=20)["hits"]["total"]["value"] == 20
    keyed = Elasticsearch(URL, api_key=("id", "a key that nobody asks for"), request_timeout=120)
    assert keyed.info()["tagline"]
    filtered = client.search(index="t-gzip", filter_path=["hits.total.value"])
    assert filtered.body == {"hits": {"total": {"value": 20}}}


async def asynchronous():
    async with AsyncElasticsearch(URL, request_timeout=120) as client:
        await client.index(index="t-async", id="1", document={"text": "from far away"}, refresh=True)
        found = await client.search(index="t-async", query={"match": {"text": "far"}})
        assert found["hits"]["hits"][0]["_id"] == "1"
        done, errors = await helpers.async_bulk(client, [{"_index": "t-async", "_id": str(i), "text": "x"} for i in range(10)])
        assert done == 10 and not errors


for check in [information, indices, documents, searching, ignored_options_are_warned_about, bulks, phrases, points_in_time, updates_are_not_lost, aliases, objects, counts_and_upkeep, scores_are_those_of_elasticsearch, other_ways_to_ask]:
    check()
asyncio.run(asynchronous())
for name in ["t-books", "t-bulk", "t-phrases", "t-bare", "t-pit", "t-updates", "t-counts", "t-scores", "t-gzip", "t-async"]:
    client.indices.delete(index=name)
print(f"elasticsearch {__versionstr__}: ok")
