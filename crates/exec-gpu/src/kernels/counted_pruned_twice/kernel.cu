// `pruned_twice`, with the bytes that it moves.
#include "counted.cuh"

#include "../pruned_twice/kernel.cu"
