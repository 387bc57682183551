"""PyTerrier, without Java."""

import pytest

pt = pytest.importorskip("pyterrier")
pd = pytest.importorskip("pandas")

from warpseek.pyterrier import WarpseekIndex, WarpseekRetriever  # noqa: E402


@pytest.fixture(scope="module")
def index(scifact, tmp_path_factory):
    documents = ({"docno": d["id"], "title": d["title"], "text": d["text"]} for d in scifact.documents)
    return WarpseekIndex(tmp_path_factory.mktemp("pt") / "artifact").index(documents)


@pytest.fixture(scope="module")
def topics(scifact):
    return pd.DataFrame({"qid": scifact.query_ids, "query": scifact.queries})


@pytest.fixture(scope="module")
def qrels(scifact):
    rows = [line.split("\t") for line in scifact.qrels_file.read_text().splitlines()]
    return pd.DataFrame([{"qid": r[0], "docno": r[-2], "label": int(r[-1])} for r in rows])


class TestRetriever(pt.testing.TransformerTestCase):
    @staticmethod
    def get_transformer():
        return WarpseekIndex.build([{"docno": "a", "text": "apple"}]).retriever()


def test_results_are_those_of_the_index(index, topics, scifact_index):
    asked = topics.head(20).assign(mark=range(20))
    found = index.retriever(num_results=30)(asked)
    assert {"qid", "query", "mark", "docno", "score", "rank"} == set(found.columns)
    expected = scifact_index.search_many(asked["query"], 30)
    assert found["docno"].tolist() == expected.ids.tolist()
    assert found["score"].tolist() == expected.scores.tolist()
    assert found.groupby("qid")["rank"].min().tolist() == [0] * 20
    assert found[found["qid"] == asked["qid"][3]]["mark"].unique().tolist() == [3]


def test_no_queries_have_the_columns(index):
    empty = pd.DataFrame({"qid": [], "query": []})
    found = index.retriever()(empty)
    assert len(found) == 0 and {"qid", "query", "docno", "score", "rank"} <= set(found.columns)
    nothing = index.retriever()(pd.DataFrame([{"qid": "1", "query": "nosuchword"}]))
    assert len(nothing) == 0 and "docno" in nothing.columns
    with pytest.raises(pt.validate.InputValidationError):
        index.retriever()(pd.DataFrame([{"qid": "1"}]))


def test_tokens_with_weights(index):
    asked = pd.DataFrame([{"qid": "1", "query_toks": {"gene": 2.0, "cell": 1.0}}])
    found = index.retriever(5)(asked)
    direct = index.open().search({"gene": 2.0, "cell": 1.0}, 5)
    assert found["docno"].tolist() == direct.ids and found["score"].tolist() == direct.scores.tolist()


@pytest.mark.parametrize("options", [{}, {"positions": True}])
def test_queries_are_words(options):
    documents = [{"docno": "a", "text": "an apple"}, {"docno": "b", "text": "plum tart"}]
    index = WarpseekIndex.build(documents, **options)
    asked = pd.DataFrame({"qid": ["1", "2", "3"], "query": ["apple (", "note: apple -", "10^-3 apple"]})
    assert index.retriever()(asked)["docno"].tolist() == ["a"] * 3
    signs = pd.DataFrame({"qid": ["1"], "query": ["+tart -apple"]})
    assert index.retriever(syntax=True)(signs)["docno"].tolist() == ["b"]


def test_a_cutoff_is_fused(index, topics):
    retriever = index.retriever()
    fused = (retriever % 7).compile()
    assert isinstance(fused, WarpseekRetriever) and fused.num_results == 7
    assert fused(topics.head(3))["docno"].tolist() == (retriever(topics.head(3)).query("rank < 7"))["docno"].tolist()


def test_an_experiment(index, topics, qrels):
    table = pt.Experiment(
        [index.retriever(), index.retriever(k1=1.2, b=0.75)], topics, qrels, ["map", "ndcg_cut_10"], names=["a", "b"]
    )
    assert table["ndcg_cut_10"][0] == pytest.approx(0.682, abs=0.005)


def test_artifacts_are_loaded(index, scifact_index):
    assert index.built() and not WarpseekIndex(index.path / "none").built()
    again = WarpseekIndex.load(str(index.path))
    assert len(again.open()) == len(index.open())
    assert len(WarpseekIndex(scifact_index.path).open()) == len(scifact_index)
