"""What a repository holds that can be examined."""

import json
from pathlib import Path

import pytest

from mlcheck.survey import Candidate, survey

SCRIPT = "import torch\nloss.backward()\nif __name__ == '__main__':\n    main()\n"

ASKING = """\
import torch
class T(LightningModule): pass
class D(LightningDataModule):
    def __init__(self, k): pass
"""


def repository(root: Path, **files: str) -> Path:
    for path, text in files.items():
        file = root / path.replace("__", "/").replace("_py", ".py").replace("_yaml", ".yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\nclass T(PyTorchTrial): pass\n", [Candidate("a:T", "PyTorchTrial")]),
        ("import torch\nclass T(det.pytorch.PyTorchTrial): pass\n", [Candidate("a:T", "PyTorchTrial")]),
        ("import torch\nclass T(pl.LightningModule): pass\n", [Candidate("a:T", "LightningModule without data")]),
        (
            "import torch\nclass T(LightningModule): pass\nclass D(LightningDataModule): pass\n",
            [Candidate("a:T", "LightningModule")],
        ),
        (
            ASKING,
            [Candidate("a:T", "LightningModule that asks for arguments: --hp NAME=VALUE")],
        ),
        (
            "import lightning\nclass T(L.LightningModule):\n    def train_dataloader(self): pass\n",
            [Candidate("a:T", "LightningModule")],
        ),
        (
            "import lightning\nif __name__ == '__main__':\n    t = Trainer(\n        max_epochs=1)\n    t.fit(m)\n",
            [Candidate("a.py", "script")],
        ),
        (
            "from transformers import Trainer\ntrainer = Trainer(\n    model=m)\ntrainer.train()\n",
            [Candidate("a.py", "script")],
        ),
        ("import transformers\nclass OurTrainer(Base):\n    pass\nmodel.train()\ntrainer.train()\n", []),
        ("import transformers\nargs = Trainer(model=m)\nprint(args.model)\nmodel.train()\n", []),
        (
            "import lightning\nif __name__ == '__main__':\n    cli = LightningCLI(Model, Data)\n",
            [Candidate("a.py", "script")],
        ),
        (
            "import torch\ndef build(lr=1):\n    return {'model': 1, 'optimizer': 2, 'train_loader': 3, 'x': 4}\n",
            [Candidate("a:build", "function")],
        ),
        ("import torch\ndef build(lr):\n    return {'model': 1, 'optimizer': 2, 'train_loader': 3}\n", []),
        ("import torch\ndef build():\n    return {'model': 1}\n", []),
        (SCRIPT, [Candidate("a.py", "script")]),
        ("import torch\nfor batch in loader:\n    loss.backward()\n", [Candidate("a.py", "script")]),
        ("import torch\ndef step(loss):\n    loss.backward()\n", []),
        ("import torch\nif __name__ == '__main__':\n    main()\n", []),
        ("if __name__ == '__main__':\n    loss.backward()\n", []),
        ("import torch\ndef broken(:\n", []),
    ],
)
def test_what_a_file_offers(text: str, expected: list[Candidate], tmp_path: Path) -> None:
    assert list(survey(repository(tmp_path, a_py=text)).candidates) == expected


def test_an_experiment_names_the_trial_and_its_config(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        det__model_py="import torch\nclass T(PyTorchTrial): pass\n",
        det__const_yaml="entrypoint: model:T\n",
        other_yaml="entrypoint: python3 train.py --x y:z\n",
        bad_yaml="entrypoint: [\n",
    )
    first, second = survey(root).candidates
    assert first == Candidate("det/model.py:T", "experiment", "det/const.yaml")
    assert second == Candidate("det/model.py:T", "PyTorchTrial")


def test_the_likeliest_comes_first_and_tests_are_left_out(tmp_path: Path) -> None:
    root = repository(
        tmp_path, a_py=SCRIPT, deep__train_py=SCRIPT, tests__x_py=SCRIPT, test_train_py=SCRIPT, conftest_py=SCRIPT
    )
    assert [each.entry for each in survey(root).candidates] == ["deep/train.py", "a.py"]


def test_a_notebook_that_trains_comes_after_scripts(tmp_path: Path) -> None:
    for name, code in {"train": "import torch\nloss.backward()", "show": "import torch\nx = 1"}.items():
        cell = {"cell_type": "code", "source": code.splitlines(True)}
        (tmp_path / f"{name}.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    (tmp_path / "broken.ipynb").write_text("torch loss.backward()")
    found = survey(repository(tmp_path, a_py=SCRIPT))
    assert found.candidates == (Candidate("a.py", "script"), Candidate("train.ipynb", "notebook"))
    assert found.paths == (".",)


def test_paths_are_folders_or_the_root(tmp_path: Path) -> None:
    assert survey(repository(tmp_path, src__a_py="import torch\n", tools__b_py="x = 1\n")).paths == ("src",)
    assert survey(repository(tmp_path, run_py="import torch\n")).paths == (".",)
    assert survey(tmp_path / "tools").paths == (".",)


def test_a_script_may_train_by_way_of_what_it_imports(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        net__trainer_py="import torch\nfrom . import loop\n",
        net__loop_py="import torch\ndef run(loss):\n    loss.backward()\n",
        net__plain_py="import torch\n",
        projects__one_py="import torch\nfrom net.trainer import run\nif __name__ == '__main__':\n    run()\n",
        projects__two_py="import torch\nimport net.plain, two\nif __name__ == '__main__':\n    run()\n",
        projects__three_py="import torch\nimport one\nif __name__ == '__main__':\n    run()\n",
    )
    assert [found.entry for found in survey(root).candidates] == ["projects/one.py", "projects/three.py"]


def test_a_file_that_none_imports_may_run_without_a_guard(tmp_path: Path) -> None:
    text = "import torch\nimport steps\nloss.backward()\nfit(1)\n"
    root = repository(tmp_path, main_py=text, steps_py=text.replace("import steps\n", ""))
    assert [found.entry for found in survey(root).candidates] == ["main.py"]


def test_a_part_of_a_package_is_named_as_a_module(tmp_path: Path) -> None:
    guard = "\nif __name__ == '__main__':\n    run()\n"
    root = repository(
        tmp_path,
        net__a_py="import torch\nfrom .b import run\nloss.backward()" + guard,
        net__b_py="import torch\ndef run(): pass\n",
        net__beside_py="import torch\nimport b\nloss.backward()" + guard,
        net__trial_py="import torch\nfrom . import b\nclass T(PyTorchTrial): pass\n",
        **{"some-net__c_py": "import torch\nfrom . import b\nloss.backward()" + guard},
    )
    found = [found.entry for found in survey(root).candidates]
    assert found == ["net.trial:T", "net.a", "net/beside.py", "some-net/c.py"]
