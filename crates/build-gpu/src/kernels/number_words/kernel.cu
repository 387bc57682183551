// The id of each word of a text, from a dictionary: strings are replaced by numbers before they
// are sorted (Wakatsuki 2016, section 4.2).
//
// Words end with a newline, as those of `WordText` do. Most have fewer than 16 bytes: they are
// loaded at once and stay in registers.
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

// A word and its id. A few words make up most of a text, and are found here with one access to
// memory.
struct Known {
    uint4 bytes;  // 0 behind its end
    uint4 id;     // and the length, 0 if there is no word
};

// A text whose words are looked up. It begins at a multiple of 8 bytes and has at least `padded`
// bytes, also a multiple of 8.
struct Words {
    uint64_t text;
    uint64_t starts;  // uint32_t: where each begins
    uint64_t known;   // Known; as many as a power of two
    uint32_t len;
    uint32_t padded;
    uint32_t count;
    uint32_t known_bits;
};

// A word in registers, if it fits.
struct Word {
    Registers bytes;
    uint32_t start;
    uint32_t length;
    bool fits;

    __device__ __forceinline__ Word(const Words& words, uint32_t number) : start(__ldg(reinterpret_cast<const uint32_t*>(words.starts) + number)) {
        const uint32_t first = start / 8 * 8, shift = 8 * (start % 8);
        const unsigned long long* from = reinterpret_cast<const unsigned long long*>(words.text + first);
        uint64_t loaded[3];
#pragma unroll
        for (uint32_t i = 0; i < 3; i++) loaded[i] = first + 8 * i < words.padded ? __ldg(from + i) : 0;
        bytes = {loaded[0] >> shift, loaded[1] >> shift};
        if (shift != 0) {
            bytes.low |= loaded[1] << (64 - shift);
            bytes.high |= loaded[2] << (64 - shift);
        }
        length = bytes_before_newline(bytes.low);
        if (length == 8) length += bytes_before_newline(bytes.high);
        fits = length < IN_REGISTERS && start + length < words.len;
        if (length < 8) bytes = {bytes.low & ((1ull << 8 * length) - 1), 0};
        else if (length < 16) bytes.high &= (1ull << 8 * (length - 8)) - 1;
    }

    __device__ __forceinline__ uint4 key() const { return make_uint4(uint32_t(bytes.low), uint32_t(bytes.low >> 32), uint32_t(bytes.high), uint32_t(bytes.high >> 32)); }

    // The position of a word among known words, if it is one of them.
    __device__ __forceinline__ Known* place(const Words& words) const {
        const uint64_t mixed = (bytes.low ^ (bytes.high + length) * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
        return reinterpret_cast<Known*>(words.known) + (mixed >> (64 - words.known_bits));
    }
};

// Puts one in `step` words among the known ones, unless another one has its place, which stays.
// Kernels that look there run later, so that they see whole words.
extern "C" __global__ void __launch_bounds__(THREADS) know_words(Dictionary dictionary, Words words, uint32_t step) {
    const uint64_t number = uint64_t(blockIdx.x * THREADS + threadIdx.x) * step;
    if (number >= words.count) return;
    const Word word(words, uint32_t(number));
    if (!word.fits || word.length == 0) return;
    Known* place = word.place(words);
    if (place->id.y != 0 || atomicCAS(&place->id.y, 0u, word.length) != 0) return;
    place->bytes = word.key();
    place->id.x = dictionary.look_up(word.bytes, word.length);
}

extern "C" __global__ void __launch_bounds__(THREADS) number_words(Dictionary dictionary, Words words, uint32_t* __restrict__ ids) {
    const uint32_t number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= words.count) return;
    const Word word(words, number);
    if (word.fits) {
        const Known* place = word.place(words);
        const uint4 bytes = __ldg(&place->bytes), id = __ldg(&place->id), key = word.key();
        const bool known = id.y != 0 && id.y == word.length && bytes.x == key.x && bytes.y == key.y && bytes.z == key.z && bytes.w == key.w;
        ids[number] = known ? id.x : dictionary.look_up(word.bytes, word.length);
        return;
    }
    const uint8_t* text = reinterpret_cast<const uint8_t*>(words.text) + word.start;
    uint32_t length = 0;
    while (word.start + length < words.len && length <= 255 && text[length] != 10) length++;
    ids[number] = length > 255 ? dictionary.unknown() : dictionary.look_up(Text{text}, length);
}
