// Advances terms to a later slice of documents: lists that begin with the segment's first tile
// are entered `tiles` later. Slices begin at multiples of 2^15 documents, so that positions do
// not change, and filters begin with a word.
#include "tiles.cuh"

constexpr uint32_t THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) advance_terms(Term* terms, uint32_t count, uint32_t tiles, uint32_t bits) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || terms[i].stays == 0) return;
    terms[i].starts += sizeof(uint32_t) * uint64_t(tiles);
    terms[i].peaks += sizeof(uint16_t) * uint64_t(tiles);
    terms[i].filter += ((uint64_t(tiles) << bits) >> terms[i].filter_shift) / 8;
}
