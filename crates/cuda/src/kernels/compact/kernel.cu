// Keeps, in order, the values whose bits are set. A warp processes a tile of 32 words of bits,
// one word per lane. Between the two steps, prefix sums replace the counts of the tiles. The
// number of values may be in device memory, so that the host need not wait for it.
#include "scan.cuh"
#include "warp.cuh"

constexpr uint32_t TILE = 1024;

// Returns a lane's word of a tile; bits beyond the last value count as 0.
__device__ __forceinline__ uint32_t word_of(const uint32_t* bits, uint32_t tile, uint32_t count) {
    uint32_t first = tile * TILE + lane_id() * 32;
    if (first >= count) return 0;
    uint32_t word = bits[first / 32];
    return count - first < 32 ? word & ((1u << (count - first)) - 1) : word;
}

// Returns the number of values: all `len` values without a count in memory.
__device__ __forceinline__ uint32_t values_of(const uint32_t* count, uint32_t len) { return count != nullptr && *count < len ? *count : len; }

extern "C" __global__ void compact_counts(const uint32_t* __restrict__ bits, const uint32_t* __restrict__ count, uint32_t len,
                                          uint32_t* __restrict__ counts, uint32_t tiles) {
    uint32_t tile = blockIdx.x * (blockDim.x / WARP) + warp_id();
    if (tile >= tiles) return;
    uint32_t sum = warp_sum(__popc(word_of(bits, tile, values_of(count, len))));
    if (lane_id() == 0) counts[tile] = sum;
}

// Writes up to three arrays at once; an unused array has address 0.
extern "C" __global__ void compact_write(const uint32_t* __restrict__ bits, const uint32_t* __restrict__ count, uint32_t len,
                                         const uint32_t* __restrict__ starts, uint32_t tiles, const uint32_t* __restrict__ a, uint32_t* __restrict__ out_a, const uint32_t* __restrict__ b,
                                         uint32_t* __restrict__ out_b, const uint32_t* __restrict__ c, uint32_t* __restrict__ out_c) {
    uint32_t tile = blockIdx.x * (blockDim.x / WARP) + warp_id();
    if (tile >= tiles) return;
    uint32_t mine = word_of(bits, tile, values_of(count, len));
    uint32_t before = starts[tile] + warp_inclusive_sum(__popc(mine)) - __popc(mine);
    // Words without bits cost nothing, and an intersection keeps few values.
    for (uint32_t some = __ballot_sync(FULL_WARP, mine != 0); some != 0; some &= some - 1) {
        uint32_t from = __ffs(some) - 1;
        uint32_t word = __shfl_sync(FULL_WARP, mine, from);
        uint32_t to = __shfl_sync(FULL_WARP, before, from) + __popc(word & ((1u << lane_id()) - 1));
        if ((word >> lane_id() & 1) == 0) continue;
        uint32_t at = tile * TILE + from * 32 + lane_id();
        out_a[to] = a[at];
        if (out_b != nullptr) out_b[to] = b[at];
        if (out_c != nullptr) out_c[to] = c[at];
    }
}
