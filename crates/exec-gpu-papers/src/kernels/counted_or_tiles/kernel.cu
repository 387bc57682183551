// `or_tiles`, counting the bytes that it moves.
#include "counted.cuh"

#include "../or_tiles/kernel.cu"
