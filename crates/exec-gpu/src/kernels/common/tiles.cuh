// Code that the kernels over tiles share: the layout of lists, queries and work items.
//
// A tile is a run of 2^bits documents. A warp works on one tile of one query at a time,
// independently of other warps, with its sums in shared memory. It waits only for memory, and
// other warps use that time. A list is dense if it has at least one posting per tile on average.
// Its postings are stored tile by tile, and those of each tile are padded to a multiple of four,
// so that a lane loads four at once. A document is stored as its 15 low bits, so that a kernel
// can take several tiles at once; padding has the bit above them set. `starts` says where tiles
// begin, in groups of four. Other lists are sparse and store whole document numbers.
#pragma once

#include "scan.cuh"

constexpr uint32_t FOUR = 4;

struct Term {
    uint64_t docs;    // uint16_t low bits of a dense list, uint32_t documents of a sparse one
    uint64_t values;  // float
    uint64_t roughs;  // uint16_t, values rounded up as fractions of the largest; dense lists only
    uint64_t starts;  // uint32_t, one per tile and one more; unused by sparse lists
    uint64_t peaks;   // uint16_t, largest rough value of each tile, 0 if empty; dense lists only
    // uint32_t, one bit for every 2^filter_shift documents: not set if the list contains none of
    // them; unused by sparse lists
    uint64_t filter;
    uint32_t count;   // postings of a sparse list
    float weight;
    uint32_t rough_weight;  // see `rough_contribution`
    uint32_t whole_weight;  // as `rough_weight`, in whole units
    float rough_per_unit;   // quantised steps of a rough value per score unit, rounded down
    uint32_t most;          // the most units that a posting contributes
    uint32_t filter_shift;
    // not 0 if the list begins with the first tile of the segment, although the launch covers
    // only a slice of its documents
    uint32_t stays;
};

struct Query {
    uint32_t first_term;
    uint32_t sparse;  // number of sparse terms, which come first,
    uint32_t terms;   // of this many
    uint32_t k;
    uint64_t least;  // all hits have larger keys
    float static_weight;
    uint32_t static_most;  // the most that a static score adds
    uint32_t first_slot;  // where the hits of its items go, in units of the largest k
    uint32_t count;  // not 0 if matches are counted
    uint32_t rough_shift;  // a rough unit is 2^rough_shift units
    uint32_t all;  // not 0 if documents must contain all terms
    uint32_t low;        // see `Histogram`
    uint32_t low_shift;
    // one bit per document of the whole segment, set if it is live and may be a hit; 0 if all live
    // documents may
    uint64_t mask;
};

// Tiles `begin` to `end` of a query; `end` is not included.
struct Item {
    uint32_t query;
    uint32_t begin;
    uint32_t end;
    uint32_t unused;
};

struct Segment {
    uint64_t statics;   // one float per document, or 0
    uint64_t deleted;   // one bit per document, or 0
    uint64_t ordinals;  // one uint32_t per document, or 0 if documents are in their original order
    uint32_t docs;
    uint32_t base;
    uint32_t bits;
    uint32_t first;  // position of its first document in the whole segment
};

// Returns a posting's contribution: weight times value in whole units, rounded down, plus one. It
// uses IEEE operations only.
__device__ __forceinline__ uint32_t contribution(float weight, float value) {
    return __float2uint_rz(__fmul_rn(weight, value)) + 1;
}

// Returns at least the contribution, in rough units. `rough_weight` and `rough_shift` in
// `round/rough.rs` choose weights such that sums stay below 2^16.
__device__ __forceinline__ uint32_t rough_contribution(uint32_t weight, uint32_t value) {
    return (weight * value >> 16) + 2;
}

__device__ __forceinline__ bool is_deleted(const Segment& segment, uint32_t doc) {
    const uint32_t* deleted = reinterpret_cast<const uint32_t*>(segment.deleted);
    COUNTED(if (deleted != nullptr) moved(&deleted[doc / 32]);)
    return deleted != nullptr && (deleted[doc / 32] >> (doc % 32) & 1) != 0;
}

// Returns true if a document cannot be a hit, whatever its score.
__device__ __forceinline__ bool is_out(const Segment& segment, const Query& query, uint32_t doc) {
    if (query.mask == 0) return is_deleted(segment, doc);
    const uint32_t position = segment.first + doc;
    const uint32_t* mask = reinterpret_cast<const uint32_t*>(query.mask);
    COUNTED(moved(&mask[position / 32]);)
    return (mask[position / 32] >> (position % 32) & 1) == 0;
}

// Returns the order of hits as one number, as in `Hit::key`: higher scores first, then lower
// documents.
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

// Returns the first index in `docs[from..count]` whose document is not before `doc`.
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

// The starts of groups of 2^group tiles of a dense list: a window of them, in the lanes of a
// warp.
struct Starts {
    uint32_t window;

    // Loads the starts of groups `first` to `first` + 30, and the end of the last.
    __device__ void load(const Term& term, uint32_t first, uint32_t group, uint32_t tiles) {
        const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
        uint32_t tile = (first + lane_id()) << group;
        window = starts[tile < tiles ? tile : tiles];
        COUNTED(moved(&starts[tile < tiles ? tile : tiles]);)
    }

    // The start of group number `i` of the window; `i` is below 31.
    __device__ uint32_t begin(uint32_t i) const { return __shfl_sync(FULL_WARP, window, i); }
    __device__ uint32_t end(uint32_t i) const { return __shfl_sync(FULL_WARP, window, i + 1); }
};

// Groups in a window.
constexpr uint32_t WINDOW = WARP - 1;

// Returns true if a position is padding, which is never the first of a group of four.
__device__ __forceinline__ bool is_fill(uint32_t position) { return (position & 0x8000u) != 0; }
