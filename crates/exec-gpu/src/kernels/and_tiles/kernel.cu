// AND: a warp takes a query's lists one by one over a tile, shortest first. A bit a document says whether all lists so far have it; what the last
// leaves is scored. Tiles where the shortest list has nothing, lists behind one that leaves nothing, and values of documents that do not match are not read.
#include "tiles.cuh"
#include "topk.cuh"

// Dense lists whose postings are loaded at once, up to a four a lane.
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
        bool noted = note(list, four.x);
        if (four.y < tile_docs) noted |= note(list, four.y);
        if (four.z < tile_docs) noted |= note(list, four.z);
        if (four.w < tile_docs) noted |= note(list, four.w);
        return noted;
    }

    // Ends a list: true if it left anything.
    __device__ bool end(uint32_t list, bool noted) const {
        uint32_t* next = of(list + 1);
        if (list > 0) {
            for (uint32_t i = lane_id(); i < size; i += WARP) next[i] = 0;
        }
        bool any = __any_sync(FULL_WARP, noted);
        __syncwarp();
        return any;
    }
};

// Adds the contributions of those of four that every list has.
__device__ void add_four(const Bits& bits, uint32_t last, ushort4 four, uint32_t tile_docs, uint32_t* sums, float weight, const float* values) {
    if (bits.has(last, four.x)) sums[four.x] += contribution(weight, values[0]);
    if (four.y < tile_docs && bits.has(last, four.y)) sums[four.y] += contribution(weight, values[1]);
    if (four.z < tile_docs && bits.has(last, four.z)) sums[four.z] += contribution(weight, values[2]);
    if (four.w < tile_docs && bits.has(last, four.w)) sums[four.w] += contribution(weight, values[3]);
}

// Arguments as those of `or_tiles`. Dynamic shared memory: sums of a tile, cursors of sparse terms, three times bits, keys unless these are in global
// memory.
extern "C" __global__ void __launch_bounds__(WARP) and_tiles(Segment segment, const Query* queries, const Term* all_terms, const Item* items, uint64_t* all_matches,
                                     uint64_t* thresholds, const uint32_t* enough, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride,
                                     uint64_t* global_keys, uint32_t capacity, uint32_t sparse) {
    DYNAMIC_SHARED(uint32_t, sums);
    const uint32_t lane = lane_id();
    const Item item = items[blockIdx.x];
    const Query query = queries[item.query];
    const uint32_t tile_docs = 1u << segment.bits, tiles = (segment.docs + tile_docs - 1) >> segment.bits;
    uint32_t* cursors = sums + tile_docs;
    const Bits bits{cursors + (sparse + FOUR - 1) / FOUR * FOUR, (tile_docs + 31) / 32};
    uint64_t* shared_keys = reinterpret_cast<uint64_t*>(bits.words + (3 * bits.size + 1) / 2 * 2);
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    WarpTopK top{keys, capacity, query.k, query.least, 0};
    const Term* terms = all_terms + query.first_term;
    const Term* dense = terms + query.sparse;
    const uint32_t dense_count = query.terms - query.sparse, last = query.terms - 1;
    for (uint32_t i = lane; i < query.sparse; i += WARP) cursors[i] = 0;
    for (uint32_t i = lane; i < tile_docs; i += WARP) sums[i] = 0;
    for (uint32_t i = lane; i < 3 * bits.size; i += WARP) bits.words[i] = 0;
    __syncwarp();

    Term kept[KEPT];
    Starts starts[KEPT];
#pragma unroll
    for (uint32_t j = 0; j < KEPT; j++) {
        if (j < dense_count) {
            kept[j] = dense[j];
            starts[j].load(kept[j], item.begin, tiles);
        }
    }
    uint32_t matches = 0;
    uint64_t published = 0;
    uint32_t window = item.begin;
    for (uint32_t tile = item.begin; tile < item.end; tile++) {
        if (query.sparse > 0) {
            // On to the next tile that the shortest list is in.
            const uint32_t* docs = reinterpret_cast<const uint32_t*>(terms[0].docs);
            uint32_t at = lower_bound(docs, cursors[0], terms[0].count, tile << segment.bits);
            __syncwarp();
            if (lane == 0) cursors[0] = at;
            __syncwarp();
            tile = at < terms[0].count ? docs[at] >> segment.bits : item.end;
            if (tile >= item.end) break;
        }
        if (tile >= window + WINDOW) {
            window = tile;
#pragma unroll
            for (uint32_t j = 0; j < KEPT; j++) {
                if (j < dense_count) starts[j].load(kept[j], tile, tiles);
            }
        }
        const uint32_t in_window = tile - window;
        const uint32_t begin = tile << segment.bits;
        const uint32_t docs_here = segment.docs - begin < tile_docs ? segment.docs - begin : tile_docs;
        // All at once, so that one wait does for all.
        ushort4 places[KEPT];
        uint32_t at[KEPT], end[KEPT];
#pragma unroll
        for (uint32_t j = 0; j < KEPT; j++) {
            at[j] = end[j] = 0;
            if (j < dense_count) {
                at[j] = starts[j].begin(in_window) + lane;
                end[j] = starts[j].end(in_window);
            }
        }
        if (query.sparse == 0 && at[0] - lane == end[0]) continue;
#pragma unroll
        for (uint32_t j = 0; j < KEPT; j++) {
            if (at[j] < end[j]) places[j] = reinterpret_cast<const ushort4*>(kept[j].docs)[at[j]];
        }

        bool any = true;
        for (uint32_t list = 0; list < query.sparse && any; list++) {
            const Term term = terms[list];
            const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
            uint32_t from = lower_bound(docs, cursors[list], term.count, begin);
            __syncwarp();
            if (lane == 0) cursors[list] = from;
            bool noted = false;
            for (uint32_t i = from + lane; i < term.count && docs[i] < begin + docs_here; i += WARP) noted |= bits.note(list, docs[i] - begin);
            any = bits.end(list, noted);
        }
#pragma unroll
        for (uint32_t j = 0; j < KEPT; j++) {
            if (j < dense_count && any) {
                bool noted = false;
                if (at[j] < end[j]) noted = bits.note_four(query.sparse + j, places[j], tile_docs);
                for (uint32_t i = at[j] + WARP; i < end[j]; i += WARP) {
                    noted |= bits.note_four(query.sparse + j, reinterpret_cast<const ushort4*>(kept[j].docs)[i], tile_docs);
                }
                any = bits.end(query.sparse + j, noted);
            }
        }
        for (uint32_t j = KEPT; j < dense_count && any; j++) {
            const Term term = dense[j];
            const uint32_t* of = reinterpret_cast<const uint32_t*>(term.starts) + tile;
            const ushort4* docs = reinterpret_cast<const ushort4*>(term.docs);
            uint32_t to = of[1];
            bool noted = false;
            for (uint32_t i = of[0] + lane; i < to; i += WARP) noted |= bits.note_four(query.sparse + j, docs[i], tile_docs);
            any = bits.end(query.sparse + j, noted);
        }

        if (any) {
            // A list has a document once, so that its postings do not meet in a sum; lists do.
            for (uint32_t list = 0; list < query.terms; list++) {
                const Term term = terms[list];
                const float* values = reinterpret_cast<const float*>(term.values);
                if (list < query.sparse) {
                    const uint32_t* docs = reinterpret_cast<const uint32_t*>(term.docs);
                    for (uint32_t i = cursors[list] + lane; i < term.count && docs[i] < begin + docs_here; i += WARP) {
                        uint32_t place = docs[i] - begin;
                        if (bits.has(last, place)) sums[place] += contribution(term.weight, values[i]);
                    }
                } else {
                    const ushort4* docs = reinterpret_cast<const ushort4*>(term.docs);
                    const uint32_t* of = reinterpret_cast<const uint32_t*>(term.starts) + tile;
                    uint32_t to = of[1];
                    for (uint32_t i = of[0] + lane; i < to; i += WARP) {
                        add_four(bits, last, docs[i], tile_docs, sums, term.weight, values + uint64_t(i) * FOUR);
                    }
                }
                __syncwarp();
            }
            const uint32_t* left_bits = bits.of(last);
            for (uint32_t i = 0; i < bits.size; i++) {
                // A document a lane.
                if (left_bits[i] == 0) continue;
                uint32_t place = 32 * i + lane, doc = begin + place;
                uint64_t key = 0;
                if ((left_bits[i] >> lane & 1) != 0) {
                    if (!is_deleted(segment, doc)) {
                        matches++;
                        key = hit_key(segment, doc, sums[place] + static_score(segment, query.static_weight, doc));
                    }
                    sums[place] = 0;
                }
                top.offer(key);
            }
            if (top.threshold > published && top.threshold > query.least && lane == 0) atomicMax(&thresholds[item.query], top.threshold);
            uint64_t known = *reinterpret_cast<volatile uint64_t*>(&thresholds[item.query]);
            known = __shfl_sync(FULL_WARP, known, 0);
            if (known > top.threshold) top.threshold = known;
            published = top.threshold;
        }
        __syncwarp();
        for (uint32_t i = lane; i < 3 * bits.size; i += WARP) bits.words[i] = 0;
        __syncwarp();
    }
    top.compact();
    for (uint32_t i = lane; i < top.count; i += WARP) out_keys[uint64_t(item.slot) * stride + i] = keys[i];
    if (lane == 0) out_counts[item.slot] = top.count;
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) matches += __shfl_xor_sync(FULL_WARP, matches, distance);
    if (lane == 0 && matches > 0) atomicAdd(&all_matches[item.query], uint64_t(matches));
}
