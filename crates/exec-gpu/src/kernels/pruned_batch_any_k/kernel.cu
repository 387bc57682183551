// Pruning for batches of queries with any number of hits.
#include "pruned_tiles.cuh"

PRUNED(pruned_batch_any_k, false, 28)
