// A query alone, with pruning, in one pass.
#include "pruned_alone.cuh"

ALONE(pruned_alone, 1)
