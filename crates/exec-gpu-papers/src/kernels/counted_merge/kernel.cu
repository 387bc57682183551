// `merge`, counting the bytes that it moves.
#include "counted.cuh"

#include "../merge/kernel.cu"
