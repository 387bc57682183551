// Lists of an n-gram index as they are on disk in the codec `bitpack` (docs/format/ngrams.md), and a directory of their blocks, so that a block is found and decoded without a chain of look-ups. `ngram_directory` makes
// the directory and checks that all blocks and bins lie within the file, whose checksums were verified before it was copied; values in them may still be anything.
#pragma once

#include "scan.cuh"
#include "slots.cuh"
#include "warp.cuh"

constexpr uint32_t GROUP = 16;
constexpr uint32_t BIN = 256;
constexpr uint32_t BITMAP = BIN / 8;
constexpr uint32_t NONE = 0xffffffffu;

enum Form : uint32_t { ONE = 0, SHORT = 1, SPARSE = 2, DENSE = 3 };

// A list. Addresses of what its form does not have are 0.
struct MapList {
    uint64_t bitmaps;  // 32 bytes per bin; many sparse lists have them too, made on the device
    uint64_t bases;    // uint64_t for every 16th block or bin: where it begins in the payload
    uint64_t lasts;    // uint32_t per block: its last part
    uint64_t ends;     // uint16_t per block or bin: where it ends, counted from its group's start
    uint64_t payload;
    uint64_t end;  // behind the payload
    uint32_t df;
    uint32_t form;
    uint32_t blocks;  // or bins
    uint32_t first;   // if it is not dense: the number of its first block in the directory
    uint32_t part;    // of a list of one entry, like the next
    uint32_t map;
};

// A segment of the index on the device.
struct Image {
    uint64_t lists;     // MapList, by ordinal
    uint64_t file;      // the lists' bytes
    uint64_t heads;     // uint64_t per block of the directory: see `Head`
    uint64_t befores;   // uint32_t per block of the directory: the last part of the block before it in its list
    uint64_t segments;  // uint8_t per part: how many it has
    uint64_t deleted;   // a bit per part, in bytes; 0 if none is deleted
    uint32_t parts;
    uint32_t unused;
};

// What is known of a block, in 64 bits: entries - 1 (7 bits), width of its gaps (6), bytes of its maps (11), where it begins in the file (40).
struct Head {
    uint32_t n;
    uint32_t width;
    uint64_t maps;  // addresses
    uint64_t gaps;

    __device__ __forceinline__ Head(uint64_t file, uint64_t packed)
        : n(uint32_t(packed & 127) + 1), width(uint32_t(packed >> 7) & 63), maps(file + (packed >> 24)), gaps(maps + (uint32_t(packed >> 13) & 2047)) {}

    static __device__ __forceinline__ uint64_t packed(uint32_t n, uint32_t width, uint32_t maps, uint64_t at) { return at << 24 | maps << 13 | width << 7 | (n - 1); }
};

struct Query {
    uint32_t first;    // the ordinals of its lists begin here; shortest first, so that those with bitmaps come last, and dense ones last of all
    uint32_t lists;
    uint32_t bitmaps;  // the number of the first one with bitmaps
    uint32_t dense;    // and of the first dense one
    uint32_t counted;  // lists whose parts are counted
    uint32_t enough;   // counted lists that a candidate is in
    uint32_t least;    // n-grams of a hit
    uint32_t window;   // one bit for each of the adjacent segments that may contribute
};

// Where the candidates of a query in one range are; all 0 if there are none.
struct Room {
    uint32_t first;
    uint32_t count;
};

// The lists of a query, by number.
struct Own {
    const MapList* lists;
    const uint32_t* ordinals;

    __device__ Own(const Image& image, const uint32_t* all, const Query& query) : lists(reinterpret_cast<const MapList*>(image.lists)), ordinals(all + query.first) {}
    __device__ const MapList& operator[](uint32_t i) const { return lists[ordinals[i]]; }
};

__device__ __forceinline__ uint32_t segments_of(const Image& image, uint32_t part) { return load_u8(image.segments + part); }

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

// The map of this lane's entry of a group of maps, where lane i has entry i of group `number`, whose part is `part` (`NONE` past the end). `maps` is where the maps of all `n` entries begin. Called by all lanes of a warp.
__device__ __forceinline__ uint32_t map_in_group(const Image& image, uint64_t maps, uint32_t n, uint32_t number, uint32_t part) {
    MapGroup group;
    if (!find_group(maps, n, 32 * number, group)) return 1;
    const uint32_t kind = group.kind(lane_id()), width = part < image.parts ? width_of(segments_of(image, part), kind) : 0;
    const uint32_t bit = group.bit + warp_inclusive_sum(width) - width;
    return map_of_value(load_bits(group.at, bit, width), kind);
}

// Where a block or bin begins.
__device__ __forceinline__ uint64_t piece_of(const MapList& list, uint32_t number) {
    if (list.form == SHORT) return list.payload;
    const uint32_t start = number % GROUP == 0 ? 0 : load_u16(list.ends + 2 * uint64_t(number - 1));
    return list.payload + load_u64(list.bases + 8 * uint64_t(number / GROUP)) + start;
}

// How many blocks of a list come before the one that would have `part` (one of the list's, even if none has it). Called by all lanes of a warp.
__device__ __forceinline__ uint32_t blocks_before(const Image& image, const MapList& list, uint32_t part) {
    // Block 0 has all that no other has, so the others are searched.
    const uint32_t* befores = reinterpret_cast<const uint32_t*>(image.befores) + list.first + 1;
    uint32_t from = 0, to = list.blocks - 1;
    while (to > from) {
        const uint32_t step = (to - from + WARP - 1) / WARP, at = from + (lane_id() + 1) * step - 1;
        const bool smaller = at < to && __ldg(befores + at) < part;
        from += __popc(__ballot_sync(FULL_WARP, smaller)) * step;
        if (step == 1) break;
        to = min(to, from + step);
    }
    return min(from, list.blocks - 1);
}

// Decodes the parts of a block: entries 4 * lane to 4 * lane + 3; those past the end are `NONE`. Parts have 32 bits, so sums wrap only if bytes are not what they should be; then parts are wrong, and the caller ignores those
// out of range. Called by all lanes of a warp.
__device__ __forceinline__ void decode(const Head& head, uint32_t before, uint32_t parts[4]) {
    const uint32_t lane = lane_id();
    uint32_t gaps[4];
    load_slots(head.gaps, head.width, head.n, gaps);
    const uint32_t sum = gaps[0] + gaps[1] + gaps[2] + gaps[3] + 4;
    uint32_t part = before + warp_inclusive_sum(sum) - sum;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        part += gaps[j] + 1;
        parts[j] = 4 * lane + j < head.n ? part : NONE;
    }
}

// The part of an entry of a decoded block. Called by all lanes of a warp, each of which may ask for another entry.
__device__ __forceinline__ uint32_t part_of(const uint32_t parts[4], uint32_t entry) {
    uint32_t part = NONE;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t other = __shfl_sync(FULL_WARP, parts[j], entry / 4);
        if (entry % 4 == j) part = other;
    }
    return part;
}
