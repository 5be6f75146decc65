"""num-workers-zero: files are read and decoded in the process that trains, while the GPU waits."""

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Class
from mlcheck.lint.sites.data.loaders import LOADER, Loader, loaders
from mlcheck.lint.sites.origins import Origin

LOOKS_AT = "training loader"
WORDS = ("DataLoader",)
_READS = pattern(
    r"Image\.open|imread\(|np\.load\(|numpy\.load\(|torch\.load\(|torchaudio\.load|read_image|librosa\.load|sf\.read\("
    r"|\bopen\(|h5py|decode_|read_video|nib\.load|pydicom"
)
_FOLDERS = ("ImageFolder", "ImageNet", "DatasetFolder", "CocoDetection", "VOCSegmentation", "Cityscapes", "CelebA")


def check(facts: Facts) -> Iterator[Finding]:
    trained = [loader for loader in facts.sites.once(loaders) if loader.trained and loader.call.name == LOADER]
    facts.sites.seen[LOOKS_AT] = len(trained)
    for loader in trained:
        if loader.call.constant("num_workers", 5, 0) == 0 and _is_told_nothing(loader) and _reads_files(loader):
            yield Finding(
                "Files are read and decoded in the process that trains: the device waits for every batch",
                loader.call.place.location,
                help="`num_workers=4`, and more or fewer where that measures faster",
            )


def _is_told_nothing(loader: Loader) -> bool:
    return not any(keyword.arg is None for keyword in loader.call.node.keywords)


def _reads_files(loader: Loader) -> bool:
    """Whether each sample is certainly read from a file when it is asked for."""
    return bool(loader.data) and all(_reads(origin) for origin in loader.data)


def _reads(origin: Origin) -> bool:
    if origin.name.startswith("torchvision.datasets."):
        return origin.name.rpartition(".")[2] in _FOLDERS
    named = origin.file.resolve(getattr(origin.node, "func", None), origin.context)
    getter = named.find("__getitem__") if isinstance(named, Class) else None
    return getter is not None and _READS.search(getter.text) is not None
