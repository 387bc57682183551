// OR: a warp adds up the contributions of a query's terms tile by tile, in shared memory, and keeps the best k documents.
//
// A list has a document once, so that a list's postings are added without atomics; between lists the warp synchronises. The postings of the first lists are
// loaded a tile ahead. Sums are looked through only if one of them has reached the threshold.
#include "tiles.cuh"
#include "topk.cuh"

// Dense lists whose postings are loaded ahead, up to a four a lane.
constexpr uint32_t AHEAD = 4;

// What adding needs of a dense list.
struct List {
    const ushort4* docs;
    const float4* values;
    float weight;

    __device__ void open(const Term& term) {
        docs = reinterpret_cast<const ushort4*>(term.docs);
        values = reinterpret_cast<const float4*>(term.values);
        weight = term.weight;
    }
};

// The sums of a tile.
struct Sums {
    uint32_t* sums;
    uint32_t mask;   // of a place's bits within the tile
    uint32_t least;  // a sum below has no chance

    // Adds a lane's four postings; true if a sum has a chance.
    __device__ __forceinline__ bool add(ushort4 places, float4 values, float weight) const {
        uint32_t* at_x = &sums[places.x & mask];
        uint32_t* at_y = &sums[places.y & mask];
        uint32_t* at_z = &sums[places.z & mask];
        uint32_t* at_w = &sums[places.w & mask];
        uint32_t x = *at_x + contribution(weight, values.x), y = 0, z = 0, w = 0;
        if (!is_fill(places.y)) y = *at_y + contribution(weight, values.y);
        if (!is_fill(places.z)) z = *at_z + contribution(weight, values.z);
        if (!is_fill(places.w)) w = *at_w + contribution(weight, values.w);
        *at_x = x;
        if (y != 0) *at_y = y;
        if (z != 0) *at_z = z;
        if (w != 0) *at_w = w;
        uint32_t xy = x > y ? x : y, zw = z > w ? z : w;
        return (xy > zw ? xy : zw) >= least;
    }
};

// Adds the postings of a sparse term up to document `end`, and moves its cursor; true if a sum has a chance.
__device__ bool add_sparse(const Term& term, uint32_t* cursor, uint32_t begin, uint32_t end, const Sums& sums) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    const float* values = reinterpret_cast<const float*>(term.values);
    uint32_t at = *cursor;
    bool reached = false;
    while (true) {
        uint32_t mine = at + lane_id();
        uint32_t doc = mine < term.count ? docs[mine] : 0xffffffffu;
        bool here = doc < end;
        if (here) {
            uint32_t sum = sums.sums[doc - begin] + contribution(term.weight, values[mine]);
            sums.sums[doc - begin] = sum;
            reached |= sum >= sums.least;
        }
        uint32_t found = __popc(__ballot_sync(FULL_WARP, here));
        at += found;
        if (found < WARP) break;
    }
    __syncwarp();
    if (lane_id() == 0) *cursor = at;
    __syncwarp();
    return reached;
}

// `thresholds` has what a query's items know of its k-th best key, `enough` how many hits it has already, or is null. `sparse` is the most sparse
// terms a query has; 2^`group` tiles are taken at once. One warp a block. Dynamic shared memory: sums, cursors of sparse terms, keys unless these are in
// global memory.
extern "C" __global__ void __launch_bounds__(WARP, 24)
    or_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches, uint64_t* thresholds,
             const uint32_t* enough, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity, uint32_t sparse,
             uint32_t group) {
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t lane = lane_id();
    const Item item = items[blockIdx.x];
    const Query query = queries[item.query];
    if (enough != nullptr && enough[item.query] >= query.k) {
        if (lane == 0) out_counts[item.slot] = 0;
        return;
    }
    const uint32_t tiles = (segment.docs + (1u << segment.bits) - 1) >> segment.bits;
    const uint32_t bits = segment.bits + group, docs = 1u << bits;
    Sums sums{shared, docs - 1, 0};
    uint32_t* cursors = shared + docs;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(cursors + (sparse + FOUR - 1) / FOUR * FOUR);
    WarpTopK top(global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys, capacity, query.k, query.least);
    const Term* terms = all_terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse;

    uint4* fours = reinterpret_cast<uint4*>(shared);
    for (uint32_t i = lane; i < docs / FOUR; i += WARP) fours[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = lane; i < query.sparse; i += WARP) {
        cursors[i] = lower_bound(reinterpret_cast<const uint32_t*>(terms[i].docs), 0, terms[i].count, item.begin << bits);
    }
    __syncwarp();

    List lists[AHEAD];
    Starts starts[AHEAD];
    ushort4 places[AHEAD];
    float4 values[AHEAD];
    uint32_t there = 0;  // a bit for each list that has a four for this lane
#pragma unroll
    for (uint32_t j = 0; j < AHEAD; j++) {
        if (j < dense_count) {
            lists[j].open(dense[j]);
            starts[j].load(dense[j], item.begin, group, tiles);
            uint32_t at = starts[j].begin(0) + lane;
            if (at < starts[j].end(0)) {
                places[j] = lists[j].docs[at];
                values[j] = lists[j].values[at];
                there |= 1u << j;
            }
        }
    }

    uint32_t matches = 0;
    uint64_t published = query.least;
    uint32_t in_window = 0;
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        // None that is there is 0.
        const uint32_t threshold = uint32_t(top.threshold >> 32);
        sums.least = threshold > query.static_most ? threshold - query.static_most : 1;
        bool reached = query.count != 0;
        const bool slides = in_window + 1 == WINDOW;
        const uint32_t next = slides ? 0 : in_window + 1;
        uint32_t there_next = 0;
#pragma unroll
        for (uint32_t j = 0; j < AHEAD; j++) {
            if (j < dense_count) {
                const ushort4 places_now = places[j];
                const float4 values_now = values[j];
                const uint32_t end = starts[j].end(in_window);
                uint32_t rest = starts[j].begin(in_window) + WARP + lane;
                if (slides) starts[j].load(dense[j], tile + 1, group, tiles);
                const uint32_t at = starts[j].begin(next) + lane, next_end = starts[j].end(next);
                if (at < next_end && tile + 1 < item.end) {
                    places[j] = lists[j].docs[at];
                    values[j] = lists[j].values[at];
                    there_next |= 1u << j;
                }
                if ((there >> j & 1) != 0) reached |= sums.add(places_now, values_now, lists[j].weight);
                for (; rest < end; rest += WARP) reached |= sums.add(lists[j].docs[rest], lists[j].values[rest], lists[j].weight);
                __syncwarp();
            }
        }
        there = there_next;
        in_window = next;
        for (uint32_t j = AHEAD; j < dense_count; j++) {
            List list;
            list.open(dense[j]);
            const uint32_t* of = reinterpret_cast<const uint32_t*>(dense[j].starts);
            const uint32_t last = (tile + 1) << group;
            const uint32_t end = of[last < tiles ? last : tiles];
            for (uint32_t at = of[tile << group] + lane; at < end; at += WARP) reached |= sums.add(list.docs[at], list.values[at], list.weight);
            __syncwarp();
        }
        const uint32_t begin = tile << bits;
        if (query.sparse > 0) {
            uint32_t end = segment.docs - begin < docs ? segment.docs : begin + docs;
            for (uint32_t i = 0; i < query.sparse; i++) reached |= add_sparse(terms[i], &cursors[i], begin, end, sums);
        }

        if (!__any_sync(FULL_WARP, reached)) {
            for (uint32_t i = lane; i < docs / FOUR; i += WARP) fours[i] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            continue;
        }
        for (uint32_t i = lane; i < docs / FOUR; i += WARP) {
            const uint4 four = fours[i];
            fours[i] = make_uint4(0, 0, 0, 0);
            const uint32_t of[FOUR] = {four.x, four.y, four.z, four.w};
            uint32_t xy = four.x > four.y ? four.x : four.y, zw = four.z > four.w ? four.z : four.w;
            const bool hopeful = (xy > zw ? xy : zw) >= sums.least;
            if (!__any_sync(FULL_WARP, hopeful || query.count != 0)) continue;
#pragma unroll
            for (uint32_t j = 0; j < FOUR; j++) {
                uint32_t doc = begin + FOUR * i + j;
                uint64_t key = 0;
                bool counted = query.count != 0 && of[j] != 0;
                if ((counted || of[j] >= sums.least) && !is_deleted(segment, doc)) {
                    matches += counted;
                    if (of[j] >= sums.least) key = hit_key(segment, doc, of[j] + static_score(segment, query.static_weight, doc));
                }
                top.offer(key);
            }
        }
        __syncwarp();
        top.share(&thresholds[item.query], published);
    }
    top.finish(out_keys + uint64_t(item.slot) * stride, &out_counts[item.slot]);
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) matches += __shfl_xor_sync(FULL_WARP, matches, distance);
    if (lane == 0 && matches > 0) atomicAdd(&all_matches[item.query], uint64_t(matches));
}
