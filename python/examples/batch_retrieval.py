# %% [markdown]
# # Passages for 10,000 questions
# One call answers all queries, with all threads or on a GPU. The hits are flat NumPy arrays.

# %%
import random
import time

from corpus import docstrings

import warpseek

documents = list(docstrings())
index = warpseek.Index.build(documents)
chance = random.Random(1)
questions = [" ".join(chance.sample(chance.choice(documents)["text"].split()[:60] + ["what", "how"], 2)) for _ in range(10_000)]

# %%
start = time.perf_counter()
results = index.search_many(questions, k=10)
seconds = time.perf_counter() - start
print(f"{results} in {seconds:.2f} s")
ids, scores, offsets = results.arrays()
assert len(offsets) == 10_001 and offsets[-1] == len(ids) == len(scores)

# %% [markdown]
# The hits of one question, and the mean of the best scores.

# %%
number = 42
for id, score in results[number][:3]:
    print(f"{questions[number]!r}: {id} {score:.3f}")
first = offsets[:-1][offsets[1:] > offsets[:-1]]
print(f"mean of the best scores: {scores[first].mean():.3f}")

# %% [markdown]
# Runs for evaluation tools: `results.run(ids)`, `results.save("run.trec", ids)`,
# `results.to_pandas(ids)`, `results.to_arrow()`.

# %%
run = results.run()
assert len(run) == 10_000 and run[str(number)]
