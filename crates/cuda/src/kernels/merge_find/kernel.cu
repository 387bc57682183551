// Parallel Merge Find (Ding 2009, section 7): finds, for every number of A, how many numbers of B
// are smaller. A thread searches for one number, either in all of B or, in the recursive form,
// between the positions of the two splitters around it, which were found in the same way among
// coarser splitters. Both lists ascend strictly.
#include "search.cuh"

constexpr uint32_t AT_ONCE = 4;

// Finds the range of B that can contain number `i` of A, given the positions of every `step`th
// number of A; all of B if there are no splitters.
__device__ __forceinline__ void range_of(const uint32_t* positions, uint32_t known, uint32_t step, uint32_t i, uint32_t n, uint32_t& from, uint32_t& to) {
    from = 0, to = n;
    if (known == 0) return;
    uint32_t segment = i / step;
    from = positions[segment];
    if (segment + 1 < known) to = positions[segment + 1];
}

// Finds the positions of every `step`th number of A, from those of every `coarse_step`th.
extern "C" __global__ void merge_find_splitters(const uint32_t* __restrict__ a, uint32_t m, uint32_t step, const uint32_t* __restrict__ b, uint32_t n,
                                                const uint32_t* __restrict__ coarse, uint32_t known, uint32_t coarse_step, uint32_t* __restrict__ positions) {
    uint64_t i = uint64_t(blockIdx.x * blockDim.x + threadIdx.x) * step;
    if (i >= m) return;
    uint32_t from, to;
    range_of(coarse, known, coarse_step, uint32_t(i), n, from, to);
    positions[i / step] = search<1>(b, a + i, &from, &to);
}

// Sets one bit for every number of A: whether B contains it. A thread searches for four numbers
// at a time, so that four loads are in flight.
extern "C" __global__ void merge_find_matches(const uint32_t* __restrict__ a, uint32_t m, const uint32_t* __restrict__ b, uint32_t n,
                                              const uint32_t* __restrict__ positions, uint32_t known, uint32_t step, uint32_t* __restrict__ bits) {
    uint32_t first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x;
    uint32_t target[AT_ONCE], from[AT_ONCE], to[AT_ONCE];
#pragma unroll
    for (uint32_t j = 0; j < AT_ONCE; j++) {
        uint32_t i = first + j * blockDim.x;
        from[j] = to[j] = n, target[j] = 0;
        if (i < m) {
            target[j] = a[i];
            range_of(positions, known, step, i, n, from[j], to[j]);
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
