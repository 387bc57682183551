// Finds the best keys of an array by a tree of group maxima (Ding 2009, section 8.2). The paper
// extracts the best key from the tree k times; here all k descend together. The k best maxima of
// a level name the only groups below that can contain one of the k best keys there, and the worst
// of them is a threshold that most keys of those groups do not reach. Keys are distinct, and 0
// means no key.
#include "topk.cuh"

// The number of keys may be in device memory.
__device__ __forceinline__ uint32_t keys_of(const uint32_t* count, uint32_t len) { return count != nullptr && *count < len ? *count : len; }

__device__ __forceinline__ uint64_t warp_max_key(uint64_t key) {
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        uint64_t other = __shfl_xor_sync(FULL_WARP, key, distance);
        if (other > key) key = other;
    }
    return key;
}

// Finds the largest key of each group; a warp processes one group after another. In a full group,
// each lane loads all of its keys before it looks at one.
template <uint32_t EACH>
__device__ void group_maxima(const uint64_t* keys, uint32_t len, uint64_t* maxima, uint32_t groups) {
    uint32_t warps = gridDim.x * (blockDim.x / WARP);
    for (uint32_t group = blockIdx.x * (blockDim.x / WARP) + warp_id(); group < groups; group += warps) {
        uint64_t key[EACH], most = 0;
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            uint32_t at = group * EACH * WARP + j * WARP + lane_id();
            key[j] = at < len ? keys[at] : 0;
        }
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) most = key[j] > most ? key[j] : most;
        most = warp_max_key(most);
        if (lane_id() == 0) maxima[group] = most;
    }
}

extern "C" __global__ void max_tree_maxima(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ count, uint32_t len,
                                           uint64_t* __restrict__ maxima, uint32_t groups, uint32_t group) {
    len = keys_of(count, len);
    if (group == 32) group_maxima<1>(keys, len, maxima, groups);
    else group_maxima<8>(keys, len, maxima, groups);
}

// Writes the keys that reach the threshold, from groups whose maximum does, in any order. `room`
// suffices for all keys of k groups, and since keys are distinct at most k groups qualify.
extern "C" __global__ void max_tree_filter(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ count, uint32_t len,
                                           const uint64_t* __restrict__ maxima, uint32_t groups, uint32_t group, const uint64_t* __restrict__ threshold,
                                           uint64_t* __restrict__ out, uint32_t room, uint32_t* out_count) {
    len = keys_of(count, len);
    const uint64_t least = *threshold > 0 ? *threshold : 1;
    uint32_t warps = gridDim.x * (blockDim.x / WARP);
    for (uint32_t first = (blockIdx.x * (blockDim.x / WARP) + warp_id()) * WARP; first < groups; first += warps * WARP) {
        uint32_t mine = first + lane_id();
        uint32_t named = __ballot_sync(FULL_WARP, mine < groups && maxima[mine] >= least);
        for (; named != 0; named &= named - 1) {
            uint32_t from = (first + __ffs(named) - 1) * group;
            for (uint32_t at = from + lane_id(); at < from + group; at += WARP) {
                uint64_t key = at < len ? keys[at] : 0;
                uint32_t takers = __ballot_sync(FULL_WARP, key >= least);
                if (takers == 0) continue;
                uint32_t slot = 0;
                if (lane_id() == 0) slot = atomicAdd(out_count, uint32_t(__popc(takers)));
                slot = __shfl_sync(FULL_WARP, slot, 0) + __popc(takers & ((1u << lane_id()) - 1));
                if (key >= least && slot < room) out[slot] = key;
            }
        }
    }
}

// Finds the best k keys of each run of keys, best first, one block per run: from `starts[i]` to
// `starts[i + 1]`, or all keys if there are no starts. The k-th key is written as the threshold
// of the run, or 0 if the run has fewer.
extern "C" __global__ void __launch_bounds__(1024)
    max_tree_select(const uint64_t* __restrict__ keys, const uint32_t* __restrict__ count, uint32_t len, const uint32_t* __restrict__ starts,
                    const uint32_t* __restrict__ ks, uint32_t k, uint64_t* __restrict__ out, uint32_t stride, uint32_t* __restrict__ out_counts,
                    uint64_t* __restrict__ thresholds, uint64_t* __restrict__ global_keys, uint32_t capacity) {
    DYNAMIC_SHARED(uint64_t, shared_keys);
    __shared__ TopKState state;
    const uint32_t run = blockIdx.x;
    if (ks != nullptr) k = ks[run];
    uint64_t* buffer = global_keys != nullptr ? global_keys + uint64_t(run) * capacity : shared_keys;
    TopK top{buffer, capacity, k, &state};
    len = keys_of(count, len);
    uint32_t from = 0, to = len;
    if (starts != nullptr) from = starts[run], to = starts[run + 1] < len ? starts[run + 1] : len;
    if (threadIdx.x == 0) state.threshold = 0, state.count = 0;
    __syncthreads();
    top.take<4>(keys + from, from < to ? to - from : 0);
    for (uint32_t i = threadIdx.x; i < state.count; i += blockDim.x) out[uint64_t(run) * stride + i] = buffer[i];
    if (threadIdx.x == 0) {
        if (out_counts != nullptr) out_counts[run] = state.count;
        if (thresholds != nullptr) thresholds[run] = state.count >= k ? buffer[k - 1] : 0;
    }
}
