"""Threads, processes, signals and memory."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import warpseek
from warpseek import Index


def _search(index, query):
    return index.search(query).ids, index.search_many([query] * 300).ids.tolist()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_processes(scifact_index, method):
    expected = _search(scifact_index, "gene expression")
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        answers = [pool.apply_async(_search, (scifact_index, "gene expression")) for _ in range(4)]
        # The child would wait forever for threads that the fork has not copied.
        assert [answer.get(timeout=120) for answer in answers] == [expected] * 4
    assert _search(scifact_index, "gene expression") == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_inherits_an_open_index(scifact_index):
    expected = _search(scifact_index, "gene expression")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            same = _search(scifact_index, "gene expression") == expected
            os.write(write, b"same" if same else b"different")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == b"same"
    os.waitpid(child, 0)


def _build_and_change(path):
    index = Index.build([{"id": str(i), "text": f"apple {i}"} for i in range(500)], path)
    index.add({"id": "new", "text": "plum"})
    index.commit()
    return index.search("plum").ids, len(index), index.verify()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_build_and_change_indexes(tmp_path, scifact_index, method):
    """The parent's threads search at the same time, except before a fork: a forked child inherits
    the locks of threads that it does not have.
    """
    busy = threading.Event()
    if method == "fork":
        busy.set()

    def work():
        while not busy.is_set():
            scifact_index.search_many(["gene expression"] * 100)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        with multiprocessing.get_context(method).Pool(2) as pool:
            paths = [os.fspath(tmp_path / str(i)) for i in range(4)]
            built = [pool.apply_async(_build_and_change, (path,)) for path in paths]
            assert [one.get(timeout=120) for one in built] == [(["new"], 501, [])] * 4
    finally:
        busy.set()
        thread.join()


def _fuzzy(index, query):
    return [hit.id for hit in index.ngram_search(query)]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ngrams_in_processes(method):
    index = Index.build(["The Eiffel Tower stands in Paris.", "The tower of London"], ngrams=3)
    expected = _fuzzy(index, "Eifel tower")
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(_fuzzy, (index, "Eifel tower")).get(timeout=120) == expected


def test_searches_leave_the_interpreter_to_others(scifact, scifact_index):
    turns, done = 0, threading.Event()
    # All queries differ, since equal ones are answered only once. This takes seconds.
    queries = [f"{query} w{i}" for i in range(20) for query in scifact.queries]

    def work():
        scifact_index.search_many(queries, 100)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        turns += 1
        time.sleep(0.001)
    thread.join()
    assert turns > 5


INTERRUPTED = """
import itertools, sys, warpseek
index = warpseek.Index.open(sys.argv[1])
try:
    print("ready", flush=True)
    if sys.argv[2] == "search":
        # One call that would take minutes.
        index.search_many([f"gene expression of the cell in mice w{i}" for i in range(300_000)], 1000)
    elif sys.argv[2] == "single":
        while True:
            index.search(" ".join(f"gene cell mice w{i}" for i in range(200)), 1000)
    else:
        warpseek.Index.build({"id": str(i), "text": "gene"} for i in itertools.count())
    print("ended", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("what", ["search", "single", "build"])
def test_ctrl_c(scifact_index, what):
    command = [sys.executable, "-c", INTERRUPTED, scifact_index.path, what]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        assert child.communicate(timeout=60)[0] == "interrupted\n" and child.returncode == 0
    finally:
        child.kill()


def _resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc to see memory")
def test_nothing_leaks(scifact_index):
    """Measures memory over thousands of searches in CI; WARPSEEK_SEARCHES sets their number."""
    searches = int(os.environ.get("WARPSEEK_SEARCHES", "20000"))
    index = Index.build(["apple pie", "plum tart", "apple tart"])
    try:
        import pyarrow as pa
    except ImportError:
        pa = None
    column = pa.array(["apple", "plum"] * 5) if pa else None

    def search(times):
        for _ in range(times // 100):
            for _ in range(50):
                index.search("apple").ids
            index.search_many(["apple", "plum"] * 25).ids
            if pa:
                index.search_many(column).to_arrow().column("id").to_pylist()
            with pytest.raises(warpseek.QueryError):
                index.search("(", syntax=True)

    def reopen(times):
        for _ in range(times):
            Index.open(index.path, threads=2).search("apple")

    search(5000)
    reopen(100)
    before, files = _resident(), len(os.listdir("/proc/self/fd"))
    search(searches)
    reopen(1000)
    assert _resident() - before < 16 << 20
    assert len(os.listdir("/proc/self/fd")) == files


def test_writers_exclude_each_other_and_readers_go_on(tmp_path):
    index = Index.build([{"id": "0", "text": "apple"}], tmp_path / "index")
    failed = []

    def write(start):
        mine = Index.open(tmp_path / "index")
        for i in range(start, start + 5):
            mine.add({"id": str(i), "text": "apple"})
            while True:
                try:
                    mine.commit()
                    break
                except warpseek.LockedError:
                    time.sleep(0.005)
                except Exception as error:
                    failed.append(error)
                    return

    threads = [threading.Thread(target=write, args=(start,)) for start in (100, 200)]
    [thread.start() for thread in threads]
    while any(thread.is_alive() for thread in threads):
        assert len(index.search("apple", 100)) >= 1
        index.refresh()
    [thread.join() for thread in threads]
    assert not failed
    index.refresh()
    assert len(index.search("apple", 100)) == 11
