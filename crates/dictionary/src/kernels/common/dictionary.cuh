// A dictionary of words on the device (docs/reference/formats/words.md): the arrays of its file.
// The host has checked them, so the code here does not.
#pragma once

#include "types.cuh"

// Must equal `Node` and `Child` on the host.
struct DictionaryNode {
    uint32_t starts[8];
    uint8_t before[8];
    uint32_t first_child;
    uint32_t end;
};

struct DictionaryChild {
    uint32_t first;
    uint32_t target;
};

// Ids from `first` to before `end`.
struct DictionaryIds {
    uint32_t first;
    uint32_t end;
};

// Must equal `OnDevice` on the host. One thread looks up one word. A word is anything with bytes
// under [0] to [length - 1]: a pointer, or a type that computes them on access.
struct Dictionary {
    const DictionaryNode* nodes;
    const DictionaryChild* children;
    const uint8_t* buckets;
    uint32_t words;
    uint32_t unused;

    // The id of all words that are not in the dictionary.
    __device__ __forceinline__ uint32_t unknown() const { return words; }

    template <class Bytes>
    __device__ __forceinline__ uint32_t look_up(const Bytes& word, uint32_t length) const {
        if (length == 0) return unknown();
        const Reached at = descend(word, length);
        if (at.bucket == nullptr) {
            // The string of a node is a word if the node's first id is not that of its first
            // child.
            return at.node != NOWHERE && __ldg(&children[__ldg(&nodes[at.node].first_child)].first) != at.first ? at.first : unknown();
        }
        const Found found = seek(at.bucket, word, at.depth, length);
        return found.whole ? at.first + found.number : unknown();
    }

    // The ids of the words that begin with a string; an empty range if there are none.
    template <class Bytes>
    __device__ __forceinline__ DictionaryIds prefix(const Bytes& string, uint32_t length) const {
        const Reached at = descend(string, length);
        if (at.bucket == nullptr) {
            if (at.node == NOWHERE) return {0, 0};
            return {at.first, __ldg(&nodes[at.node].end)};
        }
        const Found found = seek(at.bucket, string, at.depth, length);
        if (found.number == NOWHERE) return {0, 0};
        Entries entries(at.bucket);
        uint32_t end = found.number + 1;
        for (uint32_t i = 0; i < entries.count; i++) {
            const Entry entry = entries.next(i);
            if (i <= found.number) continue;
            if (entry.shared < length - at.depth) break;
            end++;
        }
        return {at.first + found.number, at.first + end};
    }

private:
    static constexpr uint32_t NOWHERE = 0xffffffffu;
    static constexpr uint32_t INNER = 1u << 31;
    static constexpr uint32_t ESCAPE = 15;

    // Result of `descend`: a bucket, in which to seek the bytes from `depth` on; or a node, at
    // the end of the string; or neither.
    struct Reached {
        const uint8_t* bucket;
        uint32_t node;
        uint32_t depth;
        uint32_t first;
    };

    struct Entry {
        uint32_t shared;
        uint32_t length;
        const uint8_t* tail;
    };

    // The words of a bucket. Heads are next to each other, so that reading one does not wait for
    // the one before.
    struct Entries {
        uint32_t count;
        const uint8_t* heads;
        const uint8_t* tails;

        __device__ __forceinline__ explicit Entries(const uint8_t* bucket) : count(__ldg(bucket)), heads(bucket + 1), tails(bucket + 1 + count) {}

        // Must be called once for each i, in order.
        __device__ __forceinline__ Entry next(uint32_t i) {
            const uint32_t head = __ldg(heads + i);
            uint32_t shared = head >> 4, further = head & 15;
            if (shared == ESCAPE) shared = __ldg(tails++);
            if (further == ESCAPE) further = __ldg(tails++);
            const Entry entry = {shared, further + 1, tails};
            tails += entry.length;
            return entry;
        }
    };

    // The first word of a bucket that begins with the wanted bytes, and true if it ends with
    // them.
    struct Found {
        uint32_t number;
        bool whole;
    };

    template <class Bytes>
    __device__ __forceinline__ Reached descend(const Bytes& string, uint32_t length) const {
        uint32_t node = 0, first = 0;
        for (uint32_t depth = 0; depth < length; depth++) {
            const uint32_t byte = string[depth], element = byte / 32, bit = byte % 32;
            const DictionaryNode* at = nodes + node;
            // Keep the bits up to that of the byte.
            const uint32_t starts = __ldg(&at->starts[element]) & (FULL_WARP >> (31 - bit));
            const uint32_t upto = __ldg(&at->before[element]) + __popc(starts);
            if (upto == 0) return {nullptr, NOWHERE, depth, 0};
            const DictionaryChild* child = children + (__ldg(&at->first_child) + upto - 1);
            const uint32_t target = __ldg(&child->target);
            first = __ldg(&child->first);
            if ((target & INNER) == 0) return {buckets + target, NOWHERE, depth, first};
            // All words of a child that is a node begin with the same byte.
            if (starts >> bit == 0) return {nullptr, NOWHERE, depth, 0};
            node = target & ~INNER;
        }
        return {nullptr, node, length, first};
    }

    // Seeks the bytes of `string` from `from` on, of which there is at least one.
    template <class Bytes>
    __device__ __forceinline__ static Found seek(const uint8_t* bucket, const Bytes& string, uint32_t from, uint32_t length) {
        Entries entries(bucket);
        const uint32_t wanted = length - from;
        // Length of the common prefix of the wanted bytes and the last word compared, which is
        // smaller.
        uint32_t matched = 0;
        for (uint32_t i = 0; i < entries.count; i++) {
            const Entry entry = entries.next(i);
            // The word differs from the one before only after the byte that made that one
            // smaller.
            if (entry.shared > matched) continue;
            // The word is greater than the one before within the bytes that matched.
            if (entry.shared < matched) break;
            uint32_t same = 0, sought = 0, has = 0;
            while (matched < wanted && same < entry.length) {
                sought = string[from + matched];
                has = __ldg(entry.tail + same);
                if (sought != has) break;
                matched++;
                same++;
            }
            if (matched == wanted) return {i, same == entry.length};
            if (same < entry.length && sought < has) break;
        }
        return {NOWHERE, false};
    }
};
