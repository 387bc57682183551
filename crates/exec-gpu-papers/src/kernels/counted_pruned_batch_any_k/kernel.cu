// `pruned_batch_any_k`, counting the bytes that it moves.
#include "counted.cuh"

#include "../pruned_batch_any_k/kernel.cu"
