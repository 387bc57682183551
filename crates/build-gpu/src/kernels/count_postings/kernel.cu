// Step 5 of (Wakatsuki 2016), after the occurrences of terms have been sorted and divided into
// runs of the same term and document: a run is a posting, and its length the frequency. Lengths
// and norms of documents are summed up as well; they are integers, so the order does not matter.
//
// With a schema, each field of a document is a section, and terms differ between fields. Without
// one, sections are documents.
#include "types.cuh"

constexpr uint32_t THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
    count_postings(const uint32_t* __restrict__ runs, uint32_t count, const uint32_t* __restrict__ terms, const uint32_t* __restrict__ sections, uint32_t fields,
                   uint32_t first_doc, const unsigned long long* __restrict__ squares, uint32_t squares_len, uint32_t* __restrict__ posting_terms, uint32_t* __restrict__ posting_docs,
                   uint32_t* __restrict__ freqs, uint32_t* lengths, unsigned long long* norms, uint32_t* most) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const uint32_t at = runs[i], freq = runs[i + 1] - at, section = sections[at];
    posting_terms[i] = terms[at];
    posting_docs[i] = first_doc + (fields == 1 ? section : section / fields);
    freqs[i] = freq;
    atomicAdd(&lengths[section], freq);
    // The host adds the squares of frequencies that the table does not have.
    if (freq < squares_len)
        atomicAdd(&norms[section], squares[freq]);
    else
        atomicMax(most, freq);
}

// The key of each run of the sorted keys.
extern "C" __global__ void __launch_bounds__(THREADS)
    keys_of_runs(const uint32_t* __restrict__ runs, uint32_t count, const uint32_t* __restrict__ keys, uint32_t* __restrict__ out) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) out[i] = keys[runs[i]];
}
