// Looks back from a tile at words that the tiles before it have published, for tests of
// `look_back.cuh`. If blocks run one after another, a tile would otherwise never see others that
// know only their own sums.
#include "look_back.cuh"

// One thread for each tile but the first.
extern "C" __global__ void look_back_threads(const uint32_t* states, uint32_t stride, uint32_t tiles, uint32_t* out) {
    const uint32_t tile = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (tile < tiles) out[tile] = look_back<4>(states, stride, tile);
}

// One warp, for one tile.
extern "C" __global__ void look_back_warp(uint32_t* states, uint32_t tile, uint32_t sum, uint32_t* out) {
    const uint32_t before = warp_look_back(states, tile, sum);
    if (lane_id() == 0) out[tile] = before;
}
