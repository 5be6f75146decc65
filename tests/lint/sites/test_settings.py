"""Settings that the code writes out are constants; what may be set elsewhere is not."""

from __future__ import annotations

import pytest

from mlcheck.lint.files.source import Source, parse
from mlcheck.lint.program import Program
from mlcheck.lint.sites import UNKNOWN, Sites

CONFIG = """\
from dataclasses import dataclass, field
from typing import NamedTuple

SIZE = 64
LOADER = {"shuffle": False, "batch_size": SIZE}


@dataclass
class Loader:
    shuffle: bool = False
    batch_size: int = 32
    workers: int = field(default=4)
    seed: int


@dataclass
class Config(object):
    loader: Loader = field(default_factory=Loader)
    rate: float = 0.1


class Plain:
    shuffle = False


class Row(NamedTuple):
    shuffle: bool
    size: int = 3
"""

KEPT = """\
from config import Config


class Trainer:
    def __init__(self):
        self.cfg = Config()

    def run(self):
        f(self.cfg.rate)
"""
KNOWN = {
    "a dataclass made with its defaults": ("import config\ncfg = config.Loader()\nf(cfg.shuffle)", False),
    "by keyword": ("from config import Loader\ncfg = Loader(shuffle=True)\nf(cfg.shuffle)", True),
    "by place": ("from config import Row\nf(Row(True).shuffle)", True),
    "one within another": ("from config import Config\ncfg = Config()\nf(cfg.loader.workers)", 4),
    "a plain class": ("from config import Plain\nf(Plain.shuffle)", False),
    "an object of a plain class": ("from config import Plain\ncfg = Plain()\nf(cfg.shuffle)", False),
    "a constant of another file": ("from config import SIZE\nf(SIZE)", 64),
    "a constant of a module": ("import config as c\nf(c.SIZE)", 64),
    "a dictionary of another file": ("from config import LOADER\nf(LOADER['batch_size'])", 64),
    "OmegaConf": ("from omegaconf import OmegaConf\nc = OmegaConf.create({'a': {'b': 3}})\nf(c.a.b)", 3),
    "SimpleNamespace": ("from types import SimpleNamespace as S\nc = S(a=1)\nf(c.a)", 1),
    "handed to a function": ("from config import Loader\ndef g(cfg):\n    f(cfg.shuffle)\ng(Loader())", False),
    "a default": ("from config import Loader\ndef g(cfg=Loader()):\n    f(cfg.shuffle)\ng()", False),
    "kept by a class": (KEPT, 0.1),
    "two calls that agree": (
        "from config import Loader\ndef g(cfg):\n    f(cfg.shuffle)\ng(Loader())\ng(Loader(batch_size=1))",
        False,
    ),
}
OPEN = {
    "two calls that differ": "from config import Loader\ndef g(cfg):\n    f(cfg.shuffle)\ng(Loader())\ng(Loader(True))",
    "a call that nobody sees": "from config import Loader\ndef g(cfg):\n    f(cfg.shuffle)\ng(Loader())\nrun(g)",
    "set later": "from config import Loader\ncfg = Loader()\ncfg.shuffle = True\nf(cfg.shuffle)",
    "set by a string": "from config import Loader\ncfg = Loader()\nsetattr(cfg, word, 1)\nf(cfg.shuffle)",
    "set by a string, elsewhere": (
        "from config import Loader\ndef g(config, word):\n    setattr(config, word, 1)\ncfg = Loader()\n"
        "g(cfg, 'a')\nf(cfg.shuffle)"
    ),
    "an entry set": "from config import LOADER\nLOADER['shuffle'] = True\nf(LOADER['shuffle'])",
    "merged": "from config import Config\ncfg = Config()\ncfg.loader.update(x)\nf(cfg.loader.shuffle)",
    "from a command line": "import argparse\nargs = argparse.ArgumentParser().parse_args()\nf(args.shuffle)",
    "into a namespace": "from config import Loader\ncfg = Loader()\np.parse_args(namespace=cfg)\nf(cfg.shuffle)",
    "no default": "from config import Loader\ncfg = Loader(**more)\nf(cfg.seed)",
    "made by something else": "import tyro\nfrom config import Loader\ncfg = tyro.cli(Loader)\nf(cfg.shuffle)",
    "bound twice": "from config import Loader\ncfg = Loader()\nif x:\n    cfg = Loader(True)\nf(cfg.shuffle)",
    "a name that leads to itself": "cfg = cfg.loader\nf(cfg.shuffle)",
    "a global that is set": "from config import SIZE\nimport config\nconfig.SIZE = 3\nf(SIZE)",
}


def constant(text: str) -> object:
    """What the argument of the only call of `f` comes to."""
    files = [parse(f"{name}.py", code.encode(), name) for name, code in (("config", CONFIG), ("main", text))]
    sites = Sites(Program([file for file in files if isinstance(file, Source)]))
    (call,) = sites.files["main"].calls("f")
    return call.file.constant(call.node.args[0], call.context)


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_written_out_is_known(case: str) -> None:
    text, value = KNOWN[case]
    assert constant(text) == value


@pytest.mark.parametrize("case", OPEN)
def test_what_may_be_set_elsewhere_is_not(case: str) -> None:
    assert constant(OPEN[case]) is UNKNOWN
