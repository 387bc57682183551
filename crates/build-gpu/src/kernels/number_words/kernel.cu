// The id of each word of a text, from a dictionary: what replaces strings by numbers before they are sorted (Wakatsuki 2016, section 4.2).
//
// Words end with a newline, as those of `WordText` do. Most have fewer than 16 bytes: they are loaded at once and stay in registers. Most are also frequent, so each block
// remembers where it has seen a word and what its id is.
#include "dictionary.cuh"
#include "types.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t IN_REGISTERS = 16;
// Words that a block remembers, a power of two.
constexpr uint32_t REMEMBERED = 2048;
constexpr unsigned long long NOTHING = ~0ull;

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

// The 16 bytes from `start` on. `text` begins at a multiple of 8 bytes and has at least `padded` bytes, also a multiple of 8; what lies beyond is 0.
__device__ __forceinline__ Registers load(const uint8_t* __restrict__ text, uint32_t padded, uint32_t start) {
    const uint32_t first = start / 8 * 8, shift = 8 * (start % 8);
    const unsigned long long* from = reinterpret_cast<const unsigned long long*>(text + first);
    uint64_t loaded[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; i++) loaded[i] = first + 8 * i < padded ? __ldg(from + i) : 0;
    Registers bytes = {loaded[0] >> shift, loaded[1] >> shift};
    if (shift != 0) {
        bytes.low |= loaded[1] << (64 - shift);
        bytes.high |= loaded[2] << (64 - shift);
    }
    return bytes;
}

// Whether the first `length` bytes, fewer than 16, and the newline behind them are the same.
__device__ __forceinline__ bool same_word(const Registers& a, const Registers& b, uint32_t length) {
    const uint32_t bits = 8 * (length + 1);
    const uint64_t low = a.low ^ b.low, high = a.high ^ b.high;
    if (bits < 64) return low << (64 - bits) == 0;
    return low == 0 && (bits == 64 || high << (128 - bits) == 0);
}

__device__ uint32_t look_up_long(const Dictionary& dictionary, const uint8_t* __restrict__ text, uint32_t len, uint32_t start) {
    uint32_t length = 0;
    while (start + length < len && length <= 255 && text[start + length] != 10) length++;
    return length > 255 ? dictionary.unknown() : dictionary.look_up(Text{text + start}, length);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    number_words(Dictionary dictionary, const uint8_t* __restrict__ text, uint32_t len, uint32_t padded, const uint32_t* __restrict__ starts, uint32_t count,
                 uint32_t* __restrict__ ids) {
    // Start and id of a word in one number, which is read and written at once: so the two always belong together, whoever wrote last.
    __shared__ unsigned long long remembered[REMEMBERED];
    for (uint32_t i = threadIdx.x; i < REMEMBERED; i += THREADS) remembered[i] = NOTHING;
    __syncthreads();
    volatile unsigned long long* known = remembered;
    for (uint64_t word = uint64_t(blockIdx.x) * THREADS + threadIdx.x; word < count; word += uint64_t(gridDim.x) * THREADS) {
        const uint32_t start = starts[word];
        const Registers bytes = load(text, padded, start);
        uint32_t length = bytes_before_newline(bytes.low);
        if (length == 8) length += bytes_before_newline(bytes.high);
        if (length >= IN_REGISTERS || start + length >= len) {
            ids[word] = look_up_long(dictionary, text, len, start);
            continue;
        }
        const uint64_t low = length < 8 ? bytes.low << (64 - 8 * length) : bytes.low;
        const uint64_t high = length <= 8 ? 0 : bytes.high << (128 - 8 * length);
        const uint32_t slot = uint32_t(((length == 0 ? 0 : low) ^ high * 31) * 0x9e3779b97f4a7c15ull >> 53) % REMEMBERED;
        const unsigned long long seen = known[slot];
        if (seen != NOTHING && same_word(bytes, load(text, padded, uint32_t(seen >> 32)), length)) {
            ids[word] = uint32_t(seen);
            continue;
        }
        const uint32_t id = dictionary.look_up(bytes, length);
        ids[word] = id;
        known[slot] = (unsigned long long)start << 32 | id;
    }
}
