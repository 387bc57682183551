// WAND and MaxScore on compressed lists (Gaioso 2019, algorithms 3 to 5), one warp per partition:
// what both share.
//
// At any time the lists of a query are divided in two. The maxima of the lists that are not
// essential do not exceed the threshold together, so every hit is in an essential list. The
// algorithms differ in how they divide: `Choice` (see the kernels). Then both take a window of
// documents at once, as far as the decoded blocks of the essential lists reach:
//
// 1. Blocks of essential lists are scored as a whole, four postings per lane, so that loads
//   overlap. Lanes take 32 postings of such a list at a time and look them up in the other
//   essential lists, whose blocks are in shared memory with their contributions. A window of few
//   documents is added up in shared memory instead, list by list; many essential lists are
//   processed document by document, one list per lane.
// 2. Documents that can still become hits wait until there are 32. These are looked up in the
//   other lists, largest maximum first; a block is decoded only if one of them needs it.
//
// AND is the same with only one essential list, and drops a document that another list lacks.
//
// The maxima of blocks (Ding and Suel 2011) are used three times: a window is left out if the
// blocks of its essential lists and the maxima of the other lists cannot exceed the threshold
// together (`skip`); WAND moves its pivot past blocks that cannot (`rules_out`); and a block is
// decoded to look documents up only if its maximum lets one of them exceed it (`look_up`).
#pragma once

#include "partitioned_form.cuh"
#include "partitioned_lists.cuh"
#include "tiles.cuh"
#include "topk.cuh"
#include "values.cuh"
#include "warp.cuh"

constexpr uint32_t NONE = 0xffffffffu;

// Windows between two exchanges with other blocks of threads. The value used was requested at the
// previous exchange, so no thread waits for it.
constexpr uint32_t TURNS = 2;

// Maximum number of essential lists of a window for which lanes are postings; with more, lanes
// are lists.
constexpr uint32_t FEW_ESSENTIAL = 8;

// Maximum number of documents of a window that is added up in shared memory.
constexpr uint32_t SPAN = 1024;

// Documents that wait to be looked up: 32, and what one step adds.
constexpr uint32_t WAITING = 2 * WARP;

template <class Codec>
struct Search {
    const Segment& segment;
    const Values& values;
    const PartitionedQuery& query;
    const PartitionedTerm* terms;
    Cursor* at;  // of each list
    WarpTopK& top;
    uint32_t* waiting_docs;
    uint32_t* waiting_sums;
    uint32_t* sums;  // of SPAN documents; 0 between windows
    uint32_t waiting = 0;
    uint32_t until = 0;   // the partition's documents are before this one
    uint32_t begin = 0;   // documents of the window are not before this one
    uint32_t all = 0;     // the most that all lists contribute
    // the most that the lists that are not essential and the static score contribute
    uint32_t rest = 0;
    uint32_t floor = 0;   // a document that scores no more cannot become a hit
    uint32_t scored = 0;  // postings, by this lane
    uint32_t matches = 0;  // by this lane
    uint32_t decoded = 0;
    uint32_t ruled_blocks = 0;     // by this lane
    uint32_t ruled_documents = 0;  // by this lane
    uint64_t ahead = 0;  // what other blocks knew when it was last requested
    // for k over 32: set if the keys have been sorted, and if there were k then
    bool sorted = false, full = false;

    __device__ bool all_terms() const { return (query.flags & ALL_TERMS) != 0; }

    // True if the maxima of blocks can rule anything out.
    __device__ bool by_maxima() const { return (query.flags & BLOCK_MAXIMA) != 0 && floor > 0; }

    // The most that a posting of a block contributes.
    __device__ uint32_t most_in(uint32_t list, uint32_t block) const {
        return contribution(terms[list].weight, __ldg(maxima_of(terms[list].list) + block));
    }

    // True if a list has postings of the partition in a block.
    __device__ bool has(uint32_t list, uint32_t block) const { return block < terms[list].list.blocks && block * BLOCK_LEN < at[list].end; }

    // Moves `reached` to the block with the list's first posting at or after `doc`, without
    // decoding. Returns the document after the block's last one, or NO_DOC after the last block.
    // Called by the list's lane.
    __device__ uint32_t reach(uint32_t list, uint32_t doc) {
        const CompressedList& of = terms[list].list;
        uint32_t block = lower_bound(lasts_of(of), max(at[list].block, at[list].reached), of.blocks, doc);
        at[list].reached = block;
        return has(list, block) ? lasts_of(of)[block] + 1 : NO_DOC;
    }

    // Moves `begin` past the windows in which the blocks of the essential lists rule out every
    // hit. Returns false if the partition ends.
    __device__ bool skip() {
        if (!by_maxima()) return true;
        while (begin < until) {
            uint32_t end = until;
            for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
                if (at[list].essential != 0 && at[list].doc < until) end = min(end, reach(list, begin));
            }
            end = warp_min(end);
            uint32_t sum = 0, passed = 0;
            for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
                if (at[list].essential == 0 || at[list].doc >= end || !has(list, at[list].reached)) continue;
                const uint32_t block = at[list].reached;
                sum += most_in(list, block);
                passed += block != at[list].held && lasts_of(terms[list].list)[block] < end;
            }
            if (warp_sum(sum) + rest > floor) return true;
            ruled_blocks += passed;
            begin = end;
        }
        return false;
    }

    // If the blocks of the lists that have reached `doc` rule out every hit up to the end of one
    // of them, or up to the next document of another list, moves these lists there and returns
    // true (Ding and Suel 2011, section 4). Cursors may then be before their next document.
    __device__ bool rules_out(uint32_t doc) {
        uint32_t end = until, sum = 0;
        for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
            if (at[list].doc > doc) {
                end = min(end, at[list].doc);
                continue;
            }
            end = min(end, reach(list, doc));
            if (has(list, at[list].reached)) sum += most_in(list, at[list].reached);
        }
        if (warp_sum(sum) + query.static_most > floor) return false;
        end = warp_min(end);
        for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
            if (at[list].doc > doc) continue;
            uint32_t block = at[list].reached, next = NO_DOC;
            if (has(list, block) && lasts_of(terms[list].list)[block] < end) {
                ruled_blocks += block != at[list].held;
                block++;
            }
            if (has(list, block)) next = end;
            if (next == end && block == at[list].held) {
                // The list's documents are at hand, so the cursor stays exact.
                const uint32_t skipped = at[list].first > block * BLOCK_LEN ? at[list].first - block * BLOCK_LEN : 0;
                const uint32_t index = max(index_of(at[list].docs, end), skipped);
                next = index < at[list].len ? at[list].docs[index] : NO_DOC;
            }
            at[list].block = block;
            at[list].reached = block;
            at[list].doc = next;
        }
        if (end > begin) begin = end;
        __syncwarp();
        return true;
    }

    // The most that lists may contribute together to be not essential.
    __device__ uint32_t allowance() const {
        if (all_terms()) return all - 1;
        return floor > query.static_most ? floor - query.static_most : 0;
    }

    __device__ uint32_t contribution_of(uint32_t list, uint32_t posting, float factor) {
        const PartitionedTerm& term = terms[list];
        scored++;
        return contribution(term.weight, value_of(values, Called<Codec>::freq(term.list, posting), factor));
    }

    __device__ void raise_floor() {
        uint32_t score = uint32_t(top.threshold >> 32);
        // A document with the same score may still rank higher, so only lower scores are dropped.
        if ((query.flags & EXHAUSTIVE) == 0) floor = score > 0 ? score - 1 : 0;
    }

    __device__ void decode(uint32_t list, uint32_t block) { hold(list, block, Called<Codec>::docs(terms[list].list, block)); }

    // Stores the documents of a block in the list's buffer.
    __device__ void hold(uint32_t list, uint32_t block, uint4 docs) {
        __syncwarp();
        reinterpret_cast<uint4*>(at[list].docs)[lane_id()] = docs;
        if (lane_id() == 0) {
            uint32_t left = at[list].end > block * BLOCK_LEN ? at[list].end - block * BLOCK_LEN : 0;
            at[list].held = block;
            at[list].len = left < BLOCK_LEN ? left : BLOCK_LEN;
        }
        decoded++;
        __syncwarp();
    }

    // Computes what each posting of the decoded block contributes.
    __device__ void value(uint32_t list) {
        const PartitionedTerm& term = terms[list];
        const uint32_t block = at[list].held;
        const uint4 docs = reinterpret_cast<const uint4*>(at[list].docs)[lane_id()];
        const uint32_t last = segment.docs - 1;
        // After the list's end there are no documents; the factor of the segment's last document
        // is read instead.
        const float factors[FOUR] = {factor_of(values, min(docs.x, last)), factor_of(values, min(docs.y, last)), factor_of(values, min(docs.z, last)),
                                     factor_of(values, min(docs.w, last))};
        const uint4 freqs = Called<Codec>::freqs(term.list, block);
        uint4 added;
        added.x = contribution(term.weight, value_of(values, max(freqs.x, 1u), factors[0]));
        added.y = contribution(term.weight, value_of(values, max(freqs.y, 1u), factors[1]));
        added.z = contribution(term.weight, value_of(values, max(freqs.z, 1u), factors[2]));
        added.w = contribution(term.weight, value_of(values, max(freqs.w, 1u), factors[3]));
        reinterpret_cast<uint4*>(at[list].added)[lane_id()] = added;
        // All lanes have seen that it was not known.
        __syncwarp();
        if (lane_id() == 0) at[list].valued = block;
        __syncwarp();
    }

    // The document at a position of a block, from the lane that has it.
    __device__ static uint32_t doc_in(uint4 docs, uint32_t index) {
        uint32_t j = index % FOUR;
        uint32_t doc = j < 2 ? (j == 0 ? docs.x : docs.y) : (j == 2 ? docs.z : docs.w);
        return __shfl_sync(FULL_WARP, doc, index / FOUR);
    }

    // The document of a posting.
    __device__ uint32_t doc_at(uint32_t list, uint32_t posting) {
        decoded++;
        return doc_in(Called<Codec>::docs(terms[list].list, posting / BLOCK_LEN), posting % BLOCK_LEN);
    }

    // Moves a list to its first posting at or after `doc`, never backwards, and decodes the block.
    __device__ void open(uint32_t list, uint32_t doc) {
        uint32_t block = at[list].block;
        const uint32_t* slot = at[list].docs;
        bool here = at[list].held == block && slot[BLOCK_LEN - 1] >= doc;
        if (!here) block = find_block(terms[list].list, block, doc);
        uint32_t next = NO_DOC;
        if (block * BLOCK_LEN < at[list].end && block < terms[list].list.blocks) {
            if (at[list].held != block) decode(list, block);
            uint4 four = reinterpret_cast<const uint4*>(slot)[lane_id()];
            uint32_t before = warp_sum((four.x < doc) + (four.y < doc) + (four.z < doc) + (four.w < doc));
            uint32_t first = at[list].first;
            if (first > block * BLOCK_LEN + before) before = first - block * BLOCK_LEN;
            if (before < at[list].len) next = slot[before];
        }
        __syncwarp();
        if (lane_id() == 0) {
            at[list].block = block;
            at[list].doc = next;
        }
        __syncwarp();
    }

    // The posting of a list that has this lane's document, or NONE; also if the maximum of its
    // block and what all others contribute at most, `others`, do not exceed the threshold.
    // `last`: no document before these will be looked up again.
    __device__ uint32_t look_up(uint32_t list, uint32_t doc, bool active, bool last, uint32_t others) {
        const CompressedList& of = terms[list].list;
        uint32_t block = find_blocks(of, at[list].block, doc, active);
        active = active && block < of.blocks && block * BLOCK_LEN < at[list].end;
        if (last) {
            uint32_t furthest = warp_max(active ? block : 0);
            if (lane_id() == 0 && furthest > at[list].block) at[list].block = furthest;
        }
        if (active && by_maxima() && block != at[list].held && others + most_in(list, block) <= floor) {
            active = false;
            ruled_documents++;
        }
        uint32_t posting = NONE;
        // In the decoded block.
        auto see = [&](uint32_t held) {
            if (!active || block != held) return;
            active = false;
            const uint32_t* slot = at[list].docs;
            uint32_t index = index_of(slot, doc);
            // A document of the block is not after its last.
            if (slot[index] == doc && index < at[list].len && held * BLOCK_LEN + index >= at[list].first) posting = held * BLOCK_LEN + index;
        };
        see(at[list].held);
        for (uint32_t left = __ballot_sync(FULL_WARP, active); left != 0; left = __ballot_sync(FULL_WARP, active)) {
            const uint32_t next = __shfl_sync(FULL_WARP, block, __ffs(left) - 1);
            const uint32_t after = __ballot_sync(FULL_WARP, active && block != next);
            if (after == 0) {
                decode(list, next);
                see(next);
                break;
            }
            const uint32_t other = __shfl_sync(FULL_WARP, block, __ffs(after) - 1);
            uint4 docs, others;
            Called<Codec>::two(of, next, other, docs, others);
            hold(list, next, docs);
            see(next);
            hold(list, other, others);
            see(other);
        }
        __syncwarp();
        return posting;
    }

    // Adds this lane's document to the waiting ones, if it has one.
    __device__ void wait(uint32_t doc, uint32_t sum, bool alive) {
        uint32_t those = __ballot_sync(FULL_WARP, alive);
        if (alive) {
            uint32_t index = waiting + __popc(those & ((1u << lane_id()) - 1));
            waiting_docs[index] = doc;
            waiting_sums[index] = sum;
        }
        waiting += __popc(those);
        __syncwarp();
        if (waiting >= WARP) finish(WARP, false);
    }

    // Scores all waiting documents. The essential lists must still be those of the time when the
    // documents were added.
    __device__ void flush() {
        if (waiting > 0) finish(waiting, true);
    }

    // Scores the last `count` waiting documents, and offers them.
    __device__ void finish(uint32_t count, bool last) {
        waiting -= count;
        bool alive = lane_id() < count;
        uint32_t doc = alive ? waiting_docs[waiting + lane_id()] : 0;
        uint32_t sum = alive ? waiting_sums[waiting + lane_id()] : 0;
        // Loads while blocks are found and decoded.
        const float factor = factor_of(values, doc);
        uint32_t left = rest;
        for (uint32_t list = query.terms; list-- > 0;) {
            if (at[list].essential != 0) continue;
            alive = alive && sum + left > floor;
            if (!__any_sync(FULL_WARP, alive)) break;
            left -= terms[list].most;
            uint32_t posting = look_up(list, doc, alive, last, sum + left);
            if (posting != NONE) sum += contribution_of(list, posting, factor);
            else if (all_terms()) alive = false;
        }
        alive = alive && !is_deleted(segment, doc);
        if (alive) matches++;
        top.offer(alive ? hit_key(segment, doc, sum + static_score(segment, query.static_weight, doc)) : 0);
        raise_floor();
    }

    // Takes the documents from `begin` on, as far as the blocks of essential lists reach.
    __device__ void window() {
        uint32_t end = until, in_window = 0;
        for (uint32_t list = 0; list < query.terms; list++) {
            if (at[list].essential == 0 || at[list].doc >= end) continue;
            uint32_t doc = at[list].doc;
            if (doc < begin || at[list].held != at[list].block) open(list, doc < begin ? begin : doc);
            if (at[list].doc >= end) continue;
            if (at[list].valued != at[list].held) value(list);
            in_window++;
            uint32_t last = at[list].docs[BLOCK_LEN - 1];
            if (last < end) end = last + 1;
        }
        if (end - begin <= SPAN) by_sums(end);
        else if (in_window <= FEW_ESSENTIAL) by_postings(end);
        else by_documents(end);
        __syncwarp();
        for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
            if (at[list].essential == 0 || at[list].held != at[list].block || at[list].doc == NO_DOC) continue;
            uint32_t index = index_of(at[list].docs, end);
            bool here = index < at[list].len;
            bool ended = at[list].block * BLOCK_LEN + at[list].len >= at[list].end;
            uint32_t next = NO_DOC;
            if (here) next = at[list].docs[index];
            else if (!ended) next = first_of<Codec>(terms[list].list, ++at[list].block);
            at[list].doc = next;
        }
        begin = end;
        __syncwarp();
    }

    // Lanes add the postings of one list, and then scan the documents, four each.
    __device__ void by_sums(uint32_t end) {
        for (uint32_t list = 0; list < query.terms; list++) {
            if (at[list].essential == 0 || at[list].doc >= end) continue;
            const uint32_t* slot = at[list].docs;
            for (uint32_t index = index_of(slot, at[list].doc) + lane_id(); index < at[list].len && slot[index] < end; index += WARP) {
                sums[slot[index] - begin] += at[list].added[index];
                scored++;
            }
            __syncwarp();
        }
        for (uint32_t first = 0; first < end - begin; first += WARP * FOUR) {
            uint4* fours = reinterpret_cast<uint4*>(sums + first) + lane_id();
            const uint4 four = *fours;
            *fours = make_uint4(0, 0, 0, 0);
            const uint32_t sum[FOUR] = {four.x, four.y, four.z, four.w};
            uint32_t most = max(max(four.x, four.y), max(four.z, four.w));
            if (!__any_sync(FULL_WARP, most > 0 && most + rest > floor)) continue;
            for (uint32_t j = 0; j < FOUR; j++) wait(begin + first + lane_id() * FOUR + j, sum[j], sum[j] > 0 && sum[j] + rest > floor);
        }
    }

    // Lanes are postings of one list.
    __device__ void by_postings(uint32_t end) {
        uint32_t others = 0;  // the most that the remaining essential lists contribute
        for (uint32_t list = 0; list < query.terms; list++) {
            if (at[list].essential != 0 && at[list].doc < end) others += terms[list].most;
        }
        for (uint32_t list = 0; list < query.terms; list++) {
            if (at[list].essential == 0 || at[list].doc >= end) continue;
            others -= terms[list].most;
            uint32_t left = rest + others;
            // A document of this list that no earlier list contains scores too little.
            if (terms[list].most + left <= floor) continue;
            const uint32_t* slot = at[list].docs;
            const uint32_t len = at[list].len;
            uint32_t index = index_of(slot, at[list].doc);
            for (;; left = rest + others) {
                uint32_t doc = index + lane_id() < len ? slot[index + lane_id()] : NO_DOC;
                uint32_t taken = __popc(__ballot_sync(FULL_WARP, doc < end));
                if (taken == 0) break;
                bool alive = doc < end;
                uint32_t furthest = __shfl_sync(FULL_WARP, doc, taken - 1);
                // If an earlier list contains the document, it was taken there.
                for (uint32_t other = 0; other < list; other++) {
                    if (at[other].essential == 0 || at[other].doc > furthest) continue;
                    if (alive && find(other, doc) != NONE) alive = false;
                }
                uint32_t sum = alive ? at[list].added[index + lane_id()] : 0;
                scored += alive;
                for (uint32_t other = list + 1; other < query.terms; other++) {
                    if (at[other].essential == 0 || at[other].doc >= end) continue;
                    alive = alive && sum + left > floor;
                    left -= terms[other].most;
                    if (!alive || at[other].doc > furthest) continue;
                    uint32_t found = find(other, doc);
                    if (found == NONE) continue;
                    sum += at[other].added[found];
                    scored++;
                }
                wait(doc, sum, alive && sum + left > floor);
                index += taken;
                if (taken < WARP) break;
            }
        }
    }

    // The position of a document in a list's block, or NONE.
    __device__ uint32_t find(uint32_t list, uint32_t doc) const {
        const uint32_t* slot = at[list].docs;
        if (doc < at[list].doc || doc > slot[BLOCK_LEN - 1]) return NONE;
        uint32_t index = index_of(slot, doc);
        return slot[index] == doc && index < at[list].len ? index : NONE;
    }

    // Lanes are lists, and documents are processed individually (as in Gaioso 2019, algorithms 4
    // and 5).
    __device__ void by_documents(uint32_t end) {
        while (true) {
            uint32_t doc = NO_DOC;
            for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
                if (at[list].essential != 0 && at[list].doc < doc) doc = at[list].doc;
            }
            doc = warp_min(doc);
            if (doc >= end) break;
            uint32_t sum = 0;
            for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
                if (at[list].essential == 0 || at[list].doc != doc) continue;
                const uint32_t* slot = at[list].docs;
                uint32_t index = index_of(slot, doc);
                sum += at[list].added[index];
                scored++;
                // At the end of a block the cursor is after the window, and `window` continues
                // from there.
                at[list].doc = index + 1 < at[list].len ? slot[index + 1] : end;
            }
            sum = warp_sum(sum);
            wait(doc, sum, lane_id() == 0 && sum + rest > floor);
        }
    }

    // Requests what other blocks of threads know, for the next exchange.
    __device__ void ask(const uint64_t* words) { ahead = *reinterpret_cast<const volatile uint64_t*>(words); }

    // Exchanges the k-th best key of this block for that of others.
    __device__ void exchange(uint64_t* words, uint64_t& published) {
        if (top.threshold > published && lane_id() == 0) atomicMax(words, top.threshold);
        const uint64_t known = __shfl_sync(FULL_WARP, ahead, 0);
        if (known > top.threshold) top.threshold = known;
        published = top.threshold;
        ask(words);
    }

    // Shares what this block knows with other blocks of threads, and the other way round.
    __device__ void share(uint32_t policy, uint64_t* words, uint32_t parity, uint64_t& published, uint64_t& middle_published) {
        const uint32_t half = (top.k + 1) / 2;
        // With a larger k, the keys say nothing before they are sorted.
        uint32_t enough = policy == SAFE_WRITE_READ && !sorted ? half : top.k;
        if (top.k > WARP && !full && top.count >= enough) {
            full = top.count >= top.k;
            top.compact();
            sorted = true;
        }
        if (policy == SAFE_READ) {
            exchange(words, published);
        } else if (policy == SAFE_WRITE_READ) {
            // Neither written nor read before half of the keys exist.
            uint64_t middle = 0;
            if (top.k <= WARP) middle = __shfl_sync(FULL_WARP, top.mine, half - 1);
            else if (sorted) middle = top.keys[half - 1];
            if (middle == 0) return raise_floor();
            if (middle > middle_published && lane_id() == 0) atomicMax(words + 1 + parity, middle);
            middle_published = middle;
            exchange(words, published);
            const volatile uint64_t* seen = words;
            uint64_t even = __shfl_sync(FULL_WARP, seen[1], 0), odd = __shfl_sync(FULL_WARP, seen[2], 0);
            uint64_t known = even < odd ? even : odd;
            if (known > top.threshold) top.threshold = known;
        }
        raise_floor();
    }

    // Where a partition begins in a list with this many postings.
    __device__ uint32_t cut(uint32_t postings, uint32_t partition) const { return uint64_t(postings) * partition / query.partitions; }

    // Borders of heterogeneous partitions `from` to `to`: after the last document that any list
    // has before the cut (Gaioso 2019, section 4.2.2).
    __device__ void find_borders(uint32_t from, uint32_t to) {
        begin = 0;
        until = segment.docs;
        if (from == 0 && to >= query.partitions) return;
        until = 0;
        for (uint32_t list = 0; list < query.terms; list++) {
            const CompressedList& of = terms[list].list;
            // The postings before the cuts; if there are none, the first posting is used and does
            // not count.
            const uint32_t low = cut(of.df, from), high = cut(of.df, to);
            const uint32_t first = low > 0 ? low - 1 : 0, last = high > 0 ? high - 1 : 0;
            uint4 docs, others;
            Called<Codec>::two(of, first / BLOCK_LEN, last / BLOCK_LEN, docs, others);
            decoded += 2;
            const uint32_t before = doc_in(docs, first % BLOCK_LEN) + 1, behind = doc_in(others, last % BLOCK_LEN) + 1;
            if (low > 0 && before > begin) begin = before;
            if (high > 0 && behind > until) until = behind;
        }
        if (to >= query.partitions) until = segment.docs;
    }

    // Sets a list's cursor before a posting, with an end.
    __device__ void put(uint32_t list, uint32_t first, uint32_t end, uint32_t doc) {
        at[list].doc = doc;
        at[list].block = first / BLOCK_LEN;
        at[list].held = NONE;
        at[list].valued = NONE;
        at[list].len = 0;
        at[list].first = first;
        at[list].end = end;
        at[list].essential = 1;
        at[list].reached = first / BLOCK_LEN;
    }

    // Heterogeneous partitions `from` to `to`: a range of documents.
    __device__ void take_range(uint32_t from, uint32_t to) {
        find_borders(from, to);
        rest = query.static_most;
        for (uint32_t list = lane_id(); list < query.terms; list += WARP) {
            uint32_t first = first_of<Codec>(terms[list].list, 0);
            put(list, 0, terms[list].list.df, first > begin ? first : begin);
        }
        __syncwarp();
    }

    // A homogeneous partition: an equal share of every list's postings, starting at the largest
    // of the shares' first documents (Gaioso 2019, section 4.5.4).
    __device__ void take_share(uint32_t partition) {
        begin = 0;
        until = segment.docs;
        rest = query.static_most;
        for (uint32_t list = 0; list < query.terms && partition > 0; list++) {
            uint32_t first = cut(terms[list].list.df, partition);
            if (first == cut(terms[list].list.df, partition + 1)) continue;
            uint32_t doc = doc_at(list, first);
            begin = doc > begin ? doc : begin;
        }
        __syncwarp();
        for (uint32_t list = 0; list < query.terms; list++) {
            uint32_t df = terms[list].list.df, first = cut(df, partition), count = cut(df, partition + 1) - first;
            if (lane_id() == 0) put(list, first, count > 0 ? df : 0, count > 0 ? begin : NO_DOC);
            __syncwarp();
            if (count == 0) continue;
            open(list, begin);
            if (lane_id() == 0 && at[list].doc != NO_DOC) {
                uint32_t block = at[list].block * BLOCK_LEN, start = block + index_of(at[list].docs, at[list].doc);
                at[list].first = start;
                at[list].end = start + count < df ? start + count : df;
                if (at[list].end - block < at[list].len) at[list].len = at[list].end - block;
            }
            __syncwarp();
        }
    }
};

// A block of threads, of one warp, takes some partitions of the query `first_query`. With `whole`
// it takes a query, and each of its warps takes one partition, a range of documents. Warps do not
// synchronise; they share what blocks share. Dynamic shared memory of each warp: keys and
// cursors, unless these are in global memory, and the waiting documents.
template <class Codec, class Choice>
__device__ __forceinline__ void prune(const Segment& segment, const Values& values, const PartitionedQuery* queries, uint32_t first_query, uint32_t whole,
                                      const PartitionedTerm* all_terms, uint64_t* all_words, PartitionedWork* all_work, uint64_t* out_keys,
                                      uint32_t* out_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity, uint32_t* global_cursors,
                                      uint32_t most_terms, uint32_t homogeneous, uint32_t policy) {
    DYNAMIC_SHARED(uint32_t, shared);
    const uint32_t own = blockIdx.x * (blockDim.x / WARP) + warp_id();
    const PartitionedQuery query = queries[first_query + (whole != 0 ? blockIdx.x : 0)];
    const uint32_t number = whole != 0 ? warp_id() : blockIdx.x;
    const uint32_t slot = query.first_slot + number;
    if (query.terms == 0) {
        if (lane_id() == 0) out_counts[slot] = 0;
        return;
    }
    const uint32_t of_keys = global_keys != nullptr ? 0 : 2 * capacity, of_cursors = global_cursors != nullptr ? 0 : most_terms * CURSOR_WORDS;
    uint32_t* waiting = shared + warp_id() * (2 * WAITING + SPAN + of_keys + of_cursors);
    uint32_t *sums = waiting + 2 * WAITING, *left = sums + SPAN;
    for (uint32_t i = lane_id(); i < SPAN; i += WARP) sums[i] = 0;
    __syncwarp();
    uint64_t* keys = global_keys != nullptr ? global_keys + uint64_t(own) * capacity : reinterpret_cast<uint64_t*>(left);
    uint32_t* words = global_cursors != nullptr ? global_cursors + uint64_t(own) * most_terms * CURSOR_WORDS : left + of_keys;
    WarpTopK top(keys, capacity, query.k, query.least);
    Search<Codec> search{segment, values, query, all_terms + query.first_term, reinterpret_cast<Cursor*>(words), top, waiting, waiting + WAITING, sums};
    uint32_t all = 0;
    for (uint32_t list = lane_id(); list < query.terms; list += WARP) all += search.terms[list].most;
    search.all = warp_sum(all);

    uint64_t* known = all_words + query.number * POLICY_WORDS;
    uint64_t published = 0, middle_published = 0;
    if (policy != LOCAL) search.ask(known);
    const uint32_t from = number * query.per_block;
    const uint32_t to = from + query.per_block < query.partitions ? from + query.per_block : query.partitions;
    // Neighbouring partitions of documents are one range; shares are processed individually.
    for (uint32_t partition = from; partition < to; partition++) {
        if (homogeneous != 0) search.take_share(partition);
        else search.take_range(from, to);
        search.share(policy, known, slot % 2, published, middle_published);
        Choice choice;
        for (uint32_t turn = 1; choice.choose(search); turn++) {
            if (!search.skip()) break;
            search.window();
            if (turn % TURNS == 0) search.share(policy, known, slot % 2, published, middle_published);
        }
        search.flush();
        search.share(policy, known, slot % 2, published, middle_published);
        if (homogeneous == 0) break;
    }
    top.finish(out_keys + uint64_t(slot) * stride, out_counts + slot);
    uint32_t scored = warp_sum(search.scored), matches = warp_sum(search.matches);
    uint32_t ruled_blocks = warp_sum(search.ruled_blocks), ruled_documents = warp_sum(search.ruled_documents);
    if (lane_id() == 0) {
        PartitionedWork* work = all_work + query.number;
        atomicAdd(&work->scored, uint64_t(scored));
        atomicAdd(&work->decoded, uint64_t(search.decoded));
        atomicAdd(&work->matches, uint64_t(matches));
        atomicAdd(&work->ruled_blocks, uint64_t(ruled_blocks));
        atomicAdd(&work->ruled_documents, uint64_t(ruled_documents));
    }
}

// A kernel for a codec.
#define PARTITIONED_KERNEL(name, Codec, Choice)                                                                                                            \
    extern "C" __global__ void __launch_bounds__(CODEC_WARPS * WARP, 2)                                                                                    \
        name(Segment segment, Values values, const PartitionedQuery* queries, uint32_t first_query, uint32_t whole, const PartitionedTerm* terms,          \
             uint64_t* words, PartitionedWork* work, uint64_t* out_keys, uint32_t* out_counts, uint32_t stride, uint64_t* global_keys, uint32_t capacity,  \
             uint32_t* global_cursors, uint32_t most_terms, uint32_t homogeneous, uint32_t policy) {                                                       \
        prune<Codec, Choice>(segment, values, queries, first_query, whole, terms, words, work, out_keys, out_counts, stride, global_keys, capacity,        \
                             global_cursors, most_terms, homogeneous, policy);                                                                             \
    }

#include "partitioned_codecs.cuh"
