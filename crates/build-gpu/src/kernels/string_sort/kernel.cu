// Sorts words as strings (Wakatsuki 2016, section 4.1.4), and numbers them afterwards.
//
// A key is the first seven bytes of a word, padded with zeros, and then its length, or 8 if it
// has more than seven. Keys are therefore in the order of words; words with the same key are
// equal, unless they are longer than seven bytes: then the remaining bytes decide.
#include "merge_sort.cuh"
#include "words.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t IN_KEY = 7;

// Words of a text. One ends before the first byte that has no class, or with the text.
struct Strings {
    const uint8_t* text;
    uint32_t len;
    const uint8_t* classes;
    const uint32_t* starts;

    // The byte of a word, from 1 on, or 0 behind its end.
    __device__ __forceinline__ uint32_t at(uint32_t position) const {
        if (position >= len) return 0;
        const uint32_t byte = __ldg(text + position);
        return __ldg(classes + byte) == 0 ? 0 : byte + 1;
    }

    // Compares the bytes behind those in the keys: negative, 0 or positive.
    __device__ __noinline__ int rest(uint32_t a_word, uint32_t b_word) const {
        uint32_t a = starts[a_word] + IN_KEY, b = starts[b_word] + IN_KEY;
        while (true) {
            const uint32_t a_byte = at(a++), b_byte = at(b++);
            if (a_byte != b_byte) return a_byte < b_byte ? -1 : 1;
            if (a_byte == 0) return 0;
        }
    }

    __device__ __forceinline__ bool operator()(uint64_t a, uint32_t a_word, uint64_t b, uint32_t b_word) const {
        if (a != b) return a < b;
        return uint8_t(a) > IN_KEY && rest(a_word, b_word) < 0;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    string_keys(const uint8_t* text, uint32_t len, const uint8_t* classes, const uint32_t* starts, uint32_t count, uint64_t* __restrict__ keys, uint32_t* __restrict__ words) {
    const uint32_t word = blockIdx.x * THREADS + threadIdx.x;
    if (word >= count) return;
    const Strings strings = {text, len, classes, starts};
    uint64_t key = 0;
    uint32_t bytes = 0;
    for (; bytes < IN_KEY; bytes++) {
        const uint32_t byte = strings.at(starts[word] + bytes);
        if (byte == 0) break;
        key |= uint64_t(byte - 1) << (56 - 8 * bytes);
    }
    if (bytes == IN_KEY && strings.at(starts[word] + IN_KEY) != 0) bytes++;
    keys[word] = key | bytes;
    words[word] = word;
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    string_sort_tiles(uint64_t* keys, uint32_t* values, uint32_t count, const uint8_t* text, uint32_t len, const uint8_t* classes, const uint32_t* starts) {
    merge_sort_tiles(keys, values, count, Strings{text, len, classes, starts});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    string_sort_splits(const uint64_t* keys, const uint32_t* values, uint32_t count, uint32_t run, uint32_t* splits, const uint8_t* text, uint32_t len,
                       const uint8_t* classes, const uint32_t* starts) {
    merge_sort_splits(keys, values, count, run, splits, Strings{text, len, classes, starts});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    string_sort_merge(const uint64_t* keys, const uint32_t* values, uint64_t* keys_out, uint32_t* values_out, uint32_t count, uint32_t run, const uint32_t* splits,
                      const uint8_t* text, uint32_t len, const uint8_t* classes, const uint32_t* starts) {
    merge_sort_merge(keys, values, keys_out, values_out, count, run, splits, Strings{text, len, classes, starts});
}

// 1 for each sorted word that differs from the one before, and for the first.
extern "C" __global__ void __launch_bounds__(THREADS)
    string_flags(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ words, uint32_t count, const uint8_t* text, uint32_t len, const uint8_t* classes,
                 const uint32_t* starts, uint32_t* __restrict__ flags) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const Strings strings = {text, len, classes, starts};
    bool differs = i == 0 || keys[i] != keys[i - 1];
    if (!differs && uint8_t(keys[i]) > IN_KEY) differs = strings.rest(words[i - 1], words[i]) != 0;
    flags[i] = differs;
}

// Writes the number of each sorted word, from the flags before it; its document; and the start of
// one of the words with that number.
extern "C" __global__ void __launch_bounds__(THREADS)
    string_numbers(const uint32_t* __restrict__ flags, const uint32_t* __restrict__ before, const uint32_t* __restrict__ words, uint32_t count,
                   const uint32_t* __restrict__ starts, const uint32_t* __restrict__ docs, uint32_t* __restrict__ numbers, uint32_t* __restrict__ docs_out,
                   uint32_t* __restrict__ term_starts) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t number = before[i] + flags[i] - 1, word = words[i];
    numbers[i] = number;
    docs_out[i] = docs[word];
    if (flags[i] != 0) term_starts[number] = starts[word];
}
