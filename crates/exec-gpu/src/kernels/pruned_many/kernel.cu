// Queries with pruning, of many hits.
#include "pruned_tiles.cuh"

PRUNED(pruned_many, false, 28)
