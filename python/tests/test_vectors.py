"""Learned sparse vectors.

A score is the dot product, where every token adds up to one unit of the plan. All engines return
the same score.
"""

import random

import numpy as np
import pytest

import warpseek
from warpseek import Index

SCALE = 256


def splade_like(documents, seed=7):
    """Creates vectors as a learned model might: words with weights, and some words that are not in
    the text.
    """
    chance = random.Random(seed)
    words = sorted({word for document in documents for word in document["text"].lower().split()})
    vectors = []
    for document in documents:
        counts = {}
        for word in document["text"].lower().split():
            counts[word] = counts.get(word, 0) + 1
        vector = {w: 1.5 * n / (n + 0.9) + chance.random() * 0.3 for w, n in counts.items()}
        for word in chance.sample(words, 10):
            vector.setdefault(word, chance.random() * 0.4)
        vectors.append(vector)
    return vectors


#: Maximum difference between a score and the dot product.
UNITS = 1e-4


def product(vector, query):
    """Returns the dot product with the integer weights that an index stores."""
    return sum(int(np.floor(vector[t] * SCALE + 0.5)) * w for t, w in query.items() if t in vector) / SCALE


@pytest.fixture(scope="module")
def vectors(scifact):
    return splade_like(scifact.documents[:1500])


def test_dot_products_are_exact(vectors):
    index = Index.build(vectors, vectors=True, vector_scale=SCALE)
    assert index.facts["content"] == "vectors" and len(index) == len(vectors)
    chance = random.Random(3)
    queries = []
    for _ in range(40):
        vector = chance.choice(vectors)
        queries.append({t: chance.randrange(1, 16) / 4 for t in chance.sample(sorted(vector), min(12, len(vector)))})
    results = index.search_many(queries, 20)
    for query, hits in zip(queries, results):
        products = [product(vector, query) for vector in vectors]
        for id, score in hits:
            assert 0 <= score - products[int(id)] <= UNITS
        # No better document is missing.
        least, found = hits[-1][1], {int(id) for id, _ in hits}
        assert all(i in found or value <= least for i, value in enumerate(products))
        single = index.search(query, 20)
        assert list(zip(single.ids, single.scores.tolist())) == hits
    reference = Index.open(index.path, algorithm="reference").search_many(queries, 20)
    assert reference.ids.tolist() == results.ids.tolist() and (reference.scores == results.scores).all()
    named = [{"id": str(i), "vector": vector} for i, vector in enumerate(vectors)]
    again = Index.build(named).search_many(queries, 20)
    assert again.ids.tolist() == results.ids.tolist() and (again.scores == results.scores).all()


def test_matrices(vectors):
    sparse = pytest.importorskip("scipy.sparse")
    tokens = sorted({token for vector in vectors for token in vector})
    column = {token: i for i, token in enumerate(tokens)}
    entries = [(i, column[t], w) for i, vector in enumerate(vectors) for t, w in vector.items()]
    shape = (len(vectors), len(tokens))
    rows, columns, weights = zip(*entries)
    matrix = sparse.coo_matrix((weights, (rows, columns)), shape=shape)
    index = Index.build(vectors, vectors=True)
    queries = matrix.tocsr()[:30]
    expected = index.search_many([{t: w for t, w in v.items() if w} for v in vectors[:30]], 10)
    for build, ask in [({"vocabulary": tokens}, {"vocabulary": tokens}), ({}, {})]:
        results = Index.build(matrix, **build).search_many(queries, 10, **ask)
        assert results.ids.tolist() == expected.ids.tolist()
        assert (results.scores == expected.scores).all()
    ids = [f"d{i}" for i in range(len(vectors))]
    assert Index.build(matrix, ids=ids).search_many(queries, 1).ids[0] == "d0"
    with pytest.raises(warpseek.OptionsError, match="ids"):
        Index.build(matrix, ids=ids[:3])
    with pytest.raises(warpseek.OptionsError, match="token"):
        Index.build(matrix, vocabulary=tokens[:3])


def test_bad_vectors_are_refused():
    for bad in [{"a": float("nan")}, {"a": -1.0}, {"a": float("inf")}]:
        with pytest.raises(warpseek.DocumentError):
            Index.build([bad], vectors=True)
    with pytest.raises((TypeError, ValueError)):
        Index.build([{"a": "much"}], vectors=True)
    with pytest.raises(warpseek.DocumentError):
        Index.build([{"id": "1", "text": "apple"}, {"id": "2", "vector": {"a": 1.0}}])
