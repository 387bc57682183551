// `pruned_alone`, with the bytes that it moves.
#include "counted.cuh"

#include "../pruned_alone/kernel.cu"
