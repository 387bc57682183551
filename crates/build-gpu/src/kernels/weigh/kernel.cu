// Steps 3 and 5 to 8 of (Wakatsuki 2016): lengths of documents, frequencies, document
// frequencies, and weights. Operations are IEEE 754 in the order written, as on the CPU
// (`warpseek_core::saturation`).
#include "types.cuh"

constexpr uint32_t THREADS = 256;

// Length of each document that has words, from the runs of equal documents.
extern "C" __global__ void __launch_bounds__(THREADS)
    weigh_lengths(const uint32_t* __restrict__ runs, const uint32_t* __restrict__ count, const uint32_t* __restrict__ docs, uint32_t* __restrict__ lengths) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < *count) lengths[docs[runs[i]]] = runs[i + 1] - runs[i];
}

// Term, document and frequency of each posting, from the runs of equal terms and documents.
extern "C" __global__ void __launch_bounds__(THREADS)
    weigh_postings(const uint32_t* __restrict__ runs, uint32_t count, const uint32_t* __restrict__ terms, const uint32_t* __restrict__ docs,
                   uint32_t* __restrict__ posting_terms, uint32_t* __restrict__ posting_docs, uint32_t* __restrict__ freqs) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t at = runs[i];
    posting_terms[i] = terms[at];
    posting_docs[i] = docs[at];
    freqs[i] = runs[i + 1] - at;
}

// The weight of each posting, given the list that it is in. `idfs` are the weights of terms by
// their number of documents. Weights take the place of frequencies.
extern "C" __global__ void __launch_bounds__(THREADS)
    weigh_weights(const uint32_t* __restrict__ lists, const uint32_t* __restrict__ starts, uint32_t count, const uint32_t* __restrict__ docs,
                  const uint32_t* __restrict__ lengths, const float* __restrict__ idfs, float fixed, float by_length, uint32_t* freqs) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t list = lists[i], df = starts[list + 1] - starts[list];
    const float factor = __fadd_rn(fixed, __fmul_rn(by_length, __uint2float_rn(lengths[docs[i]])));
    const float value = __frcp_rn(__fadd_rn(1.0f, __fmul_rn(factor, __frcp_rn(__uint2float_rn(freqs[i])))));
    freqs[i] = __float_as_uint(__fmul_rn(idfs[df], value));
}
