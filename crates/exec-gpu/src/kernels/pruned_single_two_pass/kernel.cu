// Pruning for a single query, in two passes.
//
// All windows run at once, without thresholds from earlier windows. Therefore they read their
// postings twice, first those that can contribute three quarters of the largest possible score.
// The hits of that pass give a threshold for the second.
#include "pruned_single.cuh"

ALONE(pruned_single_two_pass, 2)
