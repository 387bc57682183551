// The published algorithms (Walkowiak et al. 2010) with the scores of this index: a part has a
// count for each of 32 windows of segments. Lists are processed shortest first. As long as a part
// could still be a hit with the lists that are left, parts are gathered; then those gathered are
// pruned with a minimum that rises by one with each list. Lists are decoded where they are used
// instead of being unpacked to memory.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t WARPS = THREADS / WARP;
// Words of a part's counts, which have a byte each.
constexpr uint32_t WORDS = 8;

struct Hits {
    uint64_t hits;   // Hit
    uint64_t found;  // uint32_t: number of hits; the array is always large enough
};

struct Hit {
    uint32_t part;
    uint32_t query;
    uint32_t score;
};

// A query's state of a part.
struct Counts {
    uint32_t* words;
    uint8_t* alive;

    // Counts an n-gram with this map if the part is gathered, or becomes so.
    __device__ __forceinline__ void add(uint32_t map, uint32_t window, bool gathers) const {
        if (*alive == 0 && !gathers) return;
        const bool is_new = *alive == 0;
        *alive = 1;
        // The windows that contain a segment of the map begin at that segment or up to a window's
        // length before it.
        uint32_t wide = 0;
        for (uint32_t rest = window; rest != 0; rest >>= 1, map >>= 1) wide |= map;
#pragma unroll
        for (uint32_t j = 0; j < WORDS; j++) words[j] = (is_new ? 0 : words[j]) + ((wide >> 4 * j & 15) * 0x00204081u & 0x01010101u);
    }

    __device__ __forceinline__ uint32_t best() const {
        uint32_t best = 0;
#pragma unroll
        for (uint32_t j = 0; j < WORDS; j++) {
            for (uint32_t rest = words[j]; rest != 0; rest >>= 8) best = max(best, rest & 255);
        }
        return best;
    }
};

__device__ __forceinline__ void add_hit(const Hits& hits, uint32_t part, uint32_t query, uint32_t score) {
    const uint32_t at = atomicAdd(reinterpret_cast<uint32_t*>(hits.found), 1u);
    reinterpret_cast<Hit*>(hits.hits)[at] = Hit{part, query, score};
}

// Calls `f` with this lane's part and map of every entry of a block. Called by all lanes of a warp.
template <class F>
__device__ __forceinline__ void each_in_block(const Image& image, const MapList& list, uint32_t number, F f) {
    const Head head(image.file, reinterpret_cast<const uint64_t*>(image.heads)[list.first + number]);
    uint32_t parts[4];
    decode(head, reinterpret_cast<const uint32_t*>(image.befores)[list.first + number], parts);
    for (uint32_t group = 0; 32 * group < head.n; group++) {
        const uint32_t part = part_of(parts, 32 * group + lane_id());
        const uint32_t map = list.form == ONE ? list.map : map_of_lane(image, head.maps, head.n, group, [&](uint32_t entry) { return part_of(parts, entry); });
        if (part < image.parts) f(part, map);
    }
}

// Calls `f` with this lane's part and map of every entry of a bin of a dense list. Called by all
// lanes of `warps` warps, of which this is number `warp` and which share the groups of 32 entries.
// `by_rank` has a byte per entry and belongs to the warp.
template <class F>
__device__ __forceinline__ void each_in_bin(const Image& image, const MapList& list, uint32_t bin, uint32_t warp, uint32_t warps, uint8_t* by_rank, F f) {
    const uint64_t bitmap = list.bitmaps + uint64_t(bin) * BITMAP;
    uint32_t all = 0;
    __syncwarp();
    for (uint32_t i = 0; i < BITMAP / 4; i++) {
        const uint32_t word = load_u32(bitmap + 4 * i);
        if ((word >> lane_id() & 1) != 0) by_rank[all + __popc(word & ((1u << lane_id()) - 1))] = uint8_t(32 * i + lane_id());
        all += __popc(word);
    }
    __syncwarp();
    const auto part_at = [&](uint32_t entry) { return entry < all ? bin * BIN + by_rank[entry] : NONE; };
    for (uint32_t group = warp; 32 * group < all; group += warps) {
        const uint32_t part = part_at(32 * group + lane_id()), map = map_of_lane(image, piece_of(list, bin), all, group, part_at);
        if (part < image.parts) f(part, map);
    }
}

// The state that one query has for all parts in the device's memory.
struct AllCounts {
    uint64_t words;  // uint32_t, eight per part
    uint64_t alive;  // uint8_t per part

    __device__ __forceinline__ Counts of(uint32_t part) const { return Counts{reinterpret_cast<uint32_t*>(words) + uint64_t(part) * WORDS, reinterpret_cast<uint8_t*>(alive) + part}; }
};

// Adds one list to all parts.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_match(Image image, uint32_t ordinal, uint32_t window, uint32_t gathers, AllCounts counts) {
    __shared__ uint8_t by_rank[WARPS][BIN];
    const MapList list = reinterpret_cast<const MapList*>(image.lists)[ordinal];
    const auto add = [&](uint32_t part, uint32_t map) { counts.of(part).add(map, window, gathers != 0); };
    for (uint32_t number = blockIdx.x * WARPS + warp_id(); number < list.blocks; number += gridDim.x * WARPS) {
        if (list.form == DENSE) each_in_bin(image, list, number, 0, 1, by_rank[warp_id()], add);
        else each_in_block(image, list, number, add);
    }
}

// Drops parts that are below the minimum.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_prune(uint32_t parts, uint32_t minimum, AllCounts counts) {
    for (uint32_t part = blockIdx.x * THREADS + threadIdx.x; part < parts; part += gridDim.x * THREADS) {
        const Counts own = counts.of(part);
        if (*own.alive != 0 && own.best() < minimum) *own.alive = 0;
    }
}

// Lists the parts that are left.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_collect(uint32_t parts, AllCounts counts, Hits hits) {
    for (uint32_t part = blockIdx.x * THREADS + threadIdx.x; part < parts; part += gridDim.x * THREADS) {
        const Counts own = counts.of(part);
        if (*own.alive != 0) add_hit(hits, part, 0, own.best());
    }
}

// Processes all lists of a query for one bin of 256 parts, and stops as soon as no part can be a
// hit. A thread prunes one part.
extern "C" __global__ void __launch_bounds__(THREADS) ngram_bins(const Query* queries, const uint32_t* ordinals, Image image, uint32_t bins, Hits hits) {
    __shared__ uint8_t by_rank[WARPS][BIN], alive[BIN];
    // One word more, so that neighbours have their counts in different banks.
    __shared__ uint32_t words[BIN][WORDS + 1];
    const uint32_t number = blockIdx.x / bins, bin = blockIdx.x % bins, start = bin * BIN, end = min(image.parts - start, BIN) + start;
    const Query query = queries[number];
    const Own own(image, ordinals, query);
    const uint32_t misses = query.lists - query.least;
    const Counts mine{words[threadIdx.x], &alive[threadIdx.x]};
    alive[threadIdx.x] = 0;
    for (uint32_t i = 0; i < query.lists; i++) {
        const MapList& list = own[i];
        __syncthreads();
        const auto add = [&](uint32_t part, uint32_t map) {
            if (part >= start && part < end) Counts{words[part - start], &alive[part - start]}.add(map, query.window, i <= misses);
        };
        if (list.form == DENSE) {
            each_in_bin(image, list, bin, warp_id(), WARPS, by_rank[warp_id()], add);
        } else {
            const uint32_t first = blocks_before(image, list, start);
            for (uint32_t block = first + warp_id(); block < list.blocks; block += WARPS) {
                // The block before it ends behind the bin.
                if (block > 0 && reinterpret_cast<const uint32_t*>(image.befores)[list.first + block] >= end - 1) break;
                each_in_block(image, list, block, add);
            }
        }
        __syncthreads();
        if (alive[threadIdx.x] != 0 && i >= misses && mine.best() < i + 1 - misses) alive[threadIdx.x] = 0;
        if (__syncthreads_count(alive[threadIdx.x] != 0) == 0 && i >= misses) return;
    }
    if (alive[threadIdx.x] != 0) add_hit(hits, start + threadIdx.x, number, mine.best());
}
