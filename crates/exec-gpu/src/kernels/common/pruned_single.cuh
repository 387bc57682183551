// OR and AND with pruning for a single query, in one launch per segment: the query is passed with
// the arguments, and the last block of threads merges the hits of all blocks.
#pragma once

#include "pruned_tiles.cuh"

// A single query, which is passed with the arguments. Its state is 0 before and after the query.
struct Alone {
    Query query;
    uint64_t hits;      // uint64_t, destination of the best keys
    uint64_t count;     // uint32_t, their number
    uint64_t ended;     // uint32_t, blocks of threads that have ended,
    uint32_t blocks;    // of this many in all launches
    uint32_t unused;
    Term terms[WARP];
};

// Writes the best of all hits and resets the state. Called by the last block of a single query.
__device__ void finish(const Alone& alone, const Work& work) {
    constexpr uint32_t EACH = 4;
    const Query& query = alone.query;
    const Histogram histogram{work.histograms, query.low, query.low_shift};
    const uint64_t* keys = work.out_keys + uint64_t(query.first_slot) * work.stride;
    const uint32_t lane = lane_id(), len = *reinterpret_cast<volatile uint32_t*>(work.key_counts);
    const uint64_t known = *reinterpret_cast<volatile uint64_t*>(work.thresholds), counted = histogram.threshold(histogram.read(), query.k);
    // The k-th best key itself is a hit.
    uint64_t floor = known > 0 ? known - 1 : 0;
    if (counted > floor) floor = counted;
    KeysOfWarp<true> best(nullptr, 0, query.k, floor);
    for (uint32_t first = 0; first < len; first += EACH * WARP) {
        uint64_t key[EACH];
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            const uint32_t at = first + j * WARP + lane;
            COUNTED(if (at < len) moved(&keys[at]);)
            key[j] = at < len ? reinterpret_cast<const volatile uint64_t*>(keys)[at] : 0;
        }
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) best.offer(key[j]);
    }
    best.finish(reinterpret_cast<uint64_t*>(alone.hits), reinterpret_cast<uint32_t*>(alone.count));
    histogram.bins[lane] = 0;
    if (lane == 0) {
        *work.thresholds = 0;
        *work.key_counts = 0;
        *reinterpret_cast<uint32_t*>(alone.ended) = 0;
    }
}

template <uint32_t PASSES>
__device__ __forceinline__ void answer(const Segment& segment, const Alone& alone, const Work& work, const uint32_t* enough) {
    if (enough != nullptr && *enough >= alone.query.k) return;
    search_windows<PASSES, true>(segment, work, work.item(segment), alone.query, alone.terms);
    // All threads see the hits before the block counts as ended.
    __threadfence();
    __syncwarp();
    uint32_t before = 0;
    if (lane_id() == 0) before = atomicAdd(reinterpret_cast<uint32_t*>(alone.ended), 1u);
    if (__shfl_sync(FULL_WARP, before, 0) + 1 < alone.blocks) return;
    __threadfence();
    finish(alone, work);
}

// The state is the thresholds, histograms and numbers of keys of one query; the rest is as in
// `or_tiles`.
#define ALONE(name, PASSES)                                                                                                                            \
    extern "C" __global__ void __launch_bounds__(WARP, 24)                                                                                             \
        name(Segment segment, const __grid_constant__ Alone alone, const uint32_t* enough, uint64_t* thresholds, uint32_t* histograms, uint64_t* out_keys, \
             uint32_t* key_counts, uint32_t stride, uint32_t sparse, uint32_t span, uint32_t terms_most) {                                             \
        const Work work{nullptr, thresholds, histograms, out_keys, key_counts, nullptr, 0, stride, sparse, terms_most, span};                          \
        answer<PASSES>(segment, alone, work, enough);                                                                                                  \
    }
