// Steps 3 and 5 to 8 of (Wakatsuki 2016): lengths of documents, frequencies, document
// frequencies, and weights.
#include "weight.cuh"

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
    freqs[i] = weight(idfs[df], freqs[i], lengths[docs[i]], fixed, by_length);
}
