// A query alone, with pruning, in two passes.
//
// All windows run at once, without thresholds from windows before them. So they go over their postings twice, first over those that may give three quarters of all there is to get;
// what that finds is a threshold for the second.
#include "pruned_single.cuh"

ALONE(pruned_single_two_pass, 2)
