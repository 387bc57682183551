// OR: a block adds up the contributions of a query's terms tile by tile, in shared memory, and keeps the best k documents.
//
// A tile takes two barriers. Before the first its postings are added, from registers where they were loaded ahead, and the places of the next tile's are
// looked up. Before the second the next tile's postings are loaded while sums are looked through and set to zero.
#include "tiles.cuh"
#include "topk.cuh"

// Pieces that a warp loads ahead.
constexpr uint32_t AHEAD = 2;

// A lane's four postings of a piece.
struct Loaded {
    ushort4 places;
    float4 values;
    float weight;  // negative if there are none

    __device__ void load(const Pieces& pieces, uint32_t i) {
        weight = -1.0f;
        if (i >= pieces.all()) return;
        uint32_t four;
        uint32_t term = pieces.find(i, four);
        if (four < pieces.end[term]) {
            places = reinterpret_cast<const ushort4*>(pieces.docs[term])[four];
            values = reinterpret_cast<const float4*>(pieces.values[term])[four];
            weight = pieces.weight[term];
        }
    }

    __device__ void add(uint32_t* sums) const {
        if (weight < 0.0f) return;
        atomicAdd(&sums[places.x], contribution(weight, values.x));
        atomicAdd(&sums[places.y], contribution(weight, values.y));
        atomicAdd(&sums[places.z], contribution(weight, values.z));
        atomicAdd(&sums[places.w], contribution(weight, values.w));
    }
};

// Adds the postings of pieces from number `from` on, a warp every so many.
__device__ void add_pieces(const Pieces& pieces, uint32_t from, uint32_t* sums) {
    uint32_t all = pieces.all(), warps = blockDim.x / WARP;
    for (uint32_t i = from + warp_id(); i < all; i += warps) {
        Loaded loaded;
        loaded.load(pieces, i);
        loaded.add(sums);
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
    const uint32_t tile_docs = 1u << segment.bits, warps = blockDim.x / WARP;
    uint32_t* cursors = sums + tile_docs + FOUR;
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(cursors + (sparse + FOUR - 1) / FOUR * FOUR);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    TopK top{keys, capacity, query.k, &state};
    const Term* terms = all_terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse, dense_first = dense_count < WARP ? dense_count : WARP;
    const bool looks_up = warp_id() == warps - 1;

    for (uint32_t i = threadIdx.x; i < (tile_docs + FOUR) / FOUR; i += blockDim.x) reinterpret_cast<uint4*>(sums)[i] = make_uint4(0, 0, 0, 0);
    for (uint32_t i = threadIdx.x; i < query.sparse; i += blockDim.x) {
        const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[i].docs);
        cursors[i] = lower_bound(docs, 0, terms[i].count, item.begin << segment.bits);
    }
    if (threadIdx.x == 0) {
        uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
        state.threshold = known > query.least ? known : query.least;
        state.count = 0;
    }
    if (looks_up) pieces[0].look_up(dense, dense_first, item.begin);
    __syncthreads();
    Loaded ahead[AHEAD];
#pragma unroll
    for (uint32_t j = 0; j < AHEAD; j++) ahead[j].load(pieces[0], warp_id() + j * warps);

    uint32_t matches = 0;
    uint64_t published = 0;
    for (uint32_t tile = item.begin, turn = 0; tile < item.end; tile++, turn ^= 1) {
        uint32_t begin = tile << segment.bits;
#pragma unroll
        for (uint32_t j = 0; j < AHEAD; j++) ahead[j].add(sums);
        add_pieces(pieces[turn], AHEAD * warps, sums);
        for (uint32_t first = WARP; first < dense_count; first += WARP) {
            __syncthreads();
            if (looks_up) pieces[turn].look_up(dense + first, dense_count - first < WARP ? dense_count - first : WARP, tile);
            __syncthreads();
            add_pieces(pieces[turn], 0, sums);
        }
        if (query.sparse > 0) {
            uint32_t docs = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
            for (uint32_t i = warp_id(); i < query.sparse; i += warps) add_sparse(terms[i], &cursors[i], begin, begin + docs, sums);
        }
        if (looks_up && tile + 1 < item.end) pieces[turn ^ 1].look_up(dense, dense_first, tile + 1);
        __syncthreads();

        if (tile + 1 < item.end) {
#pragma unroll
            for (uint32_t j = 0; j < AHEAD; j++) ahead[j].load(pieces[turn ^ 1], warp_id() + j * warps);
        }
        bool first_look = true;
        while (true) {
            bool pending = false;
            // A sum below this has no chance; none that is there is 0.
            uint32_t threshold = uint32_t(state.threshold >> 32);
            uint32_t least = threshold > query.static_most ? threshold - query.static_most : 1;
            uint4* fours = reinterpret_cast<uint4*>(sums);
            for (uint32_t i = threadIdx.x; i < tile_docs / FOUR; i += blockDim.x) {
                uint4 four = fours[i];
                uint32_t xy = four.x > four.y ? four.x : four.y, zw = four.z > four.w ? four.z : four.w;
                uint32_t most = xy > zw ? xy : zw;
                if (most > 0) fours[i] = make_uint4(0, 0, 0, 0);
                if (query.count && first_look && most > 0) {
                    uint32_t of[FOUR] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (uint32_t j = 0; j < FOUR; j++) matches += of[j] != 0 && !is_deleted(segment, begin + FOUR * i + j);
                }
                if (most >= least) {
                    uint32_t of[FOUR] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (uint32_t j = 0; j < FOUR; j++) {
                        uint32_t doc = begin + FOUR * i + j;
                        if (of[j] < least || is_deleted(segment, doc)) continue;
                        uint32_t score = of[j] + static_score(segment, query.static_weight, doc);
                        if (score >= threshold && !top.offer(hit_key(segment, doc, score))) {
                            // No room: it stays to be looked at again.
                            sums[FOUR * i + j] = of[j];
                            pending = true;
                        }
                    }
                }
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
    if (lane_id() == 0 && matches > 0) atomicAdd(&all_matches[item.query], uint64_t(matches));
}
