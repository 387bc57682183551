// Bit packing (`compressed/bitpack.rs`): needs no shared memory, and waits only for the block's
// units.
#pragma once

#include "lists.cuh"

struct BitPack {
    typedef Slots Docs;
    typedef CompressedList List;
    typedef BlockHead Head;

    struct Freqs {
        Slots slots;
        const uint4* patches;  // the bits that mark patched postings, then the bytes
    };

    static constexpr uint32_t PATCHED = 1 << 16;

    __device__ __forceinline__ static uint32_t doc_width(const BlockHead& head) { return head.shape & 0xff; }
    __device__ __forceinline__ static uint32_t freq_width(const BlockHead& head) { return head.shape >> 8 & 0xff; }

    __device__ __forceinline__ static uint32_t freq_units(const BlockHead& head, uint32_t len) {
        return head.at + slot_units(len, doc_width(head));
    }

    __device__ __forceinline__ static const List& open(const CompressedList& list) { return list; }
    __device__ __forceinline__ static Head head(const CompressedList& list, uint32_t block) { return head_of(list, block); }

    template <class Loaded>
    __device__ __forceinline__ static void follow(const CompressedList&, Loaded&) {}

    template <class Loaded>
    __device__ __forceinline__ static bool easy(const Loaded&) {
        return true;
    }

    __device__ __forceinline__ static Docs load_docs(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t) {
        return Slots::load(units_of(list), head.at, doc_width(head));
    }

    template <bool>
    __device__ __forceinline__ static void docs(const CompressedList&, const BlockHead& head, const Docs& loaded, uint32_t out[4]) {
        loaded.get(doc_width(head), out);
        add_up(head.first, out);
    }

    __device__ __forceinline__ static Freqs load_freqs(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t len) {
        uint32_t at = freq_units(head, len), width = freq_width(head);
        return {Slots::load(units_of(list), at, width), units_of(list) + (at + slot_units(len, width))};
    }

    template <bool>
    __device__ __forceinline__ static void freqs(const CompressedList&, const BlockHead& head, const Freqs& loaded, uint32_t out[4]) {
        loaded.slots.get(freq_width(head), out);
        if (head.shape & PATCHED) {
            uint4 bits = __ldg(loaded.patches);
            uint32_t patched[4] = {bits.x, bits.y, bits.z, bits.w};
            // Patches are in the order of postings: those of earlier lanes come first.
            uint32_t below = low_bits(lane_id()), rank = 0;
            for (uint32_t i = 0; i < 4; i++) rank += __popc(patched[i] & below);
            const uint8_t* highs = reinterpret_cast<const uint8_t*>(loaded.patches + 1);
            for (uint32_t i = 0; i < 4; i++)
                if (patched[i] >> lane_id() & 1) out[i] += uint32_t(__ldg(highs + rank++)) << freq_width(head);
        }
        for (uint32_t i = 0; i < 4; i++) out[i]++;
    }

    __device__ __forceinline__ static uint32_t freq(const CompressedList& list, uint32_t, const BlockHead& head, uint32_t len, uint32_t i) {
        const uint4* at = units_of(list) + freq_units(head, len);
        uint32_t width = freq_width(head), freq = slot_at(at, width, i) + 1;
        if (head.shape & PATCHED) {
            const uint4* patches = at + slot_units(len, width);
            const uint32_t* patched = reinterpret_cast<const uint32_t*>(patches);
            uint32_t lane = i / 4;
            if (__ldg(patched + i % 4) >> lane & 1) {
                uint32_t rank = 0;
                for (uint32_t j = 0; j < 4; j++) rank += __popc(__ldg(patched + j) & low_bits(j < i % 4 ? lane + 1 : lane));
                freq += uint32_t(__ldg(reinterpret_cast<const uint8_t*>(patches + 1) + rank)) << width;
            }
        }
        return freq;
    }
};
