# %% [markdown]
# # On a GPU
# A GPU returns the same hits as the CPU, bit for bit. `device="auto"` uses it for batches that it
# answers faster.

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
# Without a GPU, `device="cuda"` raises an exception with the reason; `"auto"` uses the CPU and
# gives the reason in `status`.

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
