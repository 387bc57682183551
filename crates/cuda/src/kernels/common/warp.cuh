// Reductions over all lanes of a warp. `__reduce_*_sync` is one instruction from sm_80 on and
// does not exist before.
#pragma once

#include "types.cuh"

template <class F>
__device__ __forceinline__ uint32_t warp_fold_by_shuffles(uint32_t value, F f) {
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) value = f(value, __shfl_xor_sync(FULL_WARP, value, distance));
    return value;
}

struct Sum {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};
struct Min {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a < b ? a : b; }
};
struct Max {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a < b ? b : a; }
};
struct Or {
    __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a | b; }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define WARP_FOLD(name, f, instruction) \
    __device__ __forceinline__ uint32_t name(uint32_t value) { return warp_fold_by_shuffles(value, f()); }
#else
#define WARP_FOLD(name, f, instruction) \
    __device__ __forceinline__ uint32_t name(uint32_t value) { return instruction(FULL_WARP, value); }
#endif

WARP_FOLD(warp_sum, Sum, __reduce_add_sync)
WARP_FOLD(warp_min, Min, __reduce_min_sync)
WARP_FOLD(warp_max, Max, __reduce_max_sync)
WARP_FOLD(warp_or, Or, __reduce_or_sync)
