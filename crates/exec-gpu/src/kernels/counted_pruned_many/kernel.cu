// `pruned_many`, with the bytes that it moves.
#include "counted.cuh"

#include "../pruned_many/kernel.cu"
