// OR and AND with pruning, of many queries; arguments as `or_tiles` has them.
#include "pruned_tiles.cuh"

extern "C" __global__ void __launch_bounds__(WARP, 28)
    pruned_tiles(Segment segment, const Query* queries, const Term* terms, const Item* items, uint64_t* all_matches, uint64_t* thresholds, const uint32_t* enough,
                 uint64_t* out_keys, uint32_t* key_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity, uint32_t sparse, uint32_t span,
                 uint32_t terms_most, uint32_t* histograms) {
    const Work work{items, thresholds, histograms, out_keys, key_counts, global_keys, capacity, stride, sparse, terms_most, span};
    const Item item = work.item(segment);
    const Query query = queries[item.query];
    COUNTED(moved(&queries[item.query]);)
    if (enough != nullptr && enough[item.query] >= query.k) return;
    search_windows<1>(segment, work, item, query, terms);
}
