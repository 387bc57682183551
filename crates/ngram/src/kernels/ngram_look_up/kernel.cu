// Scores candidates. A few lanes look the part up in the bitmaps that were not counted until it
// lacks too many; if it does not, a warp looks it up in the other lists and compares maps of
// segments, where each lane has the count of one window of segments.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 128;
// Bitmaps that are read at a time; as many lanes have one candidate. Most candidates are ruled
// out by the first few.
constexpr uint32_t ASKED = 8;
// Number of scores above the minimum of a hit that are counted separately.
constexpr uint32_t LEVELS = 32;
// Warps that share the candidates of a query in a range.
constexpr uint32_t SHARERS = 8;

struct Hits {
    uint64_t keys;      // uint64_t: part, query and count of each candidate
    uint64_t rooms;     // Room per range and query: the positions of its candidates
    uint64_t of_query;  // uint32_t per query: its candidates
    uint64_t hits;      // Hit: part, query and score
    uint64_t found;     // uint32_t: hits
    uint64_t levels;    // Level per query and score above what a hit must have
    uint64_t bounds;    // uint64_t per query: see `Bound`
    uint32_t most_of_query;
    uint32_t k;
};

// Hits of a query with the same score.
struct Level {
    uint32_t count;
    uint32_t behind;  // the first `k` of them lie before this part
};

// The bound that `k` hits reach: a score (high half) with parts before a certain one (low half,
// inverted so that a better bound is a greater number).
struct Bound {
    uint32_t score;
    uint32_t behind;

    __device__ __forceinline__ explicit Bound(uint64_t packed) : score(uint32_t(packed >> 32)), behind(~uint32_t(packed)) {}
    static __device__ __forceinline__ uint64_t packed(uint32_t score, uint32_t behind) { return uint64_t(score) << 32 | ~behind; }
};

// The score that a part needs to be one of the best hits. Other warps may raise it at this
// moment, after which fewer candidates are scored; the best hits are the same.
__device__ __forceinline__ uint32_t needed(const Query& query, const Hits& hits, uint32_t number, uint32_t part) {
    const Bound bound(*(reinterpret_cast<const volatile uint64_t*>(hits.bounds) + number));
    return max(query.least, bound.score + uint32_t(part >= bound.behind));
}

// Records a hit, so that parts that cannot be among the best `k` are not scored.
__device__ __forceinline__ void note(const Hits& hits, uint32_t number, uint32_t least, uint32_t part, uint32_t score) {
    const uint32_t step = min(score - least, LEVELS - 1);
    Level* level = reinterpret_cast<Level*>(hits.levels) + number * LEVELS + step;
    // The thread that counts the k-th hit sees all of the first k.
    if (*reinterpret_cast<volatile uint32_t*>(&level->count) < hits.k) atomicMax(&level->behind, part + 1);
    __threadfence();
    if (atomicAdd(&level->count, 1u) + 1 == hits.k) {
        __threadfence();
        atomicMax(reinterpret_cast<uint64_t*>(hits.bounds) + number, Bound::packed(least + step, atomicMax(&level->behind, 0u)));
    }
}

struct Hit {
    uint32_t part;
    uint32_t query;
    uint32_t score;
};

__device__ __forceinline__ bool has_bit(uint64_t bits, uint32_t part) { return (load_u8(bits + part / 8) >> part % 8 & 1) != 0; }

// Returns the map of a part in a dense list, which has it. Each lane may request a different
// list.
__device__ __forceinline__ uint32_t dense_map(const Image& image, const MapList& list, uint32_t part) {
    if (image.widths == 0) return 1;
    const uint32_t bin = part / BIN, word = part % BIN / 32;
    const Samples* samples = reinterpret_cast<const Samples*>(image.samples) + list.first + bin;
    const uint64_t heads = __ldg(reinterpret_cast<const uint64_t*>(image.heads) + list.first + bin);
    const uint32_t before = load_u32(list.bitmaps + uint64_t(bin) * BITMAP + 4 * word) & mask_of(part % 32);
    uint32_t bit = __ldg(&samples->heads[word]);
    const Code own = code_of(image, part);
    const uint32_t head = load_bits(heads, bit + bits_of_heads(image, bin, word, before), own.head());
    if (head < own.segments()) return 1u << head;
    // Its tail comes behind those of the parts before it.
    uint32_t tail = __ldg(&samples->tails[word]);
    for (uint32_t rest = before; rest != 0; rest &= rest - 1) {
        const Code code = code_of(image, part / 32 * 32 + __ffs(rest) - 1);
        tail += code.tail(load_bits(heads, bit, code.head()));
        bit += code.head();
    }
    return own.map(head, load_bits(heads, tail, own.tail(head)));
}

// A block that was decoded to find a part in it.
struct BlockOfParts {
    uint32_t number;  // in the directory
    Head head;
    uint32_t parts[4];
};

// Finds a part in a list that is not dense; the entry in its block, or `NONE`. Called by all
// lanes of a warp with the same arguments.
__device__ __forceinline__ uint32_t find_sparse(const Image& image, const MapList& list, uint32_t part, BlockOfParts& block) {
    block.number = list.first + blocks_before(image, list, part);
    block.head = Head(image.file, __ldg(reinterpret_cast<const uint64_t*>(image.heads) + block.number));
    decode(block.head, __ldg(reinterpret_cast<const uint32_t*>(image.befores) + block.number), block.parts);
    uint32_t entry = NONE;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t here = __ballot_sync(FULL_WARP, block.parts[j] == part);
        if (here != 0) entry = 4 * (__ffs(here) - 1) + j;
    }
    return entry;
}

// The map of an entry of a block. Called by all lanes of a warp with the same arguments.
__device__ __forceinline__ uint32_t sparse_map(const Image& image, const MapList& list, const BlockOfParts& block, uint32_t entry) {
    if (list.form == ONE) return list.map;
    if (image.widths == 0) return 1;
    const Samples* samples = reinterpret_cast<const Samples*>(image.samples) + block.number;
    const uint64_t heads = heads_of(block.head.maps, block.head.n);
    // A lane has one of the maps from a sample on; those behind the entry, and parts out of
    // range, take no bits.
    const uint32_t sample = entry / SAMPLED, lane = lane_id(), last = entry % SAMPLED;
    const uint32_t part = part_of(block.parts, sample * SAMPLED + lane % SAMPLED);
    const Code code = lane <= last && part < image.parts ? code_of(image, part) : Code{0};
    const uint32_t to = warp_inclusive_sum(code.head()), head = load_bits(heads, __ldg(&samples->heads[sample]) + to - code.head(), code.head());
    const bool is_one = head < code.segments();
    if ((__ballot_sync(FULL_WARP, is_one) >> last & 1) != 0) return 1u << __shfl_sync(FULL_WARP, head, last);
    const uint32_t bits = lane <= last ? code.tail(head) : 0, tail = __ldg(&samples->tails[sample]) + warp_inclusive_sum(bits) - bits;
    return __shfl_sync(FULL_WARP, code.map(head, load_bits(heads, tail, bits)), last);
}

// Scores a candidate that may be in `possible` lists; all bitmaps have been read except those of
// lists that were not counted and have none. Called by all lanes of a warp with the same
// arguments.
__device__ __forceinline__ void score(const Image& image, Query query, const Own& lists, uint32_t number, uint32_t part, uint32_t possible, const Hits& hits) {
    const uint32_t least = query.least;
    query.least = __shfl_sync(FULL_WARP, needed(query, hits, number, part), 0);
    if (possible < query.least) return;
    // If all segments are within reach of each other, maps say nothing new.
    const bool has_maps = segments_of(image, part) > uint32_t(__popc(query.window));
    uint32_t seen = 0, mine = 0;
    // A hit allows `possible - least` of the lists that have the part to have it in other segments
    // only. Dense lists come first, as they are read at the same time.
    for (uint32_t first = query.dense; has_maps && first < query.lists; first += WARP) {
        const uint32_t i = first + lane_id();
        uint32_t map = 0;
        if (i < query.lists && has_bit(lists[i].bitmaps, part)) map = dense_map(image, lists[i], part);
        for (uint32_t some = __ballot_sync(FULL_WARP, map != 0); some != 0; some &= some - 1) {
            mine += (__shfl_sync(FULL_WARP, map, __ffs(some) - 1) >> lane_id() & query.window) != 0;
            seen++;
        }
        if (seen > warp_max(mine) + possible - query.least) return;
    }
    BlockOfParts block{0, Head(0, 0), {}};
    for (uint32_t i = has_maps ? 0 : query.counted, end = has_maps ? query.dense : query.bitmaps; i < end; i++) {
        const MapList& list = lists[i];
        if (i >= query.bitmaps && !has_bit(list.bitmaps, part)) continue;
        const uint32_t entry = find_sparse(image, list, part, block);
        if (entry == NONE) {
            if (i >= query.counted && --possible < query.least) return;
            continue;
        }
        if (!has_maps) continue;
        mine += (sparse_map(image, list, block, entry) >> lane_id() & query.window) != 0;
        if (++seen > warp_max(mine) + possible - query.least) return;
    }
    const uint32_t best = has_maps ? warp_max(mine) : possible;
    if (best < query.least || lane_id() != 0) return;
    const uint32_t at = atomicAdd(reinterpret_cast<uint32_t*>(hits.found), 1u);
    reinterpret_cast<Hit*>(hits.hits)[at] = Hit{part, number, best};
    note(hits, number, least, part, best);
}

// Returns an upper bound on how many of the query's lists contain a candidate: the bitmaps that
// were not counted are read until it is in too few. Called by all lanes of a warp; those of a
// group have the same arguments.
__device__ __forceinline__ uint32_t possible_of(const Query& query, const Own& lists, uint32_t part, uint32_t possible, uint32_t least) {
    const uint32_t own = lane_id() % ASKED, shift = lane_id() / ASKED * ASKED;
    for (uint32_t first = max(query.counted, query.bitmaps);; first += ASKED) {
        const bool goes_on = possible >= least && first < query.lists;
        if (__ballot_sync(FULL_WARP, goes_on) == 0) return possible;
        const bool lacks = goes_on && first + own < query.lists && !has_bit(lists[first + own].bitmaps, part);
        possible -= __popc(__ballot_sync(FULL_WARP, lacks) >> shift & mask_of(ASKED));
    }
}

// Ranges are processed in order, so that among equal hits the first are found first. Several warps
// have the candidates of a query in a range.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_look_up(const Query* queries, const uint32_t* ordinals, Image image, uint32_t number_of_queries, uint32_t ranges, Hits hits) {
    const uint32_t warps = gridDim.x * (THREADS / WARP), together = WARP / ASKED, items = ranges * number_of_queries * SHARERS;
    for (uint32_t item = blockIdx.x * (THREADS / WARP) + warp_id(); item < items; item += warps) {
        const uint32_t number = item / SHARERS % number_of_queries;
        const Room room = reinterpret_cast<const Room*>(hits.rooms)[item / SHARERS];
        if (room.count == 0 || reinterpret_cast<const uint32_t*>(hits.of_query)[number] > hits.most_of_query) continue;
        const uint64_t* keys = reinterpret_cast<const uint64_t*>(hits.keys) + room.first;
        const Query query = queries[number];
        const Own own(image, ordinals, query);
        for (uint32_t first = item % SHARERS * together; first < room.count; first += SHARERS * together) {
            const uint32_t i = first + lane_id() / ASKED;
            const uint64_t key = i < room.count ? keys[i] : 0;
            const uint32_t part = uint32_t(key >> 32);
            const bool deleted = image.deleted != 0 && has_bit(image.deleted, part);
            // Lanes of a group may see different bounds.
            const uint32_t least = __shfl_sync(FULL_WARP, needed(query, hits, number, part), lane_id() / ASKED * ASKED);
            uint32_t possible = i < room.count && !deleted ? (uint32_t(key) & 0xff) + query.lists - query.counted : 0;
            possible = possible_of(query, own, part, possible, least);
            for (uint32_t alive = __ballot_sync(FULL_WARP, possible >= least); alive != 0;) {
                const uint32_t lane = __ffs(alive) - 1;
                alive &= ~(mask_of(ASKED) << lane);
                score(image, query, own, number, __shfl_sync(FULL_WARP, part, lane), __shfl_sync(FULL_WARP, possible, lane), hits);
            }
        }
    }
}
