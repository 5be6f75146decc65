"""Near duplicates across splits: copies in another guise, and sound data whose samples look alike."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from probe_programs import ask, says, trial_on
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "splits-nearly-overlap"


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def split(x: Tensor, share: float = 0.25, seed: int = 0) -> Trial:
    """Rows of `x` in two parts, at random."""
    order = torch.randperm(len(x), generator=draws(seed))
    held_out = int(share * len(x))
    return between(x[order[held_out:]], x[order[:held_out]])


def between(training: Tensor, validation: Tensor) -> Trial:
    labels = [torch.arange(len(part)) % 2 for part in (training, validation)]
    return trial_on(TensorDataset(training, labels[0]), TensorDataset(validation, labels[1]))


def digits(rows: int = 700) -> Tensor:
    return torch.as_tensor(load_digits().data[:rows]).float().reshape(-1, 1, 8, 8) / 16


def photographs(count: int = 160, side: int = 32) -> Tensor:
    """Pictures with a natural spectrum: amplitude falls with frequency."""
    tint = 0.3 * torch.randn(count, 3, side, side, generator=draws(4))
    noise = torch.randn(count, 1, side, side, generator=draws(3)) + tint
    rate = torch.fft.fftfreq(side)
    falling = 1 / (rate[:, None] ** 2 + rate[None] ** 2 + 1 / side**2).sqrt()
    pictures = torch.fft.ifft2(torch.fft.fft2(noise) * falling).real
    return (pictures - pictures.amin((1, 2, 3), True)) / (
        pictures.amax((1, 2, 3), True) - pictures.amin((1, 2, 3), True)
    )


def test_another_look_at_every_picture() -> None:
    looks = torch.cat([digits(), 1.03 * digits() + 0.01 * torch.randn(700, 1, 8, 8, generator=draws())])
    says(ask(RULE, split(looks)), Outcome.WARN, "nearly equal one of")


def test_a_small_table_whose_held_out_rows_are_training_rows_with_a_little_noise() -> None:
    table = torch.as_tensor(load_breast_cancer().data[:190]).float()
    table = (table - table.mean(0)) / table.std(0)
    copies = table[:48] + 0.01 * torch.randn(48, 30, generator=draws())
    says(ask(RULE, between(table[:140], copies)), Outcome.WARN, "nearly equal one of")
    says(ask(RULE, between(table[:140], table[140:])), Outcome.PASS)


def as_jpeg(picture: Tensor) -> Tensor:
    file = io.BytesIO()
    Image.fromarray((255 * picture).byte().permute(1, 2, 0).numpy()).save(file, "JPEG", quality=80)
    return torch.as_tensor(np.array(Image.open(file))).permute(2, 0, 1) / 255


GUISES: dict[str, Any] = {
    "noise": lambda x: (x + 0.02 * torch.randn(x.shape, generator=draws(1))).clamp(0, 1),
    "darker, less contrast": lambda x: 0.6 * x + 0.05,
    "another encoding": lambda x: torch.stack([as_jpeg(picture) for picture in x]),
}


@pytest.mark.parametrize("guise", GUISES)
def test_pictures_in_another_guise(guise: str) -> None:
    pictures = photographs()
    verdict = ask(RULE, between(pictures[:120], torch.cat([pictures[120:], GUISES[guise](pictures)[:80]])))
    says(verdict, Outcome.WARN, "80 of 120 validation samples nearly equal one of 120", "is almost training sample")
    assert [figure.kind for figure in verdict.figures] == ["images", "table"]


def test_digits_and_rows_with_a_little_noise() -> None:
    low = digits()
    noisy = low[:60] + 0.01 * torch.randn(60, 1, 8, 8, generator=draws(1))
    says(ask(RULE, between(low[:500], torch.cat([low[500:], noisy]))), Outcome.WARN, "60 of 260")
    rows = torch.randn(500, 20, generator=draws())
    says(ask(RULE, between(rows[:400], torch.cat([rows[400:], rows[:30] * 1.001]))), Outcome.WARN, "30 of 130")


def graphs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Adjacency matrices of few edges, of which many are alike, and the features of their nodes."""
    upper = (torch.rand(count, 18, 18, generator=draws(seed)) < 0.008).float().triu(1)
    return upper + upper.transpose(1, 2), torch.randn(count, 18, 8, generator=draws(seed + 1))


def test_graphs_with_the_same_edges_are_told_apart_by_their_nodes() -> None:
    edges, nodes = graphs(600, 0)
    held_out = graphs(150, 5)
    labels = torch.arange(600) % 2
    known = TensorDataset(edges, nodes, labels)
    assert ask(RULE, trial_on(known, TensorDataset(*held_out, labels[:150]))).outcome is Outcome.PASS
    noisy = nodes[:150] + 0.02 * torch.randn(150, 18, 8, generator=draws(9))
    copies = TensorDataset(edges[:150] + 0.001 * torch.randn(150, 18, 18, generator=draws(8)), noisy, labels[:150])
    assert ask(RULE, trial_on(known, copies)).outcome is Outcome.WARN


class Rolled(Dataset[Any]):
    """Pictures that are moved by a pixel at random, or left where they are."""

    def __init__(self, pictures: Tensor) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        down, right = torch.randint(-1, 2, (2,)).tolist()
        return self.pictures[index].roll((down, right), (1, 2)), index % 2


def test_twins_of_samples_that_are_augmented_when_they_are_read() -> None:
    low = digits()
    noisy = low[:80] + 0.01 * torch.randn(80, 1, 8, 8, generator=draws(1))
    labels = torch.arange(280) % 2
    mixed = trial_on(Rolled(low[:500]), TensorDataset(torch.cat([low[500:], noisy]), labels))
    says(ask(RULE, mixed), Outcome.WARN, "of 280 validation samples nearly equal one of 500")
    apart = trial_on(Rolled(low[:500]), TensorDataset(low[500:], labels[:200]))
    assert ask(RULE, apart).outcome is not Outcome.WARN


def windows(series: Tensor, length: int = 32, stride: int = 1) -> Tensor:
    return series.unfold(0, length, stride)


def text(length: int, seed: int = 0) -> Tensor:
    """Words of a small vocabulary, as characters."""
    words = [torch.randint(26, (int(n),), generator=draws(9)) for n in torch.randint(2, 9, (400,), generator=draws(8))]
    order = torch.randint(400, (length,), generator=draws(seed))
    return torch.cat([torch.cat([words[int(i)], torch.tensor([26])]) for i in order])


def test_windows_that_were_cut_before_the_split() -> None:
    walk = torch.randn(900, generator=draws()).cumsum(0)
    says(
        ask(RULE, split(windows(walk))), Outcome.WARN, "hold a stretch of 8 values", "windows of the two splits overlap"
    )
    says(ask(RULE, split(windows(text(200), 64))), Outcome.WARN, "hold a stretch of 32 values")


def phrases(length: int, seed: int) -> Tensor:
    """Sentences of one pattern, as characters: whole phrases come again and again."""
    rng = random.Random(seed)
    names, deeds = ["fox", "hen", "miller", "widow", "goat"], ["followed", "thanked", "carried"]
    told = (f"the {rng.choice(names)} {rng.choice(deeds)} the {rng.choice(names)} " for _ in range(length))
    return torch.tensor([ord(letter) for letter in "".join(told)])


def test_windows_of_a_text_that_repeats_itself_little_and_overlap() -> None:
    words = torch.randint(26, (400, 5), generator=draws())
    says(ask(RULE, split(windows(words[:, :4].flatten(), 40, 3))), Outcome.WARN, "hold a stretch of 20 values")
    story = words[torch.randint(400, (600,), generator=draws(1))].flatten()
    says(ask(RULE, split(windows(story, 40, 3))), Outcome.WARN, "hold a stretch of 20 values")


def noisy_waves(rows: int, seed: int) -> Tensor:
    """Some with hardly any noise: those are nearer to each other than the others are, one nearer than the next."""
    generator = draws(seed)
    kind = torch.randint(1, 5, (rows, 1), generator=generator)
    clean = (kind * torch.linspace(0, 6.28, 48) + 6.28 * torch.rand(rows, 1, generator=generator)).sin()
    return clean + 1.2 * torch.rand(rows, 1, generator=generator) * torch.randn(rows, 48, generator=generator)


def test_copies_among_samples_of_unlike_noise() -> None:
    training, validation = noisy_waves(2400, 0), noisy_waves(400, 1)
    says(ask(RULE, between(training, validation)), Outcome.PASS)
    validation[:30] = training[:30] + 0.003 * torch.randn(30, 48, generator=draws(5))
    says(ask(RULE, between(training, validation)), Outcome.WARN, "of 400 validation samples nearly equal")


def wave(length: int) -> Tensor:
    return (torch.arange(length) * 0.26).sin()


def shapes() -> Tensor:
    """A square somewhere in a picture: two degrees of freedom."""
    pictures = torch.zeros(600, 1, 16, 16)
    for picture, (row, column) in zip(pictures, torch.randint(12, (600, 2), generator=draws())):
        picture[0, row : row + 4, column : column + 4] = 1
    return pictures + 0.01 * torch.randn(600, 1, 16, 16, generator=draws(1))


def bags() -> Tensor:
    return torch.poisson(torch.logspace(-3, 0, 40).expand(500, 40), generator=draws())


def one_hot() -> Tensor:
    return torch.cat([torch.eye(12)[torch.randint(12, (500,), generator=draws(k))] for k in range(3)], dim=1)


def measured_and_one_hot() -> Tensor:
    """Three measurements and a day of the week: a row is no sequence, and its zeros are every row's."""
    days = torch.eye(7)[torch.randint(7, (600,), generator=draws(1))]
    return torch.cat([torch.randn(600, 3, generator=draws()), days], dim=1)


def padded_ids() -> Tensor:
    ids = torch.randint(1, 500, (500, 64), generator=draws())
    return ids.masked_fill(torch.arange(64) >= torch.randint(20, 30, (500, 1), generator=draws(1)), 0)


def short_sentences() -> Tensor:
    """Few words, many of them ending alike, and an end of sentence before the padding."""
    ids = torch.randint(2, 9, (500, 64), generator=draws())
    ends = torch.randint(6, 10, (500, 1), generator=draws(1))
    places = torch.arange(64)
    return ids.masked_fill(places == ends, 1).masked_fill(places > ends, 0)


def counted() -> Tensor:
    """Few values in each column, each in units of its own: rows are often alike in some columns side by side."""
    counts = torch.poisson(torch.linspace(0.2, 1.0, 30).expand(1500, 30), generator=draws())
    return (counts - counts.mean(0)) / counts.std(0)


def chronological() -> Trial:
    walk = torch.randn(1200, generator=draws()).cumsum(0)
    return between(windows(walk[:900]), windows(walk[900 - 32 :]))


SOUND = {
    "digits": lambda: split(digits(900)),
    "digits in small steps of grey": lambda: split((digits(900) * 4).round() / 4),
    "breast cancer": lambda: split(torch.as_tensor(load_breast_cancer().data).float()),
    "diabetes": lambda: split(torch.as_tensor(load_diabetes().data).float()),
    "photographs": lambda: split(photographs(400)),
    "word counts": lambda: split(bags()),
    "counts in columns": lambda: split(counted()),
    "one-hot": lambda: split(one_hot()),
    "measurements and one-hot": lambda: split(measured_and_one_hot()),
    "ids behind which zeros stand": lambda: split(padded_ids()),
    "short sentences that are padded": lambda: split(short_sentences()),
    "a square in a picture": lambda: split(shapes()),
    "chronological windows": chronological,
    "windows of separate series": lambda: between(*(windows(torch.randn(n).cumsum(0)) for n in (500, 400))),
    "windows of separate texts": lambda: between(windows(text(200), 64), windows(text(200, 1), 64)),
    "phrases that come again": lambda: between(*(windows(phrases(500, s), stride=32) for s in (0, 1))),
    "windows of one wave": lambda: between(windows(wave(600)), windows(wave(900)[600:])),
    "tokens": lambda: split(torch.randint(30, (500, 12), generator=draws())),
    "blank": lambda: split(torch.zeros(300, 1, 16, 16)),
    "two columns": lambda: split(torch.rand(800, 2, generator=draws())),
    "six columns": lambda: split(torch.rand(800, 6, generator=draws())),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_samples_that_look_alike_for_good_reason(name: str) -> None:
    verdict = ask(RULE, SOUND[name]())
    assert verdict.outcome is not Outcome.WARN, verdict.summary


def measured(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, 10, generator=draws(seed))


@pytest.mark.parametrize("units", [1.0, 1e6], ids=["one far value", "one column in other units"])
def test_one_column_does_not_hide_copies_in_the_others(units: float) -> None:
    training, validation = measured(600, 1), measured(200, 2)
    validation[:60] = training[:60] + 0.01 * measured(60, 3)
    for part in (training, validation):
        part[:, 4] *= units
    training[300, 4] = 1e9
    says(ask(RULE, between(training, validation)), Outcome.WARN, "60 of 200 validation samples")
    apart = measured(200, 5)
    apart[:, 4] *= units
    says(ask(RULE, between(training, apart)), Outcome.PASS)


def tiles(stride: int, turned: bool = False, blank: bool = False) -> list[Tensor]:
    """Tiles of 24 x 24 out of one large picture, or shapes on nothing that are moved about."""
    large = torch.nn.functional.avg_pool2d(torch.randn(1, 1, 264, 264, generator=draws(6)), 3, 1, 1)[0]
    if blank:
        large = torch.zeros(1, 264, 264)
        shape = torch.rand(1, 12, 12, generator=draws(7))
        for row in range(0, 240, 24):
            for column in range(0, 240, 24):
                y, x = row + row // 24, column + column // 24
                large[:, y : y + 12, x : x + 12] = shape
    cut = [large[:, y : y + 24, x : x + 24] for y in range(0, 241, stride) for x in range(0, 241, stride)]
    return [tile.rot90(index % 4, (1, 2)) if turned else tile for index, tile in enumerate(cut)]


@pytest.mark.parametrize("turned", [False, True])
def test_tiles_that_overlap_and_were_split_at_random(turned: bool) -> None:
    verdict = ask(RULE, split(torch.stack(tiles(12, turned))))
    says(verdict, Outcome.WARN, "validation pictures lie over a training picture")


def test_tiles_side_by_side_and_shapes_that_are_moved_about() -> None:
    assert ask(RULE, split(torch.stack(tiles(24)), share=0.35)).outcome is not Outcome.WARN
    verdict = ask(RULE, split(torch.stack(tiles(24, blank=True)), share=0.35))
    assert "lie over" not in verdict.summary


def test_a_split_by_numbers_of_numpy() -> None:
    """As of a cross-validation: the report names samples, and goes through JSON as plain numbers."""
    pictures = photographs()
    folds = [np.arange(120), np.arange(120, 240)]
    whole = TensorDataset(torch.cat([pictures[:120], GUISES["noise"](pictures)[:120]]), torch.zeros(240))
    training, validation = (DataLoader(whole, 20, sampler=SubsetRandomSampler(fold)) for fold in folds)
    trial = between(pictures[:120], pictures[120:])
    trial.loaders = {"training": training, "validation": validation}
    verdict = ask(RULE, trial)
    says(verdict, Outcome.WARN, "120 of 120 validation samples")
    assert json.dumps([figure.data for figure in verdict.figures if figure.kind == "table"])


def test_rows_of_few_levels_that_meet_by_chance() -> None:
    """Parts of small pictures in 17 levels: many a run of five is elsewhere, and the other way round."""
    x = torch.tensor(load_digits().images, dtype=torch.float32)[:, 2:6, 2:6].reshape(-1, 16)
    assert ask(RULE, split(x)).outcome is not Outcome.WARN
