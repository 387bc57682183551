// Parallel Merge Find (Ding et al. §7): for every number of A, how many of B are smaller. A thread searches for one number, alone in all of B, or, in the
// recursive form, between the places of the two splitters around it, which were found in the same way among coarser splitters. Both ascend strictly.
#include "search.cuh"

constexpr uint32_t AT_ONCE = 4;

// Where in B the number `i` of A lies at most, given the places of every `step`th number of A; without splitters, anywhere.
__device__ __forceinline__ void range_of(const uint32_t* places, uint32_t known, uint32_t step, uint32_t i, uint32_t n, uint32_t& from, uint32_t& to) {
    from = 0, to = n;
    if (known == 0) return;
    uint32_t segment = i / step;
    from = places[segment];
    if (segment + 1 < known) to = places[segment + 1];
}

// The places of every `step`th number of A, from those of every `coarse_step`th.
extern "C" __global__ void merge_find_splitters(const uint32_t* __restrict__ a, uint32_t m, uint32_t step, const uint32_t* __restrict__ b, uint32_t n,
                                                const uint32_t* __restrict__ coarse, uint32_t known, uint32_t coarse_step, uint32_t* __restrict__ places) {
    uint64_t i = uint64_t(blockIdx.x * blockDim.x + threadIdx.x) * step;
    if (i >= m) return;
    uint32_t from, to;
    range_of(coarse, known, coarse_step, uint32_t(i), n, from, to);
    places[i / step] = search<1>(b, a + i, &from, &to);
}

// A bit for every number of A: whether B has it. A thread searches for four numbers at a time, so that four loads are under way.
extern "C" __global__ void merge_find_matches(const uint32_t* __restrict__ a, uint32_t m, const uint32_t* __restrict__ b, uint32_t n,
                                              const uint32_t* __restrict__ places, uint32_t known, uint32_t step, uint32_t* __restrict__ bits) {
    uint32_t first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x;
    uint32_t target[AT_ONCE], from[AT_ONCE], to[AT_ONCE];
#pragma unroll
    for (uint32_t j = 0; j < AT_ONCE; j++) {
        uint32_t i = first + j * blockDim.x;
        from[j] = to[j] = n, target[j] = 0;
        if (i < m) {
            target[j] = a[i];
            range_of(places, known, step, i, n, from[j], to[j]);
        }
    }
    search<AT_ONCE>(b, target, from, to);
#pragma unroll
    for (uint32_t j = 0; j < AT_ONCE; j++) {
        uint32_t i = first + j * blockDim.x;
        uint32_t word = __ballot_sync(FULL_WARP, from[j] < n && b[from[j]] == target[j]);
        if (lane_id() == 0 && i < m) bits[i / 32] = word;
    }
}
