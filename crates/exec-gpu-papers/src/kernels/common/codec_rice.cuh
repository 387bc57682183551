// Rice codes (`compressed/rice.rs`) by two localized prefix sums (Ding 2009, section 6.1). One is
// over the slots. The other is over the unary bits: each lane counts those of its window with
// `__popc`, and the ones are compacted through shared memory. The one of number j is at bit j
// plus the sum of quotients up to it.
#pragma once

#include "lists.cuh"

struct Rice {
    struct Part {
        Slots slots;
        uint32_t window;  // this lane's unary bits
    };
    typedef Part Docs;
    typedef Part Freqs;
    typedef CompressedList List;
    typedef BlockHead Head;

    __device__ __forceinline__ static uint32_t doc_width(const BlockHead& head) { return head.shape & 0xff; }
    __device__ __forceinline__ static uint32_t freq_width(const BlockHead& head) { return head.shape >> 8 & 0xff; }
    __device__ __forceinline__ static uint32_t doc_window(const BlockHead& head) { return head.shape >> 16 & 0xff; }
    __device__ __forceinline__ static uint32_t freq_window(const BlockHead& head) { return head.shape >> 24; }

    __device__ __forceinline__ static uint32_t freq_units(const BlockHead& head, uint32_t len) {
        return head.at + slot_units(len, doc_width(head)) + (doc_window(head) + 3) / 4;
    }

    __device__ __forceinline__ static Part load(const uint4* units, uint32_t at, uint32_t len, uint32_t width, uint32_t window) {
        const uint32_t* unary = reinterpret_cast<const uint32_t*>(units + (at + slot_units(len, width)));
        uint32_t bit = lane_id() * window;
        uint32_t bits = __funnelshift_r(__ldg(unary + bit / 32), __ldg(unary + bit / 32 + 1), bit);
        return {Slots::load(units, at, width), bits & low_bits(window)};
    }

    // The sums of quotients up to each of the lane's numbers.
    __device__ __forceinline__ static void quotient_sums(uint32_t bits, uint32_t window, uint32_t sums[4]) {
        __shared__ __align__(16) uint16_t compact[CODEC_WARPS][BLOCK_LEN];
        uint16_t* own = compact[warp_id()];
        uint32_t ones = __popc(bits);
        uint32_t rank = warp_inclusive_sum(ones) - ones;
        for (uint32_t start = lane_id() * window; bits != 0; bits &= bits - 1, rank++) own[rank] = uint16_t(start + __ffs(bits) - 1 - rank);
        __syncwarp();
        ushort4 four = reinterpret_cast<const ushort4*>(own)[lane_id()];
        __syncwarp();
        sums[0] = four.x;
        sums[1] = four.y;
        sums[2] = four.z;
        sums[3] = four.w;
    }

    __device__ __forceinline__ static const List& open(const CompressedList& list) { return list; }
    __device__ __forceinline__ static Head head(const CompressedList& list, uint32_t block) { return head_of(list, block); }

    template <class Loaded>
    __device__ __forceinline__ static void follow(const CompressedList&, Loaded&) {}

    template <class Loaded>
    __device__ __forceinline__ static bool easy(const Loaded&) {
        return true;
    }

    __device__ __forceinline__ static Docs load_docs(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t len) {
        return load(units_of(list), head.at, len, doc_width(head), doc_window(head));
    }

    template <bool>
    __device__ __forceinline__ static void docs(const CompressedList&, const BlockHead& head, const Docs& loaded, uint32_t out[4]) {
        uint32_t sums[4];
        quotient_sums(loaded.window, doc_window(head), sums);
        loaded.slots.get(doc_width(head), out);
        add_up(head.first, out);
        for (uint32_t i = 0; i < 4; i++) out[i] += sums[i] << doc_width(head);
    }

    __device__ __forceinline__ static Freqs load_freqs(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t len) {
        return load(units_of(list), freq_units(head, len), len, freq_width(head), freq_window(head));
    }

    template <bool>
    __device__ __forceinline__ static void freqs(const CompressedList&, const BlockHead& head, const Freqs& loaded, uint32_t out[4]) {
        uint32_t sums[4];
        quotient_sums(loaded.window, freq_window(head), sums);
        loaded.slots.get(freq_width(head), out);
        uint32_t before = __shfl_up_sync(FULL_WARP, sums[3], 1);
        if (lane_id() == 0) before = 0;
        for (uint32_t i = 0; i < 4; i++) {
            out[i] += ((sums[i] - before) << freq_width(head)) + 1;
            before = sums[i];
        }
    }

    // The position of the one of number `n`, found by one lane.
    __device__ __forceinline__ static uint32_t one_at(const uint32_t* unary, uint32_t n) {
        uint32_t word = 0, bits = __ldg(unary);
        for (uint32_t ones; n >= (ones = __popc(bits)); bits = __ldg(unary + ++word)) n -= ones;
        for (; n > 0; n--) bits &= bits - 1;
        return WARP * word + __ffs(bits) - 1;
    }

    __device__ __forceinline__ static uint32_t freq(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t len, uint32_t i) {
        const uint4* at = units_of(list) + freq_units(head, len);
        uint32_t width = freq_width(head);
        const uint32_t* unary = reinterpret_cast<const uint32_t*>(at + slot_units(len, width));
        uint32_t next = i == 0 ? 0 : one_at(unary, i - 1) + 1;
        return slot_at(at, width, i) + ((one_at(unary, i) - next) << width) + 1;
    }
};
