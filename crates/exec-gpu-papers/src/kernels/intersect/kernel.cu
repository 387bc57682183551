// The parts of an intersection on compressed lists that do not depend on the codec (see
// intersect.cuh).
#include "intersect.cuh"

// One warp per query.
extern "C" __global__ void intersect_begin(const Conjunction* __restrict__ queries, uint32_t count, const TermList* __restrict__ all_terms,
                                           Reach* __restrict__ reaches, uint32_t* __restrict__ decoded) {
    uint32_t q = blockIdx.x * (blockDim.x / WARP) + warp_id();
    if (q >= count) return;
    const Conjunction query = queries[q];
    uint32_t bound = NO_DOC - 1;
    for (uint32_t i = lane_id(); i < query.terms; i += WARP) {
        const CompressedList list = all_terms[query.first_term + i].list;
        if (!hides_its_end(list)) bound = min(bound, lasts_of(list)[list.blocks - 1]);
    }
    bound = warp_min(bound);
    const CompressedList shortest = all_terms[query.first_term].list;
    uint32_t whole = warp_search(lasts_of(shortest), 0, shortest.blocks, bound + 1);
    uint32_t blocks = min(whole + 1, shortest.blocks);
    if (lane_id() == 0) {
        reaches[q] = {bound, blocks};
        decoded[q] = blocks;
    }
}

// Finds the blocks of a later list; a warp takes 128 candidates at a time.
extern "C" __global__ void intersect_find(const Conjunction* __restrict__ queries, const TermList* __restrict__ all_terms, uint32_t turn,
                                          Candidates candidates, Tasks tasks, uint32_t* __restrict__ bits) {
    const uint32_t count = candidates.size(), chunks = (count + BLOCK_LEN - 1) / BLOCK_LEN;
    const uint32_t warps = gridDim.x * (blockDim.x / WARP);
    for (uint32_t chunk = blockIdx.x * (blockDim.x / WARP) + warp_id(); chunk < chunks; chunk += warps) {
        uint32_t docs[4], owners[4], at = chunk * BLOCK_LEN + 4 * lane_id();
        // What lies after the end belongs to the last query.
        uint32_t last = *candidates.owners_at(count - 1);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            docs[j] = at + j < count ? *candidates.docs_at(at + j) : NO_DOC;
            owners[j] = at + j < count ? *candidates.owners_at(at + j) : last;
        }
        uint32_t before = 0;
        bool joined = false;
        if (lane_id() == 0 && at > 0) {
            before = *candidates.docs_at(at - 1);
            joined = *candidates.owners_at(at - 1) == owners[0];
        }
        find(queries, all_terms, turn, docs, owners, chunk, joined, before, tasks, bits);
    }
}

// Turns the remaining candidates into keys, in the order of positions, 0 for deleted documents;
// counts the matches of each query.
extern "C" __global__ void intersect_keys(Segment segment, const Conjunction* __restrict__ queries, Candidates candidates, uint64_t* __restrict__ keys,
                                          uint32_t* __restrict__ matches) {
    const uint32_t count = candidates.size();
    for (uint32_t first = blockIdx.x * blockDim.x; first < count; first += gridDim.x * blockDim.x) {
        uint32_t i = first + threadIdx.x, owner = NO_DOC;
        bool live = false;
        if (i < count) {
            uint32_t doc = *candidates.docs_at(i);
            owner = *candidates.owners_at(i);
            live = !is_deleted(segment, doc);
            uint32_t score = *candidates.scores_at(i) + static_score(segment, queries[owner].static_weight, doc);
            keys[i] = live ? hit_key(segment, doc, score) : 0;
        }
        // The candidates of a query are neighbours, so a warp mostly has those of one query.
        uint32_t one = __shfl_sync(FULL_WARP, owner, 0), found = __ballot_sync(FULL_WARP, live);
        if (__all_sync(FULL_WARP, owner == one || owner == NO_DOC)) {
            if (lane_id() == 0 && found != 0) atomicAdd(&matches[one], uint32_t(__popc(found)));
        } else if (live) {
            atomicAdd(&matches[owner], 1u);
        }
    }
}

// Where the candidates of each query begin, and the end of all.
extern "C" __global__ void intersect_runs(Candidates candidates, uint32_t queries, uint32_t* __restrict__ starts) {
    uint32_t q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q > queries) return;
    uint32_t from = 0, to = candidates.size();
    starts[q] = search<1>(candidates.owners_at(0), &q, &from, &to);
}
