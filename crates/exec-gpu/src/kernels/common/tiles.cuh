// What kernels over tiles share: the form of lists, queries and work items.
//
// A tile is a run of 2^bits documents. A warp works on one tile of one query at a time, alone, its sums in shared memory: there is nothing to wait for but
// memory, and other warps fill that time. A list with a posting or more a tile on average is dense: its postings
// stand tile by tile, each tile's filled up to a multiple of four, so that a lane loads four at once; a document is its 15 low bits, so that a
// kernel may take several tiles at once, and fill has the bit above. `starts` says where tiles begin, in fours. Other lists are sparse: documents as they are.
#pragma once

#include "scan.cuh"

constexpr uint32_t FOUR = 4;

struct Term {
    uint64_t docs;    // uint16_t low bits of a dense list, uint32_t documents of a sparse one
    uint64_t values;  // float
    uint64_t roughs;  // uint16_t, values of dense lists rounded up, in parts of the largest there can be
    uint64_t starts;  // uint32_t, one a tile and one more; unused by sparse lists
    uint64_t peaks;   // uint16_t, the largest rough value of each tile, 0 where there is none; unused by sparse lists
    uint64_t filter;  // uint32_t, a bit for every 2^filter_shift documents: not set if the list has none of them; unused by sparse lists
    uint32_t count;   // postings of a sparse list
    float weight;
    uint32_t rough_weight;  // see `rough_contribution`
    uint32_t whole_weight;  // the same in whole units
    float rough_per_unit;   // what of a rough value makes one unit, or a bit less
    uint32_t most;          // no posting contributes more units
    uint32_t filter_shift;
    uint32_t unused;
};

struct Query {
    uint32_t first_term;
    uint32_t sparse;  // so many sparse terms come first,
    uint32_t terms;   // of so many
    uint32_t k;
    uint64_t least;  // hits have larger keys
    float static_weight;
    uint32_t static_most;  // no static score adds more
    uint32_t first_slot;  // where the hits of its items go, in units of the largest k
    uint32_t count;  // not 0 if matches are to be counted
    uint32_t rough_shift;  // a rough unit is 2^rough_shift units
    uint32_t all;  // not 0 if documents must have all terms
    uint32_t low;        // see `Histogram`
    uint32_t low_shift;
};

// Tiles `begin` to `end` of a query.
struct Item {
    uint32_t query;
    uint32_t begin;
    uint32_t end;
    uint32_t unused;
};

struct Segment {
    uint64_t statics;   // float a document, or 0
    uint64_t deleted;   // a bit a document, or 0
    uint64_t ordinals;  // uint32_t a document, or 0 where documents stand in their own order
    uint32_t docs;
    uint32_t base;
    uint32_t bits;
    uint32_t unused;
};

// A posting's contribution: weight times value in whole units, one more than rounded down; IEEE operations only.
__device__ __forceinline__ uint32_t contribution(float weight, float value) {
    return __float2uint_rz(__fmul_rn(weight, value)) + 1;
}

// At least the contribution in rough units; see `rough_weight` and `rough_shift` in `round.rs`, which choose weights such that sums stay below 2^16.
__device__ __forceinline__ uint32_t rough_contribution(uint32_t weight, uint32_t value) {
    return (weight * value >> 16) + 2;
}

__device__ __forceinline__ bool is_deleted(const Segment& segment, uint32_t doc) {
    const uint32_t* deleted = reinterpret_cast<const uint32_t*>(segment.deleted);
    COUNTED(if (deleted != nullptr) moved(&deleted[doc / 32]);)
    return deleted != nullptr && (deleted[doc / 32] >> (doc % 32) & 1) != 0;
}

// The order of hits as one number, as `Hit::key` has it: score up, then document down.
__device__ __forceinline__ uint64_t hit_key(const Segment& segment, uint32_t doc, uint32_t score) {
    const uint32_t* ordinals = reinterpret_cast<const uint32_t*>(segment.ordinals);
    COUNTED(if (ordinals != nullptr) moved(&ordinals[doc]);)
    uint32_t ordinal = ordinals != nullptr ? ordinals[doc] : doc;
    return uint64_t(score) << 32 | uint32_t(~(segment.base + ordinal));
}

__device__ __forceinline__ uint32_t static_score(const Segment& segment, float weight, uint32_t doc) {
    const float* statics = reinterpret_cast<const float*>(segment.statics);
    COUNTED(if (statics != nullptr) moved(&statics[doc]);)
    return statics != nullptr ? __float2uint_rz(__fmul_rn(weight, statics[doc])) : 0;
}

// The first of `docs[from..count]` that is not before `doc`.
__device__ __forceinline__ uint32_t lower_bound(const uint32_t* docs, uint32_t from, uint32_t count, uint32_t doc) {
    uint32_t step = 1;
    while (from + step < count && docs[from + step - 1] < doc) {
        from += step;
        step *= 2;
    }
    COUNTED(moved(&docs[from], __ffs(step));)
    uint32_t end = from + step < count ? from + step : count;
    while (from < end) {
        uint32_t middle = from + (end - from) / 2;
        COUNTED(moved(&docs[middle]);)
        if (docs[middle] < doc) from = middle + 1;
        else end = middle;
    }
    return from;
}

// Where groups of 2^group tiles of a dense list begin, a window of them in the lanes of a warp.
struct Starts {
    uint32_t window;

    // Those of groups `first` to `first` + 30, and the end of the last.
    __device__ void load(const Term& term, uint32_t first, uint32_t group, uint32_t tiles) {
        const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
        uint32_t tile = (first + lane_id()) << group;
        window = starts[tile < tiles ? tile : tiles];
        COUNTED(moved(&starts[tile < tiles ? tile : tiles]);)
    }

    // Of group number `i` of the window, below 31.
    __device__ uint32_t begin(uint32_t i) const { return __shfl_sync(FULL_WARP, window, i); }
    __device__ uint32_t end(uint32_t i) const { return __shfl_sync(FULL_WARP, window, i + 1); }
};

// Groups in a window.
constexpr uint32_t WINDOW = WARP - 1;

// Whether a place is fill; never the first of a four.
__device__ __forceinline__ bool is_fill(uint32_t place) { return (place & 0x8000u) != 0; }
