// Values of tokens: positions of words, weights of sparse vectors, maps of n-grams. Tokens are
// sorted by their terms together with their numbers; their documents and values follow.
#include "types.cuh"

constexpr uint32_t THREADS = 256;

// The numbers of tokens before they are sorted.
extern "C" __global__ void __launch_bounds__(THREADS) number_tokens(uint32_t count, uint32_t* __restrict__ tokens) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) tokens[i] = i;
}

// Document and value of each sorted token.
extern "C" __global__ void __launch_bounds__(THREADS)
    gather_tokens(const uint32_t* __restrict__ tokens, uint32_t count, const uint32_t* __restrict__ docs, const uint32_t* __restrict__ values,
                  uint32_t* __restrict__ docs_out, uint32_t* __restrict__ values_out) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t token = tokens[i];
    docs_out[i] = docs[token];
    values_out[i] = values[token];
}

// One number for the values of each run: their sum, at most the largest number, or the union of
// their bits.
extern "C" __global__ void __launch_bounds__(THREADS)
    combine_values(const uint32_t* __restrict__ runs, uint32_t count, const uint32_t* __restrict__ values, uint32_t as_bits, uint32_t* __restrict__ out) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint64_t sum = 0;
    uint32_t bits = 0;
    for (uint32_t at = runs[i]; at < runs[i + 1]; at++) {
        sum += values[at];
        bits |= values[at];
    }
    out[i] = as_bits != 0 ? bits : uint32_t(sum < 0xffffffffull ? sum : 0xffffffffull);
}
