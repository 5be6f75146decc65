"""policy-gradient-wrong: an objective of reinforcement learning that is not the one it is meant to be."""

import ast
from collections.abc import Iterator
from itertools import chain

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.sites import Function
from mlcheck.lint.sites.policies.actors import goes_downhill
from mlcheck.lint.sites.policies.advantages import weighed
from mlcheck.lint.sites.policies.entropies import penalised
from mlcheck.lint.sites.policies.reinforced import left_turned, lowered
from mlcheck.lint.sites.policies.returns import summed_forwards

LOOKS_AT = "objective of a policy"
_WEIGHTS = ("adv", "delta", "td", "gae", "reward", "return")
WORDS = ("gamma", "discount", "entropy", "entropies", "advantage", "delta", "log_prob", "GAMMA", "actor", "critic")


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(WORDS):
        for function in file.functions if "torch" in file.text else ():
            yield from chain(_weighed(facts, function), _penalised(facts, function), _forwards(facts, function))
            yield from chain(_downhill(facts, function), _reinforced(facts, function))


def _weighed(facts: Facts, function: Function) -> Iterator[Finding]:
    if "log" not in function.text or not any(word in function.text for word in _WEIGHTS):
        return
    for found in weighed(function):
        facts.sites.seen[LOOKS_AT] += 1
        name = ast.unparse(found.advantage)
        yield Finding(
            f"`{name}` weighs the log-probabilities with its gradient: the loss of the policy moves the critic too, "
            "towards whatever makes that loss small",
            function.place(found.product).location,
            help=f"`{name}.detach()`",
            related=(function.place(found.critic).location,),
        )


def _penalised(facts: Facts, function: Function) -> Iterator[Finding]:
    if "entrop" not in function.text or "backward" not in function.text:
        return
    for found in penalised(function):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            f"The loss adds `{found.name}`, and so makes the policy sure of itself as fast as it can: "
            "the bonus for exploring has the wrong sign",
            function.place(found.term).location,
            help="subtract it: `policy_loss - coefficient * entropy`",
        )


def _forwards(facts: Facts, function: Function) -> Iterator[Finding]:
    if "for " not in function.text or not any(word in function.text.lower() for word in ("gamma", "discount")):
        return
    for found in summed_forwards(function):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The rewards are summed from the first to the last: each return holds what came before its step, "
            "and nothing of what follows",
            function.place(found.line).location,
            help="go over them from the last to the first: `for reward in reversed(rewards): ...`",
            related=(function.place(found.loop).location,),
        )


def _downhill(facts: Facts, function: Function) -> Iterator[Finding]:
    if "backward" not in function.text or not any(word in function.text for word in ("actor", "policy", "pi(")):
        return
    for call in goes_downhill(function):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The actor is trained towards the actions that the critic values least: the loss has the wrong sign",
            function.place(call).location,
            help=f"`-{ast.unparse(call)}.mean()`",
        )


def _reinforced(facts: Facts, function: Function) -> Iterator[Finding]:
    if "log" not in function.text or not any(word in function.text for word in ("backward", "reversed(", "::-1")):
        return
    for product in lowered(function):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "This loss falls as actions with a high return become less likely: it has the wrong sign",
            function.place(product).location,
            help=f"`-{ast.unparse(product)}`",
        )
    for found in left_turned(function):
        facts.sites.seen[LOOKS_AT] += 1
        yield Finding(
            "The returns stand in the order last to first, and the log-probabilities first to last: each action is "
            "weighed by what another one brought",
            function.place(found.kept).location,
            help="`returns.insert(0, ...)`, or turn the list round after the loop",
            related=(function.place(found.loop).location,),
        )
