// Finds the best k keys of a query among those of its items and its previous best keys, if there
// are any: one block of threads per query. The result may overwrite the previous keys. The worst
// of k keys is a threshold for later launches.
#include "tiles.cuh"
#include "topk.cuh"

extern "C" __global__ void merge(const Query* queries, uint64_t* thresholds, const uint32_t* enough, const uint64_t* keys,
                                 const uint32_t* key_counts, uint32_t stride, const uint64_t* keys_before, const uint32_t* counts_before, uint64_t* out_keys, uint32_t* out_counts, uint64_t* global_keys,
                                 uint32_t capacity) {
    DYNAMIC_SHARED(uint64_t, shared_keys);
    __shared__ TopKState state;
    const Query query = queries[blockIdx.x];
    // Answers of the first pass are kept.
    if (enough != nullptr && enough[blockIdx.x] >= query.k) return;
    uint64_t* buffer = global_keys != nullptr ? global_keys + uint64_t(blockIdx.x) * capacity : shared_keys;
    TopK top{buffer, capacity, query.k, &state};
    if (threadIdx.x == 0) {
        // The k-th best key itself is a hit.
        uint64_t known = thresholds[blockIdx.x];
        COUNTED(moved(&queries[blockIdx.x]), moved(&thresholds[blockIdx.x]), moved(&key_counts[blockIdx.x]), moved(&out_counts[blockIdx.x]);)
        state.threshold = known > 0 ? known - 1 : 0;
        state.count = 0;
    }
    __syncthreads();
    if (keys_before != nullptr) top.take<8>(keys_before + uint64_t(blockIdx.x) * stride, counts_before[blockIdx.x]);
    top.take<8>(keys + uint64_t(query.first_slot) * stride, key_counts[blockIdx.x]);
    COUNTED(for (uint32_t i = threadIdx.x; i < state.count; i += blockDim.x) moved(&buffer[i]), moved(&out_keys[uint64_t(blockIdx.x) * stride + i]);)
    for (uint32_t i = threadIdx.x; i < state.count; i += blockDim.x) out_keys[uint64_t(blockIdx.x) * stride + i] = buffer[i];
    if (threadIdx.x == 0) {
        out_counts[blockIdx.x] = state.count;
        if (state.count == query.k && buffer[query.k - 1] > thresholds[blockIdx.x]) thresholds[blockIdx.x] = buffer[query.k - 1];
    }
}
