// PForDelta with one width for the list (`image/compressed/pfor.rs`; document D, section 6.2). Exceptions are two arrays for the list, which are arrays
// with exceptions themselves, LEVELS deep. A block's exceptions are fetched 32 at a time, one a lane, their own exceptions first;
// gaps between them are added up to places, and bits of the places tell every lane which exceptions are its own.
#pragma once

#include "lists.cuh"

// An array of numbers with exceptions, in runs of 128.
struct Node {
    uint32_t slots;     // unit of a bit string
    uint32_t starts;    // unit of the numbers of exceptions before each run
    uint32_t width;
    uint32_t children;  // offsets of the exceptions, and behind it their overflows; or 0
};

__device__ __forceinline__ Node node_of(const CompressedList& list, uint32_t node) {
    uint4 fields = __ldg(reinterpret_cast<const uint4*>(list.nodes) + node);
    return {fields.x, fields.y, fields.z, fields.w};
}

// Number `i` of an array but for its exception.
__device__ __forceinline__ uint32_t string_at(const CompressedList& list, const Node& node, uint32_t i) {
    uint64_t bit = uint64_t(i) * node.width;
    const uint32_t* word = reinterpret_cast<const uint32_t*>(units_of(list) + node.slots) + bit / 32;
    return __funnelshift_r(__ldg(word), __ldg(word + 1), uint32_t(bit)) & low_bits(node.width);
}

__device__ __forceinline__ const uint32_t* starts_of(const CompressedList& list, const Node& node) {
    return reinterpret_cast<const uint32_t*>(units_of(list) + node.starts);
}

// Exceptions `from` to `end` of the children of a node, at most 32 of them, one a lane.
struct Exceptions {
    uint32_t place;  // behind `end` that of the last
    uint32_t high;   // bits above the width, less one
    bool own;        // whether the lane has one
};

template <uint32_t LEVELS>
__device__ uint32_t fetch(const CompressedList& list, uint32_t node, uint32_t from, uint32_t count);

// `before` is the place of the exception before, and becomes that of the last.
template <uint32_t LEVELS>
__device__ __forceinline__ Exceptions fetch_exceptions(const CompressedList& list, uint32_t children, uint32_t from, uint32_t end, uint32_t& before) {
    uint32_t count = min(end - from, WARP);
    uint32_t gap = fetch<LEVELS>(list, children, from, count);
    uint32_t high = fetch<LEVELS>(list, children + 1, from, count);
    bool own = lane_id() < count;
    uint32_t place = before + warp_inclusive_sum(own ? gap + 1 : 0);
    before = __shfl_sync(FULL_WARP, place, WARP - 1);
    return {place, high, own};
}

// Lane l gets number `from` + l of an array, lanes from `count` on anything.
template <uint32_t LEVELS>
__device__ uint32_t fetch(const CompressedList& list, uint32_t number, uint32_t from, uint32_t count) {
    Node node = node_of(list, number);
    uint32_t value = string_at(list, node, from + min(lane_id(), count - 1));
    if constexpr (LEVELS > 0) {
        if (node.children == 0) return value;
        const uint32_t* starts = starts_of(list, node);
        for (uint32_t run = from / BLOCK_LEN; run <= (from + count - 1) / BLOCK_LEN; run++) {
            uint32_t at = __ldg(starts + run), end = __ldg(starts + run + 1);
            for (uint32_t before = run * BLOCK_LEN - 1; at < end; at += WARP) {
                Exceptions found = fetch_exceptions<LEVELS - 1>(list, node.children, at, end, before);
                // Bits of the places among the numbers asked for.
                uint32_t place = found.place - from;
                uint32_t bits = warp_or(found.own && place < WARP ? 1u << place : 0);
                uint32_t rank = __popc(__ballot_sync(FULL_WARP, found.own && found.place < from)) + __popc(bits & low_bits(lane_id()));
                uint32_t high = __shfl_sync(FULL_WARP, found.high, rank % WARP);
                if (bits >> lane_id() & 1) value += (high + 1) << node.width;
            }
        }
    }
    return value;
}

// The numbers of an array in ascending order, by one lane.
template <uint32_t LEVELS>
struct Walk {
    Node node;
    uint32_t run, at, end, place;
    Walk<LEVELS - 1> offsets, overflows;

    __device__ void start(const CompressedList& list, uint32_t number) {
        node = node_of(list, number);
        run = NO_DOC;
        at = end = 0;
        if (node.children != 0) {
            offsets.start(list, node.children);
            overflows.start(list, node.children + 1);
        }
    }

    // Goes on to the exception `at`.
    __device__ void enter(const CompressedList& list) {
        if (at < end) place += offsets.value(list, at) + 1;
    }

    __device__ uint32_t value(const CompressedList& list, uint32_t i) {
        uint32_t value = string_at(list, node, i);
        if (node.children == 0) return value;
        if (i / BLOCK_LEN != run) {
            run = i / BLOCK_LEN;
            at = __ldg(starts_of(list, node) + run);
            end = __ldg(starts_of(list, node) + run + 1);
            place = run * BLOCK_LEN - 1;
            enter(list);
        }
        for (; at < end && place < i; enter(list)) at++;
        if (at < end && place == i) value += (overflows.value(list, at) + 1) << node.width;
        return value;
    }
};

template <>
struct Walk<0> {
    Node node;
    __device__ void start(const CompressedList& list, uint32_t number) { node = node_of(list, number); }
    __device__ uint32_t value(const CompressedList& list, uint32_t i) { return string_at(list, node, i); }
};

template <uint32_t LEVELS>
struct PFor {
    struct Part {
        Slots slots;
        uint32_t width;
        uint32_t children;
        uint32_t from;  // exceptions
        uint32_t end;
    };
    typedef Part Docs;
    typedef Part Freqs;

    enum : uint32_t { GAPS, FREQS };  // nodes

    __device__ __forceinline__ static Part load(const uint4* at, const Node& node, uint32_t from, uint32_t end) {
        return {Slots::load(at, node.width), node.width, node.children, from, end};
    }

    // The numbers with their exceptions.
    __device__ __forceinline__ static void get(const CompressedList& list, const Part& part, uint32_t out[4]) {
        part.slots.get(part.width, out);
        uint32_t before = NO_DOC;
        for (uint32_t from = part.from; from < part.end; from += WARP) {
            Exceptions found = fetch_exceptions<LEVELS>(list, part.children, from, part.end, before);
            uint32_t places[4], below = low_bits(lane_id()), rank = 0;
            for (uint32_t i = 0; i < 4; i++) {
                places[i] = warp_or(found.own && found.place % 4 == i ? 1u << found.place / 4 : 0);
                rank += __popc(places[i] & below);
            }
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t high = __shfl_sync(FULL_WARP, found.high, rank % WARP), has = places[i] >> lane_id() & 1;
                if (has) out[i] += (high + 1) << part.width;
                rank += has;
            }
        }
    }

    __device__ __forceinline__ static Docs load_docs(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t) {
        Node node = node_of(list, GAPS);
        uint32_t end = node.children != 0 ? head_of(list, block + 1).shape : 0;
        return load(units_of(list) + head.at, node, head.shape, end);
    }

    __device__ __forceinline__ static void docs(const CompressedList& list, const BlockHead& head, const Docs& loaded, uint32_t out[4]) {
        get(list, loaded, out);
        add_up(head.first, out);
    }

    __device__ __forceinline__ static const uint4* freq_units(const CompressedList& list, const BlockHead& head, uint32_t len) {
        return units_of(list) + head.at + slot_units(len, node_of(list, GAPS).width);
    }

    __device__ __forceinline__ static Freqs load_freqs(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t len) {
        Node node = node_of(list, FREQS);
        uint32_t end = node.children != 0 ? head_of(list, block + 1).more : 0;
        return load(freq_units(list, head, len), node, head.more, end);
    }

    __device__ __forceinline__ static void freqs(const CompressedList& list, const BlockHead&, const Freqs& loaded, uint32_t out[4]) {
        get(list, loaded, out);
        for (uint32_t i = 0; i < 4; i++) out[i]++;
    }

    __device__ static uint32_t freq(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t len, uint32_t i) {
        Node node = node_of(list, FREQS);
        uint32_t freq = slot_at(freq_units(list, head, len), node.width, i) + 1;
        if (node.children == 0) return freq;
        uint32_t at = head.more, end = head_of(list, block + 1).more, place = NO_DOC;
        Walk<LEVELS> offsets, overflows;
        if (at < end) offsets.start(list, node.children);
        for (; at < end; at++) {
            place += offsets.value(list, at) + 1;
            if (place >= i) break;
        }
        if (at < end && place == i) {
            overflows.start(list, node.children + 1);
            freq += (overflows.value(list, at) + 1) << node.width;
        }
        return freq;
    }
};
