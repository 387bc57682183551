// Exclusive prefix sums in three steps: sums of tiles, prefix sums of these, prefix sums within
// tiles. Sums wrap at 2^32.
#include "scan.cuh"

constexpr uint32_t PER_THREAD = 8;

extern "C" __global__ void scan_tile_sums(const uint32_t* __restrict__ values, uint32_t* __restrict__ sums, uint32_t count) {
    __shared__ uint32_t scratch[32];
    uint32_t tile = blockIdx.x * blockDim.x * PER_THREAD;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        uint32_t at = tile + i * blockDim.x + threadIdx.x;
        if (at < count) sum += values[at];
    }
    uint32_t total;
    block_exclusive_sum(sum, scratch, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// Replaces `sums` by their prefix sums, and writes the total to `sums[tiles]`. Run by one block.
extern "C" __global__ void scan_sums(uint32_t* __restrict__ sums, uint32_t tiles) {
    __shared__ uint32_t scratch[32];
    uint32_t before = 0;
    for (uint32_t start = 0; start < tiles; start += blockDim.x) {
        uint32_t at = start + threadIdx.x;
        uint32_t total;
        uint32_t sum = block_exclusive_sum(at < tiles ? sums[at] : 0, scratch, total);
        if (at < tiles) sums[at] = before + sum;
        before += total;
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[tiles] = before;
}

extern "C" __global__ void scan_tiles(const uint32_t* values, const uint32_t* __restrict__ sums, uint32_t* out, uint32_t count) {
    __shared__ uint32_t scratch[32];
    uint32_t first = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
    uint32_t own[PER_THREAD];
    uint32_t sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        own[i] = first + i < count ? values[first + i] : 0;
        sum += own[i];
    }
    uint32_t total;
    uint32_t before = sums[blockIdx.x] + block_exclusive_sum(sum, scratch, total);
#pragma unroll
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        if (first + i < count) out[first + i] = before;
        before += own[i];
    }
}
