// Pruning for a single query, in one pass.
#include "pruned_single.cuh"

ALONE(pruned_single, 1)
