// Bytes at any address, and values of the same width in slots, as the codec `bitpack` stores them
// (docs/reference/formats/postings.md): full blocks are four interleaved streams, anything else
// is a bit string. Up to 16 bytes behind the slots may be read.
#pragma once

#include "types.cuh"

// Number of values in a full block.
constexpr uint32_t BLOCK = 128;

// Loads from any address, not just aligned ones.
__device__ __forceinline__ uint32_t load_u32(uint64_t at) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(at & ~uint64_t(3));
    const uint32_t shift = uint32_t(at & 3) * 8, low = __ldg(words);
    return shift == 0 ? low : __funnelshift_r(low, __ldg(words + 1), shift);
}

__device__ __forceinline__ uint32_t load_u8(uint64_t at) { return __ldg(reinterpret_cast<const uint8_t*>(at)); }

__device__ __forceinline__ uint32_t load_u16(uint64_t at) { return load_u8(at) | load_u8(at + 1) << 8; }

__device__ __forceinline__ uint64_t load_u64(uint64_t at) { return load_u32(at) | uint64_t(load_u32(at + 4)) << 32; }

__device__ __forceinline__ uint32_t mask_of(uint32_t width) { return width >= 32 ? 0xffffffffu : (1u << width) - 1; }

__device__ __forceinline__ uint32_t slot_bytes(uint32_t n, uint32_t width) { return (n * width + 7) / 8; }

// Loads values 4 * lane to 4 * lane + 3 of `n` slots; 0 past the last.
__device__ __forceinline__ void load_slots(uint64_t at, uint32_t width, uint32_t n, uint32_t out[4]) {
    const uint32_t lane = lane_id();
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) out[j] = 0;
    if (width == 0) return;
    if (n == BLOCK) {
        // Four interleaved streams: a lane's values are at the same bits of the same two units of
        // 16 bytes.
        const uint32_t bit = lane * width, shift = bit % 32;
        const uint64_t unit = at + bit / 32 * 16;
        const uint32_t* words = reinterpret_cast<const uint32_t*>(unit & ~uint64_t(3));
        const uint32_t bytes = uint32_t(unit & 3) * 8;
        const bool crosses = shift + width > 32;
        uint32_t low[5], high[5];
#pragma unroll
        for (uint32_t j = 0; j < 5; j++) low[j] = j < 4 || bytes != 0 || crosses ? __ldg(words + j) : 0;
#pragma unroll
        for (uint32_t j = 0; j < 5; j++) high[j] = j == 0 ? low[4] : crosses && (j < 4 || bytes != 0) ? __ldg(words + 4 + j) : 0;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t a = __funnelshift_r(low[j], low[j + 1], bytes), b = __funnelshift_r(high[j], high[j + 1], bytes);
            out[j] = __funnelshift_r(a, b, shift) & mask_of(width);
        }
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t i = 4 * lane + j, bit = i * width;
        if (i >= n) continue;
        const uint64_t byte = at + bit / 8;
        const uint32_t shift = bit % 8, low = load_u32(byte);
        // Up to seven bits below the value.
        const uint32_t high = shift + width > 32 ? load_u8(byte + 4) : 0;
        out[j] = __funnelshift_r(low, high, shift) & mask_of(width);
    }
}
