// AND: the same tiles, list by list, shortest first. A bit a document says whether all lists so far have it; what the last list leaves is
// scored. Tiles where the shortest list has nothing, and lists behind one that leaves nothing, are not read, nor are values of documents that do not match.
#include "tiles.cuh"
#include "topk.cuh"

// Lists whose postings a thread keeps in registers, four each.
constexpr uint32_t KEPT = 4;

// The bits of three lists in turn: of the one before, of this one, and those being cleared for the next.
struct Bits {
    uint32_t* words;
    uint32_t size;  // words of one

    __device__ uint32_t* of(uint32_t list) const { return words + list % 3 * size; }

    __device__ bool has(uint32_t list, uint32_t place) const { return (of(list)[place / 32] >> (place % 32) & 1) != 0; }

    // Notes a document of a list if the list before has it.
    __device__ bool note(uint32_t list, uint32_t place) const {
        if (list > 0 && !has(list - 1, place)) return false;
        atomicOr(&of(list)[place / 32], 1u << (place % 32));
        return true;
    }

    // Notes those of four that are no fill.
    __device__ bool note_four(uint32_t list, ushort4 four, uint32_t tile_docs) const {
        bool noted = false;
        if (four.x < tile_docs) noted |= note(list, four.x);
        if (four.y < tile_docs) noted |= note(list, four.y);
        if (four.z < tile_docs) noted |= note(list, four.z);
        if (four.w < tile_docs) noted |= note(list, four.w);
        return noted;
    }
};

// Adds the contributions of those of four that every list has.
__device__ void add_four(const Bits& bits, uint32_t last, ushort4 four, uint32_t tile_docs, uint32_t* sums, float weight, const float* values) {
    if (four.x < tile_docs && bits.has(last, four.x)) sums[four.x] += contribution(weight, values[0]);
    if (four.y < tile_docs && bits.has(last, four.y)) sums[four.y] += contribution(weight, values[1]);
    if (four.z < tile_docs && bits.has(last, four.z)) sums[four.z] += contribution(weight, values[2]);
    if (four.w < tile_docs && bits.has(last, four.w)) sums[four.w] += contribution(weight, values[3]);
}

// Arguments as those of `or_tiles`, and room for `sparse` cursors a block. Dynamic shared memory: sums of a tile, three times bits, keys unless
// these are in global memory.
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
    // Where sparse lists stand.
    uint32_t* cursors = all_cursors + uint64_t(blockIdx.x) * sparse;
    for (uint32_t i = threadIdx.x; i < query.sparse; i += blockDim.x) cursors[i] = 0;
    for (uint32_t i = threadIdx.x; i < tile_docs + 3 * bits.size; i += blockDim.x) sums[i] = 0;
    if (threadIdx.x == 0) {
        uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
        state.threshold = known > query.least ? known : query.least;
        state.count = 0;
    }
    __syncthreads();

    uint32_t matches = 0;
    uint64_t published = 0;
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
        const uint32_t begin = tile << segment.bits;
        const uint32_t docs_here = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
        const uint32_t last = query.terms - 1;
        // The first dense lists' postings are loaded at once, so that one wait does for all of them.
        ushort4 kept[KEPT];
        uint32_t kept_at[KEPT], kept_end[KEPT];
#pragma unroll
        for (uint32_t j = 0; j < KEPT; j++) {
            kept_at[j] = kept_end[j] = 0;
            if (query.sparse + j < query.terms) {
                const uint32_t* starts = reinterpret_cast<const uint32_t*>(terms[query.sparse + j].starts);
                kept_at[j] = starts[tile] + threadIdx.x;
                kept_end[j] = starts[tile + 1];
            }
        }
        if (query.sparse == 0 && kept_at[0] - threadIdx.x == kept_end[0]) continue;
#pragma unroll
        for (uint32_t j = 0; j < KEPT; j++) {
            if (kept_at[j] < kept_end[j]) kept[j] = reinterpret_cast<const ushort4*>(terms[query.sparse + j].docs)[kept_at[j]];
        }

        bool any = true;
        for (uint32_t list = 0; list < query.sparse && any; list++) {
            const Term term = terms[list];
            const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
            uint32_t at = lower_bound(docs, cursors[list], term.count, begin);
            // Everybody has read the cursor before it moves.
            __syncthreads();
            if (threadIdx.x == 0) cursors[list] = at;
            bool noted = false;
            for (uint32_t i = at + threadIdx.x; i < term.count && docs[i] < begin + docs_here; i += blockDim.x) noted |= bits.note(list, docs[i] - begin);
            uint32_t* next = bits.of(list + 1);
            if (list > 0) {
                for (uint32_t i = threadIdx.x; i < bits.size; i += blockDim.x) next[i] = 0;
            }
            any = __syncthreads_or(noted);
        }
        for (uint32_t list = query.sparse; list < query.terms && any; list++) {
            bool noted = false;
            const Term term = terms[list];
            const ushort4* fours = reinterpret_cast<const ushort4*>(term.docs);
            const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
            uint32_t at = 0, end = 0;
            uint32_t j = list - query.sparse;
            if (j < KEPT) {
#pragma unroll
                for (uint32_t i = 0; i < KEPT; i++) {
                    if (i == j) {
                        if (kept_at[i] < kept_end[i]) noted = bits.note_four(list, kept[i], tile_docs);
                        at = kept_at[i] + blockDim.x;
                        end = kept_end[i];
                    }
                }
            } else {
                at = starts[tile] + threadIdx.x;
                end = starts[tile + 1];
            }
            for (; at < end; at += blockDim.x) noted |= bits.note_four(list, fours[at], tile_docs);
            uint32_t* next = bits.of(list + 1);
            if (list > 0) {
                for (uint32_t i = threadIdx.x; i < bits.size; i += blockDim.x) next[i] = 0;
            }
            any = __syncthreads_or(noted);
        }

        if (any) {
            // A list has a document once, so between two barriers nobody else touches its sum.
            for (uint32_t list = 0; list < query.terms; list++) {
                const Term term = terms[list];
                const float* values = reinterpret_cast<const float*>(term.values);
                if (list < query.sparse) {
                    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
                    for (uint32_t i = cursors[list] + threadIdx.x; i < term.count && docs[i] < begin + docs_here; i += blockDim.x) {
                        uint32_t place = docs[i] - begin;
                        if (bits.has(last, place)) sums[place] += contribution(term.weight, values[i]);
                    }
                } else {
                    const ushort4* fours = reinterpret_cast<const ushort4*>(term.docs);
                    const uint32_t* starts = reinterpret_cast<const uint32_t*>(term.starts);
                    uint32_t end = starts[tile + 1];
                    for (uint32_t at = starts[tile] + threadIdx.x; at < end; at += blockDim.x) {
                        add_four(bits, last, fours[at], tile_docs, sums, term.weight, values + uint64_t(at) * FOUR);
                    }
                }
                __syncthreads();
            }
            bool first_look = true;
            uint32_t* left_bits = bits.of(last);
            while (true) {
                bool pending = false;
                uint32_t threshold = uint32_t(state.threshold >> 32);
                for (uint32_t i = threadIdx.x; i < bits.size; i += blockDim.x) {
                    uint32_t left = left_bits[i], stay = 0;
                    while (left != 0) {
                        uint32_t place = 32 * i + __ffs(left) - 1;
                        left &= left - 1;
                        uint32_t doc = begin + place;
                        if (!is_deleted(segment, doc)) {
                            matches += first_look;
                            uint32_t score = sums[place] + static_score(segment, query.static_weight, doc);
                            if (score >= threshold && !top.offer(hit_key(segment, doc, score))) {
                                // No room: it stays to be looked at again.
                                stay |= 1u << (place % 32);
                                pending = true;
                                continue;
                            }
                        }
                        sums[place] = 0;
                    }
                    left_bits[i] = stay;
                }
                if (!__syncthreads_or(pending)) break;
                top.compact();
                first_look = false;
            }
        }
        for (uint32_t i = threadIdx.x; i < 3 * bits.size; i += blockDim.x) bits.words[i] = 0;
        if (threadIdx.x == 0 && any) {
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
    if (lane_id() == 0 && matches > 0) atomicAdd(&all_matches[item.query], uint64_t(matches));
}
