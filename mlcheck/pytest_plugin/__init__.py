"""The checklist in pytest: `pytest --mlcheck`, `@pytest.mark.mlcheck(...)` and the `mlcheck` fixture.

Nothing of mlcheck but this file is imported until one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mlcheck.core.report import Result
    from mlcheck.pytest_plugin.fixture import Examiner

_RUNS = pytest.StashKey[Any]()
_MARKERS = (
    "mlcheck(entry, *, only, skip, config, ...): probe this entry point, one test a rule; also on all --mlcheck adds",
    "mlcheck_lint: what --mlcheck found reading the code",
    "mlcheck_probe: what --mlcheck saw running the entry point",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mlcheck", "pre-launch checklist for PyTorch")
    group.addoption(
        "--mlcheck",
        action="store_true",
        help="also lint the project and probe its entry point, as [tool.mlcheck] in pyproject.toml says",
    )
    parser.addini("mlcheck", "run as if --mlcheck were given", type="bool", default=False)
    parser.addini("mlcheck_only", "rules to probe, as in `mlcheck probe --only`", type="args", default=[])
    parser.addini("mlcheck_skip", "rules not to probe, as in `mlcheck probe --skip`", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    if config.getoption("mlcheck") or config.getini("mlcheck"):
        from mlcheck.pytest_plugin.collection import Collection

        config.pluginmanager.register(Collection(config, runs_of(config)), "mlcheck-collection")


def pytest_unconfigure(config: pytest.Config) -> None:
    kept = config.stash.get(_RUNS, None)
    if kept is not None:
        kept.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the others leave what they measured."""
    node.workerinput["mlcheck_shared"] = runs_of(node.config).share()


def runs_of(config: pytest.Config) -> Any:
    """The reports of this session, each made once."""
    if _RUNS not in config.stash:
        from mlcheck.pytest_plugin.runs import Runs

        config.stash[_RUNS] = Runs(getattr(config, "workerinput", {}).get("mlcheck_shared", ""))
    return config.stash[_RUNS]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("mlcheck")
    if marker is not None:
        from mlcheck.pytest_plugin.marker import parameters

        if "mlcheck_result" not in metafunc.fixturenames:
            metafunc.fixturenames.append("mlcheck_result")
        given, names = parameters(marker, metafunc.definition.nodeid, metafunc.config.rootpath)
        metafunc.parametrize("mlcheck_result", given, indirect=True, ids=names)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A marked test is decided whether or not it names the result: pytest drops a fixture that nothing names."""
    if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "mlcheck_result" in item.callspec.params:
        if "mlcheck_result" not in item.fixturenames:
            item.fixturenames.insert(0, "mlcheck_result")


@pytest.fixture
def mlcheck_result(request: pytest.FixtureRequest) -> Result:
    """What one probe of the marked entry point came to. Asking for it fails or skips the test with the evidence."""
    from mlcheck.pytest_plugin.marker import decided

    result: Result = decided(runs_of(request.config), *request.param)
    return result


@pytest.fixture
def mlcheck(request: pytest.FixtureRequest) -> Examiner:
    """Examines a model in a test: `mlcheck.probe(model, loader, loss).assert_passes("input-ignored")`."""
    from mlcheck.config import load_config
    from mlcheck.core.extras import PROBE_NEEDS, require
    from mlcheck.core.mistake import Mistake

    try:
        require("probe", PROBE_NEEDS)
        from mlcheck.pytest_plugin.fixture import Examiner

        return Examiner(load_config(str(request.config.rootpath)))
    except Mistake as mistake:
        pytest.fail(str(mistake), pytrace=False)
