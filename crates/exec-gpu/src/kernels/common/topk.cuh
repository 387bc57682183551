// The best k keys of those a block of threads finds: a buffer with a threshold. When it is full it is sorted, the best k stay, and
// the threshold rises to the worst of them.
#pragma once

#include "types.cuh"

struct TopKState {
    uint64_t threshold;
    uint32_t count;
};

struct TopK {
    uint64_t* keys;
    uint32_t capacity;  // a power of two, larger than k
    uint32_t k;
    TopKState* state;  // shared

    // Takes a key if it is above the threshold; false if it is and there was no room.
    __device__ bool offer(uint64_t key) {
        if (key <= state->threshold) return true;
        uint32_t place = atomicAdd(&state->count, 1u);
        if (place >= capacity) return false;
        keys[place] = key;
        return true;
    }

    // By the whole block, behind a barrier: sorts, keeps k, raises the threshold. Ends with a barrier.
    __device__ void compact() {
        uint32_t found = state->count < capacity ? state->count : capacity;
        uint32_t size = 1;
        while (size < found) size *= 2;
        for (uint32_t i = found + threadIdx.x; i < size; i += blockDim.x) keys[i] = 0;
        __syncthreads();
        sort(size);
        if (threadIdx.x == 0) {
            state->count = found < k ? found : k;
            if (found >= k && keys[k - 1] > state->threshold) state->threshold = keys[k - 1];
        }
        __syncthreads();
    }

    // Bitonic, largest first.
    __device__ void sort(uint32_t size) {
        for (uint32_t run = 2; run <= size; run *= 2) {
            for (uint32_t stride = run / 2; stride > 0; stride /= 2) {
                for (uint32_t i = threadIdx.x; i < size / 2; i += blockDim.x) {
                    uint32_t at = 2 * i - (i & (stride - 1));
                    uint64_t a = keys[at], b = keys[at + stride];
                    if ((a < b) == ((at & run) == 0)) {
                        keys[at] = b;
                        keys[at + stride] = a;
                    }
                }
                __syncthreads();
            }
        }
    }
};
