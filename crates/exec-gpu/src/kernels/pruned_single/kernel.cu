// A query alone, with pruning, in one pass.
#include "pruned_single.cuh"

ALONE(pruned_single, 1)
