# %% [markdown]
# # A first search
# An index is built from any iterable of documents, and searched. Nothing else is needed.

# %%
from corpus import docstrings

import warpseek

index = warpseek.Index.build(docstrings())
print(index)

# %% [markdown]
# The best hits, each with the part of the text that shows the query's words. In a notebook, `hits`
# alone shows a table.

# %%
hits = index.search("split a string by a regular expression", k=5)
for hit in hits:
    print(f"{hit.score:7.3f}  {hit.id:40}  {hit.snippet(60)}")
assert len(hits) == 5

# %% [markdown]
# Why is the first hit the best one?

# %%
for term in hits[0].explain()["terms"]:
    print(f"{term['term']:12} in {term['documents']:5} documents: {term['score']:.3f}")

# %% [markdown]
# Documents can be added and deleted. A commit makes changes durable and visible to searches.

# %%
index.add({"id": "mine", "text": "How to split a string by hand"})
index.delete(hits[0].id)
print(index.commit())
assert "mine" in index.search("split a string by hand").ids and hits[0].id not in index
