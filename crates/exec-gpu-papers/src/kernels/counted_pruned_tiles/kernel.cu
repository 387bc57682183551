// `pruned_tiles`, counting the bytes that it moves.
#include "counted.cuh"

#include "../pruned_tiles/kernel.cu"
