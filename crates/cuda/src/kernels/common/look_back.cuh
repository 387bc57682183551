// Sums over the tiles before a tile, within one launch. A tile publishes its own sum, then adds
// up the sums that the tiles before it have published, back to the nearest one that knows the sum
// of everything up to and including itself, and then publishes such a sum, too.
//
// A tile waits for the tiles before it, so these must be running or have run. Since blocks start
// in any order, a block does not process the tile with its number, but takes the next number of a
// counter (`next_tile`): every tile before then belongs to a block that is running already.
//
// A sum and its meaning are one word, written and read by one access, so no fences are needed: a
// reader sees all of it or nothing. Accesses are volatile, which means that they reach the cache
// that all multiprocessors share, and that a loop reads again. Words must be 0 before the launch.
#pragma once

#include "warp.cuh"

// With this bit, the other bits are the sum up to and including the tile, less than 2^31. Without
// it, 0 means nothing yet, and any other word is one more than the sum of the tile alone.
constexpr uint32_t UP_TO_HERE = 1u << 31;

__device__ __forceinline__ void publish(uint32_t* state, uint32_t word) { *const_cast<volatile uint32_t*>(state) = word; }

__device__ __forceinline__ uint32_t published(const uint32_t* state) { return *const_cast<const volatile uint32_t*>(state); }

// Returns the number of the next tile that no block has taken, for all threads of the block.
// Contains a barrier.
__device__ __forceinline__ uint32_t next_tile(uint32_t* counter) {
    __shared__ uint32_t tile;
    if (threadIdx.x == 0) tile = atomicAdd(counter, 1u);
    __syncthreads();
    return tile;
}

// Returns the sum over the tiles before `tile`, of which there is at least one, by one thread.
// Word i of the tiles is at `states[i * stride]`. The thread reads a few words at a time, since
// each read takes long.
template <uint32_t AT_ONCE>
__device__ __forceinline__ uint32_t look_back(const uint32_t* states, uint32_t stride, uint32_t tile) {
    uint32_t before = 0;
    // Tiles up to `last` are not in the sum yet. Tile 0 has no other word than one with
    // UP_TO_HERE, so the loop ends there.
    for (uint32_t last = tile - 1;;) {
        uint32_t words[AT_ONCE];
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) words[j] = j <= last ? published(states + (last - j) * stride) : 0;
        uint32_t added = 0;
        bool whole = false;
#pragma unroll
        for (uint32_t j = 0; j < AT_ONCE; j++) {
            if (whole || added < j || words[j] == 0) continue;
            whole = (words[j] & UP_TO_HERE) != 0;
            before += whole ? words[j] & ~UP_TO_HERE : words[j] - 1;
            added++;
        }
        if (whole) return before;
        last -= added;
    }
}

// Returns the sum over the tiles before `tile`, and publishes the sums of this one, whose own is
// `sum`. All lanes of one warp of the block call this.
__device__ __forceinline__ uint32_t warp_look_back(uint32_t* states, uint32_t tile, uint32_t sum) {
    uint32_t before = 0;
    if (tile > 0) {
        if (lane_id() == 0) publish(states + tile, sum + 1);
        for (uint32_t last = tile - 1;;) {
            uint32_t word = lane_id() <= last ? published(states + (last - lane_id())) : 0;
            uint32_t whole = __ballot_sync(FULL_WARP, (word & UP_TO_HERE) != 0), none = __ballot_sync(FULL_WARP, word == 0);
            // The nearest lane with the sum of everything before, and all lanes nearer than it;
            // without one, all lanes.
            uint32_t wanted = whole != 0 ? whole ^ (whole - 1) : FULL_WARP;
            if ((wanted & none) != 0) continue;
            bool mine = (wanted >> lane_id() & 1) != 0;
            before += warp_sum(!mine ? 0 : (word & UP_TO_HERE) != 0 ? word & ~UP_TO_HERE : word - 1);
            if (whole != 0) break;
            last -= WARP;
        }
    }
    if (lane_id() == 0) publish(states + tile, UP_TO_HERE | (before + sum));
    return before;
}
