// Term weights by MapReduce on a GPU, in the manner of Mars (Wakatsuki 2016, section 3.4).
//
// A thread maps one document or reduces one term, however long it is: that is the division of
// work whose uneven load the paper measures. The size of an output is not known in advance, so
// each step runs twice: first it counts its outputs, then a scan finds their places, and then it
// writes them.
#include "weight.cuh"

constexpr uint32_t THREADS = 256;
constexpr uint32_t END_OF_WORD = 10;

// Calls `f` with the position of each word of a document. The byte that ends the document is not
// part of it.
template <class F>
__device__ __forceinline__ void for_each_word(const uint8_t* __restrict__ text, const uint32_t* __restrict__ documents, uint32_t document, F f) {
    const uint32_t begin = documents[document], end = documents[document + 1] - 1;
    bool between = true;
    for (uint32_t at = begin; at < end; at++) {
        const bool ends = __ldg(text + at) == END_OF_WORD;
        if (between && !ends) f(at);
        between = ends;
    }
}

// Map, first pass: the number of pairs of word and document, which is the length of the document.
extern "C" __global__ void __launch_bounds__(THREADS)
    map_count(const uint8_t* __restrict__ text, const uint32_t* __restrict__ documents, uint32_t count, uint32_t* __restrict__ lengths) {
    const uint32_t document = blockIdx.x * THREADS + threadIdx.x;
    if (document >= count) return;
    uint32_t words = 0;
    for_each_word(text, documents, document, [&](uint32_t) { words++; });
    lengths[document] = words;
}

// Map, second pass: the key of a pair is the position of the word, and its value the document.
extern "C" __global__ void __launch_bounds__(THREADS)
    map_emit(const uint8_t* __restrict__ text, const uint32_t* __restrict__ documents, uint32_t count, const uint32_t* __restrict__ places,
             uint32_t* __restrict__ keys, uint32_t* __restrict__ values) {
    const uint32_t document = blockIdx.x * THREADS + threadIdx.x;
    if (document >= count) return;
    uint32_t place = places[document];
    for_each_word(text, documents, document, [&](uint32_t at) {
        keys[place] = at;
        values[place] = document;
        place++;
    });
}

// The number of distinct documents of a group, which ascend.
__device__ __forceinline__ uint32_t distinct(const uint32_t* __restrict__ docs, uint32_t begin, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; i++) count += i == begin || docs[i] != docs[i - 1];
    return count;
}

// Reduce, first pass: the number of documents of each term, and 0 behind the last one.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_count(const uint32_t* __restrict__ groups, uint32_t count, const uint32_t* __restrict__ docs, uint32_t* __restrict__ dfs) {
    const uint32_t group = blockIdx.x * THREADS + threadIdx.x;
    if (group > count) return;
    dfs[group] = group == count ? 0 : distinct(docs, groups[group], groups[group + 1]);
}

// Reduce, second pass: the documents of each term, and their weights. `starts` are the places of
// lists, and `idfs` the weights of terms by their number of documents.
extern "C" __global__ void __launch_bounds__(THREADS)
    reduce_emit(const uint32_t* __restrict__ groups, uint32_t count, const uint32_t* __restrict__ docs, const uint32_t* __restrict__ starts,
                const uint32_t* __restrict__ lengths, const float* __restrict__ idfs, float fixed, float by_length, uint32_t* __restrict__ docs_out,
                uint32_t* __restrict__ weights_out) {
    const uint32_t group = blockIdx.x * THREADS + threadIdx.x;
    if (group >= count) return;
    const uint32_t end = groups[group + 1];
    uint32_t place = starts[group];
    const float idf = idfs[starts[group + 1] - place];
    for (uint32_t i = groups[group]; i < end;) {
        const uint32_t doc = docs[i], first = i;
        while (i < end && docs[i] == doc) i++;
        docs_out[place] = doc;
        weights_out[place] = weight(idf, i - first, lengths[doc], fixed, by_length);
        place++;
    }
}
