"""LangChain, Haystack (both) and LlamaIndex against a running server: python frameworks.py URL"""

import asyncio
import sys
import warnings

URL = sys.argv[1]
warnings.simplefilter("ignore")


def langchain():
    from elasticsearch import Elasticsearch
    from langchain_core.documents import Document
    from langchain_elasticsearch import BM25Strategy, ElasticsearchRetriever, ElasticsearchStore

    client = Elasticsearch(URL, request_timeout=120)
    client.options(ignore_status=404).indices.delete(index="t-langchain")
    store = ElasticsearchStore("t-langchain", es_url=URL, strategy=BM25Strategy())
    texts = [Document(page_content=f"passage {i} about {'rust' if i % 5 == 0 else 'gardens'}", metadata={"source": f"file {i % 3}", "page": i}) for i in range(25)]
    ids = store.add_documents(texts, ids=[str(i) for i in range(25)])
    assert len(ids) == 25
    found = store.similarity_search("rust", k=10)
    assert len(found) == 5 and all("rust" in doc.page_content for doc in found), found
    assert found[0].metadata["source"].startswith("file")
    filtered = store.similarity_search("gardens", k=25, filter=[{"term": {"metadata.source.keyword": "file 1"}}, {"range": {"metadata.page": {"lt": 10}}}])
    assert sorted(doc.metadata["page"] for doc in filtered) == [1, 4, 7], filtered
    scored = store.similarity_search_with_score("passage 7", k=1)
    assert scored[0][0].metadata["page"] == 7 and scored[0][1] > 0
    store.add_documents([Document(page_content="something else entirely", metadata={"source": "x", "page": 0})], ids=["0"])
    assert len(store.similarity_search("rust", k=10)) == 4
    assert store.delete(["5", "10"])
    assert len(store.similarity_search("rust", k=10)) == 2
    retriever = ElasticsearchRetriever(index_name="t-langchain", es_url=URL, content_field="text", body_func=lambda query: {"query": {"match": {"text": query}}, "size": 3})
    assert len(retriever.invoke("gardens")) == 3
    client.indices.delete(index="t-langchain")


def haystack(module, store_of):
    from haystack import Document
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy

    store = store_of("t-haystack")
    documents = [Document(id=str(i), content=f"passage {i} about {'rust' if i % 5 == 0 else 'gardens'}", meta={"lang": "en" if i % 2 else "de", "page": i, "date": f"2020-01-{i + 1:02}"}) for i in range(25)]
    assert store.write_documents(documents) == 25
    assert store.count_documents() == 25
    try:
        store.write_documents(documents[:1], policy=DuplicatePolicy.FAIL)
        raise AssertionError("duplicates must be told")
    except DuplicateDocumentError:
        pass
    store.write_documents(documents[:1], policy=DuplicatePolicy.OVERWRITE)
    store.write_documents(documents[:1], policy=DuplicatePolicy.SKIP)
    assert store.count_documents() == 25
    assert len(store.filter_documents()) == 25
    eq = {"field": "meta.lang", "operator": "==", "value": "en"}
    assert len(store.filter_documents(eq)) == 12
    both = {"operator": "AND", "conditions": [eq, {"field": "meta.page", "operator": ">=", "value": 20}]}
    assert sorted(doc.id for doc in store.filter_documents(both)) == ["21", "23"]
    assert len(store.filter_documents({"field": "meta.page", "operator": "in", "value": [1, 2, 99]})) == 2
    assert len(store.filter_documents({"field": "meta.lang", "operator": "!=", "value": "en"})) == 13
    retriever = module(document_store=store)
    found = retriever.run(query="rust", top_k=10)["documents"]
    assert len(found) == 5 and all("rust" in doc.content for doc in found) and found[0].score > 0, found
    found = retriever.run(query="gardens", top_k=25, filters=eq)["documents"]
    assert found and all(doc.meta["lang"] == "en" for doc in found)
    if hasattr(store, "get_metadata_field_min_max"):
        assert store.get_metadata_field_min_max("meta.page") == {"min": 0, "max": 24}
        unique = store.count_unique_metadata_by_filter(filters=eq, metadata_fields=["lang", "page"])
        assert unique == {"lang": 1, "page": 12}, unique
    store.delete_documents(["0", "5"])
    assert store.count_documents() == 23
    if hasattr(store, "delete_all_documents"):
        store.delete_all_documents()
        assert store.count_documents() == 0


def haystack_elasticsearch():
    from elasticsearch import Elasticsearch
    from haystack_integrations.components.retrievers.elasticsearch import ElasticsearchBM25Retriever
    from haystack_integrations.document_stores.elasticsearch import ElasticsearchDocumentStore

    Elasticsearch(URL, request_timeout=120).options(ignore_status=404).indices.delete(index="t-haystack")
    haystack(ElasticsearchBM25Retriever, lambda name: ElasticsearchDocumentStore(hosts=URL, index=name, request_timeout=120))
    Elasticsearch(URL, request_timeout=120).indices.delete(index="t-haystack")


def haystack_opensearch():
    from haystack_integrations.components.retrievers.opensearch import OpenSearchBM25Retriever
    from haystack_integrations.document_stores.opensearch import OpenSearchDocumentStore
    from opensearchpy import OpenSearch

    OpenSearch(URL, timeout=120).indices.delete(index="t-haystack", ignore=404)
    haystack(OpenSearchBM25Retriever, lambda name: OpenSearchDocumentStore(hosts=URL, index=name, use_ssl=False, verify_certs=False, timeout=120))
    OpenSearch(URL, timeout=120).indices.delete(index="t-haystack")


def llama_index():
    from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
    from llama_index.core.vector_stores.types import ExactMatchFilter, MetadataFilters, VectorStoreQuery, VectorStoreQueryMode
    from llama_index.vector_stores.elasticsearch import AsyncBM25Strategy, ElasticsearchStore

    async def run():
        store = ElasticsearchStore(index_name="t-llama", es_url=URL, retrieval_strategy=AsyncBM25Strategy())
        nodes = []
        for i in range(25):
            node = TextNode(id_=f"node{i}", text=f"passage {i} about {'rust' if i % 5 == 0 else 'gardens'}", metadata={"lang": "en" if i % 2 else "de", "page": i})
            node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"doc{i % 4}")
            nodes.append(node)
        await store.async_add(nodes)
        query = VectorStoreQuery(query_str="rust", similarity_top_k=10, mode=VectorStoreQueryMode.TEXT_SEARCH)
        found = await store.aquery(query)
        assert len(found.nodes) == 5 and all("rust" in node.get_content() for node in found.nodes)
        query.filters = MetadataFilters(filters=[ExactMatchFilter(key="lang", value="en")])
        found = await store.aquery(query)
        assert sorted(node.metadata["page"] for node in found.nodes) == [5, 15]
        assert len(await store.aget_nodes(["node1", "node2", "none"])) == 2
        await store.adelete("doc0")
        query = VectorStoreQuery(query_str="passage", similarity_top_k=30, mode=VectorStoreQueryMode.TEXT_SEARCH)
        left = await store.aquery(query)
        assert len(left.nodes) == 18, len(left.nodes)
        await store.adelete_nodes(["node1"])
        left = await store.aquery(query)
        assert len(left.nodes) == 17, len(left.nodes)
        await store.aclear()
        await store._store.close()

    from elasticsearch import Elasticsearch

    Elasticsearch(URL, request_timeout=120).options(ignore_status=404).indices.delete(index="t-llama")
    asyncio.run(run())
    Elasticsearch(URL, request_timeout=120).options(ignore_status=404).indices.delete(index="t-llama")


failed = False
for check in [langchain, haystack_elasticsearch, haystack_opensearch, llama_index]:
    try:
        check()
        print(f"{check.__name__}: ok")
    except Exception:
        import traceback

        failed = True
        traceback.print_exc()
        print(f"{check.__name__}: FAILED")
sys.exit(failed)
