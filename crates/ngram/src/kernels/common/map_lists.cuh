// Lists of an n-gram index as they are on disk in the codec `bitpack` (docs/format/ngrams.md). The file's checksums were verified before it was copied; even so, nothing outside of
// the file is read: a block that does not lie within it sets `failed`.
#pragma once

#include "scan.cuh"
#include "slots.cuh"
#include "warp.cuh"

constexpr uint32_t GROUP = 16;
constexpr uint32_t BIN = 256;
constexpr uint32_t BITMAP = BIN / 8;
constexpr uint32_t NONE = 0xffffffffu;
// A slot for a candidate that has none.
constexpr uint64_t NO_KEY = ~uint64_t(0);

enum Form : uint32_t { ONE = 0, SHORT = 1, SPARSE = 2, DENSE = 3 };

// A list. Addresses of what its form does not have are 0.
struct MapList {
    uint64_t bitmaps;  // 32 bytes per bin
    uint64_t bases;    // uint64_t for every 16th block or bin: where it begins in the payload
    uint64_t lasts;    // uint32_t per block: its last part
    uint64_t ends;     // uint16_t per block or bin: where it ends, counted from its group's start
    uint64_t payload;
    uint64_t end;  // behind the payload
    uint32_t df;
    uint32_t form;
    uint32_t blocks;  // or bins
    uint32_t part;    // of a list of one entry, like the next
    uint32_t map;
    uint32_t unused;
};

struct Query {
    uint32_t first;    // the ordinals of its lists begin here; shortest first, so that dense ones come last
    uint32_t lists;
    uint32_t dense;    // the number of the first dense one
    uint32_t counted;  // lists whose parts are counted
    uint32_t enough;   // counted lists that a candidate is in
    uint32_t least;    // n-grams of a hit
    uint32_t window;   // one bit for each of the adjacent segments that may contribute
    uint32_t unused;
};

// The lists of a query, by number.
struct Own {
    const MapList* lists;
    const uint32_t* ordinals;

    __device__ const MapList& operator[](uint32_t i) const { return lists[ordinals[i]]; }
};

// What a list refers to.
struct Parts {
    uint64_t segments;  // uint8_t per part: how many it has
    uint32_t count;
    uint32_t unused;
};

__device__ __forceinline__ uint32_t segments_of(const Parts& parts, uint32_t part) { return load_u8(parts.segments + part); }

// Up to 32 bits from any bit on.
__device__ __forceinline__ uint32_t load_bits(uint64_t at, uint32_t bit, uint32_t len) {
    const uint64_t byte = at + bit / 8;
    const uint32_t shift = bit % 8, low = load_u32(byte), high = shift + len > 32 ? load_u8(byte + 4) : 0;
    return __funnelshift_r(low, high, shift) & mask_of(len);
}

// Bits of what is kept of a map: the one segment, the pair of segments, or the map itself.
__device__ __forceinline__ uint32_t width_of(uint32_t segments, uint32_t kind) {
    if (kind == 2) return segments;
    const uint32_t choices = kind == 0 ? segments : segments * (segments - 1) / 2;
    return choices < 2 ? 0 : 32 - __clz(choices - 1);
}

__device__ __forceinline__ uint32_t map_of_value(uint32_t value, uint32_t kind) {
    if (kind == 0) return 1u << (value & 31);
    if (kind == 2) return value;
    uint32_t high = 1;
    while (high < 31 && high * (high + 1) / 2 <= value) high++;
    return 1u << high | 1u << ((value - high * (high - 1) / 2) & 31);
}

// Some maps: 32 at most, whose kinds stand before what is kept of them.
struct MapGroup {
    uint64_t at;
    uint32_t bit;   // of the first value
    uint32_t more;  // which have more than one segment
    uint32_t many;  // which have more than two

    __device__ uint32_t kind(uint32_t entry) const { return (more >> entry & 1) + (many >> entry & 1); }
};

// The group that entry `entry` of `n` is in; false if all maps are 1. `maps` is where the maps begin.
__device__ __forceinline__ bool find_group(uint64_t maps, uint32_t n, uint32_t entry, MapGroup& group) {
    if (load_u8(maps) == 0) return false;
    const uint32_t number = entry / 32, len = min(n - number * 32, 32u);
    const uint64_t ends = maps + 1;
    group.at = ends + 2 * ((n + 31) / 32);
    const uint32_t start = number == 0 ? 0 : load_u16(ends + 2 * (number - 1));
    group.more = load_bits(group.at, start, len);
    uint32_t packed = load_bits(group.at, start + len, __popc(group.more));
    group.bit = start + len + __popc(group.more);
    group.many = 0;
    for (uint32_t rest = group.more; packed != 0; rest &= rest - 1, packed >>= 1) {
        if ((packed & 1) != 0) group.many |= rest & (0 - rest);
    }
    return true;
}

// Where a block or bin begins; 0 if it does not lie within the payload.
__device__ __forceinline__ uint64_t piece_of(const MapList& list, uint32_t number) {
    if (list.form == SHORT) return list.payload;
    const uint64_t base = load_u64(list.bases + 8 * uint64_t(number / GROUP));
    const uint32_t start = number % GROUP == 0 ? 0 : load_u16(list.ends + 2 * uint64_t(number - 1));
    const uint64_t at = list.payload + base + start;
    return base > list.end - list.payload || at >= list.end ? 0 : at;
}

// The first block whose last part is at least `part`; the number of blocks if there is none. Called by all lanes of a warp.
__device__ __forceinline__ uint32_t block_for(const MapList& list, uint32_t part) {
    if (list.form != SPARSE) return 0;
    uint32_t from = 0, to = list.blocks;
    while (to > from) {
        const uint32_t step = (to - from + WARP - 1) / WARP, last = from + (lane_id() + 1) * step - 1;
        const bool smaller = last < to && load_u32(list.lasts + 4 * uint64_t(last)) < part;
        from += __popc(__ballot_sync(FULL_WARP, smaller)) * step;
        if (step == 1) break;
        to = min(to, from + step);
    }
    return min(from, list.blocks);
}

// A decoded block of a list that is not dense: entries 4 * lane to 4 * lane + 3. Entries past the end are `NONE`.
struct BlockOfParts {
    uint64_t maps;
    uint32_t n;
    uint32_t parts[4];
};

// Decodes a block; false if it is malformed. Called by all lanes of a warp.
__device__ __forceinline__ bool decode(const MapList& list, uint32_t number, BlockOfParts& block) {
    const uint32_t lane = lane_id();
    if (list.form == ONE) {
        block.n = 1;
        block.parts[0] = lane == 0 ? list.part : NONE;
        block.parts[1] = block.parts[2] = block.parts[3] = NONE;
        return true;
    }
    block.n = min(list.df - number * BLOCK, BLOCK);
    block.maps = piece_of(list, number);
    if (block.maps == 0) return false;
    uint64_t at = block.maps + 1;
    if (load_u8(block.maps) != 0) {
        const uint32_t groups = (block.n + 31) / 32;
        at += 2 * groups + (load_u16(at + 2 * (groups - 1)) + 7) / 8;
    }
    if (at + 2 > list.end) return false;
    const uint32_t width = load_u8(at);
    if (width > 32 || at + 2 + slot_bytes(block.n, width) > list.end) return false;
    uint32_t gaps[4];
    load_slots(at + 2, width, block.n, gaps);
    const uint32_t sum = gaps[0] + gaps[1] + gaps[2] + gaps[3] + 4;
    const uint32_t before = number == 0 ? NONE : load_u32(list.lasts + 4 * uint64_t(number - 1));
    // Parts have 32 bits, so sums wrap only if bytes are not what they should be; then parts are wrong, and the caller ignores those out of range.
    uint32_t part = before + warp_inclusive_sum(sum) - sum;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        part += gaps[j] + 1;
        block.parts[j] = 4 * lane + j < block.n ? part : NONE;
    }
    return true;
}
