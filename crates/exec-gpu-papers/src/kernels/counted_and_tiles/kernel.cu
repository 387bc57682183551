// `and_tiles`, counting the bytes that it moves.
#include "counted.cuh"

#include "../and_tiles/kernel.cu"
