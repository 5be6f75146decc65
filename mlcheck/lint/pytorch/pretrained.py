"""Networks that `from_pretrained` of Hugging Face's transformers hands out: in eval mode, with their dropout off.

Which of them drop activations at all is read off the defaults of their configurations in transformers 5.23 (rates of
0.1 nearly everywhere); of the large language models none does, and for them the mode makes no difference.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.facts import Mode
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import modes
from mlcheck.lint.values import Args, Const, Kwargs, Object, Symbol, Value

_LOADS = pattern(r"transformers\.(?:models\.[\w.]+\.)?(?P<cls>[A-Z]\w+)\.from_pretrained")
_NETWORK = pattern(r"Model(?:ForPreTraining|With\w+)?$|For[A-Z]\w+$|HeadModel$")
_DROPPING_CLASSES = pattern(
    r"(?:Bert|Roberta|XLMRoberta|Camembert|DistilBert|DebertaV?2?|Electra|GPT2|OpenAIGPT|M?T5|LongT5|M?Bart|Pegasus|Marian"
    r"|M2M100|Longformer|LED|BigBird|LayoutLM(?:v[23])?|Luke|MPNet|XLNet|XLM|Flaubert|Ernie|Funnel|ConvBert|OPT"
    r"|Nystromformer|Blenderbot|ProphetNet|Splinter|Wav2Vec2|Hubert|WavLM|UniSpeech|Data2Vec(?:Text|Audio)|Detr)"
    r"(?=Model|For|LMHead|DoubleHeads|EncoderModel|LMModel)"
)
_DROPPING_NAMES = pattern(
    r"(?<!nomic)(?:^|/|-)(?:distil|xlm-|camem|sci|bio|fin|code|graphcode|legal-?|clinical|pubmed)?(?:ro)?bert(?:a|weet)?(?:-|$)"
    r"|(?:^|/|-)(?:distil)?gpt2(?:-|$)|(?:^|/)(?:m?t5|flan-t5|m?bart|electra|deberta|pegasus|longformer|wav2vec2|hubert)-"
)


def loaded(m: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Symbol | None:
    """What `transformers.BertModel.from_pretrained(...)` returns; None where it is not known to drop activations.

    Source: the documentation of `PreTrainedModel.from_pretrained`: "The model is set in evaluation mode by default".
    """
    found = _LOADS.fullmatch(name)
    if found is None or not _drops(found["cls"], args, kwargs):
        return None
    made = Symbol(m.fresh())
    m.store.set(("mode", made.key), frozenset([Mode(modes.LOADED, m.place(node), m.now(), m.stamp())]))
    return made


def used(m: Machine, network: Value, touched: set[Hashable]) -> None:
    """A network is called, by itself or by the one whose call is on record: in the mode in which it was loaded?

    `touched` tells which call that is: what it has called so far.
    """
    call = m.facts.forwards[-1] if m.facts.forwards else None
    if call is None or call.touched is not touched or m.grad.kind == "off" or not isinstance(network, Symbol):
        return
    found = modes.modes_of(m, network)
    if {mode.kind for mode in found} == {modes.LOADED} and not modes.is_frozen(m, network):
        call.loaded.update(mode.place for mode in found if mode.place is not None)


def parts(m: Machine, module: Object, depth: int = 3) -> Iterator[Symbol]:
    """Such networks that the module or one of its parts holds, in the mode in which they were loaded."""
    m.ready(module)
    for part in modes.known_children(m, module):
        if isinstance(part, Symbol) and {mode.kind for mode in modes.modes_of(m, part)} == {modes.LOADED}:
            yield part
        elif depth and isinstance(part, Object) and modes.is_module(part):
            yield from parts(m, part, depth - 1)


def put_back(m: Machine, network: Symbol) -> None:
    """In the mode in which it was loaded it is after what was set around it, too."""
    found = m.store.get(("mode", network.key))
    m.store.set(("mode", network.key), frozenset(mode._replace(stamp=m.stamp()) for mode in found))


def _drops(cls: str, args: Args, kwargs: Kwargs) -> bool:
    """Whether a network of that class has dropout, as far as its name tells, or that of its weights."""
    chosen = any("drop" in key or key in ("config", "**") for key in kwargs)
    if _NETWORK.search(cls) is None or len(args) != 1 or chosen:
        return False
    if not cls.startswith("Auto"):
        return _DROPPING_CLASSES.match(cls) is not None
    weights = args[0].value if isinstance(args[0], Const) else None
    return isinstance(weights, str) and _DROPPING_NAMES.search(weights.lower()) is not None
