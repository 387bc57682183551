// Finds, for every element, the run that contains it: a merge of the positions 0, 1, 2... with
// the ascending starts of the runs. A warp processes SEGMENT consecutive elements, whatever runs
// they are in. No run is empty, so at most as many runs as elements begin in a segment, and all
// warps have about the same work.
#include "search.cuh"
#include "warp.cuh"

constexpr uint32_t SEGMENT = 1024;

// Returns the number in memory or, without one, the length of the buffer.
__device__ __forceinline__ uint32_t number_of(const uint32_t* number, uint32_t room) { return number != nullptr && *number < room ? *number : room; }

extern "C" __global__ void load_balance_runs(const uint32_t* __restrict__ starts, const uint32_t* __restrict__ runs, uint32_t most_runs,
                                             const uint32_t* __restrict__ elements, uint32_t most_elements, uint32_t* __restrict__ out) {
    const uint32_t k = number_of(runs, most_runs), n = number_of(elements, most_elements);
    const uint32_t first = (blockIdx.x * (blockDim.x / WARP) + warp_id()) * SEGMENT;
    if (k == 0 || first >= n) return;
    const uint32_t end = n - first < SEGMENT ? n : first + SEGMENT;
    uint32_t begun = warp_search(starts, 0, k, first);
    const uint32_t up_to_here = FULL_WARP >> (WARP - 1 - lane_id());
    for (uint32_t at = first; at < end; at += WARP) {
        // Runs that begin among the next 32 elements: a bit for each. All that begin before are
        // counted already.
        const uint32_t start = begun + lane_id() < k ? starts[begun + lane_id()] : FULL_WARP, distance = start - at;
        const uint32_t begin = warp_or(distance < WARP ? 1u << distance : 0);
        const uint32_t run = begun + __popc(begin & up_to_here);
        // At least one run has begun, unless the first does not begin at 0.
        if (at + lane_id() < end) out[at + lane_id()] = run > 0 ? run - 1 : 0;
        begun += __popc(begin);
    }
}
