// PForDelta with one width for the list (`compressed/pfor.rs`; Ding 2009, section 6.2). One bit
// per number marks exceptions. Their bits above the width are an array for the list, which has a
// width and exceptions itself, LEVELS deep. A lane finds its exceptions by counting bits, and
// fetches them alone: it needs no shared memory, and exchanges nothing with other lanes or
// blocks.
#pragma once

#include "lists.cuh"

// The bits above a width, less one.
struct Overflows {
    uint32_t slots;  // first unit of a bit string
    uint32_t width;
    // first unit of an array with one word per run of 128: the position, in words from here, of
    // its exceptions, or 0; 0 if no run has any
    uint32_t runs;
};

// A tally: exceptions before the block since the last group; a flag, set if a window does not
// suffice; exceptions before the second, third and last quarter of the block.
constexpr uint32_t GROUP = 8, TALLY_BEFORE = 22, TALLY_BITS = 7;
constexpr uint32_t TALLY_SLOW = 1u << 21;

// The arrays of a list. Nodes 0 and 1 are gaps and frequencies; the overflows of each follow.
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

// Overflow `i` with its own exception, computed by one lane.
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
        // The number of exceptions before the run, then one bit per number.
        const uint32_t* told = runs + at;
        uint32_t flags = __ldg(told + 1 + word);
        if ((flags >> i % 32 & 1) == 0) return value;
        uint32_t rank = __ldg(told) + __popc(flags & low_bits(i % 32));
        for (uint32_t j = 0; j < word; j++) rank += __popc(__ldg(told + 1 + j));
        value += (overflow_at<LEVELS - 1>(arrays, node + 1, rank) + 1) << array.width;
    }
    return value;
}

// The gaps or the frequencies of a list, and the first array of their overflows.
struct Numbers {
    uint32_t width;
    uint32_t flagged;         // units of bits per block: 1, or 0 if there are no exceptions
    const uint32_t* groups;   // exceptions before each group of eight blocks
    const uint32_t* tallies;  // one word per block for frequencies; those of gaps are in the heads
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
    static constexpr uint32_t GAP_OVERFLOWS = 2, FREQ_OVERFLOWS = 3 + LEVELS;  // node numbers

    struct List {
        Arrays arrays;
        const uint2* heads;
        const char* flags;  // the word with this lane's bits, if they were in the first unit
        Numbers gaps, freqs;
        uint32_t stride;  // units per block
    };

    // The position of a lane's exceptions.
    struct Exceptions {
        uint32_t flags;  // one word of bits
        uint32_t tally;
        uint32_t group;
    };

    struct Head {
        uint32_t first;  // first document
        Exceptions exceptions;
    };

    struct Part {
        Slots slots;
        Exceptions exceptions;
        uint32_t rank;  // of the first exception of this lane
        uint32_t low;   // 32 bits of overflows from that one on, and the next 32
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

    // If no number has an exception, `flags` holds unrelated bits, which `get` ignores.
    __device__ __forceinline__ static Exceptions exceptions(const List& list, const Numbers& numbers, uint32_t at, uint32_t block, uint32_t tally) {
        uint32_t flags = __ldg(reinterpret_cast<const uint32_t*>(list.flags + sizeof(uint4) * uint64_t(at)));
        return {flags, tally, __ldg(numbers.groups + block / GROUP)};
    }

    __device__ __forceinline__ static Head head(const List& list, uint32_t block) {
        uint2 head = __ldg(list.heads + block);
        return {head.x, exceptions(list, list.gaps, block * list.stride, block, head.y)};
    }

    __device__ __forceinline__ static Part load(const List& list, const Numbers& numbers, uint32_t at, const Exceptions& exceptions) {
        Part part;
        part.slots = Slots::load(list.arrays.units, at + numbers.flagged, numbers.width);
        part.exceptions = exceptions;
        return part;
    }

    // Requests a lane's overflows, which are consecutive.
    __device__ __forceinline__ static void follow_up(const Numbers& numbers, Part& part) {
        part.rank = exceptions_before(part.exceptions.group, part.exceptions.tally, part.exceptions.flags, 4 * lane_id());
        // The product fits into 32 bits, as the host ensures. Windows of other blocks point
        // anywhere, and are not used.
        const uint32_t* word = numbers.overflows + part.rank * numbers.overflow_width / 32;
        part.low = __ldg(word);
        part.high = __ldg(word + 1);
    }

    // The numbers with their exceptions.
    template <bool EASY>
    __device__ __forceinline__ static void get(const List& list, const Numbers& numbers, uint32_t node, const Part& part, uint32_t out[4]) {
        part.slots.get(numbers.width, out);
        uint32_t flags = part.exceptions.flags >> 4 * lane_id() % 32 & (numbers.flagged ? 15 : 0);
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

    __device__ __forceinline__ static bool easy(const Part& part) { return (part.exceptions.tally & TALLY_SLOW) == 0; }

    __device__ __forceinline__ static Docs load_docs(const List& list, uint32_t block, const Head& head, uint32_t) {
        return load(list, list.gaps, block * list.stride, head.exceptions);
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
        return {load(list, list.freqs, at, exceptions(list, list.freqs, at, block, __ldg(list.freqs.tallies + block)))};
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
