"""The list of nodes that the supervisor writes for aggregators."""

import pytest

pytest.importorskip("ray")

from warpseek_cluster.actors import _address, _read_nodes, _unknown  # noqa: E402


def test_a_node_of_which_nothing_was_heard_stays_in_the_list():
    key, listed = (3, 1, 7), {(3, 1, 7): "host1:9300"}
    unknown = _unknown(key)
    assert _address(unknown, listed) == "host1:9300"
    assert _address(_unknown((3, 0, 7)), listed) == ""
    # Its watcher has found the process, which has not answered yet, or does not answer now.
    assert _address(unknown | {"address": "host1:9300", "adopted": True}, listed) == "host1:9300"
    assert _address(unknown | {"address": "host1:9300", "was_ready": True, "problem": "it did not answer 1 times"}, listed) == "host1:9300"
    # Another process was started, which is not ready.
    started = unknown | {"address": "host1:9301", "starts": 1}
    assert _address(started, listed) == ""
    assert _address(started | {"was_ready": True}, listed) == "host1:9301"


def test_the_list_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "web.nodes"
    assert _read_nodes(file) == {}
    file.write_text(
        "# nodes of web, 2 shards\n# shard 0, replica 0, version 12\nhost1:9300\n# shard 1, replica 3, version 12\n[::1]:9301\n"
    )
    assert _read_nodes(file) == {(0, 0, 12): "host1:9300", (1, 3, 12): "[::1]:9301"}
    for other in (b"host1:9300\nhost2:9300\n", b"# shard 0, replica 0, version 1\n# shard 1, replica 0, version 1\n", b"\xff\xfe\n", b""):
        file.write_bytes(other)
        assert _read_nodes(file) == {}
