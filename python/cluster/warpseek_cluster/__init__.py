"""Starts, watches and restarts the nodes of a warpseek cluster, on Ray.

Queries never pass through Ray: an aggregator asks the nodes, which are processes of their own and outlive the actors that watch them.
"""
