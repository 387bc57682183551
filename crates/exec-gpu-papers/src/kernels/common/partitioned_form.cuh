// Queries, terms, counters and cursors of WAND and MaxScore. The host has the same in
// `kernels/partitioned.rs`.
#pragma once

// Maximum number of warps of a block of threads: with the registers that the kernels take, twice
// as many fit on a multiprocessor.
#define CODEC_WARPS 10

#include "lists.cuh"

struct PartitionedTerm {
    CompressedList list;
    float weight;
    uint32_t most;  // the most that a posting of the list contributes
    uint32_t unused[2];
};

constexpr uint32_t ALL_TERMS = 1;   // AND
constexpr uint32_t EXHAUSTIVE = 2;  // matches are counted, so nothing may be skipped
constexpr uint32_t BLOCK_MAXIMA = 4;  // the maxima of blocks are known, and used to skip

// A query in one segment. Its terms are in ascending order of `most`.
struct PartitionedQuery {
    uint32_t first_term;
    uint32_t terms;
    uint32_t k;
    uint32_t flags;
    uint32_t partitions;
    uint32_t per_block;   // partitions that a block of threads takes
    uint32_t first_slot;  // of the hits of its blocks
    uint32_t number;      // of its thresholds and counters
    float static_weight;
    uint32_t static_most;  // the most that a static score adds
    uint64_t least;  // all hits have larger keys
};

// The policies by which blocks of threads share what they know about the k-th best key (Gaioso
// 2019, section 4.4.1). The words of a query are the largest k-th best key of a block, and the
// largest middle key (the key that half of k keys reach) of blocks with even and with odd
// numbers. All of them only rise, and each bound derived from them is a lower bound of the
// query's k-th best key at every moment, so it does not matter when they are read, or that each
// is read separately. For the first word this is clear. If a block with an even number and one
// with an odd number have half of k keys each, these belong to different documents, so k
// documents reach the smaller of the two middle keys.
enum Policy : uint32_t { LOCAL = 0, SAFE_READ = 1, SAFE_WRITE_READ = 2 };
constexpr uint32_t POLICY_WORDS = 3;

// Counters of a query. Block maxima ruled out blocks of essential lists, and documents that waited
// to be looked up.
struct PartitionedWork {
    uint64_t scored, decoded, matches, ruled_blocks, ruled_documents;
};

// The cursor of a query's list.
struct Cursor {
    uint32_t docs[BLOCK_LEN];   // documents of the decoded block,
    uint32_t added[BLOCK_LEN];  // and what its postings contribute
    // the next posting's document, or an earlier one if the list has just entered the partition;
    // NO_DOC at the end
    uint32_t doc;
    uint32_t block;      // its block
    uint32_t held;       // the decoded block,
    uint32_t valued;     // and the block whose contributions are known
    uint32_t len;        // postings of the decoded block that count
    uint32_t first;      // the partition's first posting,
    uint32_t end;        // and the one after its last
    uint32_t essential;  // set if the list is essential
    uint32_t reached;    // the last block whose maximum was considered
    uint32_t unused[3];  // so that the same words of eight lists are in different banks
};
constexpr uint32_t CURSOR_WORDS = sizeof(Cursor) / sizeof(uint32_t);
