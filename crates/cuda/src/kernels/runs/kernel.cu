// Finds the positions at which a new value begins in sorted arrays, in one launch that reads each
// array once: blocks learn by looking back (look_back.cuh) how many runs begin before their tile.
#include "look_back.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t ITEMS = 16;
constexpr uint32_t TILE = THREADS * ITEMS;

// Finds which of a warp's values differ from the value before them: a bit per lane for each of
// its ITEMS rows. `from` is the position of the lane's first value. The first value of all always
// counts as different.
__device__ __forceinline__ void add_changes(const uint32_t* __restrict__ values, uint32_t from, uint32_t len, uint32_t changes[ITEMS]) {
    uint32_t own[ITEMS];
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; i++) own[i] = from + i * WARP < len ? values[from + i * WARP] : 0;
    // The value before the warp's first one, for lane 0.
    uint32_t last = lane_id() == 0 && from > 0 && from < len ? values[from - 1] : 0;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t before = __shfl_up_sync(FULL_WARP, own[i], 1);
        if (lane_id() == 0) before = last;
        last = __shfl_sync(FULL_WARP, own[i], WARP - 1);
        changes[i] |= __ballot_sync(FULL_WARP, from + i * WARP < len && (own[i] != before || from + i * WARP == 0));
    }
}

// `b` may be 0. `counter` and a word of `states` for each tile are 0 before the launch. Starts
// beyond `room` are counted but not written.
extern "C" __global__ void __launch_bounds__(THREADS) runs_find(const uint32_t* __restrict__ a, const uint32_t* __restrict__ b, uint32_t len,
                                                                uint32_t tiles, uint32_t* __restrict__ starts, uint32_t room, uint32_t* __restrict__ count,
                                                                uint32_t* counter, uint32_t* states) {
    __shared__ uint32_t sums[WARPS + 1];
    const uint32_t tile = next_tile(counter), from = tile * TILE + warp_id() * WARP * ITEMS + lane_id();
    uint32_t changes[ITEMS] = {};
    add_changes(a, from, len, changes);
    if (b != nullptr) add_changes(b, from, len, changes);
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; i++) sum += __popc(changes[i]);
    if (lane_id() == 0) sums[warp_id()] = sum;
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t total = 0;
        for (uint32_t w = 0; w < WARPS; w++) total += sums[w];
        const uint32_t before = warp_look_back(states, tile, total);
        if (lane_id() == 0) {
            sums[WARPS] = before;
            if (tile + 1 == tiles) {
                *count = before + total;
                if (before + total < room) starts[before + total] = len;
            }
        }
    }
    __syncthreads();
    uint32_t to = sums[WARPS];
    for (uint32_t w = 0; w < warp_id(); w++) to += sums[w];
    const uint32_t lower = (1u << lane_id()) - 1;
#pragma unroll
    for (uint32_t i = 0; i < ITEMS; i++) {
        const uint32_t at = to + __popc(changes[i] & lower);
        if ((changes[i] >> lane_id() & 1) != 0 && at < room) starts[at] = from + i * WARP;
        to += __popc(changes[i]);
    }
}
