// AND on compressed lists, term at a time (Ding 2009, section 8.1). The shortest list is decoded
// to candidates. Then, list by list, every candidate finds the block that it would be in by merge
// find in the skip array (`find`); the blocks found are decoded, once each, and the candidates
// that they contain are scored and kept (`blocks`); what is kept is compacted
// (`crates/cuda/src/kernels/compact`). The candidates of all queries of a round are in one array,
// ordered by query, then by document.
#pragma once

#include "lists.cuh"
#include "search.cuh"
#include "tiles.cuh"
#include "values.cuh"

constexpr uint32_t WARPS = 4;  // of a block of threads that decodes

struct TermList {
    CompressedList list;
    float weight;
    uint32_t unused;
};

struct Conjunction {
    uint32_t first_term;  // shortest first
    uint32_t terms;
    uint32_t first_block;  // among the blocks of all shortest lists of the round
    float static_weight;
};

// The results of the first kernel for a query.
struct Reach {
    uint32_t bound;   // no list whose end is known without decoding has a document after this one
    uint32_t blocks;  // of the shortest list, that may have such documents
};

struct Candidates {
    uint64_t docs;    // uint32_t each; NO_DOC for none
    uint64_t scores;  // uint32_t each
    uint64_t owners;  // uint32_t each: the number of the query
    uint64_t count;   // uint32_t, or 0 if all `len` candidates count
    uint32_t len;
    uint32_t unused;

    __device__ uint32_t* docs_at(uint32_t i) const { return reinterpret_cast<uint32_t*>(docs) + i; }
    __device__ uint32_t* scores_at(uint32_t i) const { return reinterpret_cast<uint32_t*>(scores) + i; }
    __device__ uint32_t* owners_at(uint32_t i) const { return reinterpret_cast<uint32_t*>(owners) + i; }
    __device__ uint32_t size() const {
        const uint32_t* known = reinterpret_cast<const uint32_t*>(count);
        return known != nullptr && *known < len ? *known : len;
    }
};

// Blocks to decode: the first candidate that needs the block, and the block. They are also
// counted for each query.
struct Tasks {
    uint64_t tasks;    // uint2 each
    uint64_t count;    // uint32_t
    uint64_t decoded;  // one uint32_t per query
};

__device__ __forceinline__ uint32_t score_of(const TermList& term, const Values& values, uint32_t freq, uint32_t doc) {
    return contribution(term.weight, value_of(values, freq, factor_of(values, doc)));
}

// Not inline: the code of PForDelta is long, and few postings need it.
template <class Codec>
__device__ __noinline__ uint32_t score_at(const TermList& term, const Values& values, uint32_t posting, uint32_t doc) {
    return score_of(term, values, freq_at<Codec>(term.list, posting), doc);
}

// A list of one block stores its end nowhere and is decoded to find it, as on the CPU; one
// posting needs no decoding.
__device__ __forceinline__ bool hides_its_end(const CompressedList& list) { return list.df > 1 && list.df <= BLOCK_LEN; }

// Called by all lanes, each with four candidates: finds the block of each in the list of this
// turn. A candidate whose block differs from that of the one before requests it. `before` is the
// document before the warp's first candidate, if that has the same query (`joined`). The bits of
// candidates whose query has no such list are set, so they are kept.
__device__ __forceinline__ void find(const Conjunction* queries, const TermList* all_terms, uint32_t turn, const uint32_t docs[4], const uint32_t owners[4],
                                     uint32_t chunk, bool joined, uint32_t before, const Tasks& tasks, uint32_t* bits) {
    const uint32_t lane = lane_id();
    uint32_t first_owner = __shfl_sync(FULL_WARP, owners[0], 0), last_owner = __shfl_sync(FULL_WARP, owners[3], WARP - 1);
    const bool one_query = first_owner == last_owner;
    uint32_t block[4], heads = 0, kept = 0;
    const uint32_t* of[4];
    if (one_query) {
        const Conjunction query = queries[first_owner];
        if (turn < query.terms) {
            const CompressedList list = all_terms[query.first_term + turn].list;
            const uint32_t* lasts = lasts_of(list);
            // The first and the last candidate are splitters for those between them.
            uint32_t least = __shfl_sync(FULL_WARP, docs[0], 0), from[4], to[4];
            uint32_t most = warp_max(docs[3] != NO_DOC ? docs[3] : docs[2] != NO_DOC ? docs[2] : docs[1] != NO_DOC ? docs[1] : docs[0] != NO_DOC ? docs[0] : 0);
            if (list.blocks > 1 && least != NO_DOC) {
                uint32_t low = warp_search(lasts, 0, list.blocks, least);
                uint32_t high = warp_search(lasts, low, list.blocks, most);
#pragma unroll
                for (uint32_t j = 0; j < 4; j++) from[j] = low, to[j] = docs[j] != NO_DOC ? high : low;
                search<4>(lasts, docs, from, to);
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 4; j++) from[j] = 0;
            }
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) block[j] = docs[j] != NO_DOC ? from[j] : NO_DOC, of[j] = lasts;
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) block[j] = NO_DOC, of[j] = nullptr, kept |= uint32_t(docs[j] != NO_DOC) << j;
        }
    } else {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            block[j] = NO_DOC, of[j] = nullptr;
            if (docs[j] == NO_DOC) continue;
            const Conjunction query = queries[owners[j]];
            if (turn >= query.terms) {
                kept |= 1u << j;
                continue;
            }
            const CompressedList list = all_terms[query.first_term + turn].list;
            of[j] = lasts_of(list);
            uint32_t from = 0, to = list.blocks > 1 ? list.blocks : 0;
            block[j] = search<1>(of[j], &docs[j], &from, &to);
        }
    }
    // Document and owner of the candidate before this lane's first.
    uint32_t doc_before = __shfl_up_sync(FULL_WARP, docs[3], 1), owner_before = __shfl_up_sync(FULL_WARP, owners[3], 1);
    bool same = owner_before == owners[0];
    if (lane == 0) doc_before = before, same = joined;
    if (block[0] != NO_DOC) heads = !same || (block[0] > 0 && doc_before <= of[0][block[0] - 1]);
#pragma unroll
    for (uint32_t j = 1; j < 4; j++) {
        if (block[j] != NO_DOC && (owners[j] != owners[j - 1] || block[j] != block[j - 1])) heads |= 1u << j;
    }
    uint32_t mine = __popc(heads), sum = warp_inclusive_sum(mine), all = __shfl_sync(FULL_WARP, sum, WARP - 1);
    if (all > 0) {
        uint32_t slot = 0;
        if (lane == 0) {
            slot = atomicAdd(reinterpret_cast<uint32_t*>(tasks.count), all);
            if (one_query) atomicAdd(reinterpret_cast<uint32_t*>(tasks.decoded) + first_owner, all);
        }
        slot = __shfl_sync(FULL_WARP, slot, 0) + sum - mine;
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            if ((heads >> j & 1) == 0) continue;
            reinterpret_cast<uint2*>(tasks.tasks)[slot++] = make_uint2(chunk * BLOCK_LEN + 4 * lane + j, block[j]);
            if (!one_query) atomicAdd(reinterpret_cast<uint32_t*>(tasks.decoded) + owners[j], 1u);
        }
    }
    // Eight lanes share a word of bits.
    uint32_t word = kept << (4 * (lane % 8));
    for (uint32_t distance = 1; distance < 8; distance *= 2) word |= __shfl_xor_sync(FULL_WARP, word, distance);
    if (lane % 8 == 0) bits[chunk * (BLOCK_LEN / 32) + lane / 8] = word;
}

// A warp decodes a block of a shortest list to candidates, and finds the blocks of the second list.
template <class Codec>
__device__ __forceinline__ void first(const Conjunction* queries, const uint32_t* first_blocks, uint32_t count, const TermList* all_terms,
                                      const Reach* reaches, const Values& values, const Candidates& candidates, const Tasks& tasks, uint32_t* bits) {
    uint32_t chunk = blockIdx.x * WARPS + warp_id();
    if (chunk >= candidates.len / BLOCK_LEN) return;
    const uint32_t q = warp_search(first_blocks, 0, count, chunk + 1) - 1;
    const Conjunction query = queries[q];
    const TermList& term = all_terms[query.first_term];
    const CompressedList list = term.list;
    const Reach reach = reaches[q];
    const uint32_t block = chunk - query.first_block, at = chunk * BLOCK_LEN + 4 * lane_id();
    uint32_t docs[4] = {NO_DOC, NO_DOC, NO_DOC, NO_DOC};
    const uint32_t owners[4] = {q, q, q, q};
    if (block < reach.blocks) {
        decode_docs<Codec>(list, block, docs);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) docs[j] = docs[j] <= reach.bound ? docs[j] : NO_DOC;
        if (query.terms == 1) {
            uint32_t freqs[4], scores[4];
            decode_freqs<Codec>(list, block, freqs);
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) scores[j] = docs[j] != NO_DOC ? score_of(term, values, freqs[j], docs[j]) : 0;
            *reinterpret_cast<uint4*>(candidates.scores_at(at)) = make_uint4(scores[0], scores[1], scores[2], scores[3]);
        }
    }
    *reinterpret_cast<uint4*>(candidates.docs_at(at)) = make_uint4(docs[0], docs[1], docs[2], docs[3]);
    *reinterpret_cast<uint4*>(candidates.owners_at(at)) = make_uint4(q, q, q, q);
    const bool joined = block > 0;
    const uint32_t before = joined ? lasts_of(list)[block - 1] : 0;
    find(queries, all_terms, 1, docs, owners, chunk, joined, before, tasks, bits);
}

// Returns the index of the first of a decoded block's documents that is not before `doc`, or of
// the last one.
__device__ __forceinline__ uint32_t index_in_block(const uint32_t* docs, uint32_t doc) {
    uint32_t index = 0;
#pragma unroll
    for (uint32_t step = BLOCK_LEN / 2; step > 0; step /= 2) index += docs[index + step - 1] < doc ? step : 0;
    return index;
}

// Decodes the requested blocks, and looks up in each the candidates that fall into it: a warp
// takes one task after another.
template <class Codec>
__device__ __forceinline__ void blocks(const Conjunction* queries, const TermList* all_terms, uint32_t turn, const Values& values,
                                       const Candidates& candidates, const Tasks& tasks, uint32_t* bits) {
    __shared__ __align__(16) uint32_t decoded[WARPS][BLOCK_LEN];
    uint32_t* own = decoded[warp_id()];
    const uint32_t count = candidates.size(), all = *reinterpret_cast<const uint32_t*>(tasks.count);
    for (uint32_t i = blockIdx.x * WARPS + warp_id(); i < all; i += gridDim.x * WARPS) {
        const uint2 task = reinterpret_cast<const uint2*>(tasks.tasks)[i];
        const uint32_t q = *candidates.owners_at(task.x), block = task.y;
        const Conjunction query = queries[q];
        const TermList& term = all_terms[query.first_term + turn];
        const CompressedList list = term.list;
        uint32_t docs[4];
        decode_docs<Codec>(list, block, docs);
        reinterpret_cast<uint4*>(own)[lane_id()] = make_uint4(docs[0], docs[1], docs[2], docs[3]);
        __syncwarp();
        const uint32_t limit = list.blocks > 1 ? lasts_of(list)[block] : NO_DOC - 1;
        bool inside = true;
        for (uint32_t at = task.x + lane_id(); __all_sync(FULL_WARP, inside); at += WARP) {
            uint32_t doc = NO_DOC;
            if (at < count && *candidates.owners_at(at) == q) doc = *candidates.docs_at(at);
            inside = doc <= limit;
            if (!inside) continue;
            uint32_t index = index_in_block(own, doc);
            if (own[index] != doc) continue;
            uint32_t score = score_at<Codec>(term, values, block * BLOCK_LEN + index, doc);
            if (turn == 1) {
                // Candidates are still in the order of the shortest list.
                score += score_at<Codec>(all_terms[query.first_term], values, at - query.first_block * BLOCK_LEN, doc);
            } else {
                score += *candidates.scores_at(at);
            }
            *candidates.scores_at(at) = score;
            atomicOr(&bits[at / 32], 1u << (at % 32));
        }
        __syncwarp();
    }
}

// All turns from `turn` on, for queries with at most 32 candidates: one warp per query, one
// candidate per lane. Bits must be 0 before.
template <class Codec>
__device__ __forceinline__ void rest(const Conjunction* queries, uint32_t count, const TermList* all_terms, uint32_t turn, const Values& values,
                                     const Candidates& candidates, const uint32_t* starts, uint32_t* all_decoded, uint32_t* bits) {
    __shared__ __align__(16) uint32_t decoded[WARPS][BLOCK_LEN];
    uint32_t* own = decoded[warp_id()];
    const uint32_t q = blockIdx.x * WARPS + warp_id();
    if (q >= count) return;
    const Conjunction query = queries[q];
    const uint32_t at = starts[q] + lane_id();
    bool alive = at < starts[q + 1];
    uint32_t doc = alive ? *candidates.docs_at(at) : NO_DOC, score = alive ? *candidates.scores_at(at) : 0, blocks = 0;
    for (; turn < query.terms && __any_sync(FULL_WARP, alive); turn++) {
        const TermList& term = all_terms[query.first_term + turn];
        const CompressedList list = term.list;
        uint32_t from = 0, to = alive && list.blocks > 1 ? list.blocks : 0;
        search<1>(lasts_of(list), &doc, &from, &to);
        uint32_t waiting = __ballot_sync(FULL_WARP, alive);
        while (waiting != 0) {
            const uint32_t block = __shfl_sync(FULL_WARP, from, __ffs(waiting) - 1);
            uint32_t docs[4];
            decode_docs<Codec>(list, block, docs);
            reinterpret_cast<uint4*>(own)[lane_id()] = make_uint4(docs[0], docs[1], docs[2], docs[3]);
            __syncwarp();
            const bool here = (waiting >> lane_id() & 1) != 0 && from == block;
            if (here) {
                uint32_t index = index_in_block(own, doc);
                alive = own[index] == doc;
                if (alive) score += score_at<Codec>(term, values, block * BLOCK_LEN + index, doc);
            }
            waiting &= ~__ballot_sync(FULL_WARP, here);
            __syncwarp();
            blocks++;
        }
    }
    if (alive) {
        *candidates.scores_at(at) = score;
        atomicOr(&bits[at / 32], 1u << (at % 32));
    }
    if (lane_id() == 0) all_decoded[q] += blocks;
}

// The kernels of a codec.
#define INTERSECT(name, ...)                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(WARPS* WARP)                                                                                       \
        intersect_first_##name(const Conjunction* __restrict__ queries, const uint32_t* __restrict__ first_blocks, uint32_t count,                  \
                               const TermList* __restrict__ terms, const Reach* __restrict__ reaches, Values values, Candidates candidates,         \
                               Tasks tasks, uint32_t* __restrict__ bits) {                                                                          \
        first<__VA_ARGS__>(queries, first_blocks, count, terms, reaches, values, candidates, tasks, bits);                                          \
    }                                                                                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS* WARP)                                                                                       \
        intersect_blocks_##name(const Conjunction* __restrict__ queries, const TermList* __restrict__ terms, uint32_t turn, Values values,          \
                                Candidates candidates, Tasks tasks, uint32_t* __restrict__ bits) {                                                  \
        blocks<__VA_ARGS__>(queries, terms, turn, values, candidates, tasks, bits);                                                                 \
    }                                                                                                                                               \
    extern "C" __global__ void __launch_bounds__(WARPS* WARP)                                                                                       \
        intersect_rest_##name(const Conjunction* __restrict__ queries, uint32_t count, const TermList* __restrict__ terms, uint32_t turn,           \
                              Values values, Candidates candidates, const uint32_t* __restrict__ starts, uint32_t* __restrict__ decoded,            \
                              uint32_t* __restrict__ bits) {                                                                                        \
        rest<__VA_ARGS__>(queries, count, terms, turn, values, candidates, starts, decoded, bits);                                                  \
    }
