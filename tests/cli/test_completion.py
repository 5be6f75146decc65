"""Completion, as the shells themselves do it where they are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from mlcheck.cli import main
from mlcheck.cli.parser import build_parser
from mlcheck.cli.words import commands_of, options_of

Out = pytest.CaptureFixture[str]
COMMANDS = commands_of(build_parser())


def script(capsys: Out, shell: str) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def bash(text: str, *words: str) -> set[str]:
    """What bash offers for the last of the words."""
    line = " ".join(f"'{word}'" for word in ("mlcheck", *words))
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _mlcheck; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "--norc", "-c", f"{text}\n{asked}"], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


@needs_bash
def test_bash_offers_commands(capsys: Out) -> None:
    text = script(capsys, "bash")
    assert bash(text, "") == {*COMMANDS, "--help", "--version"}
    assert bash(text, "re") == {name for name in COMMANDS if name.startswith("re")}


@needs_bash
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_bash_offers_every_option_of_a_command(capsys: Out, command: str) -> None:
    offered = bash(script(capsys, "bash"), command, "--")
    assert offered == set(options_of(COMMANDS[command]))


@needs_bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("lint", "--format", "sa"), {"sarif"}),
        (("lint", "--select", "missing-zero"), {"missing-zero-grad"}),
        (("explain", "softmax-before"), {"softmax-before-ce"}),
        (("rules", "--severity", ""), {"error", "warning", "note"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("lint", "--output", ""), set()),
        (("lint", "src"), set()),
    ],
)
def test_bash_offers_what_an_option_takes(capsys: Out, words: tuple[str, ...], offered: set[str]) -> None:
    assert bash(script(capsys, "bash"), *words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_option_is_forgotten(capsys: Out, shell: str) -> None:
    text = script(capsys, shell)
    for name, command in COMMANDS.items():
        assert name in text
        for option in options_of(command):
            assert (f"-l {option[2:]}" if shell == "fish" else option) in text, f"{name} {option}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(capsys: Out, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-n"], input=script(capsys, shell), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
