"""Golden files: `golden("name", text)` compares with golden/name.txt; `pytest --update-golden` writes them, to be read before a commit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Every other test has its native calls shared out to three threads, however small their work; the others run on one. What is
    compared with the reference evaluator, with PyTorch or with golden files is so for both."""
    from shapescript.compiler.codegen.thread_count import asked_for

    shared = zlib.crc32(item.nodeid.encode()) % 2 == 0
    with asked_for(3, grain=1) if shared else asked_for(1):
        return (yield)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    def compare(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
        elif not path.exists():
            pytest.fail(f"{path} is missing; `pytest --update-golden` writes it")
        else:
            assert path.read_text("utf-8") == text

    return compare


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that compiled code is kept in: one of each worker's own, for the processes that tests start too."""
    folder = tmp_path_factory.mktemp("compiled", numbered=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHAPESCRIPT_CACHE_DIR", str(folder))
        for name in ("SHAPESCRIPT_CACHE", "SHAPESCRIPT_LOG"):
            patch.delenv(name, raising=False)
        yield folder


@pytest.fixture(scope="module", params=["native", "numpy"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The text PROGRAM of the test's module, loaded in each engine."""
    import shapescript

    path: Path = tmp_path_factory.mktemp(request.param) / "program.ss"
    path.write_text(request.module.PROGRAM)
    return shapescript.load(path, engine=request.param)


@pytest.fixture(scope="session")
def training() -> Any:
    """The training program's `run` after all passes."""
    from built_programs import train_mlp

    from shapescript.compiler.passes.pipeline import compile_entry

    return compile_entry(train_mlp(), "run", {})


@pytest.fixture(scope="session")
def train(training: Any) -> Any:
    """It, compiled for this machine."""
    from shapescript.compiler.codegen.program import compile_function
    from shapescript.compiler.codegen.target import host

    return compile_function(training, host())


@pytest.fixture(scope="session")
def forks() -> Iterator[Any]:
    """A `forked.Forks`: new processes that have loaded all and run nothing."""
    from forked import Forks

    forks = Forks()
    yield forks
    forks.close()
