//! A CUDA device without a GPU, for tests.
