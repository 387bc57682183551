// Queries, terms, counters and cursors of WAND and MaxScore; the host has the same in `partitioned/form.rs`.
#pragma once

// Warps of a block of threads at most: twice as many fit a multiprocessor with the registers that the kernels take.
#define CODEC_WARPS 10

#include "lists.cuh"

struct PartitionedTerm {
    CompressedList list;
    float weight;
    uint32_t most;  // no posting of the list contributes more
    uint32_t unused[2];
};

constexpr uint32_t ALL_TERMS = 1;   // AND
constexpr uint32_t EXHAUSTIVE = 2;  // matches are counted, so nothing may be skipped

// A query in one segment. Its terms stand in ascending order of `most`.
struct PartitionedQuery {
    uint32_t first_term;
    uint32_t terms;
    uint32_t k;
    uint32_t flags;
    uint32_t partitions;
    uint32_t per_block;   // partitions that a block of threads takes
    uint32_t first_slot;  // of its blocks' hits
    uint32_t number;      // of its thresholds and counters
    float static_weight;
    uint32_t static_most;  // no static score adds more
    uint32_t unused[2];
};

// How blocks of threads tell each other what they know of the k-th best key. Words of a query: the largest k-th best key of a block, and the largest
// middle key (the one that half of k keys reach) of blocks of even and of odd number. All only ever rise, and are a lower bound of the query's k-th best key at every
// moment: so it does not matter when they are read, nor that they are read one by one. For the first that is plain; if a block of even and one of odd number
// have half of k keys each, which are of different documents, k documents reach the lesser of the two middle keys.
enum Policy : uint32_t { LOCAL = 0, SAFE_READ = 1, SAFE_WRITE_READ = 2 };
constexpr uint32_t POLICY_WORDS = 3;

// Counters of a query.
struct PartitionedWork {
    uint64_t scored, decoded, matches;
};

// Where a list of a query stands.
struct Cursor {
    uint32_t docs[BLOCK_LEN];   // documents of the block that is decoded,
    uint32_t added[BLOCK_LEN];  // and what its postings add
    uint32_t doc;        // the next posting's document, or one before it where the list has just come to the partition; NO_DOC at the end
    uint32_t block;      // its block
    uint32_t held;       // the block that is decoded,
    uint32_t valued;     // and the one of which is known what its postings add
    uint32_t len;        // postings of the decoded block that count
    uint32_t first;      // the partition's first posting,
    uint32_t end;        // and the one behind its last
    uint32_t essential;  // whether it is
    uint32_t unused[4];  // so that the same words of eight lists are in different banks
};
constexpr uint32_t CURSOR_WORDS = sizeof(Cursor) / sizeof(uint32_t);
