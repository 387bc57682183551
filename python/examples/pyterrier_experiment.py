# %% [markdown]
# # An experiment with PyTerrier
# Each topic is the beginning of a docstring; the relevant document is the function that it belongs
# to.

# %%
import pathlib

from corpus import docstrings

try:
    import matplotlib.pyplot as plt
    import pandas as pd
    import pyterrier as pt
except ImportError as missing:
    print(f"skipped: {missing}")
    raise SystemExit(0)

from warpseek.pyterrier import WarpseekIndex

documents = [{"docno": d["id"], "text": d["text"]} for d in docstrings()]
index = WarpseekIndex.build(documents)

chosen = documents[::97][:200]
words = lambda text, n: " ".join("".join(c if c.isalnum() else " " for c in text).split()[:n])  # noqa: E731
topics = pd.DataFrame([{"qid": str(i), "query": words(d["text"], 6)} for i, d in enumerate(chosen)])
qrels = pd.DataFrame([{"qid": str(i), "docno": d["docno"], "label": 1} for i, d in enumerate(chosen)])

# %% [markdown]
# Systems are pipelines. PyTerrier passes a cutoff after the retriever to the index, which then
# searches for fewer hits.

# %%
systems = {f"b = {b}": index.retriever(k1=0.9, b=b) % 10 for b in (0.0, 0.4, 0.75, 1.0)}
table = pt.Experiment(list(systems.values()), topics, qrels, ["recip_rank", "recall_10"], names=list(systems))
print(table)
assert table["recip_rank"].max() > 0.5

# %%
axes = table.plot.bar(x="name", y=["recip_rank", "recall_10"], rot=0)
axes.set_xlabel("how much the length of a document counts")
plt.tight_layout()
plt.savefig(pathlib.Path("pyterrier_experiment.png"))
