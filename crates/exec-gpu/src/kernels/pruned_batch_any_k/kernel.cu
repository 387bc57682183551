// Queries with pruning, of many hits.
#include "pruned_tiles.cuh"

PRUNED(pruned_batch_any_k, false, 28)
