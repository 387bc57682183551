"""Tools that are used together with an index. Each one that is not installed is skipped by name."""

import json

import numpy as np
import pytest

import warpseek
from warpseek import Index
from warpseek.bm25s import BM25
from warpseek.pyserini import LuceneSearcher


def test_pyserini_style(scifact, scifact_index):
    searcher = LuceneSearcher(scifact_index.path)
    assert searcher.num_docs == len(scifact.documents)
    hits = searcher.search(scifact.queries[0], k=5)
    direct = scifact_index.search(scifact.queries[0], 5)
    assert [(h.docid, h.score) for h in hits] == list(zip(direct.ids, direct.scores.tolist()))
    stored = json.loads(hits[0].lucene_document.get("raw"))
    assert stored["id"] == hits[0].docid
    assert searcher.doc(hits[0].docid).contents() == "\n".join([stored["title"], stored["text"]])
    assert searcher.doc("no such id") is None
    batch = searcher.batch_search(scifact.queries[:4], scifact.query_ids[:4], k=5, threads=2)
    assert [h.docid for h in batch[scifact.query_ids[0]]] == direct.ids
    searcher.set_bm25(1.2, 0.75)
    assert searcher.search(scifact.queries[0])[0].score == scifact_index.search(scifact.queries[0], k1=1.2, b=0.75)[0].score


#: Queries that users type and that the query syntax would refuse or misunderstand.
TYPED = ["what is apple (", 'pie" -', "note: apple", "apple AND )", "10^-3 apple", "apple^0"]
DOCUMENTS = [{"id": "a", "text": "an apple pie"}, {"id": "b", "text": "plum tart"}]
TITLED = {"text": [{"name": "title"}, {"name": "text"}]}


@pytest.fixture(params=["plain", "schema", "positions"])
def typed_index(request):
    options = {"plain": {}, "schema": {"schema": TITLED}, "positions": {"positions": True}}
    return Index.build(DOCUMENTS, **options[request.param])


def test_pyserini_style_takes_what_people_type(typed_index):
    searcher = LuceneSearcher(typed_index)
    assert [[hit.docid for hit in searcher.search(query)] for query in TYPED] == [["a"]] * len(TYPED)
    batch = searcher.batch_search(TYPED, [str(i) for i in range(len(TYPED))])
    assert [[hit.docid for hit in hits] for hits in batch.values()] == [["a"]] * len(TYPED)
    # Weights are words too.
    assert searcher.search("apple^2")[0].score == searcher.search("apple 2")[0].score
    with_syntax = LuceneSearcher(typed_index, syntax=True)
    assert [hit.docid for hit in with_syntax.search("+tart -apple")] == ["b"]
    with pytest.raises(warpseek.QueryError):
        with_syntax.search("apple (")


def test_haystack_takes_what_people_type(typed_index):
    pytest.importorskip("haystack")
    from warpseek.haystack import WarpseekRetriever

    retriever = WarpseekRetriever(typed_index)
    assert [[d.id for d in retriever.run(query)["documents"]] for query in TYPED] == [["a"]] * len(TYPED)
    with_syntax = WarpseekRetriever(typed_index, syntax=True)
    assert [d.id for d in with_syntax.run("+tart -apple")["documents"]] == ["b"]
    assert WarpseekRetriever.from_dict(with_syntax.to_dict()).syntax is True


def test_langchain_takes_what_people_type(typed_index):
    pytest.importorskip("langchain_core")
    from warpseek.langchain import WarpseekRetriever

    retriever = WarpseekRetriever(index=typed_index)
    assert [[d.id for d in retriever.invoke(query)] for query in TYPED] == [["a"]] * len(TYPED)
    for with_syntax in ({"syntax": True}, {"options": {"syntax": True}}):
        found = WarpseekRetriever(index=typed_index, **with_syntax).invoke("+tart -apple")
        assert [d.id for d in found] == ["b"]


def test_llama_index_takes_what_people_type(typed_index):
    pytest.importorskip("llama_index.core")
    from warpseek.llama_index import WarpseekRetriever

    retriever = WarpseekRetriever(typed_index)
    assert [[n.node.node_id for n in retriever.retrieve(query)] for query in TYPED] == [["a"]] * len(TYPED)
    found = WarpseekRetriever(typed_index, syntax=True).retrieve("+tart -apple")
    assert [n.node.node_id for n in found] == ["b"]


def test_vectors_keep_their_weights():
    index = Index.build([{"apple": 1.0}], vectors=True)
    once, twice = (LuceneSearcher(index).search(query)[0].score for query in ("apple", "apple^2"))
    assert twice == pytest.approx(2 * once)


def test_contents_are_content():
    index = Index.build([{"id": "a", "contents": '"Pies"\nan apple pie'}])
    assert LuceneSearcher(index).doc("a").contents() == '"Pies"\nan apple pie'
    pytest.importorskip("langchain_core")
    from warpseek.langchain import WarpseekRetriever

    found = WarpseekRetriever(index=index).invoke("pies")
    assert [document.page_content for document in found] == ['"Pies"\nan apple pie']


@pytest.mark.parametrize("method", ["lucene", "robertson"])
def test_bm25s_style(scifact, method):
    bm25s = pytest.importorskip("bm25s")
    texts = [d["title"] + " " + d["text"] for d in scifact.documents]
    tokens = bm25s.tokenize(texts, stopwords="en", show_progress=False)
    theirs = bm25s.BM25(method=method)
    theirs.index(tokens, show_progress=False)
    ours = BM25(method=method)
    ours.index(tokens)
    queries = bm25s.tokenize(scifact.queries[:100], stopwords="en", show_progress=False, return_ids=False)
    their_documents, their_scores = theirs.retrieve(queries, k=10, show_progress=False)
    documents, scores = ours.retrieve(queries, k=10)
    assert documents.shape == scores.shape == (100, 10)
    # bm25s adds scores in single precision.
    assert np.allclose(scores, their_scores, rtol=1e-4)
    assert np.allclose(ours.get_scores(queries[0]), theirs.get_scores(queries[0]), rtol=1e-4)
    same = np.mean([len(set(a) & set(b)) for a, b in zip(documents, their_documents)])
    assert same > 9.9


def test_bm25s_style_edges():
    retriever = BM25(corpus=["first", "second", "third"])
    with pytest.raises(ValueError, match="no index"):
        retriever.retrieve([["a"]])
    retriever.index([["a", "b"], ["b"], ["c"]])
    documents, scores = retriever.retrieve([["b"], ["nothing"]], k=3)
    assert documents.tolist() == [["second", "first", "third"], ["first", "second", "third"]]
    assert scores[1].tolist() == [0, 0, 0]
    masked = retriever.retrieve([["b"]], k=1, weight_mask=[1, 0, 1], return_as="documents")
    assert masked.tolist() == [["first"]]
    with pytest.raises(ValueError, match="ask for fewer"):
        retriever.retrieve([["b"]], k=4)
    with pytest.raises(ValueError, match="white space"):
        retriever.index([["a b"]])
    with pytest.raises(ValueError, match="'bm25l' of bm25s is not supported here; there are: lucene, robertson"):
        BM25(method="bm25l")
    with pytest.raises(ValueError, match="method is 'magic'"):
        BM25(method="magic")
    with pytest.raises(ValueError, match="idf_method"):
        BM25(idf_method="atire")


def test_bm25s_style_takes_what_bm25s_takes():
    bm25s = pytest.importorskip("bm25s")
    corpus = [("first", 1), ("second", 2), ("third", 3)]
    of_texts = bm25s.tokenize(["apple plum", "plum", ""], stopwords=None, show_progress=False)
    queries = bm25s.tokenize(["plum", "pear"], stopwords=None, show_progress=False)
    options = dict(k=2, sorted=False, show_progress=False, leave_progress=True, n_threads=2)
    options |= dict(chunksize=7, backend_selection="numpy", return_as="tuple")
    retrievers = [kind(1.2, 0.75, 0.5, "lucene", backend="numpy") for kind in (BM25, bm25s.BM25)]
    found = []
    for retriever in retrievers:
        retriever.index(of_texts, True, False, False)
        found.append(retriever.retrieve(queries, None, **options))
    assert set(found[0].documents[0].tolist()) == set(found[1].documents[0].tolist())
    with pytest.raises(ValueError, match="backend_selection is 'gpu'"):
        retrievers[0].retrieve(queries, k=1, backend_selection="gpu")
    shown = retrievers[0].retrieve(queries, corpus, 1).documents
    assert shown[0, 0] == ("second", 2)
    # A pair of numbers and their vocabulary, and numbers alone.
    pair = BM25()
    pair.index((of_texts.ids, of_texts.vocab))
    number = of_texts.vocab["plum"]
    assert pair.retrieve([[number]], k=1).documents.tolist() == [[1]]
    numbers = BM25()
    numbers.index([[7, 8], [8], [9]])
    assert numbers.retrieve([[8], [9]], k=1).documents.tolist() == [[1], [2]]


def test_bm25s_style_is_saved(tmp_path):
    retriever = BM25(k1=1.2, method="robertson", corpus=["first", {"n": 2}])
    retriever.index(([[0], [1]], {"a": 0, "b": 1}))
    before = retriever.retrieve([[1]], k=2)
    for _ in range(2):
        retriever.save(tmp_path / "saved")
    plain = BM25.load(tmp_path / "saved")
    assert plain.retrieve([[1]], k=2).documents.tolist() == [[1, 0]]
    again = BM25.load(tmp_path / "saved", load_corpus=True, mmap=False)
    after = again.retrieve([[1]], k=2)
    assert after.scores.tolist() == before.scores.tolist()
    assert after.documents.tolist() == [[{"n": 2}, {"id": 0, "text": "first"}]]
    # Saving into the folder of the loaded index, without a corpus.
    again.corpus = None
    again.save(tmp_path / "saved")
    assert BM25.load(tmp_path / "saved", load_corpus=True).corpus is None


def test_ir_measures_and_ranx(scifact, scifact_index):
    results = scifact_index.search_many(scifact.queries, 100)
    run = results.run(scifact.query_ids)
    qrels = warpseek.as_qrels(scifact.qrels_file)
    ours = warpseek.evaluate(run, qrels, ["ndcg@10", "map", "mrr"])
    ir_measures = pytest.importorskip("ir_measures")
    theirs = ir_measures.calc_aggregate([ir_measures.nDCG @ 10, ir_measures.AP, ir_measures.RR], qrels, run)
    assert ours["ndcg@10"] == pytest.approx(theirs[ir_measures.nDCG @ 10], abs=1e-9)
    assert ours["map"] == pytest.approx(theirs[ir_measures.AP], abs=1e-9)
    frame = results.to_pandas(scifact.query_ids)
    assert ir_measures.calc_aggregate([ir_measures.AP], qrels, frame) == {ir_measures.AP: theirs[ir_measures.AP]}
    assert warpseek.evaluate(frame, qrels, ["map"])["map"] == ours["map"]
    ranx = pytest.importorskip("ranx")
    judged = {q: {d: g for d, g in grades.items()} for q, grades in qrels.items()}
    there = ranx.evaluate(ranx.Qrels(judged), ranx.Run(run), "mrr", make_comparable=True)
    # ranx orders documents with equal scores differently.
    assert ours["mrr"] == pytest.approx(float(there), abs=1e-5)
    assert warpseek.evaluate(ranx.Run(run), ranx.Qrels(judged), ["map"])["map"] == pytest.approx(ours["map"])


def test_ir_datasets_style():
    class Doc:
        def __init__(self, doc_id, text):
            self.doc_id, self.text = doc_id, text

        def default_text(self):
            return self.text

    class Dataset:
        def docs_iter(self):
            return iter([Doc("a", "apple pie"), Doc("b", "plum")])

    assert Index.build(Dataset()).search("plum").ids == ["b"]
    assert Index.build(Dataset().docs_iter()).search("pie").ids == ["a"]


def test_evaluation_refuses_what_it_cannot_judge():
    with pytest.raises(warpseek.EvaluationError):
        warpseek.evaluate({}, {}, ["magic"])
    with pytest.raises(warpseek.OptionsError, match="finite"):
        warpseek.evaluate({"q": {"d": float("nan")}}, {"q": {"d": 1}})
    with pytest.raises(warpseek.EvaluationError):
        warpseek.evaluate("/nowhere", {})


def test_evaluation_ignores_missing_queries_as_trec_eval_does_and_says_so():
    run, qrels = {"q": {"d": 1.0}, "r": {"d": 1.0}}, {"q": {"d": 1}, "p": {"d": 1}}
    with pytest.warns(UserWarning, match="1 of 2 judged queries have no hits"):
        answered = warpseek.evaluate(run, qrels, ["mrr"])
    assert answered == {"mrr": 1.0} and (answered.queries, answered.missing, answered.unjudged) == (1, 1, 1)
    complete = warpseek.evaluate(run, qrels, ["mrr"], complete=True)
    assert complete == {"mrr": 0.5} and complete.per_query["p"] == {"mrr": 0.0}
    assert (complete.queries, complete.missing) == (2, 1)
