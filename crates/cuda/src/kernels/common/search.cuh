// Searches in ascending numbers.
#pragma once

#include "types.cuh"

// Searches for N targets at a time, so that N loads are in flight: `from[j]` becomes the first
// index in `from[j]..to[j]` whose number is at least the target, or `to[j]` if there is none.
// Returns `from[0]`.
template <uint32_t N>
__device__ __forceinline__ uint32_t search(const uint32_t* numbers, const uint32_t* targets, uint32_t* from, const uint32_t* to) {
    uint32_t left[N], most = 0;
#pragma unroll
    for (uint32_t j = 0; j < N; j++) {
        left[j] = to[j] - from[j];
        most = left[j] > most ? left[j] : most;
    }
    // Every step at least halves every range, so all of them are empty once the longest would be.
    for (; most > 0; most /= 2) {
#pragma unroll
        for (uint32_t j = 0; j < N; j++) {
            uint32_t half = left[j] / 2;
            if (left[j] > 0 && numbers[from[j] + half] < targets[j]) {
                from[j] += half + 1;
                left[j] -= half + 1;
            } else {
                left[j] = half;
            }
        }
    }
    return from[0];
}

// Returns the first index in `from..to` whose number is at least `target`, or `to`. All lanes of
// a warp call this with the same arguments. Each step divides the range by 32.
__device__ __forceinline__ uint32_t warp_search(const uint32_t* numbers, uint32_t from, uint32_t to, uint32_t target) {
    while (to > from) {
        uint32_t part = (to - from + WARP - 1) / WARP;
        // The last number of each part; parts beyond the end count as not smaller than the target.
        uint32_t last = from + (lane_id() + 1) * part - 1;
        uint32_t smaller = __popc(__ballot_sync(FULL_WARP, last < to && numbers[last] < target));
        from += smaller * part;
        if (part == 1) break;
        uint32_t end = from + part;
        if (end < to) to = end;
    }
    return from;
}
