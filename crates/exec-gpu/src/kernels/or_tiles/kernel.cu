// OR: a block adds up the contributions of a query's terms tile by tile, in shared memory, and keeps the best k documents.
//
// A tile takes two barriers: sums are complete; sums are looked through and zero again, and the next tile's places are known.
#include "tiles.cuh"
#include "topk.cuh"

// Adds the postings of pieces to `sums`.
__device__ void add_pieces(const Pieces& pieces, uint32_t* sums) {
    uint32_t all = pieces.all(), warps = blockDim.x / WARP;
    for (uint32_t i = warp_id(); i < all; i += warps) {
        uint32_t four;
        uint32_t term = pieces.find(i, four);
        if (four < pieces.end[term]) {
            ushort4 places = reinterpret_cast<const ushort4*>(pieces.docs[term])[four];
            float4 values = reinterpret_cast<const float4*>(pieces.values[term])[four];
            float weight = pieces.weight[term];
            atomicAdd(&sums[places.x], contribution(weight, values.x));
            atomicAdd(&sums[places.y], contribution(weight, values.y));
            atomicAdd(&sums[places.z], contribution(weight, values.z));
            atomicAdd(&sums[places.w], contribution(weight, values.w));
        }
    }
}

// Adds the postings of a sparse term up to document `end`, by one warp, and moves its cursor.
__device__ void add_sparse(const Term& term, uint32_t* cursor, uint32_t begin, uint32_t end, uint32_t* sums) {
    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
    const float* values = reinterpret_cast<const float*>(term.values);
    uint32_t at = *cursor;
    while (true) {
        uint32_t mine = at + lane_id();
        uint32_t doc = mine < term.count ? docs[mine] : 0xffffffffu;
        bool here = doc < end;
        if (here) atomicAdd(&sums[doc - begin], contribution(term.weight, values[mine]));
        uint32_t found = __popc(__ballot_sync(FULL_WARP, here));
        at += found;
        if (found < WARP) break;
    }
    if (lane_id() == 0) *cursor = at;
    __syncwarp();
}

// `thresholds` has what a query's items know of its k-th best key, `enough` how many hits it has already, or is null. `sparse` is the most sparse
// terms a query has. Dynamic shared memory: sums of a tile and a place for fill, cursors of sparse terms, keys unless these are in global memory.
extern "C" __global__ void or_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches,
                                    uint64_t* thresholds, const uint32_t* enough, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride,
                                    uint64_t* global_keys, uint32_t capacity, uint32_t sparse) {
    DYNAMIC_SHARED(uint32_t, sums);
    __shared__ Pieces pieces[2];
    __shared__ TopKState state;
    const Item item = items[blockIdx.x];
    const Query query = queries[item.query];
    if (enough != nullptr && enough[item.query] >= query.k) {
        if (threadIdx.x == 0) out_counts[item.slot] = 0;
        return;
    }
    const uint32_t tile_docs = 1u << segment.bits;
    uint32_t* cursors = sums + tile_docs + FOUR;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(cursors + (sparse + FOUR - 1) / FOUR * FOUR);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    TopK top{keys, capacity, query.k, &state};
    const Term* terms = all_terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse;

    for (uint32_t i = threadIdx.x; i < tile_docs + FOUR; i += blockDim.x) sums[i] = 0;
    for (uint32_t i = threadIdx.x; i < query.sparse; i += blockDim.x) {
        const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[i].docs);
        cursors[i] = lower_bound(docs, 0, terms[i].count, item.begin << segment.bits);
    }
    if (threadIdx.x == 0) {
        state.threshold = query.least;
        state.count = 0;
    }
    if (warp_id() == 0) pieces[0].look_up(dense, dense_count < WARP ? dense_count : WARP, item.begin);
    __syncthreads();

    uint64_t matches = 0;
    uint64_t published = 0;
    for (uint32_t tile = item.begin, turn = 0; tile < item.end; tile++, turn ^= 1) {
        uint32_t begin = tile << segment.bits;
        uint32_t docs = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
        add_pieces(pieces[turn], sums);
        for (uint32_t first = WARP; first < dense_count; first += WARP) {
            __syncthreads();
            if (warp_id() == 0) pieces[turn].look_up(dense + first, dense_count - first < WARP ? dense_count - first : WARP, tile);
            __syncthreads();
            add_pieces(pieces[turn], sums);
        }
        for (uint32_t i = warp_id(); i < query.sparse; i += blockDim.x / WARP) add_sparse(terms[i], &cursors[i], begin, begin + docs, sums);
        __syncthreads();

        if (warp_id() == 0 && tile + 1 < item.end) pieces[turn ^ 1].look_up(dense, dense_count < WARP ? dense_count : WARP, tile + 1);
        // Where the buffer is full, sums that found no room stay, and are looked at again.
        bool first_look = true;
        while (true) {
            bool pending = false;
            uint4* fours = reinterpret_cast<uint4*>(sums);
            for (uint32_t i = threadIdx.x; i < tile_docs / FOUR; i += blockDim.x) {
                uint4 four = fours[i];
                if ((four.x | four.y | four.z | four.w) == 0) continue;
                uint32_t of[FOUR] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (uint32_t j = 0; j < FOUR; j++) {
                    uint32_t doc = begin + FOUR * i + j;
                    bool matched = of[j] != 0;
                    if (matched && first_look && !is_deleted(segment, doc)) matches++;
                    uint32_t score = of[j];
                    if (matched) score += static_score(segment, query.static_weight, doc);
                    bool taken = true;
                    if (matched && score >= uint32_t(state.threshold >> 32) && !is_deleted(segment, doc)) {
                        taken = top.offer(hit_key(segment, doc, score));
                        pending |= !taken;
                    }
                    if (taken) of[j] = 0;
                }
                fours[i] = make_uint4(of[0], of[1], of[2], of[3]);
            }
            if (threadIdx.x == 0) sums[tile_docs] = 0;
            if (!__syncthreads_or(pending)) break;
            top.compact();
            first_look = false;
        }
        // What other items of the query have found helps here, and the other way round.
        if (threadIdx.x == 0) {
            if (state.threshold > published && state.threshold > query.least) atomicMax(&thresholds[item.query], state.threshold);
            published = state.threshold;
            uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
            if (known > state.threshold) state.threshold = published = known;
        }
    }
    __syncthreads();
    top.compact();
    for (uint32_t i = threadIdx.x; i < state.count; i += blockDim.x) out_keys[uint64_t(item.slot) * stride + i] = keys[i];
    if (threadIdx.x == 0) out_counts[item.slot] = state.count;
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) matches += __shfl_xor_sync(FULL_WARP, matches, distance);
    if (lane_id() == 0 && matches > 0) atomicAdd(&all_matches[item.query], matches);
}
