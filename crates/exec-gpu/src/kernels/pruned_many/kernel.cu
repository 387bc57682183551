// Many queries, with pruning, of any number of hits.
#include "pruned_tiles.cuh"

PRUNED(pruned_many, false, 28)
