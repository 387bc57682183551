// A merge sort of words, by a comparison with a state: a key is the first eight bytes of a word
// as a big-endian number, padded with zeros, and a value is the word's index. Words with equal
// keys are compared byte by byte. For tests of `merge_sort.cuh`.
#include "merge_sort.cuh"

struct Less {
    const uint8_t* bytes;
    // Start of each word, and at the end the end of the last one.
    const uint32_t* starts;

    __device__ bool operator()(uint64_t a, uint32_t a_word, uint64_t b, uint32_t b_word) const { return a != b ? a < b : rest(a_word, b_word); }

    __device__ __noinline__ bool rest(uint32_t a_word, uint32_t b_word) const {
        uint32_t a = starts[a_word], b = starts[b_word];
        const uint32_t a_end = starts[a_word + 1], b_end = starts[b_word + 1];
        for (; a < a_end && b < b_end; a++, b++)
            if (bytes[a] != bytes[b]) return bytes[a] < bytes[b];
        return a == a_end && b < b_end;
    }
};

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    sort_words_tiles(uint64_t* keys, uint32_t* values, uint32_t len, const uint8_t* bytes, const uint32_t* starts) {
    merge_sort_tiles(keys, values, len, Less{bytes, starts});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS) sort_words_splits(const uint64_t* keys, const uint32_t* values, uint32_t len, uint32_t run,
                                                                                   uint32_t* splits, const uint8_t* bytes, const uint32_t* starts) {
    merge_sort_splits(keys, values, len, run, splits, Less{bytes, starts});
}

extern "C" __global__ void __launch_bounds__(MERGE_SORT_THREADS)
    sort_words_merge(const uint64_t* keys, const uint32_t* values, uint64_t* keys_out, uint32_t* values_out, uint32_t len, uint32_t run,
                     const uint32_t* splits, const uint8_t* bytes, const uint32_t* starts) {
    merge_sort_merge(keys, values, keys_out, values_out, len, run, splits, Less{bytes, starts});
}
