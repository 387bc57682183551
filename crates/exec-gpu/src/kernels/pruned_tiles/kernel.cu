// Pruning for batches of queries with at most 32 hits each.
#include "pruned_tiles.cuh"

PRUNED(pruned_tiles, true, 32)
