// `pruned_single`, counting the bytes that it moves.
#include "counted.cuh"

#include "../pruned_single/kernel.cu"
