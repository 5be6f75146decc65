"""copied-line-unchanged: a line was copied for a second thing, and still reads the first."""

import ast
import re
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.lint.facts import Facts
from mlcheck.lint.nodes import walk
from mlcheck.lint.sites import File
from mlcheck.lint.sites.copying.doubled import both_of_one, mixed_with_itself, one_wave_twice, same_loss_twice
from mlcheck.lint.sites.copying.left_makers import left_makers
from mlcheck.lint.sites.copying.left_targets import left_targets
from mlcheck.lint.sites.copying.mirrored import mirrored_lines
from mlcheck.lint.sites.copying.twins import Copied, added_to_itself, copied_lines
from mlcheck.lint.sites.data.loaders import LOADER
from mlcheck.lint.sites.lines import Lines, all_lines

LOOKS_AT = "function"
_ABOVE = 40


def check(facts: Facts) -> Iterator[Finding]:
    facts.sites.seen[LOOKS_AT] = 0
    for file in facts.sites.mentioning(["torch"]):
        for left in left_targets(file) if "loss" in file.text or "crit" in file.text else ():
            yield Finding(
                f"This is not given `{left.targets}`, as line {left.taken.lineno} is, and nothing here reads it",
                left.function.place(left.call).location,
                help=f"compare with `{left.targets}`",
                related=(file.place(left.taken, left.function.inner).location,),
            )
        for maker in left_makers(facts.sites, file) if "train" in file.text else ():
            yield Finding(
                f"`{maker.target}` is made as the training data is, and nothing calls `{maker.unread}`",
                maker.call.place.location,
                help=f"call `{maker.unread}` here",
            )
        for lines in all_lines(file):
            facts.sites.seen[LOOKS_AT] += 1
            for copied in copied_lines(lines):
                made = copied.copy.value if isinstance(copied.copy, ast.Assign) else copied.copy
                if file.called(made, lines.context).startswith(("torch.optim.", LOADER)):
                    continue  # parameter-not-in-optimizer and split-unread tell what comes of it
                if _is_commented_out(file, copied) or _are_alternatives(lines, copied):
                    continue
                yield Finding(
                    f"This reads `{copied.read}`, as line {getattr(copied.first, 'lineno', 0)} does, "
                    f"and nothing reads `{copied.unread}`",
                    file.place(copied.copy, lines.context).location,
                    help=f"read `{copied.unread}` here",
                    related=(file.place(copied.first, lines.context).location,),
                )
            for node, unread in added_to_itself(lines):
                yield Finding(
                    f"Both sides of this sum are one and the same, and nothing reads `{unread}`",
                    file.place(node, lines.context).location,
                    help=f"compute the second from `{unread}`",
                )
            yield from (*_same_losses(lines), *_lost_parts(lines))
            for pair in mirrored_lines(lines):
                yield Finding(
                    f"This is line {pair.first.lineno} with both sides exchanged in all names but `{pair.called}`",
                    file.place(pair.copy, lines.context).location,
                    help=f"call `{pair.meant}` here",
                    related=(file.place(pair.first, lines.context).location,),
                )
            if any(word in lines.text for word in ("1 - ", "1-", "1. - ", "1.0 - ")):
                for node, name in mixed_with_itself(lines):
                    yield Finding(
                        f"Both sides of this mixture are `{name}`: it is what it is mixed of",
                        file.place(node, lines.context).location,
                        help="mix it with the other one, which goes by the same order as its inputs",
                    )
            if "::2" in lines.text:
                for first, second in one_wave_twice(lines):
                    yield Finding(
                        f"The odd places get what the even ones get: both are `{ast.unparse(second.value)}`",
                        file.place(second, lines.context).location,
                        help="take the sine in one half, and the cosine in the other",
                        related=(file.place(first, lines.context).location,),
                    )


def _same_losses(lines: Lines) -> Iterator[Finding]:
    told = "loss" in lines.text or "entropy" in lines.text
    for node, one, other in same_loss_twice(lines) if told else ():
        yield Finding(
            f"Both sides of this sum are `{ast.unparse(one)}`: it is one loss, twice",
            lines.file.place(node, lines.context).location,
            help="compute one of them from what it was meant for",
            related=tuple(lines.file.place(each, lines.context).location for each in (one, other)),
        )


def _lost_parts(lines: Lines) -> Iterator[Finding]:
    for line, read, lost in both_of_one(lines):
        yield Finding(
            f"Both are made of `{read}` here, and nothing reads what `{lost}` was",
            lines.file.place(line, lines.context).location,
            help=f"make the one of `{lost}`",
        )


def _are_alternatives(lines: Lines, copied: Copied) -> bool:
    """`if only_texts: found.append(text) else: found.append(image)`: one or the other goes to one place."""
    for branch in lines.all(ast.If):
        arms = [{part for line in arm for part in walk(line)} for arm in (branch.body, branch.orelse)]
        if any(copied.first in one and copied.copy in other for one, other in (arms, arms[::-1])):
            return True
    return False


def _is_commented_out(file: File, copied: Copied) -> bool:
    """Whether the line as it was stands beside it as a comment, or the other is said to be of no use: that is known."""
    lines, unread = file.module.source.text.split("\n"), re.escape(copied.unread)
    near = lines[max(copied.copy.lineno - 3, 0) : copied.copy.lineno + 1]
    told = rf"#[^\n]*\b(?:not used|unused)\b[^\n]*\n\s*{unread}\b|\b{unread}\b[^\n#]*#[^\n]*\b(?:not used|unused)\b"
    above = "\n".join(lines[max(copied.copy.lineno - _ABOVE, 0) : copied.copy.lineno])
    return any(re.search(rf"#.*\b{unread}\b", line) for line in near) or bool(re.search(told, above, re.IGNORECASE))
