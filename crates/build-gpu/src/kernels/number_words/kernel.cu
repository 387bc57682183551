// The id of each word of a text, from a dictionary: what replaces strings by numbers before they are sorted (Wakatsuki 2016, section 4.2).
#include "dictionary.cuh"
#include "words.cuh"

constexpr uint32_t THREADS = 256;

struct Text {
    const uint8_t* bytes;
    __device__ __forceinline__ uint32_t operator[](uint32_t i) const { return __ldg(bytes + i); }
};

extern "C" __global__ void __launch_bounds__(THREADS)
    number_words(Dictionary dictionary, const uint8_t* __restrict__ text, uint32_t len, const uint8_t* __restrict__ rules, const uint32_t* __restrict__ starts, uint32_t count,
                 uint32_t* __restrict__ ids) {
    __shared__ uint8_t classes[256];
    load_classes(rules, classes);
    const uint32_t word = blockIdx.x * THREADS + threadIdx.x;
    if (word >= count) return;
    const uint32_t start = starts[word];
    const uint32_t bytes = read_word(text, len, start, classes, false, [](uint32_t) {});
    ids[word] = bytes == NONE ? dictionary.unknown() : dictionary.look_up(Text{text + start}, bytes);
}
