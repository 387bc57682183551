// `pruned_single_two_pass`, counting the bytes that it moves.
#include "counted.cuh"

#include "../pruned_single_two_pass/kernel.cu"
