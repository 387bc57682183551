// PForDelta with one width for the list (`image/compressed/pfor.rs`; document D, section 6.2). A bit a number says which are exceptions; the bits above the
// width of those are an array for the list, which has a width and exceptions itself, LEVELS deep. A lane finds its exceptions by counting bits, and fetches
// them alone: no shared memory, and nothing goes from lane to lane or from block to block.
#pragma once

#include "lists.cuh"

// Bits above a width, less one.
struct Overflows {
    uint32_t slots;  // unit of a bit string
    uint32_t width;
    uint32_t runs;  // unit of a word a run of 128: where, in words from here, its exceptions are told; 0 for none. Or 0 for none at all
};

// A tally: exceptions before the block since the last group; whether a window is not enough; exceptions before the second, third and last quarter of the block.
constexpr uint32_t GROUP = 8, TALLY_BEFORE = 22, TALLY_BITS = 7;
constexpr uint32_t TALLY_SLOW = 1u << 21;

// The arrays of a list. Nodes 0 and 1 are gaps and frequencies, then come the overflows of either.
struct Arrays {
    const uint4* units;
    const uint4* nodes;

    __device__ __forceinline__ Overflows overflows(uint32_t node) const {
        uint4 fields = __ldg(nodes + node);
        return {fields.x, fields.y, fields.z};
    }

    __device__ __forceinline__ const uint32_t* words(uint32_t unit) const { return reinterpret_cast<const uint32_t*>(units + unit); }
};

// Exceptions before number `i` of a block; `flags` is the word with its bit.
__device__ __forceinline__ uint32_t exceptions_before(uint32_t group, uint32_t tally, uint32_t flags, uint32_t i) {
    uint32_t quarter = i / 32;
    uint32_t before_quarter = __funnelshift_rc(tally, 0, quarter == 0 ? 32 : (quarter - 1) * TALLY_BITS) & low_bits(TALLY_BITS);
    return group + (tally >> TALLY_BEFORE) + before_quarter + __popc(flags & low_bits(i % 32));
}

// Overflow `i` with its own exception, by one lane.
template <uint32_t LEVELS>
__device__ __forceinline__ uint32_t overflow_at(const Arrays& arrays, uint32_t node, uint32_t i) {
    Overflows array = arrays.overflows(node);
    uint64_t bit = uint64_t(i) * array.width;
    const uint32_t* slot = arrays.words(array.slots) + bit / 32;
    uint32_t value = __funnelshift_r(__ldg(slot), __ldg(slot + 1), uint32_t(bit)) & low_bits(array.width);
    if constexpr (LEVELS > 0) {
        if (array.runs == 0) return value;
        const uint32_t* runs = arrays.words(array.runs);
        uint32_t at = __ldg(runs + i / BLOCK_LEN), word = i % BLOCK_LEN / 32;
        if (at == 0) return value;
        // How many come before the run, and a bit a number.
        const uint32_t* told = runs + at;
        uint32_t flags = __ldg(told + 1 + word);
        if ((flags >> i % 32 & 1) == 0) return value;
        uint32_t rank = __ldg(told) + __popc(flags & low_bits(i % 32));
        for (uint32_t j = 0; j < word; j++) rank += __popc(__ldg(told + 1 + j));
        value += (overflow_at<LEVELS - 1>(arrays, node + 1, rank) + 1) << array.width;
    }
    return value;
}

// The gaps or the frequencies of a list, and the first of the arrays that their overflows are.
struct Numbers {
    uint32_t width;
    uint32_t flagged;         // units of bits a block: 1, or 0 where there are no exceptions
    const uint32_t* groups;   // exceptions before each eight blocks
    const uint32_t* tallies;  // a word a block, of frequencies; gaps have theirs in heads
    const uint32_t* overflows;
    uint32_t overflow_width;

    __device__ __forceinline__ static Numbers open(const Arrays& arrays, uint32_t node, uint32_t overflows_node) {
        uint4 fields = __ldg(arrays.nodes + node);
        Overflows overflows = arrays.overflows(overflows_node);
        return {fields.x, fields.y, arrays.words(fields.z), arrays.words(fields.w), arrays.words(overflows.slots), overflows.width};
    }
};

template <uint32_t LEVELS>
struct PFor {
    static constexpr uint32_t GAP_OVERFLOWS = 2, FREQ_OVERFLOWS = 3 + LEVELS;  // nodes

    struct List {
        Arrays arrays;
        const uint2* heads;
        const char* flags;  // the word that has this lane's bits, were they in the first unit
        Numbers gaps, freqs;
        uint32_t stride;  // units of a block
    };

    // Where the exceptions of a lane are.
    struct Places {
        uint32_t flags;  // a word of bits
        uint32_t tally;
        uint32_t group;
    };

    struct Head {
        uint32_t first;  // document
        Places places;
    };

    struct Part {
        Slots slots;
        Places places;
        uint32_t rank;  // of the first exception of this lane
        uint32_t low;   // 32 bits of overflows from that one on, and the next
        uint32_t high;
    };
    typedef Part Docs;
    struct Freqs : Part {};

    __device__ __forceinline__ static List open(const CompressedList& list) {
        Arrays arrays = {units_of(list), reinterpret_cast<const uint4*>(list.nodes)};
        Numbers gaps = Numbers::open(arrays, 0, GAP_OVERFLOWS), freqs = Numbers::open(arrays, 1, FREQ_OVERFLOWS);
        const char* flags = reinterpret_cast<const char*>(arrays.words(0) + lane_id() / 8);
        uint32_t stride = gaps.width + gaps.flagged + freqs.width + freqs.flagged;
        return {arrays, reinterpret_cast<const uint2*>(list.heads), flags, gaps, freqs, stride};
    }

    // Where no number has an exception, flags are what else stands there; `get` leaves them out.
    __device__ __forceinline__ static Places places(const List& list, const Numbers& numbers, uint32_t at, uint32_t block, uint32_t tally) {
        uint32_t flags = __ldg(reinterpret_cast<const uint32_t*>(list.flags + sizeof(uint4) * uint64_t(at)));
        return {flags, tally, __ldg(numbers.groups + block / GROUP)};
    }

    __device__ __forceinline__ static Head head(const List& list, uint32_t block) {
        uint2 head = __ldg(list.heads + block);
        return {head.x, places(list, list.gaps, block * list.stride, block, head.y)};
    }

    __device__ __forceinline__ static Part load(const List& list, const Numbers& numbers, uint32_t at, const Places& places) {
        Part part;
        part.slots = Slots::load(list.arrays.units, at + numbers.flagged, numbers.width);
        part.places = places;
        return part;
    }

    // Asks for a lane's overflows, which follow each other.
    __device__ __forceinline__ static void follow_up(const Numbers& numbers, Part& part) {
        part.rank = exceptions_before(part.places.group, part.places.tally, part.places.flags, 4 * lane_id());
        // In 32 bits, which the host sees to; the windows of other blocks are somewhere, and not used.
        const uint32_t* word = numbers.overflows + part.rank * numbers.overflow_width / 32;
        part.low = __ldg(word);
        part.high = __ldg(word + 1);
    }

    // The numbers with their exceptions.
    template <bool EASY>
    __device__ __forceinline__ static void get(const List& list, const Numbers& numbers, uint32_t node, const Part& part, uint32_t out[4]) {
        part.slots.get(numbers.width, out);
        uint32_t flags = part.places.flags >> 4 * lane_id() % 32 & (numbers.flagged ? 15 : 0);
        if (EASY || easy(part)) {
            uint32_t window = __funnelshift_r(part.low, part.high, part.rank * numbers.overflow_width);
            uint32_t mask = low_bits(numbers.overflow_width), one = 1u << numbers.width % 32;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                if ((flags >> i & 1) == 0) continue;
                out[i] += (window & mask) * one + one;
                window >>= numbers.overflow_width;
            }
        } else {
            uint32_t rank = part.rank;
#pragma unroll 1
            for (uint32_t i = 0; i < 4; i++) {
                if ((flags >> i & 1) == 0) continue;
                uint32_t high = (overflow_at<LEVELS>(list.arrays, node, rank++) + 1) << numbers.width;
                for (uint32_t j = 0; j < 4; j++) out[j] += i == j ? high : 0;
            }
        }
    }

    __device__ __forceinline__ static bool easy(const Part& part) { return (part.places.tally & TALLY_SLOW) == 0; }

    __device__ __forceinline__ static Docs load_docs(const List& list, uint32_t block, const Head& head, uint32_t) {
        return load(list, list.gaps, block * list.stride, head.places);
    }

    __device__ __forceinline__ static void follow(const List& list, Docs& docs) { follow_up(list.gaps, docs); }

    template <bool EASY>
    __device__ __forceinline__ static void docs(const List& list, const Head& head, const Docs& loaded, uint32_t out[4]) {
        get<EASY>(list, list.gaps, GAP_OVERFLOWS, loaded, out);
        add_up(head.first, out);
    }

    __device__ __forceinline__ static uint32_t freqs_at(const List& list, uint32_t block, uint32_t len) {
        return block * list.stride + list.gaps.flagged + slot_units(len, list.gaps.width);
    }

    __device__ __forceinline__ static Freqs load_freqs(const List& list, uint32_t block, const Head&, uint32_t len) {
        uint32_t at = freqs_at(list, block, len);
        return {load(list, list.freqs, at, places(list, list.freqs, at, block, __ldg(list.freqs.tallies + block)))};
    }

    __device__ __forceinline__ static void follow(const List& list, Freqs& freqs) { follow_up(list.freqs, freqs); }

    template <bool EASY>
    __device__ __forceinline__ static void freqs(const List& list, const Head&, const Freqs& loaded, uint32_t out[4]) {
        get<EASY>(list, list.freqs, FREQ_OVERFLOWS, loaded, out);
        for (uint32_t i = 0; i < 4; i++) out[i]++;
    }

    __device__ __forceinline__ static uint32_t freq(const List& list, uint32_t block, const Head&, uint32_t len, uint32_t i) {
        const Numbers& numbers = list.freqs;
        uint32_t at = freqs_at(list, block, len), freq = slot_at(list.arrays.units + (at + numbers.flagged), numbers.width, i) + 1;
        if (numbers.flagged == 0) return freq;
        uint32_t flags = __ldg(list.arrays.words(at) + i / 32);
        if ((flags >> i % 32 & 1) == 0) return freq;
        uint32_t rank = exceptions_before(__ldg(numbers.groups + block / GROUP), __ldg(numbers.tallies + block), flags, i);
        return freq + ((overflow_at<LEVELS>(list.arrays, FREQ_OVERFLOWS, rank) + 1) << numbers.width);
    }
};
