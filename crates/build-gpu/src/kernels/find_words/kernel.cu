// Steps 1 and 2 of (Wakatsuki 2016): the starts of words, by compaction, and the document of each
// word, by a prefix sum over the ends of documents. The first kernel counts in tiles, then the
// counts are summed up, and the second kernel reads the text again and writes.
#include "scan.cuh"
#include "words.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t PER_THREAD = 16;
constexpr uint8_t END_OF_DOCUMENT = 0x1e;

struct Found {
    uint32_t starts;  // bit i: a word begins at the thread's byte i
    uint32_t ends;    // bit i: a document ends there
};

__device__ __forceinline__ Found find(const uint8_t* __restrict__ text, uint32_t len, uint32_t first, const uint8_t* classes) {
    Found found = {0, 0};
    if (first >= len) return found;
    uint32_t words[PER_THREAD / 4];
    // The buffer is padded, and bytes beyond `len` are ignored.
    const uint4 all = *reinterpret_cast<const uint4*>(text + first);
    words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
    uint32_t second_before = first >= 2 ? classes[text[first - 2]] : 0;
    uint32_t before = first >= 1 ? classes[text[first - 1]] : 0;
#pragma unroll
    for (uint32_t i = 0; i < PER_THREAD; i++) {
        const uint32_t byte = words[i / 4] >> (8 * (i % 4)) & 255;
        const uint32_t own = first + i < len ? classes[byte] : 0;
        const bool is_start = (own & (CORE | LITERAL)) != 0 && !in_word(second_before, before, own);
        found.starts |= uint32_t(is_start) << i;
        found.ends |= uint32_t(first + i < len && byte == END_OF_DOCUMENT) << i;
        second_before = before;
        before = own;
    }
    return found;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    find_words_count(const uint8_t* __restrict__ text, uint32_t len, const uint8_t* __restrict__ rules, uint32_t* __restrict__ words, uint32_t* __restrict__ documents) {
    __shared__ uint8_t classes[256];
    __shared__ uint64_t scratch[32];
    load_classes(rules, classes);
    const Found found = find(text, len, (blockIdx.x * THREADS + threadIdx.x) * PER_THREAD, classes);
    uint64_t total;
    block_exclusive_sum<uint64_t>(uint64_t(__popc(found.ends)) << 32 | __popc(found.starts), scratch, total);
    if (threadIdx.x == 0) {
        words[blockIdx.x] = uint32_t(total);
        documents[blockIdx.x] = uint32_t(total >> 32);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    find_words_write(const uint8_t* __restrict__ text, uint32_t len, const uint8_t* __restrict__ rules, const uint32_t* __restrict__ words, const uint32_t* __restrict__ documents,
                     uint32_t count, uint32_t* __restrict__ starts, uint32_t* __restrict__ docs) {
    __shared__ uint8_t classes[256];
    __shared__ uint64_t scratch[32];
    load_classes(rules, classes);
    const uint32_t first = (blockIdx.x * THREADS + threadIdx.x) * PER_THREAD;
    const Found found = find(text, len, first, classes);
    uint64_t total;
    const uint64_t before = block_exclusive_sum<uint64_t>(uint64_t(__popc(found.ends)) << 32 | __popc(found.starts), scratch, total);
    uint32_t at = words[blockIdx.x] + uint32_t(before);
    const uint32_t doc = documents[blockIdx.x] + uint32_t(before >> 32);
    for (uint32_t rest = found.starts; rest != 0; rest &= rest - 1, at++) {
        const uint32_t bit = __ffs(rest) - 1;
        if (at >= count) return;
        starts[at] = first + bit;
        docs[at] = doc + __popc(found.ends & ((1u << bit) - 1));
    }
}
