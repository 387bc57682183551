// Scores candidates, one per warp: looks the part up in the lists that were not counted until it lacks too many of them, then compares maps of segments. A lane has the count of one window of segments.
#include "map_lists.cuh"

constexpr uint32_t THREADS = 128;

struct Hits {
    uint64_t keys;      // uint64_t: part and query of each candidate
    uint64_t count;     // uint32_t: candidates
    uint64_t of_query;  // uint32_t per query: its candidates
    uint64_t hits;      // Hit: part, query and score
    uint64_t found;     // uint32_t: hits
    uint64_t failed;    // uint32_t
    uint32_t room;      // of candidates, and of hits
    uint32_t most_of_query;
};

struct Hit {
    uint32_t part;
    uint32_t query;
    uint32_t score;
};

__device__ __forceinline__ bool has_bit(const MapList& list, uint32_t part) { return (load_u8(list.bitmaps + part / 8) >> part % 8 & 1) != 0; }

// The map of a part in a dense list, which has it. Each lane may ask for another list.
__device__ __forceinline__ uint32_t dense_map(const MapList& list, const Parts& parts, uint32_t part, uint32_t* failed) {
    const uint32_t bin = part / BIN, within = part % BIN;
    const uint64_t bitmap = list.bitmaps + uint64_t(bin) * BITMAP, maps = piece_of(list, bin);
    if (maps == 0) {
        *failed = 1;
        return 0;
    }
    uint32_t rank = 0, all = 0;
    for (uint32_t i = 0; i < BITMAP / 4; i++) {
        const uint32_t word = load_u32(bitmap + 4 * i);
        all += __popc(word);
        if (i < within / 32) rank += __popc(word);
        else if (i == within / 32) rank += __popc(word & ((1u << within % 32) - 1));
    }
    MapGroup group;
    if (!find_group(maps, all, rank, group)) return 1;
    const uint32_t entry = rank % 32;
    uint32_t bit = group.bit, at = within / 32, word = load_u32(bitmap + 4 * at) & ((1u << within % 32) - 1);
    for (uint32_t before = entry; before > 0; before--) {
        while (word == 0 && at > 0) word = load_u32(bitmap + 4 * --at);
        const uint32_t top = 31 - __clz(word | 1);
        word &= ~(1u << top);
        bit += width_of(segments_of(parts, bin * BIN + at * 32 + top), group.kind(before - 1));
    }
    const uint32_t kind = group.kind(entry);
    return map_of_value(load_bits(group.at, bit, width_of(segments_of(parts, part), kind)), kind);
}

// Finds a part in a list that is not dense; the entry in its block, or `NONE`. Called by all lanes of a warp with the same arguments.
__device__ __forceinline__ uint32_t find_sparse(const MapList& list, uint32_t part, BlockOfParts& block, uint32_t* failed) {
    const uint32_t number = block_for(list, part);
    if (number >= list.blocks) return NONE;
    if (!decode(list, number, block)) {
        if (lane_id() == 0) *failed = 1;
        return NONE;
    }
    uint32_t entry = NONE;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t here = __ballot_sync(FULL_WARP, block.parts[j] == part);
        if (here != 0) entry = 4 * (__ffs(here) - 1) + j;
    }
    return entry;
}

// The map of an entry of a block. Called by all lanes of a warp with the same arguments.
__device__ __forceinline__ uint32_t sparse_map(const MapList& list, const Parts& parts, const BlockOfParts& block, uint32_t entry) {
    if (list.form == ONE) return list.map;
    MapGroup group;
    if (!find_group(block.maps, block.n, entry, group)) return 1;
    // Lane i has entry i of the group.
    const uint32_t mine = entry / 32 * 32 + lane_id();
    uint32_t part = NONE;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t other = __shfl_sync(FULL_WARP, block.parts[j], mine / 4);
        if (mine % 4 == j) part = other;
    }
    const uint32_t kind = group.kind(lane_id()), width = part < parts.count && mine <= entry ? width_of(segments_of(parts, part), kind) : 0;
    const uint32_t bit = group.bit + warp_inclusive_sum(width) - width;
    const uint32_t map = mine == entry ? map_of_value(load_bits(group.at, bit, width), kind) : 0;
    return __shfl_sync(FULL_WARP, map, entry % 32);
}

__device__ __forceinline__ void score(const Query& query, const Own& lists, const Parts& parts, uint32_t number, uint32_t part, uint32_t count, const Hits& hits) {
    uint32_t* failed = reinterpret_cast<uint32_t*>(hits.failed);
    uint32_t possible = count + query.lists - query.counted;
    // Dense lists need one bit each.
    for (uint32_t first = max(query.counted, query.dense); first < query.lists; first += WARP) {
        const uint32_t i = first + lane_id();
        possible -= __popc(__ballot_sync(FULL_WARP, i < query.lists && !has_bit(lists[min(i, query.lists - 1)], part)));
        if (possible < query.least) return;
    }
    BlockOfParts block;
    for (uint32_t i = query.counted; i < query.dense; i++) {
        if (find_sparse(lists[i], part, block, failed) == NONE && --possible < query.least) return;
    }
    // As many of the lists that have the part may have it elsewhere.
    const uint32_t slack = possible - query.least;
    uint32_t seen = 0, mine = 0, best = possible;
    if (segments_of(parts, part) > uint32_t(__popc(query.window))) {
        for (uint32_t i = 0; i < query.dense; i++) {
            const uint32_t entry = find_sparse(lists[i], part, block, failed);
            if (entry == NONE) continue;
            mine += (sparse_map(lists[i], parts, block, entry) >> lane_id() & query.window) != 0;
            if (++seen > slack && warp_max(mine) + slack < seen) return;
        }
        for (uint32_t first = query.dense; first < query.lists; first += WARP) {
            const uint32_t i = first + lane_id();
            uint32_t map = 0;
            if (i < query.lists && has_bit(lists[i], part)) map = dense_map(lists[i], parts, part, failed);
            for (uint32_t some = __ballot_sync(FULL_WARP, map != 0); some != 0; some &= some - 1) {
                mine += (__shfl_sync(FULL_WARP, map, __ffs(some) - 1) >> lane_id() & query.window) != 0;
                seen++;
            }
            if (seen > slack && warp_max(mine) + slack < seen) return;
        }
        best = warp_max(mine);
        if (best < query.least) return;
    }
    if (lane_id() == 0) {
        const uint32_t at = atomicAdd(reinterpret_cast<uint32_t*>(hits.found), 1u);
        if (at < hits.room) reinterpret_cast<Hit*>(hits.hits)[at] = Hit{part, number, best};
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) ngram_look_up(const Query* queries, const uint32_t* ordinals, const MapList* lists, Parts parts, Hits hits) {
    const uint32_t count = min(*reinterpret_cast<const uint32_t*>(hits.count), hits.room);
    const uint32_t warps = gridDim.x * (THREADS / WARP);
    for (uint32_t i = blockIdx.x * (THREADS / WARP) + warp_id(); i < count; i += warps) {
        const uint64_t key = reinterpret_cast<const uint64_t*>(hits.keys)[i];
        if (key == NO_KEY) continue;
        const uint32_t number = uint32_t(key) >> 8;
        if (reinterpret_cast<const uint32_t*>(hits.of_query)[number] > hits.most_of_query) continue;
        const Query query = queries[number];
        score(query, Own{lists, ordinals + query.first}, parts, number, uint32_t(key >> 32), uint32_t(key) & 0xff, hits);
    }
}
