// Queries with pruning, of up to 32 hits each.
#include "pruned_tiles.cuh"

PRUNED(pruned_tiles, true, 32)
