// Intersection on lists of one codec (see intersect.cuh), separate from the others because they
// take long to compile.
#include "codec_rice.cuh"
#include "intersect.cuh"

INTERSECT(rice, Rice)
