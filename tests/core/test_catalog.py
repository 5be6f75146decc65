"""The catalogue finds pages by name, reads them late, and helps with a misspelt name."""

from pathlib import Path

import pytest

from mlcheck.core.catalog import Catalog, UnknownRule
from mlcheck.core.rule import BadPage

PAGE = '# A sentence\n```toml\nseverity = "error"\nby = ["lint"]\n```\nWhy.\n'


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    for name in ("training/missing-zero-grad", "training/train-not-restored", "data/label-noise"):
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PAGE, encoding="utf-8")
    (tmp_path / "data" / "notes.txt").write_text("not a page", encoding="utf-8")
    return tmp_path


def test_every_page_by_name(rules: Catalog) -> None:
    catalog = Catalog((rules,))
    assert [rule.name for rule in catalog] == ["label-noise", "missing-zero-grad", "train-not-restored"]
    assert "label-noise" in catalog
    assert "notes" not in catalog
    assert catalog["label-noise"] is catalog["label-noise"]


def test_a_page_is_not_opened_before_it_is_asked_for(rules: Catalog) -> None:
    (rules / "data" / "broken.md").write_text("no heading", encoding="utf-8")
    catalog = Catalog((rules,))
    assert catalog["label-noise"].title == "A sentence"
    with pytest.raises(BadPage):
        catalog["broken"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mising-zero-grad", "did you mean `missing-zero-grad`"),
        ("train_not_restored", "did you mean `train-not-restored`"),
        ("qqq", "see `mlcheck rules`"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(rules: Catalog, name: str, told: str) -> None:
    with pytest.raises(UnknownRule, match=told) as caught:
        Catalog((rules,))[name]
    assert f"`{name}`" in str(caught.value)


def test_a_later_folder_wins(rules: Catalog, tmp_path_factory: pytest.TempPathFactory) -> None:
    own = tmp_path_factory.mktemp("own")
    (own / "data").mkdir()
    (own / "data" / "label-noise.md").write_text(PAGE.replace("A sentence", "Our sentence"), encoding="utf-8")
    assert Catalog((rules, own))["label-noise"].title == "Our sentence"


def test_what_is_read_off_a_page_is_what_parsing_it_gives() -> None:
    catalog = Catalog()
    read = {name: (*catalog.heading(name), catalog.explains(name)) for name in catalog.paths}
    assert read == {rule.name: (rule.title, rule.stage, rule.severity, rule.explains) for rule in catalog}
