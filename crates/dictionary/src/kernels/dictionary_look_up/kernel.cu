// Looks up words, one per thread.
#include "dictionary.cuh"

// Bytes of a text, read through the cache for data that no kernel writes.
struct Text {
    const uint8_t* bytes;
    __device__ __forceinline__ uint32_t operator[](uint32_t i) const { return __ldg(bytes + i); }
};

// Returns the length of a word; a word that does not lie within the text counts as empty.
__device__ __forceinline__ uint32_t length_of(uint32_t start, uint32_t end, uint64_t text_bytes) { return start < end && end <= text_bytes ? end - start : 0; }

extern "C" __global__ void __launch_bounds__(256)
    dictionary_look_up(Dictionary dictionary, const uint8_t* text, uint64_t text_bytes, const uint32_t* __restrict__ starts, const uint32_t* __restrict__ ends,
                       uint32_t* __restrict__ ids, uint32_t count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const uint32_t start = starts[i], length = length_of(start, ends[i], text_bytes);
    ids[i] = dictionary.look_up(Text{text + start}, length);
}

extern "C" __global__ void __launch_bounds__(256)
    dictionary_prefix(Dictionary dictionary, const uint8_t* text, uint64_t text_bytes, const uint32_t* __restrict__ starts, const uint32_t* __restrict__ ends,
                      DictionaryIds* __restrict__ ids, uint32_t count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const uint32_t start = starts[i], length = length_of(start, ends[i], text_bytes);
    ids[i] = dictionary.prefix(Text{text + start}, length);
}
