"""Collections that tests share.

Tests of missing collections of ../shared/data are skipped by name.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

import warpseek

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT.parent / "shared" / "data" / "collections"


class Collection:
    def __init__(self, folder: pathlib.Path):
        self.corpus = folder / "corpus.jsonl"
        self.queries_file = folder / "queries.tsv"
        self.qrels_file = folder / "qrels.tsv"
        self.documents = [json.loads(line) for line in self.corpus.read_text().splitlines()]
        lines = [line.split("\t", 1) for line in self.queries_file.read_text().splitlines()]
        self.query_ids = [line[0] for line in lines]
        self.queries = [line[1] for line in lines]


@pytest.fixture(scope="session")
def scifact() -> Collection:
    folder = COLLECTIONS / "scifact"
    if not folder.exists():
        pytest.skip("the collection scifact is not there")
    return Collection(folder)


@pytest.fixture(scope="session")
def scifact_index(scifact, tmp_path_factory):
    return warpseek.Index.build(scifact.corpus, tmp_path_factory.mktemp("scifact") / "index")


@pytest.fixture(scope="session")
def program() -> str:
    """Runs the command line, to compare with it."""
    path = os.environ.get("WARPSEEK_PROGRAM")
    if not path:
        pytest.skip("WARPSEEK_PROGRAM does not name the program warpseek")
    return path


@pytest.fixture()
def run_program(program):
    def run(*arguments: object) -> str:
        command = [program, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
