// PForDelta with one width for the list (`image/compressed/pfor.rs`; document D, section 6.2). Exceptions are two arrays for the list, which are arrays
// with exceptions themselves, LEVELS deep. They are fetched 32 at a time, one a lane, their own exceptions first; gaps between them are
// added up to places, and those of a block go to its slots through shared memory. The rest of the 32 is the next blocks'.
#pragma once

#include "lists.cuh"

// An array of numbers with exceptions, in runs of 128.
struct Node {
    uint32_t slots;     // unit of a bit string
    uint32_t starts;    // unit of the numbers of exceptions before each run; of a list its exceptions
    uint32_t width;
    uint32_t children;  // offsets of the exceptions, and behind it their overflows; or 0
};

// Of a list what leads to its arrays.
struct Arrays {
    const uint4* units;
    const uint4* nodes;

    __device__ __forceinline__ Node node(uint32_t number) const {
        uint4 fields = __ldg(nodes + number);
        return {fields.x, fields.y, fields.z, fields.w};
    }
};

__device__ __forceinline__ Arrays arrays_of(const CompressedList& list) { return {units_of(list), reinterpret_cast<const uint4*>(list.nodes)}; }

// Number `i` of an array but for its exception.
__device__ __forceinline__ uint32_t string_at(const Arrays& arrays, const Node& node, uint32_t i) {
    uint64_t bit = uint64_t(i) * node.width;
    const uint32_t* word = reinterpret_cast<const uint32_t*>(arrays.units + node.slots) + bit / 32;
    return __funnelshift_r(__ldg(word), __ldg(word + 1), uint32_t(bit)) & low_bits(node.width);
}

__device__ __forceinline__ const uint32_t* starts_of(const Arrays& arrays, const Node& node) {
    return reinterpret_cast<const uint32_t*>(arrays.units + node.starts);
}

// Lane l gets number `from` + l of an array, lanes from `count` on anything. A call, where all of it in its place would be too much code.
template <uint32_t LEVELS>
__device__ __forceinline__ uint32_t fetch(Arrays arrays, uint32_t number, uint32_t from, uint32_t count);
template <uint32_t LEVELS>
__device__ __noinline__ uint32_t call_fetch(Arrays arrays, uint32_t number, uint32_t from, uint32_t count) {
    return fetch<LEVELS>(arrays, number, from, count);
}

// Up to 32 exceptions of an array, one a lane.
struct Exceptions {
    uint32_t sum;   // of gaps up to this one; behind the last that of the last
    uint32_t high;  // bits above the width, less one
};

// `count` exceptions from number `from` on; `before` is the sum before them.
template <uint32_t LEVELS>
__device__ __forceinline__ Exceptions fetch_exceptions(Arrays arrays, uint32_t children, uint32_t from, uint32_t count, uint32_t before) {
    uint32_t gap, high;
    if constexpr (LEVELS < 2) {
        gap = fetch<LEVELS>(arrays, children, from, count);
        high = fetch<LEVELS>(arrays, children + 1, from, count);
    } else {
        gap = call_fetch<LEVELS>(arrays, children, from, count);
        high = call_fetch<LEVELS>(arrays, children + 1, from, count);
    }
    return {before + warp_inclusive_sum(lane_id() < count ? gap + 1 : 0), high};
}

template <uint32_t LEVELS>
__device__ __forceinline__ uint32_t fetch(Arrays arrays, uint32_t number, uint32_t from, uint32_t count) {
    Node node = arrays.node(number);
    uint32_t value = string_at(arrays, node, from + min(lane_id(), count - 1));
    if constexpr (LEVELS > 0) {
        if (node.children == 0) return value;
        const uint32_t* starts = starts_of(arrays, node);
        for (uint32_t run = from / BLOCK_LEN; run <= (from + count - 1) / BLOCK_LEN; run++) {
            uint32_t at = __ldg(starts + run), end = __ldg(starts + run + 1);
            for (uint32_t before = run * BLOCK_LEN - 1; at < end; at += WARP) {
                uint32_t found = min(end - at, WARP);
                Exceptions exceptions = fetch_exceptions<LEVELS - 1>(arrays, node.children, at, found, before);
                before = __shfl_sync(FULL_WARP, exceptions.sum, WARP - 1);
                // Bits of the places among the numbers asked for.
                bool own = lane_id() < found;
                uint32_t place = exceptions.sum - from;
                uint32_t bits = warp_or(own && place < WARP ? 1u << place : 0);
                uint32_t rank = __popc(__ballot_sync(FULL_WARP, own && exceptions.sum < from)) + __popc(bits & low_bits(lane_id()));
                uint32_t high = __shfl_sync(FULL_WARP, exceptions.high, rank % WARP);
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

    __device__ void start(Arrays arrays, uint32_t number) {
        node = arrays.node(number);
        run = NO_DOC;
        at = end = 0;
        if (node.children != 0) {
            offsets.start(arrays, node.children);
            overflows.start(arrays, node.children + 1);
        }
    }

    // Goes on to the exception `at`.
    __device__ void enter(Arrays arrays) {
        if (at < end) place += offsets.value(arrays, at) + 1;
    }

    __device__ uint32_t value(Arrays arrays, uint32_t i) {
        uint32_t value = string_at(arrays, node, i);
        if (node.children == 0) return value;
        if (i / BLOCK_LEN != run) {
            run = i / BLOCK_LEN;
            at = __ldg(starts_of(arrays, node) + run);
            end = __ldg(starts_of(arrays, node) + run + 1);
            place = run * BLOCK_LEN - 1;
            enter(arrays);
        }
        for (; at < end && place < i; enter(arrays)) at++;
        if (at < end && place == i) value += (overflows.value(arrays, at) + 1) << node.width;
        return value;
    }
};

template <>
struct Walk<0> {
    Node node;
    __device__ void start(Arrays arrays, uint32_t number) { node = arrays.node(number); }
    __device__ uint32_t value(Arrays arrays, uint32_t i) { return string_at(arrays, node, i); }
};

template <uint32_t LEVELS>
struct PFor {
    struct Part {
        Slots slots;
        Node node;
        uint32_t from;  // exceptions
        uint32_t end;
    };
    typedef Part Docs;
    typedef Part Freqs;

    // Exceptions fetched last.
    struct State {
        Exceptions own;
        uint32_t from;
        uint32_t count;
        uint32_t before;  // the sum up to the last one used
    };

    enum : uint32_t { GAPS, FREQS };  // nodes

    __device__ __forceinline__ static Part load(const uint4* at, const Node& node, uint32_t from, uint32_t end) {
        return {Slots::load(at, node.width), node, from, end};
    }

    // The numbers with their exceptions.
    __device__ __forceinline__ static void get(const CompressedList& list, const Part& part, State& state, uint32_t out[4]) {
        part.slots.get(part.node.width, out);
        if (part.from >= part.end) return;
        __shared__ uint4 highs[CODEC_WARPS][WARP];
        uint4* own = highs[warp_id()];
        own[lane_id()] = make_uint4(0, 0, 0, 0);
        __syncwarp();
        for (uint32_t from = part.from; from < part.end; from = min(state.from + state.count, part.end)) {
            if (from - state.from >= state.count) {
                // Only the last block's exceptions, if any, are the ones before.
                uint32_t sum = __shfl_sync(FULL_WARP, state.own.sum, WARP - 1);
                state.from = from;
                state.count = min(part.node.starts - from, WARP);
                state.own = fetch_exceptions<LEVELS>(arrays_of(list), part.node.children, from, state.count, sum);
            }
            uint32_t number = state.from + lane_id();
            if (number >= from && number < min(state.from + state.count, part.end))
                reinterpret_cast<uint32_t*>(own)[state.own.sum - state.before - 1] = (state.own.high + 1) << part.node.width;
        }
        state.before = __shfl_sync(FULL_WARP, state.own.sum, part.end - 1 - state.from);
        __syncwarp();
        uint4 four = own[lane_id()];
        __syncwarp();
        out[0] += four.x;
        out[1] += four.y;
        out[2] += four.z;
        out[3] += four.w;
    }

    __device__ __forceinline__ static Docs load_docs(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t) {
        Node node = arrays_of(list).node(GAPS);
        uint32_t end = node.children != 0 ? head_of(list, block + 1).shape : 0;
        return load(units_of(list) + head.at, node, head.shape, end);
    }

    __device__ __forceinline__ static void docs(const CompressedList& list, const BlockHead& head, const Docs& loaded, State& state, uint32_t out[4]) {
        get(list, loaded, state, out);
        add_up(head.first, out);
    }

    __device__ __forceinline__ static const uint4* freq_units(const CompressedList& list, const BlockHead& head, uint32_t len) {
        return units_of(list) + head.at + slot_units(len, arrays_of(list).node(GAPS).width);
    }

    __device__ __forceinline__ static Freqs load_freqs(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t len) {
        Node node = arrays_of(list).node(FREQS);
        uint32_t end = node.children != 0 ? head_of(list, block + 1).more : 0;
        return load(freq_units(list, head, len), node, head.more, end);
    }

    __device__ __forceinline__ static void freqs(const CompressedList& list, const BlockHead&, const Freqs& loaded, State& state, uint32_t out[4]) {
        get(list, loaded, state, out);
        for (uint32_t i = 0; i < 4; i++) out[i]++;
    }

    __device__ static uint32_t freq(const CompressedList& list, uint32_t block, const BlockHead& head, uint32_t len, uint32_t i) {
        Node node = arrays_of(list).node(FREQS);
        uint32_t freq = slot_at(freq_units(list, head, len), node.width, i) + 1;
        if (node.children == 0) return freq;
        uint32_t at = head.more, end = head_of(list, block + 1).more, place = NO_DOC;
        Arrays arrays = arrays_of(list);
        Walk<LEVELS> offsets, overflows;
        if (at < end) offsets.start(arrays, node.children);
        for (; at < end; at++) {
            place += offsets.value(arrays, at) + 1;
            if (place >= i) break;
        }
        if (at < end && place == i) {
            overflows.start(arrays, node.children + 1);
            freq += (overflows.value(arrays, at) + 1) << node.width;
        }
        return freq;
    }
};
