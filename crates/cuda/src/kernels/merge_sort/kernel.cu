// Merge sort for numbers of 64 bits, which is also an example of how to use merge_sort.cuh.
#include "merge_sort.cuh"

struct Less {
    __device__ bool operator()(uint64_t a, uint32_t, uint64_t b, uint32_t) const { return a < b; }
};

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS) merge_sort_u64_tiles(uint64_t* keys, uint32_t* values, uint32_t len) {
    merge_sort_tiles(keys, values, len, Less{});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    merge_sort_u64_splits(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ values, uint32_t len, uint32_t run, uint32_t* __restrict__ splits) {
    merge_sort_splits(keys, values, len, run, splits, Less{});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    merge_sort_u64_merge(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ values, uint64_t* __restrict__ keys_out,
                         uint32_t* __restrict__ values_out, uint32_t len, uint32_t run, const uint32_t* __restrict__ splits) {
    merge_sort_merge(keys, values, keys_out, values_out, len, run, splits, Less{});
}
