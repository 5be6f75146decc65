"""Entry points that work, and one clear sentence for each that does not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.ranks.alone import ONE_OF_ONE
from mlcheck.trial.traceback import user_frame, user_traceback
from mlcheck.trial.trial import EntryError

Write = Callable[[str, str], Path]

FUNCTION = """
import torch
{imports}
def build(width=3):
    model = torch.nn.Linear(width, 1)
    data = torch.utils.data.TensorDataset(torch.randn(4, width), torch.zeros(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, torch.nn.MSELoss(), torch.utils.data.DataLoader(data, batch_size=2)
NUMBER = 3
class Net(torch.nn.Linear): pass
class Plain: pass
class LightningModule(torch.nn.Module): pass
class Lit(LightningModule): pass
"""


def test_a_module_of_the_working_folder(write: Write) -> None:
    write("train.py", FUNCTION.format(imports=""))
    trial = load_trial("train:build")
    assert (trial.name, trial.entry) == ("build", ("train.py", 4))


def test_a_module_in_a_package_with_relative_imports(write: Write) -> None:
    write("package/__init__.py", "")
    write("package/other.py", "X = 1")
    write("package/train.py", FUNCTION.format(imports="from .other import X"))
    assert load_trial("package.train:build").entry == ("package/train.py", 4)
    with pytest.raises(EntryError, match=r"relative imports.*: name it `package\.train:build`$"):
        load_trial("package/train.py:build")


def test_a_file_finds_the_modules_beside_it(write: Write, tmp_path: Path) -> None:
    write("deep/helper.py", "X = 1")
    write("deep/train.py", FUNCTION.format(imports="from helper import X"))
    assert load_trial("deep/train.py:build").entry == ("deep/train.py", 4)
    assert load_trial(f"{tmp_path}/deep/train.py:build").entry == (f"{tmp_path}/deep/train.py", 4)


def test_a_file_named_like_a_standard_module_hides_nothing(write: Write) -> None:
    write("queue.py", FUNCTION.format(imports=""))
    load_trial("queue.py:build")
    import queue

    assert queue.Queue is not None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("train", "train ended without a training step: .*, or name the trial or function in it that trains"),
        ("train:", "`train:` names no entry point"),
        (":build", "`:build` names no entry point"),
        ("trian:build", "there is no module `trian` in .*; did you mean `train`?"),
        ("train.deeper:build", "there is no module `train.deeper`"),
        ("trian.py:build", "there is no file trian.py; did you mean `train.py`?"),
        ("no/such/file.py:build", "there is no file no/such/file.py"),
        ("train:biuld", "there is no `biuld` in .*train.py; did you mean `build`?"),
        ("train.py:biuld", "there is no `biuld` in .*train.py; did you mean `build`?"),
        ("train:NUMBER", "`train:NUMBER` is an object of type int, which cannot be driven: an entry point is a script"),
        ("train:Net", "`train:Net` requires `in_features`, and there is no config"),
        ("train:Plain", "`train:Plain` is the class Plain, which cannot be driven"),
        ("train:Lit", "`train:Lit` has no train_dataloader, and beside it must be one LightningDataModule"),
        ("trian.py", "there is no file trian.py; did you mean `train.py`?"),
        ("train:torch", "`train:torch` is a module, which cannot be driven"),
    ],
)
def test_a_wrong_entry_point_is_one_sentence(write: Write, entry: str, message: str) -> None:
    write("train.py", FUNCTION.format(imports=""))
    with pytest.raises(EntryError, match=message.replace("?", r"\?")) as caught:
        load_trial(entry)
    assert "\n" not in str(caught.value)


HEAD = """
from determined.pytorch import *
import torch, determined as det
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class T(PyTorchTrial): pass", "does not define __init__, train_batch, build_training_data_loader"),
        (
            "class T(PyTorchTrial):\n    def __init__(self, context): ...\n    def build_model(self): ...\n",
            r"before 0\.13 \(build_model\)",
        ),
        (
            "class T(det.pytorch.PyTorchTrail): pass",
            r"no `determined\.pytorch\.PyTorchTrail`: did you mean `PyTorchTrial`",
        ),
        (
            "from determined.keras import TFKerasTrial as T",
            r"does not stand in for \(No module named 'determined\.keras'",
        ),
        ("from determined.pytorch import Nothing as T", r"does not stand in for .*Nothing"),
        (
            "T = det.experimental.Determined\nT()",
            r"calls `determined\.experimental\.Determined\(\)`: it needs a running",
        ),
        ("det.pytorch.init()", r"calls `determined\.pytorch\.init\(\)`: .* name the trial class"),
    ],
)
def test_what_determined_would_refuse_is_one_sentence(write: Write, source: str, message: str) -> None:
    write("model_def.py", HEAD + source)
    with pytest.raises(EntryError, match=message):
        load_trial("model_def:T")


TRIAL = (
    HEAD
    + """
class T(PyTorchTrial):
    def __init__(self, context{more}):
        self.context = context
        {init}
    def loader(self):
        rows = torch.utils.data.TensorDataset(torch.ones(2))
        return DataLoader(rows, batch_size=self.context.get_per_slot_batch_size())
    build_training_data_loader = build_validation_data_loader = loader
    def train_batch(self, batch, epoch_idx, batch_idx):
        {train}
    {evaluate}
"""
)


def trial_text(init: str = "pass", train: str = "return {}", evaluate: str = "", more: str = "") -> str:
    evaluate = evaluate or "def evaluate_batch(self, batch): return {'v': 1.0}"
    return TRIAL.format(init=init, train=train, evaluate=evaluate, more=more)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (trial_text("context.wrap_mode(None)"), "no `PyTorchTrialContext.wrap_mode`: did you mean `wrap_model`"),
        (trial_text("context.unheard_of"), "no `PyTorchTrialContext.unheard_of`: if Determined has it"),
        (trial_text("context.experimental.use_amb()"), r"experimental\.use_amb`: did you mean `use_amp`"),
        (trial_text(more=", extra"), "requires `extra`"),
        (trial_text(evaluate="x = 1"), "exactly one of evaluate_batch and evaluate_full_dataset"),
        (trial_text("context.get_hparam('lr')"), "the hyperparameter `lr`, which is not in e.yaml: add `lr` under"),
        (
            trial_text("context.get_hparams()['opt']['b']"),
            "`opt.b`, which is not in e.yaml: add `b` under `opt`; it has `a`",
        ),
        (trial_text("context.configure_apex_amp([], [])"), "needs NVIDIA apex"),
    ],
)
def test_what_the_trial_asks_in_vain_is_one_sentence(write: Write, source: str, message: str) -> None:
    write("model_def.py", source)
    config = write("e.yaml", "hyperparameters: {global_batch_size: 2, opt: {a: 1}}").relative_to(Path.cwd())
    with pytest.raises(EntryError, match=message) as caught:
        load_trial("model_def:T", EntryOptions(config=config))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (trial_text(train="return None"), "train_batch.. must return a dict of metrics or one tensor, not NoneType"),
        (trial_text(evaluate="def evaluate_batch(self, batch): return 1.0"), "evaluate_batch.. must return a dict"),
        (
            trial_text(evaluate="def evaluate_batch(self, batch, batch_idx): return {str(batch_idx): 1.0}"),
            "the same metrics for every batch",
        ),
    ],
)
def test_a_wrong_return_value_is_one_sentence(write: Write, source: str, message: str) -> None:
    write("model_def.py", source)
    trial = load_trial("model_def:T", EntryOptions(hparams={"global_batch_size": 1}))
    assert trial.evaluate_step is not None
    (one, two) = trial.train_batches()

    def drive() -> None:
        assert trial.evaluate_step is not None
        trial.train_step(one, 0)
        trial.evaluate_step(one)
        trial.evaluate_step(two)

    with pytest.raises(EntryError, match=message):
        drive()


def test_a_missing_hyperparameter_is_still_what_determined_raises(write: Write) -> None:
    write(
        "model_def.py",
        trial_text("""
        try: context.get_hparam("lr")
        except ValueError: self.fell_back = True
        try: context.get_hparams()["lr"]
        except KeyError: self.fell_back_again = True"""),
    )
    trial = load_trial("model_def:T", EntryOptions(hparams={"global_batch_size": 1}))
    assert trial.objects[0].fell_back
    assert trial.objects[0].fell_back_again


def test_without_a_config_the_sentence_says_so(write: Write) -> None:
    write("model_def.py", trial_text("context.get_hparam('lr')"))
    with pytest.raises(EntryError, match="`lr`, and there is no config: give the experiment's YAML"):
        load_trial("model_def:T")
    write("other.py", trial_text("context.get_experiment_config()"))
    with pytest.raises(EntryError, match="none was given: name its YAML file"):
        load_trial("other:T")


def test_without_a_config_those_that_lie_there_are_named(write: Write) -> None:
    write("model_def.py", trial_text("context.get_hparam('lr')"))
    write("const.yaml", "hyperparameters: {lr: 0.1}")
    write("compose.yaml", "services: {}")
    write("broken.yml", "{")
    with pytest.raises(EntryError, match=r"give the experiment's YAML \(--config const.yaml\), or a value"):
        load_trial("model_def:T")


def raised(entry: str) -> BaseException:
    try:
        load_trial(entry)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_in_the_users_module_is_theirs(write: Write) -> None:
    path = write("broken.py", "import helper\n")
    write("helper.py", "def go():\n    import not_installed_anywhere\ngo()\n")
    error = raised("broken:build")
    assert isinstance(error, ModuleNotFoundError)
    text = user_traceback(error)
    assert text.splitlines()[1].strip() == f'File "{path}", line 1, in <module>'
    assert "mlcheck" not in text.replace(str(path.parent), "")
    assert "importlib" not in text
    assert user_frame(error.__traceback__) == (str(path.parent / "helper.py"), 2)


def test_a_constructor_that_raises_is_theirs(write: Write) -> None:
    path = write("model_def.py", trial_text("raise OSError('disk')"))
    error = raised("model_def:T")
    assert isinstance(error, OSError)
    line = path.read_text().splitlines().index("        raise OSError('disk')") + 1
    assert user_traceback(error).splitlines()[:2] == [
        "Traceback (most recent call last):",
        f'  File "{path}", line {line}, in __init__',
    ]


def test_an_error_under_the_context_shows_the_users_call(write: Write) -> None:
    write("model_def.py", trial_text(train="self.context.backward(batch[0].sum())"))
    trial = load_trial("model_def:T", EntryOptions(hparams={"global_batch_size": 1}))
    with pytest.raises(RuntimeError) as caught:
        trial.train_step(next(trial.train_batches()), 0)
    text = user_traceback(caught.value)
    assert "self.context.backward(batch[0].sum())" in text
    assert "/mlcheck/" not in text


def test_what_a_launcher_did_not_tell_is_no_cause_of_a_later_error(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ONE_OF_ONE:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    write("train.py", 'import os\nrank = int(os.environ["RANK"])\nraise OSError(f"no disk for rank {rank}")\n')
    text = user_traceback(raised("train.py"))
    assert "no disk for rank 0" in text
    assert "KeyError" not in text


def test_causes_are_cut_as_well(write: Write) -> None:
    write(
        "model_def.py",
        trial_text("""
        try: {}["x"]
        except KeyError as error: raise ValueError("y") from error"""),
    )
    text = user_traceback(raised("model_def:T"))
    assert text.count("Traceback (most recent call last)") == 2
    assert "direct cause" in text
    assert "find.py" not in text


def test_a_syntax_error_shows_its_line(write: Write) -> None:
    write("broken.py", "def build(:\n    pass\n")
    error = raised("broken:build")
    assert isinstance(error, SyntaxError)
    assert "broken.py" in user_traceback(error)


def test_prep_runs_before_the_import_and_sees_the_modules_beside_it(write: Write) -> None:
    write("deep/helper.py", "X = 'downloaded'")
    write("deep/train.py", FUNCTION.format(imports="from helper import X\nassert X == 'made'"))
    write("prep.py", "def go():\n    import helper\n    helper.X = 'made'\nvalue = 3\n")
    load_trial("deep/train.py:build", EntryOptions(prep="prep.py:go"))
    with pytest.raises(EntryError, match=r"the prep `prep\.py:value` must be a function"):
        load_trial("deep/train.py:build", EntryOptions(prep="prep.py:value"))


@pytest.mark.parametrize(("options", "config", "seed"), [({"seed": 5}, 7, 5), ({}, 7, 7), ({}, None, 0)])
def test_everything_is_seeded(write: Write, options: dict[str, int], config: int | None, seed: int) -> None:
    text = trial_text("self.drawn = (random.random(), numpy.random.rand(), torch.rand(1).item())")
    write("model_def.py", "import random, numpy" + text)
    path = write("e.yaml", f"reproducibility: {{experiment_seed: {config}}}" if config else "{}")
    hparams = {"global_batch_size": 1}
    drawn = load_trial("model_def:T", EntryOptions(config=path, hparams=hparams, **options)).objects[0].drawn
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


def test_an_unknown_device_is_one_sentence(write: Write) -> None:
    write("train.py", FUNCTION.format(imports=""))
    with pytest.raises(EntryError, match="`gpu` is no device"):
        load_trial("train:build", EntryOptions(device="gpu"))
