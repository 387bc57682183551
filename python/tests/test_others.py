"""Tools that are used together with an index, each skipped by name if it is not installed."""

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


def test_bm25s_style(scifact):
    bm25s = pytest.importorskip("bm25s")
    texts = [d["title"] + " " + d["text"] for d in scifact.documents]
    tokens = bm25s.tokenize(texts, stopwords="en", show_progress=False)
    theirs = bm25s.BM25(method="lucene")
    theirs.index(tokens, show_progress=False)
    ours = BM25(method="lucene")
    ours.index(tokens)
    queries = bm25s.tokenize(scifact.queries[:100], stopwords="en", show_progress=False, return_ids=False)
    their_documents, their_scores = theirs.retrieve(queries, k=10, show_progress=False)
    documents, scores = ours.retrieve(queries, k=10)
    assert documents.shape == scores.shape == (100, 10)
    # Their scores are sums of single precision.
    assert np.allclose(scores, their_scores, rtol=1e-4)
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
    with pytest.raises(ValueError, match="no token"):
        retriever.index([["a b"]])


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
    judged = {q: {d: g for d, g in of.items()} for q, of in qrels.items()}
    there = ranx.evaluate(ranx.Qrels(judged), ranx.Run(run), "mrr", make_comparable=True)
    # It has another order of documents with equal scores.
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
    answered = warpseek.evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}, "p": {"d": 1}}, ["mrr"])
    assert answered == {"mrr": 0.5} and answered.per_query["p"] == {"mrr": 0.0}
    assert warpseek.evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}, "p": {"d": 1}}, ["mrr"], complete=False)["mrr"] == 1.0
