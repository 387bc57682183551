// The best k keys of those that a warp, or a block of threads, finds: a buffer with a threshold. When it is full it is sorted, the best k stay,
// and the threshold rises to the worst of them.
#pragma once

#include "types.cuh"

// Bitonic, largest first; `size` is a power of two. `member` of `members` threads, which `meet` at a barrier.
template <class F>
__device__ __forceinline__ void sort_keys(uint64_t* keys, uint32_t size, uint32_t member, uint32_t members, F meet) {
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t stride = run / 2; stride > 0; stride /= 2) {
            for (uint32_t i = member; i < size / 2; i += members) {
                uint32_t at = 2 * i - (i & (stride - 1));
                uint64_t a = keys[at], b = keys[at + stride];
                if ((a < b) == ((at & run) == 0)) {
                    keys[at] = b;
                    keys[at + stride] = a;
                }
            }
            meet();
        }
    }
}

struct MeetWarp {
    __device__ void operator()() const { __syncwarp(); }
};

struct MeetBlock {
    __device__ void operator()() const { __syncthreads(); }
};

// Of a warp; every lane has the same state.
struct WarpTopK {
    uint64_t* keys;
    uint32_t capacity;  // a power of two, at least k and 64
    uint32_t k;
    uint64_t threshold;
    uint32_t count;

    // By all lanes: takes the keys of those lanes that have one above the threshold; 0 is none.
    __device__ void offer(uint64_t key) {
        uint32_t takers = __ballot_sync(FULL_WARP, key > threshold);
        if (takers == 0) return;
        if (count + WARP > capacity) {
            compact();
            takers = __ballot_sync(FULL_WARP, key > threshold);
        }
        if (key > threshold) keys[count + __popc(takers & ((1u << lane_id()) - 1))] = key;
        count += __popc(takers);
        __syncwarp();
    }

    // Sorts, keeps k, raises the threshold.
    __device__ void compact() {
        uint32_t size = 1;
        while (size < count) size *= 2;
        for (uint32_t i = count + lane_id(); i < size; i += WARP) keys[i] = 0;
        __syncwarp();
        sort_keys(keys, size, lane_id(), WARP, MeetWarp());
        if (count >= k) {
            count = k;
            if (keys[k - 1] > threshold) threshold = keys[k - 1];
        }
        __syncwarp();
    }
};

struct TopKState {
    uint64_t threshold;
    uint32_t count;
};

// Of a block.
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
        sort_keys(keys, size, threadIdx.x, blockDim.x, MeetBlock());
        if (threadIdx.x == 0) {
            state->count = found < k ? found : k;
            if (found >= k && keys[k - 1] > state->threshold) state->threshold = keys[k - 1];
        }
        __syncthreads();
    }
};
