"""Libraries whose objects change nothing about what their methods are given: `writer.add_graph(model, x)`."""

from mlcheck.lint.values import Object

_LIBRARIES = ("builtins.", "torch.", "torchvision.", "numpy.", "tensorboardX.", "wandb.", "tqdm.", "logging.")


def leaves_alone(owner: Object, name: str) -> bool:
    """Whether this method of a library does; `super().__init__(optimizer)` in a project class is one, too."""
    if owner.cls is None or name != "__init__":
        return owner.type.startswith(_LIBRARIES)
    return bool(owner.cls.libraries) and all(base.startswith(_LIBRARIES) for base in owner.cls.libraries)
