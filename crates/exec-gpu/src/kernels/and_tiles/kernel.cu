// AND: as OR, but list by list, shortest first. A bit a document says whether all lists so far have it; only those are added to. Tiles where
// the shortest list has nothing, and lists behind one that leaves nothing, are not read.
#include "tiles.cuh"
#include "topk.cuh"

// The bits of three lists in turn: of the one before, of this one, and those being cleared for the next.
struct Bits {
    uint32_t* words;
    uint32_t size;  // words of one

    __device__ uint32_t* of(uint32_t list) const { return words + list % 3 * size; }
};

// A posting of list number `list`: noted if the lists before have its document.
__device__ __forceinline__ bool note(const Bits& bits, uint32_t list, uint32_t* sums, uint32_t place, float weight, const float* values, uint64_t at) {
    uint32_t word = place / 32, bit = 1u << (place % 32);
    if (list > 0 && (bits.of(list - 1)[word] & bit) == 0) return false;
    uint32_t share = contribution(weight, values[at]);
    // A list has a document once: nobody else touches this sum before the next barrier.
    sums[place] = list > 0 ? sums[place] + share : share;
    atomicOr(&bits.of(list)[word], bit);
    return true;
}

// Arguments as those of `or_tiles`, and room for `sparse` cursors a block. Dynamic shared memory: sums of a tile, three times bits, keys unless these are in global memory.
extern "C" __global__ void and_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches,
                                     uint64_t* thresholds, const uint32_t* enough, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride,
                                     uint64_t* global_keys, uint32_t capacity, uint32_t sparse, uint32_t* all_cursors) {
    DYNAMIC_SHARED(uint32_t, sums);
    __shared__ TopKState state;
    __shared__ uint32_t next_tile;
    const Item item = items[blockIdx.x];
    const Query query = queries[item.query];
    const uint32_t tile_docs = 1u << segment.bits;
    const Bits bits{sums + tile_docs, (tile_docs + 31) / 32};
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(bits.words + (3 * bits.size + 1) / 2 * 2);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    TopK top{keys, capacity, query.k, &state};
    const Term* terms = all_terms + query.first_term;
    // Where sparse lists stand; a list moves its own forward only.
    uint32_t* cursors = all_cursors + uint64_t(blockIdx.x) * sparse;
    for (uint32_t i = threadIdx.x; i < query.sparse; i += blockDim.x) cursors[i] = 0;
    for (uint32_t i = threadIdx.x; i < 3 * bits.size; i += blockDim.x) bits.words[i] = 0;
    if (threadIdx.x == 0) {
        state.threshold = query.least;
        state.count = 0;
    }
    __syncthreads();

    uint64_t matches = 0, published = 0;
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        if (query.sparse > 0) {
            // On to the next tile that the shortest list is in.
            if (threadIdx.x == 0) {
                const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[0].docs);
                uint32_t at = lower_bound(docs, cursors[0], terms[0].count, tile << segment.bits);
                cursors[0] = at;
                next_tile = at < terms[0].count ? docs[at] >> segment.bits : item.end;
            }
            __syncthreads();
            tile = next_tile;
            __syncthreads();
            if (tile >= item.end) break;
        }
        uint32_t begin = tile << segment.bits;
        uint32_t docs_here = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
        bool any = true;
        for (uint32_t list = 0; list < query.terms && any; list++) {
            Term term = terms[list];
            const float* values = reinterpret_cast<const float*>(term.values);
            bool noted = false;
            if (list < query.sparse) {
                const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
                uint32_t at = lower_bound(docs, cursors[list], term.count, begin);
                // Everybody has read the cursor before it moves.
                __syncthreads();
                if (threadIdx.x == 0) cursors[list] = at;
                for (uint32_t i = at + threadIdx.x; i < term.count && docs[i] < begin + docs_here; i += blockDim.x) {
                    noted |= note(bits, list, sums, docs[i] - begin, term.weight, values, i);
                }
            } else {
                const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
                const ushort4* fours = reinterpret_cast<const ushort4*>(term.docs);
                uint32_t end = starts[tile + 1];
                for (uint32_t i = starts[tile] + threadIdx.x; i < end; i += blockDim.x) {
                    ushort4 four = fours[i];
                    uint32_t places[FOUR] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (uint32_t j = 0; j < FOUR; j++) {
                        if (places[j] < tile_docs) noted |= note(bits, list, sums, places[j], term.weight, values, uint64_t(i) * FOUR + j);
                    }
                }
            }
            uint32_t* next = bits.of(list + 1);
            if (list > 0) {
                for (uint32_t i = threadIdx.x; i < bits.size; i += blockDim.x) next[i] = 0;
            }
            any = __syncthreads_or(noted);
        }
        if (any) {
            uint32_t* last = bits.of(query.terms - 1);
            bool first_look = true;
            while (true) {
                bool pending = false;
                for (uint32_t i = threadIdx.x; i < bits.size; i += blockDim.x) {
                    uint32_t left = last[i], stay = 0;
                    while (left != 0) {
                        uint32_t place = 32 * i + __ffs(left) - 1;
                        left &= left - 1;
                        uint32_t doc = begin + place;
                        if (is_deleted(segment, doc)) continue;
                        matches += first_look;
                        uint32_t score = sums[place] + static_score(segment, query.static_weight, doc);
                        if (score >= uint32_t(state.threshold >> 32) && !top.offer(hit_key(segment, doc, score))) {
                            pending = true;
                            stay |= 1u << (place % 32);
                        }
                    }
                    last[i] = stay;
                }
                if (!__syncthreads_or(pending)) break;
                top.compact();
                first_look = false;
            }
        }
        for (uint32_t i = threadIdx.x; i < 3 * bits.size; i += blockDim.x) bits.words[i] = 0;
        if (threadIdx.x == 0) {
            if (state.threshold > published && state.threshold > query.least) atomicMax(&thresholds[item.query], state.threshold);
            published = state.threshold;
            uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
            if (known > state.threshold) state.threshold = published = known;
        }
        __syncthreads();
    }
    __syncthreads();
    top.compact();
    for (uint32_t i = threadIdx.x; i < state.count; i += blockDim.x) out_keys[uint64_t(item.slot) * stride + i] = keys[i];
    if (threadIdx.x == 0) out_counts[item.slot] = state.count;
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) matches += __shfl_xor_sync(FULL_WARP, matches, distance);
    if (lane_id() == 0 && matches > 0) atomicAdd(&all_matches[item.query], matches);
}
