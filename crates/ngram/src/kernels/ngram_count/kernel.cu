// Counts, for one query and one range of parts per block of threads, in how many of the query's shortest lists each part is. Parts that are in enough of them become candidates.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t MOST_COUNTED = 127;

struct Found {
    uint64_t keys;      // uint64_t: part, query and count
    uint64_t count;     // uint32_t: all that were found, even if there was no room
    uint64_t of_query;  // uint32_t per query: the same
    uint64_t failed;    // uint32_t: 1 if a list is malformed
    uint32_t room;
    uint32_t most_of_query;  // a query with more is given up
};

// Room for the candidates that a block of threads found, whose first slot is returned; `NONE` if the query is given up. One thread asks for all, as each addition to the same number waits for the one before.
__device__ __forceinline__ uint32_t room_for(const Found& found, uint32_t query, uint32_t candidates) {
    uint32_t* own = reinterpret_cast<uint32_t*>(found.of_query) + query;
    if (atomicAdd(own, candidates) + candidates > found.most_of_query) return NONE;
    const uint32_t at = atomicAdd(reinterpret_cast<uint32_t*>(found.count), candidates);
    if (at <= found.room && candidates <= found.room - at) return at;
    // Slots that nobody fills must not be taken for candidates.
    for (uint32_t slot = at; slot < found.room; slot++) reinterpret_cast<uint64_t*>(found.keys)[slot] = NO_KEY;
    atomicMax(own, found.most_of_query + 1);
    return NONE;
}

extern "C" __global__ void __launch_bounds__(THREADS) ngram_count(const Query* queries, const uint32_t* ordinals, const MapList* lists, Parts parts, uint32_t range_bits, uint32_t ranges, Found found) {
    DYNAMIC_SHARED(uint32_t, counters);
    __shared__ uint32_t firsts[MOST_COUNTED], before[MOST_COUNTED + 1];
    const uint32_t number = blockIdx.x / ranges, range = 1u << range_bits, start = (blockIdx.x % ranges) << range_bits;
    const uint32_t end = parts.count - start < range ? parts.count : start + range;
    const Query query = queries[number];
    // Other blocks may give the query up at this moment, so one thread looks for all: they must leave together.
    __shared__ bool given_up;
    if (threadIdx.x == 0) given_up = *reinterpret_cast<volatile uint32_t*>(reinterpret_cast<uint32_t*>(found.of_query) + number) > found.most_of_query;
    __syncthreads();
    if (given_up) return;
    const Own own{lists, ordinals + query.first};
    const uint32_t sparse = min(query.counted, query.dense);
    for (uint32_t i = threadIdx.x; i < range / 4; i += THREADS) counters[i] = 0;
    // Which blocks reach into the range.
    for (uint32_t i = warp_id(); i < sparse; i += THREADS / WARP) {
        const uint32_t first = block_for(own[i], start), last = block_for(own[i], end - 1);
        if (lane_id() == 0) {
            firsts[i] = first;
            before[i + 1] = min(last + 1, own[i].blocks) - min(first, own[i].blocks);
        }
    }
    if (threadIdx.x == 0) before[0] = 0;
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < sparse; i += WARP) {
            const uint32_t at = i + lane_id(), blocks = at < sparse ? before[at + 1] : 0;
            const uint32_t inclusive = warp_inclusive_sum(blocks);
            __syncwarp();
            if (at < sparse) before[at + 1] = sum + inclusive;
            sum += __shfl_sync(FULL_WARP, inclusive, WARP - 1);
        }
    }
    __syncthreads();
    for (uint32_t item = warp_id(), i = 0; item < before[sparse]; item += THREADS / WARP) {
        while (before[i + 1] <= item) i++;
        BlockOfParts block;
        if (!decode(own[i], firsts[i] + item - before[i], block)) {
            if (lane_id() == 0) *reinterpret_cast<uint32_t*>(found.failed) = 1;
            continue;
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t at = block.parts[j] - start;
            if (block.parts[j] < end && block.parts[j] >= start) atomicAdd(&counters[at / 4], 1u << 8 * (at % 4));
        }
    }
    __syncthreads();
    // Each thread has counters of its own here.
    for (uint32_t i = query.dense; i < query.counted; i++) {
        const uint64_t bitmaps = own[i].bitmaps + start / 8, bytes = own[i].blocks * uint64_t(BITMAP) - start / 8;
        for (uint32_t at = threadIdx.x; at < (end - start + 3) / 4; at += THREADS) {
            if (at / 2 >= bytes) break;
            const uint32_t bits = load_u8(bitmaps + at / 2) >> 4 * (at % 2) & 15;
            counters[at] += (bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21;
        }
    }
    // A thread wrote only those that it reads now, except for the sparse lists' before the barrier.
    const uint32_t raise = (128 - query.enough) * 0x01010101u, words = (end - start + 3) / 4;
    uint32_t candidates = 0;
    for (uint32_t at = threadIdx.x; at < words; at += THREADS) {
        // Counters behind the last part are 0.
        candidates += __popc((counters[at] + raise) & 0x80808080u);
    }
    __shared__ uint32_t sums[32], first;
    uint32_t all;
    uint32_t slot = block_exclusive_sum(candidates, sums, all);
    if (all == 0) return;
    if (threadIdx.x == 0) first = room_for(found, number, all);
    __syncthreads();
    if (first == NONE) return;
    uint64_t* keys = reinterpret_cast<uint64_t*>(found.keys) + first;
    for (uint32_t at = threadIdx.x; at < words; at += THREADS) {
        const uint32_t counts = counters[at];
        for (uint32_t high = (counts + raise) & 0x80808080u; high != 0; high &= high - 1) {
            const uint32_t j = (__ffs(high) - 1) / 8;
            keys[slot++] = uint64_t(start + 4 * at + j) << 32 | number << 8 | (counts >> 8 * j & 0xff);
        }
    }
}
