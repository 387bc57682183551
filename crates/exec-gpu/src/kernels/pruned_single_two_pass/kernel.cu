// Pruning for a single query, in two passes.
//
// All windows run at once, without thresholds from earlier windows. Therefore they go over their postings twice, first over those that can contribute
// three quarters of the largest possible score; what that pass finds is a threshold for the second.
#include "pruned_single.cuh"

ALONE(pruned_single_two_pass, 2)
