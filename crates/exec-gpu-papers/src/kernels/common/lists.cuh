// Lists in compressed form (`compressed.rs`): blocks of 128 postings, each decoded by one warp;
// lane l gets postings 4 l to 4 l + 3.
//
// A codec is a structure with
//     List, open(list)                                  its view of a list,
//     Head, head(list, block)                           what it needs to load a block,
//     Docs, Freqs                                       what it loads of a block,
//     load_docs(list, block, head, len), load_freqs the same,
//     follow(list, loaded)                              requests what depends on that,
//     easy(loaded)                                      whether the block needs no more loads,
//     docs<EASY>(list, head, loaded, docs[4]), freqs    decodes; unspecified after the block's end,
//     freq(list, block, head, len, i)                   one frequency, by one lane alone.
// Loading is separate, in three steps, so that a warp can have the loads of several blocks in
// flight. All lanes must take part in all but the last.
//
// Lanes after the end of the last block read what follows it; each part of the image ends with
// enough bytes for that.
#pragma once

#include "scan.cuh"
#include "warp.cuh"

// Maximum number of warps of a block of threads. Codecs have shared memory for this many; a
// source with fewer may define it before including this header.
#ifndef CODEC_WARPS
#define CODEC_WARPS 32
#endif

constexpr uint32_t BLOCK_LEN = 128;
constexpr uint32_t NO_DOC = 0xffffffffu;

struct CompressedList {
    uint64_t units;   // the origin of heads and nodes, which count 16 bytes each
    // one BlockHead per block; with PForDelta two words: its first document and a tally
    uint64_t heads;
    uint64_t lasts;   // uint32_t per block: its last document
    uint64_t maxima;  // float per block: the largest value of the formula
    uint64_t nodes;   // with PForDelta: Numbers and Overflows, 16 bytes each
    uint32_t df;
    uint32_t blocks;
    float most;  // the largest of the maxima
    uint32_t unused;
};

struct BlockHead {
    uint32_t first;  // first document
    uint32_t at;     // first unit
    uint32_t shape;  // this and the next are defined by the codec
    uint32_t more;
};

__device__ __forceinline__ const uint4* units_of(const CompressedList& list) { return reinterpret_cast<const uint4*>(list.units); }

__device__ __forceinline__ const uint32_t* lasts_of(const CompressedList& list) { return reinterpret_cast<const uint32_t*>(list.lasts); }

__device__ __forceinline__ const float* maxima_of(const CompressedList& list) { return reinterpret_cast<const float*>(list.maxima); }

__device__ __forceinline__ BlockHead head_of(const CompressedList& list, uint32_t block) {
    uint4 head = __ldg(reinterpret_cast<const uint4*>(list.heads) + block);
    return {head.x, head.y, head.z, head.w};
}

__device__ __forceinline__ uint32_t block_len(const CompressedList& list, uint32_t block) {
    return min(list.df - block * BLOCK_LEN, BLOCK_LEN);
}

// The low `width` bits, 0 to 32.
__device__ __forceinline__ uint32_t low_bits(uint32_t width) { return __funnelshift_lc(NO_DOC, 0, width); }

// Units of `len` slots.
__device__ __forceinline__ uint32_t slot_units(uint32_t len, uint32_t width) { return ((len + 3) / 4 * width + 31) / 32; }

// Four slots of a lane: the streams are interleaved by words, so that all four are at one shift
// of the same two units.
struct Slots {
    uint4 low;
    uint4 high;

    __device__ __forceinline__ static Slots load(const uint4* units, uint32_t at, uint32_t width) {
        const uint4* unit = units + (at + lane_id() * width / 32);
        return {__ldg(unit), __ldg(unit + 1)};
    }

    __device__ __forceinline__ void get(uint32_t width, uint32_t out[4]) const {
        uint32_t shift = lane_id() * width, mask = low_bits(width);
        out[0] = __funnelshift_r(low.x, high.x, shift) & mask;
        out[1] = __funnelshift_r(low.y, high.y, shift) & mask;
        out[2] = __funnelshift_r(low.z, high.z, shift) & mask;
        out[3] = __funnelshift_r(low.w, high.w, shift) & mask;
    }
};

// Slot `i`, computed by one lane.
__device__ __forceinline__ uint32_t slot_at(const uint4* at, uint32_t width, uint32_t i) {
    uint32_t bit = i / 4 * width;
    const uint32_t* word = reinterpret_cast<const uint32_t*>(at + bit / 32) + i % 4;
    return __funnelshift_r(__ldg(word), __ldg(word + 4), bit) & low_bits(width);
}

// Turns gaps less one into documents, by a localized prefix sum.
__device__ __forceinline__ void add_up(uint32_t first, uint32_t slots[4]) {
    slots[1] += slots[0];
    slots[2] += slots[1];
    slots[3] += slots[2];
    uint32_t base = first + 4 * lane_id() + warp_inclusive_sum(slots[3]) - slots[3];
    slots[0] += base;
    slots[1] += base + 1;
    slots[2] += base + 2;
    slots[3] += base + 3;
}

// Writes `fill` after the end of a block.
__device__ __forceinline__ void fill_behind(uint32_t len, uint32_t fill, uint32_t values[4]) {
    if (len == BLOCK_LEN) return;
    for (uint32_t i = 0; i < 4; i++)
        if (4 * lane_id() + i >= len) values[i] = fill;
}

// The first document of a block.
template <class Codec>
__device__ __forceinline__ uint32_t first_of(const CompressedList& list, uint32_t block) {
    return Codec::head(Codec::open(list), block).first;
}

// The documents of a block; NO_DOC after its end.
template <class Codec>
__device__ __forceinline__ void decode_docs(const CompressedList& list, uint32_t block, uint32_t docs[4]) {
    typename Codec::List opened = Codec::open(list);
    typename Codec::Head head = Codec::head(opened, block);
    uint32_t len = block_len(list, block);
    typename Codec::Docs loaded = Codec::load_docs(opened, block, head, len);
    Codec::follow(opened, loaded);
    Codec::template docs<false>(opened, head, loaded, docs);
    fill_behind(len, NO_DOC, docs);
}

// The frequencies of a block; 0 after its end.
template <class Codec>
__device__ __forceinline__ void decode_freqs(const CompressedList& list, uint32_t block, uint32_t freqs[4]) {
    typename Codec::List opened = Codec::open(list);
    typename Codec::Head head = Codec::head(opened, block);
    uint32_t len = block_len(list, block);
    typename Codec::Freqs loaded = Codec::load_freqs(opened, block, head, len);
    Codec::follow(opened, loaded);
    Codec::template freqs<false>(opened, head, loaded, freqs);
    fill_behind(len, 0, freqs);
}

// One frequency, without decoding its block; each lane may request a different one.
template <class Codec>
__device__ __forceinline__ uint32_t freq_at(const CompressedList& list, uint32_t posting) {
    uint32_t block = posting / BLOCK_LEN;
    typename Codec::List opened = Codec::open(list);
    return Codec::freq(opened, block, Codec::head(opened, block), block_len(list, block), posting % BLOCK_LEN);
}
