// Lists in the codec `bitpack`, as on disk (docs/reference/formats/postings.md): a warp decodes a
// block of 128 postings. Whatever the bytes are, nothing outside of a list's bytes is read,
// except for up to 16 bytes behind them.
#pragma once

#include "scan.cuh"
#include "slots.cuh"

constexpr uint32_t GROUP = 16;

// A list, or the part of it that is on the device. Addresses are such that block numbers count
// from the start of the list.
struct PackedList {
    uint64_t bases;    // uint64_t for every 16th block: where it begins in the payload
    uint64_t lasts;    // uint32_t per block: its last document
    uint64_t ends;     // uint16_t per block: where it ends, counted from its group's start
    uint64_t payload;  // the blocks
    uint64_t from;     // the part of the payload that is there
    uint64_t to;
    uint32_t df;
    uint32_t first;  // the first document of a list of one block
    uint32_t freq;   // the frequency of a list of one posting
    uint32_t unused;
};

// A block: where its bytes are, and what they mean.
struct PackedBlock {
    uint64_t at;      // the widths
    uint64_t end;     // behind the last byte
    uint32_t n;       // postings
    uint32_t gaps;    // gaps stored: one less if the list's first document is known
    uint32_t before;  // the document that gaps count from; all bits set: before the first
    uint32_t last;    // the last document, if known
    bool last_known;
};

// Finds a block; false if it is not within the list. The result is the same in every lane.
__device__ __forceinline__ bool find_block(const PackedList& list, uint32_t block, PackedBlock& found) {
    found.n = min(list.df - block * BLOCK, BLOCK);
    if (list.df <= BLOCK) {
        found.at = list.payload + list.from;
        found.end = list.payload + list.to;
        found.gaps = found.n - 1;
        found.before = list.first;
        found.last_known = false;
        return list.df == 1 || list.to >= list.from + 2;
    }
    found.gaps = found.n;
    found.before = block == 0 ? 0xffffffffu : load_u32(list.lasts + 4 * uint64_t(block - 1));
    found.last = load_u32(list.lasts + 4 * uint64_t(block));
    found.last_known = true;
    const uint64_t base = load_u64(list.bases + 8 * uint64_t(block / GROUP));
    const uint32_t start = block % GROUP == 0 ? 0 : load_u16(list.ends + 2 * uint64_t(block - 1));
    const uint32_t end = load_u16(list.ends + 2 * uint64_t(block));
    found.at = list.payload + base + start;
    found.end = list.payload + base + end;
    return start + 2 <= end && base <= list.to && base + start >= list.from && base + end <= list.to;
}

// Decodes the documents of a block, 4 * lane to 4 * lane + 3; false if they contradict the skip
// array, or are not below `docs`. Lanes past the end get meaningless documents.
__device__ __forceinline__ bool decode_docs(const PackedList& list, const PackedBlock& block, uint32_t docs, uint32_t out[4]) {
    const uint32_t lane = lane_id();
    if (list.df == 1) {
        out[0] = list.first;
        return list.first < docs;
    }
    const uint32_t width = load_u8(block.at);
    if (width > 32 || slot_bytes(block.gaps, width) + 2 > block.end - block.at) return false;
    load_slots(block.at + 2, width, block.gaps, out);
    // A list of one block stores the gaps behind its first document only.
    const bool is_short = block.gaps < block.n;
    uint64_t sum = 0;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        sum += 4 * lane + j < block.gaps ? uint64_t(out[j]) + 1 : 0;
    }
    uint64_t before, all;
    if (width <= 24) {
        const uint32_t inclusive = warp_inclusive_sum(uint32_t(sum));
        before = inclusive - uint32_t(sum);
        all = __shfl_sync(FULL_WARP, inclusive, WARP - 1);
    } else {
        const uint64_t inclusive = warp_inclusive_sum(sum);
        before = inclusive - sum;
        all = __shfl_sync(FULL_WARP, inclusive, WARP - 1);
    }
    // Documents ascend if the sum of all gaps is what it should be: then no sum before it wraps.
    const uint64_t first = block.before == 0xffffffffu ? 0 : uint64_t(block.before) + 1;
    const uint64_t end = first + all;
    if (end > docs || (block.last_known && end != uint64_t(block.last) + 1)) return false;
    uint32_t doc = uint32_t(first + before) - 1;
    if (!is_short) {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            doc += out[j] + 1;
            out[j] = doc;
        }
        return true;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t gap = out[j] + 1;
        out[j] = doc;
        doc += gap;
    }
    return true;
}

// Decodes the frequencies of a block into `freqs`, which is shared memory for 128 values of this
// warp; false if they are malformed.
__device__ __forceinline__ bool decode_freqs(const PackedList& list, const PackedBlock& block, uint32_t* freqs) {
    const uint32_t lane = lane_id();
    if (list.df == 1) {
        if (lane == 0) freqs[0] = list.freq;
        __syncwarp();
        return true;
    }
    constexpr uint32_t PATCHED = 0x80;
    const uint32_t flags = load_u8(block.at + 1), width = flags & ~PATCHED;
    const uint64_t at = block.at + 2 + slot_bytes(block.gaps, load_u8(block.at)), patches = at + slot_bytes(block.n, width);
    if (width > 32 || patches > block.end || ((flags & PATCHED) != 0 && width > 24)) return false;
    uint32_t out[4];
    load_slots(at, width, block.n, out);
    // The one value whose successor is 0 does not occur in sound lists.
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) freqs[4 * lane + j] = out[j] == 0xffffffffu ? 1 : out[j] + 1;
    __syncwarp();
    if ((flags & PATCHED) == 0) return true;
    bool sound = true;
    const uint32_t count = uint32_t(block.end - patches) / 2;
    for (uint32_t i = lane; i < count; i += WARP) {
        const uint32_t index = load_u8(patches + 2 * i), high = load_u8(patches + 2 * i + 1);
        if (index >= block.n) sound = false;
        else atomicAdd(&freqs[index], high << width);
    }
    __syncwarp();
    return __all_sync(FULL_WARP, sound) != 0;
}
