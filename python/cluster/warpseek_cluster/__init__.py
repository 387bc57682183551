"""Starts, watches and restarts the nodes of a warpseek cluster on Ray.

Queries never pass through Ray: the aggregator calls the nodes directly. Nodes are separate
processes that outlive the actors watching them.
"""
