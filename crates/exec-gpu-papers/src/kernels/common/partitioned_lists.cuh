// Blocks of compressed lists as WAND and MaxScore use them: how to find them, and wrappers of the
// codecs' functions.
#pragma once

#include "partitioned_form.cuh"
#include "codec_bitpack.cuh"
#include "codec_pfor.cuh"
#include "codec_rice.cuh"
#include "tiles.cuh"
#include "warp.cuh"

// The index of the first of 128 ascending documents that is not before `doc`; 128 if all are.
__device__ __forceinline__ uint32_t index_of(const uint32_t* docs, uint32_t doc) {
    uint32_t n = 0;
#pragma unroll
    for (uint32_t step = BLOCK_LEN / 2; step > 0; step /= 2) {
        if (docs[n + step - 1] < doc) n += step;
    }
    return n + (docs[n] < doc ? 1 : 0);
}

// The first block from `from` on whose last document is not before `doc`; the number of blocks if
// there is none. The whole warp searches for one document: first in the nearest blocks, then each
// step leaves one 32nd of the rest.
__device__ __forceinline__ uint32_t find_block(const CompressedList& list, uint32_t from, uint32_t doc) {
    const uint32_t* lasts = lasts_of(list);
    uint32_t end = list.blocks, stride = 1;
    while (true) {
        uint32_t at = from + (lane_id() + 1) * stride - 1;
        uint32_t reached = __ballot_sync(FULL_WARP, at >= end || lasts[at] >= doc);
        uint32_t steps = reached != 0 ? __ffs(reached) - 1 : WARP;
        from += steps * stride;
        if (reached != 0 && stride == 1) return from;
        if (reached != 0 && from + stride - 1 < end) end = from + stride - 1;
        stride = (end - from) / WARP + 1;
    }
}

// Returns the block that `find_block` finds, with a separate document for each lane. Lanes that
// are not `active` get an unspecified result.
__device__ __forceinline__ uint32_t find_blocks(const CompressedList& list, uint32_t from, uint32_t doc, bool active) {
    const uint32_t* lasts = lasts_of(list);
    uint32_t near = from + lane_id() < list.blocks ? lasts[from + lane_id()] : NO_DOC;
    uint32_t n = 0;
#pragma unroll
    for (uint32_t step = WARP / 2; step > 0; step /= 2) {
        uint32_t last = __shfl_sync(FULL_WARP, near, n + step - 1);
        if (last < doc) n += step;
    }
    uint32_t last = __shfl_sync(FULL_WARP, near, n);
    if (last < doc) n++;
    n += from;
    if (active && n == from + WARP) n = lower_bound(lasts, n, list.blocks, doc);
    __syncwarp();
    return n;
}

// Wrappers of a codec's functions.
template <class Codec>
struct Called {
    __device__ __forceinline__ static uint4 docs(const CompressedList& list, uint32_t block) {
        uint32_t docs[FOUR];
        decode_docs<Codec>(list, block, docs);
        return make_uint4(docs[0], docs[1], docs[2], docs[3]);
    }
    // Decodes two blocks, whose loads are in flight together.
    __device__ __forceinline__ static void two(const CompressedList& list, uint32_t block, uint32_t other, uint4& docs, uint4& others) {
        typename Codec::List opened = Codec::open(list);
        typename Codec::Head head = Codec::head(opened, block), next_head = Codec::head(opened, other);
        const uint32_t len = block_len(list, block), next_len = block_len(list, other);
        typename Codec::Docs loaded = Codec::load_docs(opened, block, head, len), next = Codec::load_docs(opened, other, next_head, next_len);
        Codec::follow(opened, loaded);
        Codec::follow(opened, next);
        uint32_t out[FOUR];
        Codec::template docs<false>(opened, head, loaded, out);
        fill_behind(len, NO_DOC, out);
        docs = make_uint4(out[0], out[1], out[2], out[3]);
        Codec::template docs<false>(opened, next_head, next, out);
        fill_behind(next_len, NO_DOC, out);
        others = make_uint4(out[0], out[1], out[2], out[3]);
    }
    __device__ __forceinline__ static uint4 freqs(const CompressedList& list, uint32_t block) {
        uint32_t freqs[FOUR];
        decode_freqs<Codec>(list, block, freqs);
        return make_uint4(freqs[0], freqs[1], freqs[2], freqs[3]);
    }
    __device__ __forceinline__ static uint32_t freq(const CompressedList& list, uint32_t posting) { return freq_at<Codec>(list, posting); }
};

// The functions of PForDelta are large, so there is one copy of each.
template <uint32_t LEVELS>
struct Called<PFor<LEVELS>> {
    __device__ __noinline__ static uint4 docs(const CompressedList& list, uint32_t block) {
        uint32_t docs[FOUR];
        decode_docs<PFor<LEVELS>>(list, block, docs);
        return make_uint4(docs[0], docs[1], docs[2], docs[3]);
    }
    __device__ __forceinline__ static void two(const CompressedList& list, uint32_t block, uint32_t other, uint4& of, uint4& others) {
        of = docs(list, block);
        others = docs(list, other);
    }
    __device__ __noinline__ static uint4 freqs(const CompressedList& list, uint32_t block) {
        uint32_t freqs[FOUR];
        decode_freqs<PFor<LEVELS>>(list, block, freqs);
        return make_uint4(freqs[0], freqs[1], freqs[2], freqs[3]);
    }
    __device__ __noinline__ static uint32_t freq(const CompressedList& list, uint32_t posting) { return freq_at<PFor<LEVELS>>(list, posting); }
};
