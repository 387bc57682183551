// Prefix sums over the lanes of a warp and the threads of a block.
#pragma once

#include "types.cuh"

// Returns the sum of `value` over this lane and the lanes before it. All lanes must take part.
template <class T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        T before = __shfl_up_sync(FULL_WARP, value, distance);
        if (lane_id() >= distance) value += before;
    }
    return value;
}

#ifndef EMULATED
// Returns the same sum in fewer instructions. The shuffle instruction itself reports whether it
// had a lane to read from, which saves a selection per step.
__device__ __forceinline__ uint32_t warp_inclusive_sum(uint32_t value) {
#pragma unroll
    for (uint32_t distance = 1; distance < WARP; distance *= 2)
        asm volatile("{ .reg .u32 before; .reg .pred has; shfl.sync.up.b32 before|has, %0, %1, 0, 0xffffffff; @has add.u32 %0, %0, before; }"
                     : "+r"(value)
                     : "r"(distance));
    return value;
}
#endif

// Returns the sum of `value` over the threads before this one; `total` becomes the sum of the
// block. All threads must take part, and there must be a whole number of warps. `scratch` is
// shared memory for 32 values; it can be reused after the next barrier.
template <class T>
__device__ __forceinline__ T block_exclusive_sum(T value, T* scratch, T& total) {
    T inclusive = warp_inclusive_sum(value);
    if (lane_id() == WARP - 1) scratch[warp_id()] = inclusive;
    __syncthreads();
    uint32_t warps = blockDim.x / WARP;
    if (warp_id() == 0) {
        T sum = warp_inclusive_sum(lane_id() < warps ? scratch[lane_id()] : T(0));
        if (lane_id() < warps) scratch[lane_id()] = sum;
    }
    __syncthreads();
    total = scratch[warps - 1];
    return inclusive - value + (warp_id() > 0 ? scratch[warp_id() - 1] : T(0));
}
