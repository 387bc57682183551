// Lists of an n-gram index with the layout that they have on disk in the codecs `rice` and
// `bitpack` (docs/reference/formats/ngrams.md), and a directory of their blocks, so that a block
// is found and decoded without a chain of look-ups. `ngram_directory` creates the directory and
// checks that all blocks and bins lie within the file, whose checksums were verified before it
// was copied; values in them may still be anything.
#pragma once

#include "scan.cuh"
#include "slots.cuh"
#include "warp.cuh"

constexpr uint32_t GROUP = 16;
constexpr uint32_t BIN = 256;
constexpr uint32_t BITMAP = BIN / 8;
constexpr uint32_t NONE = 0xffffffffu;
// Maps whose tails are found without reading those before them.
constexpr uint32_t MAPS = 64;
// Maximum number of warps of a block of threads.
constexpr uint32_t MOST_WARPS = 8;

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
    uint32_t first;   // the number of its first block or bin in the directory
    uint32_t part;    // of a list of one entry, like the next
    uint32_t map;
};

// A segment of the index on the device.
struct Image {
    uint64_t lists;     // MapList, by ordinal
    uint64_t file;      // the lists' bytes
    // uint64_t per block of the directory: see `Head`; per bin, the address of its first head
    uint64_t heads;
    // uint32_t per block of the directory: the last part of the block before it in its list
    uint64_t befores;
    uint64_t samples;   // Samples per block or bin of the directory
    uint64_t segments;  // uint8_t per part: how many it has
    uint64_t deleted;   // a bit per part, in bytes; 0 if none is deleted
    uint64_t codes;     // Code by number of segments
    // for each 64 parts, the lowest bits of the widths of their heads, then the next, then the
    // highest, in 64 bits each; 0 if there are no maps, as all parts have one segment
    uint64_t widths;
    uint32_t parts;
    uint32_t rice;      // 1 if the codec is `rice`
};

// The directory's data on a block, in 64 bits: entries - 1 (7 bits), width of its slots (6), 1 if
// its codec is `rice` (1), bytes of its maps and of what lies between them and the slots (10),
// position of its maps in the file (40).
struct Head {
    uint32_t n;
    uint32_t width;
    bool rice;
    uint64_t maps;  // addresses
    uint64_t slots;

    __device__ __forceinline__ Head(uint64_t file, uint64_t packed)
        : n(uint32_t(packed & 127) + 1), width(uint32_t(packed >> 7) & 63), rice((packed >> 13 & 1) != 0), maps(file + (packed >> 24)), slots(maps + (uint32_t(packed >> 14) & MOST_MAPS)) {}

    static constexpr uint32_t MOST_MAPS = 1023;
    static __device__ __forceinline__ uint64_t packed(uint32_t n, uint32_t width, uint32_t rice, uint32_t maps, uint64_t at) { return at << 24 | maps << 14 | rice << 13 | width << 7 | (n - 1); }
};

// The starts of the maps of some entries of a block or bin, in bits behind its first head: those
// of every 16th entry of a block, or of the first part in each 32 of a bin. Only a few maps are
// then read to find one.
constexpr uint32_t SAMPLES = 8;
constexpr uint32_t SAMPLED = BLOCK / SAMPLES;

struct Samples {
    uint16_t heads[SAMPLES];
    uint16_t tails[SAMPLES];
};

struct Query {
    // the ordinals of its lists begin here; shortest first, so that those with bitmaps come last,
    // and dense ones last of all
    uint32_t first;
    uint32_t lists;
    uint32_t bitmaps;  // the number of the first one with bitmaps
    uint32_t dense;    // and of the first dense one
    uint32_t counted;  // lists whose parts are counted
    uint32_t enough;   // counted lists that a candidate is in
    uint32_t least;    // n-grams of a hit
    uint32_t window;   // one bit for each of the adjacent segments that may contribute
};

// The position of the candidates of a query in one range; all 0 if there are none.
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

// The coding of the maps of parts with a certain number of segments.
struct Code {
    uint64_t packed;

    __device__ __forceinline__ uint32_t byte(uint32_t i) const { return uint32_t(packed >> 8 * i) & 255; }
    __device__ __forceinline__ uint32_t head() const { return byte(0); }
    __device__ __forceinline__ uint32_t segments() const { return byte(1); }
    __device__ __forceinline__ uint32_t triples_from() const { return byte(2); }
    __device__ __forceinline__ uint32_t rest_from() const { return byte(3); }
    __device__ __forceinline__ uint32_t pair_tail() const { return byte(4); }
    __device__ __forceinline__ uint32_t triple_tail() const { return byte(5); }

    // Bits of the tail that belongs to a head.
    __device__ __forceinline__ uint32_t tail(uint32_t head) const { return head < segments() ? 0 : head < triples_from() ? pair_tail() : head < rest_from() ? triple_tail() : segments(); }

    // The map with this head and tail.
    __device__ __forceinline__ uint32_t map(uint32_t head, uint32_t tail) const {
        if (head < segments()) return 1u << head;
        if (head >= rest_from()) return tail;
        uint32_t number = head < triples_from() ? (head - segments()) << pair_tail() | tail : (head - triples_from()) << triple_tail() | tail, map = 0;
        if (head >= triples_from()) {
            uint32_t high = 2;
            while (high < 31 && (high + 1) * high * (high - 1) / 6 <= number) high++;
            number -= high * (high - 1) * (high - 2) / 6;
            map = 1u << high;
        }
        uint32_t high = 1;
        while (high < 31 && high * (high + 1) / 2 <= number) high++;
        return map | 1u << high | 1u << ((number - high * (high - 1) / 2) & 31);
    }
};

__device__ __forceinline__ Code code_of(const Image& image, uint32_t part) { return Code{__ldg(reinterpret_cast<const uint64_t*>(image.codes) + segments_of(image, part))}; }

// Bits of the heads of some parts, whose bits are those of word `word` of a bin.
__device__ __forceinline__ uint32_t bits_of_heads(const Image& image, uint32_t bin, uint32_t word, uint32_t parts) {
    const uint32_t* planes = reinterpret_cast<const uint32_t*>(image.widths) + (bin * (BIN / 64) + word / 2) * 6 + word % 2;
    return __popc(parts & __ldg(planes)) + 2 * __popc(parts & __ldg(planes + 2)) + 4 * __popc(parts & __ldg(planes + 4));
}

// The position of the heads of `n` maps.
__device__ __forceinline__ uint64_t heads_of(uint64_t maps, uint32_t n) { return maps + 2 * ((n - 1) / MAPS); }

// The position of the tails of a group of maps, in bits behind all heads.
__device__ __forceinline__ uint32_t tails_of(uint64_t maps, uint32_t group) { return group == 0 ? 0 : load_u16(maps + 2 * (group - 1)); }

// Returns the map of this lane's entry of `n`, where lane i has entry 32 * number + i. `maps` is
// the position of the maps of all entries, and `part_at` returns the part of any entry (`NONE`
// past the end). Called by all lanes of a warp, as is `part_at`.
template <class PartAt>
__device__ __forceinline__ uint32_t map_of_lane(const Image& image, uint64_t maps, uint32_t n, uint32_t number, PartAt part_at) {
    if (image.widths == 0) return 1;
    const uint32_t group = number * WARP / MAPS, first = group * MAPS / WARP;
    const auto code_at = [&](uint32_t warpful) {
        const uint32_t part = part_at(WARP * warpful + lane_id());
        return part < image.parts ? code_of(image, part) : Code{0};
    };
    uint32_t bit = 0, all = 0;
    for (uint32_t i = 0; WARP * i < n; i++) {
        if (i == first) bit = all;
        all += warp_sum(code_at(i).head());
    }
    const uint64_t heads = heads_of(maps, n);
    uint32_t tail = all + tails_of(maps, group);
    for (uint32_t i = first;; i++) {
        const Code code = code_at(i);
        const uint32_t to = warp_inclusive_sum(code.head()), head = load_bits(heads, bit + to - code.head(), code.head());
        const uint32_t bits = code.tail(head), tail_to = warp_inclusive_sum(bits);
        if (i == number) return code.map(head, load_bits(heads, tail + tail_to - bits, bits));
        bit += __shfl_sync(FULL_WARP, to, WARP - 1);
        tail += __shfl_sync(FULL_WARP, tail_to, WARP - 1);
    }
}

// The position of a block or bin.
__device__ __forceinline__ uint64_t piece_of(const MapList& list, uint32_t number) {
    if (list.form == SHORT) return list.payload;
    const uint32_t start = number % GROUP == 0 ? 0 : load_u16(list.ends + 2 * uint64_t(number - 1));
    return list.payload + load_u64(list.bases + 8 * uint64_t(number / GROUP)) + start;
}

// Returns how many blocks of a list come before the one that would have `part` (one of the
// list's, even if none has it). Called by all lanes of a warp.
__device__ __forceinline__ uint32_t blocks_before(const Image& image, const MapList& list, uint32_t part) {
    // Block 0 has all parts that no other block has, so the others are searched.
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

// For a block in the codec `rice`, computes the sums of quotients up to each of the lane's four
// entries. Its quotients take at most 63 bytes; what follows them is read too, and affects only
// positions behind the last entry. Called by all lanes of a warp.
__device__ __forceinline__ void quotient_sums(uint64_t unary, uint32_t sums[4]) {
    __shared__ uint16_t compact[MOST_WARPS][BLOCK];
    uint16_t* own = compact[warp_id()];
    const uint32_t lane = lane_id();
    uint32_t bits = lane < 16 ? load_u32(unary + 4 * lane) : 0, rank = warp_inclusive_sum(__popc(bits)) - __popc(bits);
    // The one of entry j is at bit j plus the sum of the quotients up to it.
    for (; bits != 0 && rank < BLOCK; bits &= bits - 1, rank++) own[rank] = uint16_t(32 * lane + __ffs(bits) - 1 - rank);
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) sums[j] = own[4 * lane + j];
    __syncwarp();
}

// Decodes the parts of a block: entries 4 * lane to 4 * lane + 3; those past the end are `NONE`.
// Parts have 32 bits, so sums wrap only if bytes are not what they should be; then parts are
// wrong, and the caller ignores those out of range. Called by all lanes of a warp.
__device__ __forceinline__ void decode(const Head& head, uint32_t before, uint32_t parts[4]) {
    const uint32_t lane = lane_id();
    uint32_t gaps[4], sums[4] = {};
    load_slots(head.slots, head.width, head.n, gaps);
    // The sums of the slots are computed separately.
    if (head.rice) quotient_sums(head.slots + slot_bytes(head.n, head.width), sums);
    const uint32_t sum = gaps[0] + gaps[1] + gaps[2] + gaps[3] + 4;
    uint32_t part = before + warp_inclusive_sum(sum) - sum;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        part += gaps[j] + 1;
        parts[j] = 4 * lane + j < head.n ? part + (sums[j] << head.width) : NONE;
    }
}

// Returns the part of an entry of a decoded block. Called by all lanes of a warp, each of which
// may request a different entry.
__device__ __forceinline__ uint32_t part_of(const uint32_t parts[4], uint32_t entry) {
    uint32_t part = NONE;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t other = __shfl_sync(FULL_WARP, parts[j], entry / 4);
        if (entry % 4 == j) part = other;
    }
    return part;
}
