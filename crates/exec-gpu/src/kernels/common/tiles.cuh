// What kernels over tiles share: the form of lists, queries and work items, and the places of a tile's postings.
//
// A tile is a run of 2^bits documents whose sums fit shared memory. A list with a posting or more a tile on average is dense: its postings
// stand tile by tile, each tile's filled up to a multiple of four, so that a lane loads four at once; a document is its 16-bit place in the tile, fill
// has the place behind the last. `starts` says where tiles begin, in fours. Other lists are sparse: documents as they are.
#pragma once

#include "scan.cuh"

constexpr uint32_t FOUR = 4;

struct Term {
    uint64_t docs;    // uint16_t places of a dense list, uint32_t documents of a sparse one
    uint64_t values;  // float
    uint64_t starts;  // uint32_t, one a tile and one more; unused by sparse lists
    uint32_t count;   // postings of a sparse list
    float weight;
};

struct Query {
    uint32_t first_term;
    uint32_t sparse;  // so many sparse terms come first,
    uint32_t terms;   // of so many
    uint32_t k;
    uint64_t least;  // hits have larger keys
    float static_weight;
    uint32_t static_most;  // no static score adds more
    uint32_t first_slot;
    uint32_t count;  // not 0 if matches are to be counted
};

// Tiles `begin` to `end` of a query; its hits go to `slot`.
struct Item {
    uint32_t query;
    uint32_t begin;
    uint32_t end;
    uint32_t slot;
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

__device__ __forceinline__ bool is_deleted(const Segment& segment, uint32_t doc) {
    const uint32_t* deleted = reinterpret_cast<const uint32_t*>(segment.deleted);
    return deleted != nullptr && (deleted[doc / 32] >> (doc % 32) & 1) != 0;
}

// The order of hits as one number, as `Hit::key` has it: score up, then document down.
__device__ __forceinline__ uint64_t hit_key(const Segment& segment, uint32_t doc, uint32_t score) {
    const uint32_t* ordinals = reinterpret_cast<const uint32_t*>(segment.ordinals);
    uint32_t ordinal = ordinals != nullptr ? ordinals[doc] : doc;
    return uint64_t(score) << 32 | uint32_t(~(segment.base + ordinal));
}

__device__ __forceinline__ uint32_t static_score(const Segment& segment, float weight, uint32_t doc) {
    const float* statics = reinterpret_cast<const float*>(segment.statics);
    return statics != nullptr ? __float2uint_rz(__fmul_rn(weight, statics[doc])) : 0;
}

// The first of `docs[from..count]` that is not before `doc`.
__device__ __forceinline__ uint32_t lower_bound(const uint32_t* docs, uint32_t from, uint32_t count, uint32_t doc) {
    uint32_t step = 1;
    while (from + step < count && docs[from + step - 1] < doc) {
        from += step;
        step *= 2;
    }
    uint32_t end = from + step < count ? from + step : count;
    while (from < end) {
        uint32_t middle = from + (end - from) / 2;
        if (docs[middle] < doc) from = middle + 1;
        else end = middle;
    }
    return from;
}

// Where the postings of up to 32 dense terms lie for one tile, and how they are dealt out to warps in pieces of a four a lane.
struct Pieces {
    uint64_t docs[WARP];
    uint64_t values[WARP];
    uint32_t start[WARP];   // in fours
    uint32_t end[WARP];
    uint32_t pieces[WARP];  // of this term and those before it
    float weight[WARP];

    // By one whole warp: the terms from `terms` on, at most 32 of the `count` there are.
    __device__ void look_up(const Term* terms, uint32_t count, uint32_t tile) {
        uint32_t lane = lane_id(), from = 0, to = 0;
        if (lane < count) {
            Term term = terms[lane];
            const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
            from = starts[tile];
            to = starts[tile + 1];
            docs[lane] = term.docs;
            values[lane] = term.values;
            weight[lane] = term.weight;
        }
        start[lane] = from;
        end[lane] = to;
        pieces[lane] = warp_inclusive_sum((to - from + WARP - 1) / WARP);
    }

    __device__ uint32_t all() const { return pieces[WARP - 1]; }

    // By one whole warp: the term that piece `i` belongs to, and this lane's four in it (past `end` where there is none).
    __device__ uint32_t find(uint32_t i, uint32_t& four) const {
        uint32_t term = __popc(__ballot_sync(FULL_WARP, pieces[lane_id()] <= i));
        uint32_t before = term > 0 ? pieces[term - 1] : 0;
        four = start[term] + (i - before) * WARP + lane_id();
        return term;
    }
};
