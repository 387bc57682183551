// The id of each word of a text, from a dictionary: what replaces strings by numbers before they are sorted (Wakatsuki 2016, section 4.2).
//
// Words end with a newline, as those of `WordText` do. Most have fewer than 16 bytes: they are loaded at once and stay in registers.
#include "dictionary.cuh"
#include "types.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t IN_REGISTERS = 16;

struct Text {
    const uint8_t* bytes;
    __device__ __forceinline__ uint32_t operator[](uint32_t i) const { return __ldg(bytes + i); }
};

struct Registers {
    uint64_t low, high;
    __device__ __forceinline__ uint32_t operator[](uint32_t i) const { return uint32_t((i < 8 ? low : high) >> (8 * (i % 8))) & 255; }
};

// The number of bytes before the first newline, 8 if there is none.
__device__ __forceinline__ uint32_t bytes_before_newline(uint64_t bytes) {
    const uint64_t differing = bytes ^ 0x0a0a0a0a0a0a0a0aull;
    const uint64_t found = (differing - 0x0101010101010101ull) & ~differing & 0x8080808080808080ull;
    return found == 0 ? 8 : (__ffsll(found) - 1) / 8;
}

// `text` begins at a multiple of 8 bytes and has at least `padded` bytes, also a multiple of 8.
extern "C" __global__ void __launch_bounds__(THREADS)
    number_words(Dictionary dictionary, const uint8_t* __restrict__ text, uint32_t len, uint32_t padded, const uint32_t* __restrict__ starts, uint32_t count,
                 uint32_t* __restrict__ ids) {
    const uint32_t word = blockIdx.x * THREADS + threadIdx.x;
    if (word >= count) return;
    const uint32_t start = starts[word], first = start / 8 * 8, shift = 8 * (start % 8);
    const uint64_t* from = reinterpret_cast<const uint64_t*>(text + first);
    uint64_t loaded[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; i++) loaded[i] = first + 8 * i < padded ? __ldg(reinterpret_cast<const unsigned long long*>(from) + i) : 0;
    Registers bytes = {loaded[0] >> shift, loaded[1] >> shift};
    if (shift != 0) {
        bytes.low |= loaded[1] << (64 - shift);
        bytes.high |= loaded[2] << (64 - shift);
    }
    uint32_t length = bytes_before_newline(bytes.low);
    if (length == 8) length += bytes_before_newline(bytes.high);
    if (length < IN_REGISTERS && start + length < len) {
        ids[word] = dictionary.look_up(bytes, length);
        return;
    }
    length = 0;
    while (start + length < len && length <= 255 && text[start + length] != 10) length++;
    ids[word] = length > 255 ? dictionary.unknown() : dictionary.look_up(Text{text + start}, length);
}
