// OR: a warp adds up the contributions of a query's terms tile by tile, in shared memory, and keeps the best k documents.
//
// A list has a document once, so that a list's postings are added without atomics; between lists the warp synchronises. The postings of the first lists are
// loaded a tile ahead. Sums are looked through only if one of them has reached the threshold.
#include "tiles.cuh"
#include "topk.cuh"

// Dense lists whose postings are loaded ahead, up to a four a lane.
constexpr uint32_t AHEAD = 4;

// A lane's four postings of a list.
struct Four {
    ushort4 places;
    float4 values;
    bool there;

    __device__ void load(const Term& term, uint32_t at, uint32_t end) {
        there = at < end;
        if (there) {
            places = reinterpret_cast<const ushort4*>(term.docs)[at];
            values = reinterpret_cast<const float4*>(term.values)[at];
        }
    }

    // Adds them; true if a sum reaches `least`.
    __device__ bool add(uint32_t* sums, uint32_t tile_docs, float weight, uint32_t least) const {
        uint32_t x = 0, y = 0, z = 0, w = 0;
        if (there) {
            // Only the first is never fill.
            x = sums[places.x] + contribution(weight, values.x);
            if (places.y < tile_docs) y = sums[places.y] + contribution(weight, values.y);
            if (places.z < tile_docs) z = sums[places.z] + contribution(weight, values.z);
            if (places.w < tile_docs) w = sums[places.w] + contribution(weight, values.w);
            sums[places.x] = x;
            if (places.y < tile_docs) sums[places.y] = y;
            if (places.z < tile_docs) sums[places.z] = z;
            if (places.w < tile_docs) sums[places.w] = w;
        }
        return x >= least || y >= least || z >= least || w >= least;
    }
};

// Adds the postings of a sparse term up to document `end`, and moves its cursor; true if a sum reaches `least`.
__device__ bool add_sparse(const Term& term, uint32_t* cursor, uint32_t begin, uint32_t end, uint32_t* sums, uint32_t least) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    const float* values = reinterpret_cast<const float*>(term.values);
    uint32_t at = *cursor;
    bool reached = false;
    while (true) {
        uint32_t mine = at + lane_id();
        uint32_t doc = mine < term.count ? docs[mine] : 0xffffffffu;
        bool here = doc < end;
        if (here) {
            uint32_t sum = sums[doc - begin] + contribution(term.weight, values[mine]);
            sums[doc - begin] = sum;
            reached |= sum >= least;
        }
        uint32_t found = __popc(__ballot_sync(FULL_WARP, here));
        at += found;
        if (found < WARP) break;
    }
    if (lane_id() == 0) *cursor = at;
    __syncwarp();
    return reached;
}

// `thresholds` has what a query's items know of its k-th best key, `enough` how many hits it has already, or is null. `sparse` is the most sparse
// terms a query has. One warp a block. Dynamic shared memory: sums of a tile, cursors of sparse terms, keys unless these are in global memory.
extern "C" __global__ void __launch_bounds__(WARP) or_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches,
                                    uint64_t* thresholds, const uint32_t* enough, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride,
                                    uint64_t* global_keys, uint32_t capacity, uint32_t sparse) {
    DYNAMIC_SHARED(uint32_t, sums);
    const uint32_t lane = lane_id();
    const Item item = items[blockIdx.x];
    const Query query = queries[item.query];
    if (enough != nullptr && enough[item.query] >= query.k) {
        if (lane == 0) out_counts[item.slot] = 0;
        return;
    }
    const uint32_t tile_docs = 1u << segment.bits, tiles = (segment.docs + tile_docs - 1) >> segment.bits;
    uint32_t* cursors = sums + tile_docs;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(cursors + (sparse + FOUR - 1) / FOUR * FOUR);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    WarpTopK top{keys, capacity, query.k, query.least, 0};
    const Term* terms = all_terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse;

    uint4* fours = reinterpret_cast<uint4*>(sums);
    for (uint32_t i = lane; i < tile_docs / FOUR; i += WARP) fours[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = lane; i < query.sparse; i += WARP) {
        const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[i].docs);
        cursors[i] = lower_bound(docs, 0, terms[i].count, item.begin << segment.bits);
    }
    __syncwarp();

    Term kept[AHEAD];
    Starts starts[AHEAD];
    Four ahead[AHEAD];
#pragma unroll
    for (uint32_t j = 0; j < AHEAD; j++) {
        ahead[j].there = false;
        if (j < dense_count) {
            kept[j] = dense[j];
            starts[j].load(kept[j], item.begin, tiles);
            ahead[j].load(kept[j], starts[j].begin(0) + lane, starts[j].end(0));
        }
    }

    uint32_t matches = 0;
    uint64_t published = 0;
    uint32_t in_window = 0;
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        const uint32_t begin = tile << segment.bits;
        // A sum below this has no chance; none that is there is 0.
        const uint32_t threshold = uint32_t(top.threshold >> 32);
        const uint32_t least = threshold > query.static_most ? threshold - query.static_most : 1;
        bool reached = query.count != 0;
#pragma unroll
        for (uint32_t j = 0; j < AHEAD; j++) {
            if (j >= dense_count) break;
            Four four = ahead[j];
            // What a four a lane does not hold, and the window's end, before the next tile's postings are asked for.
            uint32_t rest = starts[j].begin(in_window) + WARP + lane, end = starts[j].end(in_window);
            if (in_window + 1 == WINDOW) starts[j].load(kept[j], tile + 1, tiles);
            uint32_t next = in_window + 1 == WINDOW ? 0 : in_window + 1;
            uint32_t next_at = starts[j].begin(next) + lane, next_end = starts[j].end(next);
            ahead[j].load(kept[j], next_at, tile + 1 < item.end ? next_end : 0);
            reached |= four.add(sums, tile_docs, kept[j].weight, least);
            for (; rest < end; rest += WARP) {
                four.load(kept[j], rest, end);
                reached |= four.add(sums, tile_docs, kept[j].weight, least);
            }
            __syncwarp();
        }
        in_window = in_window + 1 == WINDOW ? 0 : in_window + 1;
        for (uint32_t j = AHEAD; j < dense_count; j++) {
            const Term term = dense[j];
            const uint32_t* at = reinterpret_cast<const uint32_t*>(term.starts) + tile;
            uint32_t end = at[1];
            for (uint32_t i = at[0] + lane; i < end; i += WARP) {
                Four four;
                four.load(term, i, end);
                reached |= four.add(sums, tile_docs, term.weight, least);
            }
            __syncwarp();
        }
        if (query.sparse > 0) {
            uint32_t docs = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
            for (uint32_t i = 0; i < query.sparse; i++) reached |= add_sparse(terms[i], &cursors[i], begin, begin + docs, sums, least);
        }

        if (!__any_sync(FULL_WARP, reached)) {
            for (uint32_t i = lane; i < tile_docs / FOUR; i += WARP) fours[i] = make_uint4(0, 0, 0, 0);
            __syncwarp();
            continue;
        }
        for (uint32_t i = lane; i < tile_docs / FOUR; i += WARP) {
            uint4 four = fours[i];
            fours[i] = make_uint4(0, 0, 0, 0);
            uint32_t of[FOUR] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (uint32_t j = 0; j < FOUR; j++) {
                uint32_t doc = begin + FOUR * i + j;
                uint64_t key = 0;
                bool counted = query.count != 0 && of[j] != 0;
                if ((counted || of[j] >= least) && !is_deleted(segment, doc)) {
                    matches += counted;
                    if (of[j] >= least) key = hit_key(segment, doc, of[j] + static_score(segment, query.static_weight, doc));
                }
                top.offer(key);
            }
        }
        __syncwarp();
        // What other items of the query have found helps here, and the other way round.
        if (top.threshold > published && top.threshold > query.least && lane == 0) atomicMax(&thresholds[item.query], top.threshold);
        uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
        known = __shfl_sync(FULL_WARP, known, 0);
        if (known > top.threshold) top.threshold = known;
        published = top.threshold;
    }
    top.compact();
    for (uint32_t i = lane; i < top.count; i += WARP) out_keys[uint64_t(item.slot) * stride + i] = keys[i];
    if (lane == 0) out_counts[item.slot] = top.count;
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) matches += __shfl_xor_sync(FULL_WARP, matches, distance);
    if (lane == 0 && matches > 0) atomicAdd(&all_matches[item.query], uint64_t(matches));
}
