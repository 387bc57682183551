# %% [markdown]
# # On a GPU
# The same index, the same hits, bit for bit. `device="auto"` takes the GPU for batches that it answers sooner.

# %%
import time

from corpus import docstrings

import warpseek

documents = list(docstrings())
index = warpseek.Index.build(documents)
queries = [" ".join(document["text"].split()[:5]) for document in documents]
start = time.perf_counter()
expected = index.search_many(queries)
print(f"CPU: {expected} in {time.perf_counter() - start:.2f} s")

# %% [markdown]
# Without a GPU, `device="cuda"` is an error that says why; `"auto"` goes on with the CPU and says why in `status`.

# %%
try:
    gpu = warpseek.Index.open(index.path, device="cuda").prepare()
except warpseek.DeviceError as error:
    print(f"no GPU: {error}")
    gpu = warpseek.Index.open(index.path, device="auto")

start = time.perf_counter()
results = gpu.search_many(queries)
print(f"{gpu.status['gpu'] or 'CPU'}: {results} in {time.perf_counter() - start:.2f} s")
assert (results.scores == expected.scores).all() and (results.numbers == expected.numbers).all()
