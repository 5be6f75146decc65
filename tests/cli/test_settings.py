"""What the command line, the config and an experiment's YAML say together; no probe runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcheck.cli.parser import parse
from mlcheck.cli.settings import lint_paths, lint_settings, probe_options, repeating
from mlcheck.config import Config, load_config
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report.digest import repeat_command


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str = "") -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def options(*words: str, config: Config | None = None):  # type: ignore[no-untyped-def]
    cut = words.index("--") if "--" in words else len(words)
    arguments = parse(["probe", *words[:cut]])
    arguments.script_arguments = words[cut + 1 :]
    return probe_options(arguments, config or Config()), repeating(arguments)


def test_an_experiment_names_its_entry_point() -> None:
    write("experiment.yaml", "entrypoint: model_def:Trial\nhyperparameters: {lr: 0.1}\n")
    write("model_def.py")
    found, again = options("--config", "experiment.yaml")
    assert (found.entry, found.folder, found.config) == ("model_def:Trial", ".", "experiment.yaml")
    assert again == ("--config", "experiment.yaml")


def test_its_module_is_looked_for_beside_it() -> None:
    write("trials/experiment.yaml", "entrypoint: model_def:Trial\n")
    write("trials/model_def.py")
    found, _ = options("--config", "trials/experiment.yaml")
    assert (found.entry, found.folder) == ("model_def:Trial", "trials")
    write("configs/experiment.yaml", "entrypoint: pack.trial:Trial\n")
    write("pack/trial.py")
    found, _ = options("--config", "configs/experiment.yaml")
    assert (found.entry, found.folder) == ("pack.trial:Trial", ".")


def test_an_entry_point_that_is_given_is_the_later_word() -> None:
    write("experiment.yaml", "entrypoint: model_def:Trial\n")
    found, _ = options("other:Trial", "--config", "experiment.yaml")
    assert found.entry == "other:Trial"


def test_a_config_that_is_given_is_a_later_word_than_the_table() -> None:
    write("experiment.yaml", "entrypoint: model_def:Trial\n")
    table = Config(entry="table:Trial", config="other.yaml")
    found, _ = options("--config", "experiment.yaml", config=table)
    assert (found.entry, found.config) == ("model_def:Trial", "experiment.yaml")


def test_the_entry_of_the_table_goes_with_the_config_of_the_table() -> None:
    write("experiment.yaml", "entrypoint: model_def:Trial\n")
    found, _ = options(config=Config(entry="table:Trial", config="experiment.yaml"))
    assert (found.entry, found.config) == ("table:Trial", "experiment.yaml")
    found, _ = options(config=Config(config="experiment.yaml"))
    assert found.entry == "model_def:Trial"


def test_a_launch_command_names_its_program_and_its_arguments() -> None:
    write(
        "runs/experiment.yaml", "entrypoint: python3 -m determined.launch.torch_distributed python3 train.py --lr 1\n"
    )
    write("runs/train.py")
    found, _ = options("--config", "runs/experiment.yaml")
    assert (found.entry, found.arguments, found.folder) == ("train.py", ("--lr", "1"), "runs")
    found, _ = options("--config", "runs/experiment.yaml", "--", "--lr", "2")
    assert found.arguments == ("--lr", "2")
    found, _ = options(config=Config(config="runs/experiment.yaml"))
    assert (found.entry, found.arguments, found.folder) == ("train.py", ("--lr", "1"), "runs")
    found, _ = options(config=Config(config="runs/experiment.yaml", arguments=("--lr", "3")))
    assert found.arguments == ("--lr", "3")


def test_of_a_script_with_one_trial_that_trial_is_probed() -> None:
    write("experiment.yaml", "entrypoint: python3 train.py\n")
    write("train.py", "from determined.pytorch import PyTorchTrial\nclass T(PyTorchTrial): pass\n")
    assert options("--config", "experiment.yaml")[0].entry == "train.py:T"


@pytest.mark.parametrize(
    "entrypoint",
    ["sh train.sh", "torchrun train.py", "python3 train.py --data $DATA", "[a, b]", "3", "''", "python3 -c 'import a'"],
)
def test_another_command_is_no_entry_point(entrypoint: str) -> None:
    write("experiment.yaml", f"entrypoint: {entrypoint}\n")
    assert options("--config", "experiment.yaml")[0] is None
    assert options("--config", "experiment.yaml", config=Config(entry="table:Trial"))[0].entry == "table:Trial"


@pytest.mark.parametrize(
    ("text", "told"), [("a: [", "not valid YAML"), ("a: !!python/object/apply:os.getcwd []", "not valid YAML")]
)
def test_what_is_no_yaml_is_one_sentence(text: str, told: str) -> None:
    write("experiment.yaml", text)
    with pytest.raises(Mistake, match=told) as caught:
        options("--config", "experiment.yaml")
    assert "\n" not in str(caught.value)


def test_a_missing_config_is_one_sentence() -> None:
    with pytest.raises(Mistake, match=r"gone\.yaml: cannot be read: No such file"):
        options("--config", "gone.yaml")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("a:T",), "mlcheck probe a:T --only r"),
        (("a:T", "--config", "e x.yaml"), "mlcheck probe a:T --config 'e x.yaml' --only r"),
        (("a:T", "--hp", "lr=1", "--hp", "b=2"), "mlcheck probe a:T --hp lr=1 --hp b=2 --only r"),
        (("a:T", "--seed", "0", "--prep", "p:f"), "mlcheck probe a:T --prep p:f --seed 0 --only r"),
        (("t.py", "--", "--lr", "1"), "mlcheck probe t.py --only r -- --lr 1"),
        ((), "mlcheck probe table:Trial --only r"),
    ],
)
def test_the_command_to_repeat_a_probe_is_the_one_that_was_given(words: tuple[str, ...], command: str) -> None:
    write("e x.yaml")
    found, again = options(*words, config=Config(entry="table:Trial"))
    result = Result("r", "T", Stage.DATA, Severity.ERROR, By.PROBE, Outcome.FAIL)
    assert repeat_command(result, Report("probe", found.entry, (result,), arguments=again)) == command


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-4", 1e-4),
        ("1.5E3", 1500.0),
        ("3", 3),
        ("010", 10),
        ("true", True),
        ("no", "no"),
        ("null", None),
        ("", None),
        ("resnet18", "resnet18"),
        ("'3'", "3"),
        ("[1, 2e-1]", [1, 0.2]),
        ("{a: 1}", {"a": 1}),
        ("[1", "[1"),
        ("a=b", "a=b"),
    ],
)
def test_values_of_hyperparameters_are_read_like_those_of_a_config(written: str, value: object) -> None:
    found = options("a:T", "--hp", f"net.x={written}")[0].hyperparameters["net.x"]
    assert found == value
    assert type(found) is type(value)


def test_lint_takes_the_table_and_the_command_line() -> None:
    write(
        "pyproject.toml",
        '[tool.mlcheck]\npaths = ["src"]\nignore = ["a"]\nextend-select = ["b"]\ntarget-torch = "2.10"\n'
        'baseline = "known.json"\ncache-dir = "kept"\n',
    )
    config = load_config()
    plain = lint_settings(parse(["lint"]), config)
    assert (plain.ignore, plain.extend_select, plain.target_torch) == (("a",), ("b",), "2.10")
    assert (plain.baseline, plain.cache) == ("known.json", "kept")
    words = ["lint", "--ignore", "x,y", "--ignore", "z", "--extend-select", "c", "--target-torch", "2.12"]
    given = lint_settings(parse([*words, "--baseline", "mine.json", "--no-cache"]), config)
    assert (given.ignore, given.extend_select, given.target_torch) == (("x", "y", "z", "a"), ("c", "b"), "2.12")
    assert (given.baseline, given.cache) == ("mine.json", "")
    assert lint_paths([], config) == ("src",)
    assert lint_paths(["a.py"], config) == ("a.py",)
    assert given.pinned_torch == ""
    write("requirements.txt", "torch==1.13.0+cu117\n")
    assert lint_settings(parse(["lint"]), load_config()).pinned_torch == "1.13.0"


def test_a_project_that_is_linted_from_elsewhere_pins_its_torch() -> None:
    write("one/requirements.txt", "torch==1.13.0\n")
    write("one/train.py")
    write("two/requirements.txt", "torch==2.4.1\n")
    for given, pinned in (["one"], "1.13.0"), (["one/train.py"], "1.13.0"), (["one", "two"], ""), (["none"], ""):
        assert lint_settings(parse(["lint", *given]), load_config()).pinned_torch == pinned


def test_ranks_are_two_or_more(project: Path) -> None:
    write("train.py")
    assert options("train.py", "--ranks", "4")[0].ranks == 4
    assert options("train.py")[0].ranks == 0
    with pytest.raises(Mistake, match="between 2 and 16 processes"):
        options("train.py", "--ranks", "1")
