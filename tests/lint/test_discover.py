"""Which files a path stands for, and what an import would call them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mlcheck.lint.files.discover import MissingPath, discover
from mlcheck.lint.files.gitignore import is_ignored, parse_pattern


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def paths(*given: str) -> list[str]:
    return [file.path for file in discover(given).files]


def modules(*given: str) -> dict[str, str]:
    return {file.path: file.module for file in discover(given).files}


def test_folder_is_walked_in_order_and_only_python_and_notebooks_are_taken(project: Path) -> None:
    write(
        project, "z.py", "a.py", "m.ipynb", "notes.md", "b/y.py", "b/c/x.py", "data.pyc", ".ipynb_checkpoints/m.ipynb"
    )
    assert paths(".") == ["a.py", "m.ipynb", "z.py", "b/y.py", "b/c/x.py"]


def test_paths_stay_as_given(project: Path) -> None:
    write(project, "b/y.py")
    assert paths("b") == ["b/y.py"]
    assert paths("./b/") == ["b/y.py"]
    assert paths(str(project)) == [str(project / "b/y.py")]


def test_file_given_twice_is_taken_once(project: Path) -> None:
    write(project, "a.py", "b.py")
    assert paths("b.py", ".", "./b.py") == ["b.py", "a.py"]


def test_named_file_is_taken_whatever_it_is(project: Path) -> None:
    write(project, "train", ".hidden/x.py", "ignored.py")
    write(project, ".gitignore", text="ignored.py\n")
    (project / ".git").mkdir()
    assert paths("train", ".hidden/x.py", "ignored.py") == ["train", ".hidden/x.py", "ignored.py"]


def test_missing_path_is_one_sentence(project: Path) -> None:
    with pytest.raises(MissingPath, match=r"^nowhere\.py: no such file or folder$"):
        discover(["nowhere.py"])


@pytest.mark.parametrize(
    "name",
    [
        *(".git/x.py", "__pycache__/x.py", "node_modules/p/x.py", "lib/site-packages/x.py", "build/lib/x.py"),
        *("dist/x.py", "._a.py"),
    ],
)
def test_what_is_not_source_is_left_out(project: Path, name: str) -> None:
    write(project, "a.py", name)
    assert paths(".") == ["a.py"]


def test_package_called_dist_is_source(project: Path) -> None:
    write(project, "dist/__init__.py", "dist/sampler.py")
    assert paths(".") == ["dist/__init__.py", "dist/sampler.py"]


def test_virtual_environments_are_left_out_whatever_their_name(project: Path) -> None:
    write(project, "a.py", "my_env/pyvenv.cfg", "my_env/x.py", "conda/conda-meta/history", "conda/x.py")
    assert paths(".") == ["a.py"]


def test_folder_named_on_the_command_line_is_walked_even_inside_an_environment(project: Path) -> None:
    write(project, "venv/pyvenv.cfg", "venv/lib/site-packages/pkg/x.py")
    assert paths("venv/lib/site-packages/pkg") == ["venv/lib/site-packages/pkg/x.py"]


def test_links_cannot_make_the_walk_endless(project: Path) -> None:
    write(project, "a.py", "b/y.py")
    (project / "b" / "loop").symlink_to(project)
    (project / "self").symlink_to("self")
    (project / "gone.py").symlink_to("nowhere.py")
    (project / "own.py").symlink_to("own.py")
    (project / "linked.py").symlink_to("a.py")
    assert paths(".") == ["a.py", "linked.py", "b/y.py"]


def test_linked_folder_that_is_given_is_walked(project: Path) -> None:
    write(project, "b/y.py")
    (project / "link").symlink_to("b")
    assert paths("link") == ["link/y.py"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_folder_that_cannot_be_listed_is_told(project: Path) -> None:
    write(project, "a.py", "closed/x.py")
    (project / "closed").chmod(0)
    found = discover(["."])
    (project / "closed").chmod(0o755)
    assert [file.path for file in found.files] == ["a.py"]
    assert found.notices == ["./closed: cannot be listed: Permission denied"]


def test_odd_file_names_are_only_names(project: Path) -> None:
    odd = ["ümlaut.py", "two words.py", "dots.in.name.py", "new\nline.py"]
    write(project, *odd)
    assert sorted(paths(".")) == sorted(odd)


def test_package_is_named_from_its_outermost_init(project: Path) -> None:
    write(project, "work/pkg/__init__.py", "work/pkg/sub/__init__.py", "work/pkg/sub/net.py", "work/pkg/__main__.py")
    assert modules(".") == {
        "work/pkg/__init__.py": "pkg",
        "work/pkg/__main__.py": "pkg.__main__",
        "work/pkg/sub/__init__.py": "pkg.sub",
        "work/pkg/sub/net.py": "pkg.sub.net",
    }
    assert modules("work/pkg/sub/net.py") == {"work/pkg/sub/net.py": "pkg.sub.net"}


def test_src_of_a_project_is_no_part_of_the_name(project: Path) -> None:
    write(project, "pyproject.toml", "src/tool.py", "src/pkg/__init__.py", "src/pkg/net.py")
    assert modules(".") == {"src/tool.py": "tool", "src/pkg/__init__.py": "pkg", "src/pkg/net.py": "pkg.net"}


def test_src_that_is_imported_by_that_name_keeps_it(project: Path) -> None:
    write(project, "train.py", "src/net.py")
    assert modules(".") == {"train.py": "train", "src/net.py": "src.net"}


def test_plain_folders_are_named_from_what_the_given_paths_share(project: Path) -> None:
    write(project, "one/train.py", "one/models/net.py", "two/train.py")
    assert modules("one") == {"one/train.py": "train", "one/models/net.py": "models.net"}
    assert modules("one", "two") == {
        "one/train.py": "one.train",
        "one/models/net.py": "one.models.net",
        "two/train.py": "two.train",
    }
    assert modules("one/train.py", "one/models/net.py") == modules("one")


def test_init_at_the_top_of_the_given_folder(project: Path) -> None:
    write(project, "pkg/__init__.py", "pkg/net.py")
    os.chdir(project / "pkg")
    assert modules(".") == {"__init__.py": "pkg", "net.py": "pkg.net"}


GITIGNORE = r"""
# comment
*.gen.py
/only_top.py
cache/
docs/*.py
**/deep/skip.py
tree/**
a/**/z.py
[x-y]?.py
!keep.gen.py
\#hash.py
spaced.py{spaces}
unclosed[.py
""".replace("{spaces}", "   ")
NAMES = [
    "a.gen.py", "keep.gen.py", "sub/b.gen.py", "only_top.py", "sub/only_top.py", "cache/c.py", "sub/cache/c.py",
    "docs/d.py", "docs/in/d.py", "deep/skip.py", "p/q/deep/skip.py", "tree/t.py", "tree/u/t.py", "a/z.py", "a/b/c/z.py",
    "x1.py", "z1.py", "#hash.py", "spaced.py", "plain.py", "sub/plain.py",
]  # fmt: skip


def test_gitignore_means_what_git_says(project: Path) -> None:
    write(project, *NAMES)
    write(project, ".gitignore", text=GITIGNORE)
    write(project, "sub/.gitignore", text="plain.py\n!b.gen.py\n")
    subprocess.run(["git", "init", "-q"], check=True)
    tracked = subprocess.run(
        ["git", "-c", "core.excludesFile=", "ls-files", "-zco", "--exclude-standard"], check=True, capture_output=True
    ).stdout.decode()
    expected = {name for name in tracked.split("\0") if name.endswith(".py")}
    assert set(paths(".")) == expected
    assert {"keep.gen.py", "sub/b.gen.py", "sub/only_top.py", "docs/in/d.py", "z1.py", "plain.py"} == expected


def test_gitignore_above_the_given_folder_counts(project: Path) -> None:
    write(project, "pkg/a.py", "pkg/a_pb2.py")
    write(project, ".gitignore", text="*_pb2.py\n")
    (project / ".git").mkdir()
    assert paths("pkg") == ["pkg/a.py"]


def test_gitignore_outside_the_repository_does_not_count(project: Path) -> None:
    write(project, "repo/a.py")
    write(project, ".gitignore", text="*.py\n")
    (project / "repo" / ".git").mkdir()
    assert paths("repo") == ["repo/a.py"]


def test_pattern_that_is_no_expression_is_ignored() -> None:
    assert parse_pattern("[z-a].py", "/p") is None
    assert parse_pattern("/", "/p") is None
    pattern = parse_pattern("a+b(c).py", "/p")
    assert pattern
    assert is_ignored("/p/a+b(c).py", False, (pattern,))


def test_what_a_repository_excludes_privately_is_left_out(project: Path) -> None:
    write(project, "a.py", "scratch/x.py", "kept/y.py")
    (project / ".git" / "info").mkdir(parents=True)
    (project / ".git" / "info" / "exclude").write_text("scratch/\nkept/\n", encoding="utf-8")
    (project / ".gitignore").write_text("!kept/\n", encoding="utf-8")
    assert paths(".") == ["a.py", "kept/y.py"]
    assert paths("kept") == ["kept/y.py"]


def test_packages_of_one_name_in_two_programs_are_told_apart(project: Path) -> None:
    write(project, "one/data/__init__.py", "one/data/a.py", "two/data/__init__.py", "two/data/a.py")
    named = {file.path: file.module for file in discover(["one", "two"]).files}
    assert named["one/data/a.py"] == "data.a"
    assert named["two/data/a.py"] == "two.data.a"


def test_a_file_that_is_not_saved_yet_is_taken(project: Path) -> None:
    write(project, "pkg/__init__.py", "pkg/a.py")
    found = discover(["pkg/a.py"], unsaved="pkg/new.py").files
    assert [(file.path, file.module) for file in found] == [("pkg/a.py", "pkg.a"), ("pkg/new.py", "pkg.new")]
    assert [file.path for file in discover(["pkg"], unsaved="pkg/a.py").files] == ["pkg/__init__.py", "pkg/a.py"]
