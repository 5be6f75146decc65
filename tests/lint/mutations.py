"""Small mistakes that people make, made in a sound program: what one mutation of its text gives, and where."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mlcheck.lint.nodes import last_name


class Mutant(NamedTuple):
    """A program with one mistake, made in the line `text` that had the number `line`."""

    line: int
    text: str
    code: str


Operator = Callable[[str], Iterator[Mutant]]


def operators() -> dict[str, Operator]:
    """All mutations by name."""
    return {
        **{f"remove {call}": _removed(call) for call in _CALLS},
        **{name: _rewritten(pattern, into) for name, (pattern, into) in _REWRITINGS.items()},
        "step outside of the loop": _outdented(r"\w*\.?step\(\)|scaler\.step\(optimizer\)"),
        "zero_grad outside of the loop": _lifted(r"zero_grad\("),
        "train outside of the loop": _lifted(r"\.train\(\)"),
        "return inside the loop": _returned_early,
        "backward and step swapped": _swapped(r"backward\(", r"\bstep\("),
        "zero_grad below backward": _swapped(r"zero_grad\(", r"backward\("),
        "forward before zero_grad": _swapped(r"^\s*\w+ = .*model\(", r"zero_grad\("),
        "clip below step": _swapped(r"clip_grad_\w+\(", r"\bstep\("),
        "unscale below clip": _swapped(r"unscale_\(", r"clip_grad_norm_\("),
        "scheduler above optimizer": _swapped(r"optimizer\.step\(", r"scheduler\.step\("),
        "no_grad gone": _dedented_with(r"with torch\.no_grad\(\):"),
        "autocast around backward": _swallowed(r"^ {8}with autocast"),
        "body of no_grad swallows the rest": _swallowed(r"^ {12}with torch\.no_grad\(\):"),
    }


_CALLS = (
    *("zero_grad", "backward", "step", "eval", "train", "set_epoch", "unscale_", "update", "load_state_dict"),
    *("all_reduce", "apply", "update_ema", "move_keys", "__init__"),
)

_REWRITINGS = {
    "detach gone": (r"\.detach\(\)", ""),
    "item gone": (r"\bloss\.item\(\)$", "loss"),
    "decorator gone": (r"@torch\.(no_grad|inference_mode)\(\)\n\s*", ""),
    "deepcopy gone": (r"copy\.deepcopy\((.+)\)$", r"\1"),
    "shuffle gone": (r"(DataLoader\(.*), shuffle=True", r"\1"),
    "shuffle of validation": (r"(DataLoader\(self\.val_set, |DataLoader\(val_set, )", r"\1shuffle=True, "),
    "sampler gone": (r"sampler=train_sampler, ", "shuffle=True, "),
    "arguments of the loss swapped": (
        r"(criterion|cross_entropy|binary_cross_entropy|loss_function|distillation_loss)\(([\w.]+), ([\w.]+)([,)])",
        r"\1(\3, \2\4",
    ),
    "model called without graph": (r"(\w*loss) = criterion\(([\w.]+), ", r"\1 = criterion(\2.detach(), "),
    "trained on validation data": (r"in (enumerate\()?(self\.)?train_loader", r"in \1\2val_loader"),
    "validated on training data": (r"in (self\.)?val_loader", r"in \1train_loader"),
    "validated on training data by call": (r"\bval_loader, (device|criterion)\)", r"train_loader, \1)"),
    "minus gone": (r"= -(?=torch\.min|0\.5)", "= "),
    "dim of softmax 0": (r"(softmax\(.*dim=)(?:1|-1|2)\b", r"\g<1>0"),
    "dim of argmax 0": (r"argmax\((?:dim=)?-?1\)", "argmax(dim=0)"),
    "dim of argmax gone": (r"argmax\((?:dim=)?-?1\)", "argmax()"),
    "softmax before the loss": (
        r"criterion\((logits|outputs|model\(\w+\)), ",
        r"criterion(torch.softmax(\1, dim=1), ",
    ),
    "softmax before F.cross_entropy": (r"F\.cross_entropy\((\w*logits), ", r"F.cross_entropy(\1.softmax(dim=1), "),
    "sigmoid before the loss": (r"loss_function\(logits, ", "loss_function(logits.sigmoid(), "),
    "sigmoid before criterion": (r"criterion\(logits, masks", "criterion(torch.sigmoid(logits), masks"),
    "sigmoid at the end": (r"(return )(self\.out\(x\)|self\.head\(.*\)|decoded)$", r"\1torch.sigmoid(\2)"),
    "softmax in the model": (r"(nn\.Linear\(\w+, (?:10|3|4|5|6|classes)\))(,?\n?\s*\))", r"\1, nn.Softmax(dim=1)\2"),
    "sigmoid in the model gone": (r", nn\.Sigmoid\(\)", ""),
    "sigmoid gone": (r"torch\.sigmoid\((.+)\)$", r"\1"),
    "log_softmax is softmax": (r"F\.log_softmax", "F.softmax"),
    "log_softmax gone": (r"F\.log_softmax\((\w+), dim=-1\)", r"\1"),
    "softmax is log_softmax": (r"(?<!_)softmax\(", "log_softmax("),
    "NLLLoss for CrossEntropyLoss": (r"nn\.CrossEntropyLoss\(.*\)", "nn.NLLLoss()"),
    "CrossEntropyLoss for NLLLoss": (r"nn\.NLLLoss\(\)", "nn.CrossEntropyLoss()"),
    "BCELoss for BCEWithLogitsLoss": (r"nn\.BCEWithLogitsLoss\(\)", "nn.BCELoss()"),
    "BCEWithLogitsLoss for BCELoss": (r"nn\.BCELoss\(\)", "nn.BCEWithLogitsLoss()"),
    "squeeze gone": (r"\.squeeze\(-?1\)", ""),
    "teacher for student": (r"student\(images\)\n", "teacher(images)\n"),
    "student for teacher": (r"teacher\(images\)", "student(images)"),
    "average for model": (r"self\.model\(unlabelled\)", "self.ema_model(unlabelled)"),
    "model for average": (r"self\.ema_model\(unlabelled\)", "self.model(unlabelled)"),
    "average runs backwards": (r"(\w+)\.mul_\(decay\)\.add_\(\w+, alpha=1 - decay\)", r"\1.mul_(1 - decay)"),
    "decay swapped": (r"mul_\(decay\)\.add_\((\w+), alpha=1 - decay\)", r"mul_(1 - decay).add_(\1, alpha=decay)"),
    "decay swapped in sum": (
        r"self\.decay \* ema \+ \(1 - self\.decay\) \* current",
        "(1 - self.decay) * ema + self.decay * current",
    ),
    "average of itself": (
        r"zip\((.+)\.parameters\(\), (.+)\.parameters\(\)\)",
        r"zip(\2.parameters(), \1.parameters())",
    ),
    "policy for target": (r"target_net\(next_states\)", "policy_net(next_states)"),
    "target not masked": (r" \* \(1 - done\)", ""),
    "step of the other optimizer": (r"optimizer_d\.step", "optimizer_g.step"),
    "step of the other optimizer, second": (r"optimizer_g\.step", "optimizer_d.step"),
    "cleared the other": (r"net_g\.zero_grad", "net_d.zero_grad"),
    "cleared the other, second": (r"net_d\.zero_grad", "net_g.zero_grad"),
    "parameters of the other": (r"optim\.Adam\(net_g\.", "optim.Adam(net_d."),
    "parameters of the teacher": (r"SGD\(student\.", "SGD(teacher."),
    "parameters of the average": (r"Adam\(self\.model\.", "Adam(self.ema_model."),
    "parameters of the target": (r"AdamW\(policy_net\.", "AdamW(target_net."),
    "parameters of one part": (r"\(self\.policy\.parameters\(\), lr", "(self.policy.actor.parameters(), lr"),
    "loss of the last batch": (r"(total|total_loss|train_loss|correct|seen|hits|count|running) \+= ", r"\1 = "),
    "compares the wrong way": (r"if (accuracy) > ", r"if \1 < "),
    "compares the wrong way, loss": (r"(val_loss) < ", r"\1 > "),
    "mode reversed": (r'mode="min"', 'mode="max"'),
    "mode reversed, second": (r'mode="max"', 'mode="min"'),
    "monitors what nobody logs": (r'monitor": "val_loss"', 'monitor": "valid_loss"'),
    "plateau without metric": (r"scheduler\.step\(\w+\)", "scheduler.step()"),
    "scaler not used": (r"scaler\.scale\(loss\)\.backward", "loss.backward"),
    "scaler bypassed by step": (r"scaler\.step\(optimizer\)", "optimizer.step()"),
    "not averaged": (r" / accumulation$", ""),
    "tail dropped": (r" or index \+ 1 == len\(train_loader\)", ""),
    "prepared without optimizer": (
        r"model, optimizer, (train_loader.* = accelerator.prepare\(\n\s*)model, optimizer, ",
        r"model, \1model, ",
    ),
    "plain backward": (r"accelerator\.backward\(loss\)", "loss.backward()"),
    "gather forgets padding": (r"gather_for_metrics", "gather"),
    "saved on every rank": (r"if (?:rank == 0|accelerator\.is_main_process):", "if True:"),
    "collective on one rank": (r"^(\s*)dist\.barrier\(\)", r"\1if rank == 0:\n\1    dist.barrier()"),
    "wrapper bypassed": (r"criterion\(model\(inputs\)", "criterion(model.module(inputs)"),
    "wrapped before moved": (
        r"\.to\(device\)\n(.*convert_sync.*\n.*DistributedDataParallel\(.*\)\n)",
        r"\n\1    model.to(device)\n",
    ),
    "saved with the wrapper": (r"model\.module\.state_dict", "model.state_dict"),
    "no shift": (r"targets = ids\[:, 1:\]", "targets = ids[:, :-1]"),
    "padding counted": (r", ignore_index=0", ""),
    "no mask": (r"^\s*scores = scores\.masked_fill.*\n", ""),
    "mask reversed": (r"~self\.mask", "self.mask"),
    "mask not a buffer": (r'self\.register_buffer\("(mask|alpha_bars)", (.*)\)$', r"self.\1 = \2"),
    "layers in a list": (r"nn\.ModuleList\((.*)\)$", r"[\1]"),
    "last position dropped": (r"\[:, -1\]", "[:, 0]"),
    "reparameterised without half": (r"0\.5 \* logvar", "logvar"),
    "noise predicted from noise": (r"self\.model\(noisy, t\)", "self.model(noise, t)"),
    "divergence unnormalised": (r'reduction="batchmean"', 'reduction="mean"'),
    "divergence of probabilities": (r"F\.log_softmax\(student", "F.softmax(student"),
    "hidden state kept": (r"^\s*hidden = repackage\(hidden\)\n", ""),
    "fold trains on validation": (r"Subset\(dataset, train_index\)", "Subset(dataset, val_index)"),
    "model shared by folds": (
        r"(    scores = \[\]\n)((?:.*\n)*?)        model = make_model\(\)\n",
        r"\1    model = make_model()\n\2",
    ),
    "fold evaluates training": (r"Subset\(dataset, val_index\)", "Subset(dataset, train_index)"),
    "split not seeded": (r", generator=generator", ""),
    "returns nothing": (r"^\s*return loss\n", ""),
    "logs the probabilities": (r"F\.cross_entropy\(logits, y\)", "F.cross_entropy(logits.argmax(dim=1), y)"),
    "normalised twice": (r"return self\.layers\(state\)", "return F.softmax(self.layers(state), dim=1)"),
    "gather along the batch": (r"gather\(1, ", "gather(0, "),
    "view for transpose": (r"\.transpose\(1, 2\)$", ".view(batch, self.heads, length, width // self.heads)"),
    "old policy learns": (
        r"ratios = torch\.exp\(log_probs - old_log_probs\)",
        "ratios = torch.exp(log_probs - log_probs)",
    ),
    "min is max": (r"torch\.min\(surrogate1", "torch.max(surrogate1"),
    "backbone learns": (r"model\.encoder_q\.parameters", "model.encoder_k.parameters"),
    "batch first gone": (r", batch_first=True", ""),
    "activation gone": (r", nn\.(?:ReLU|GELU|Tanh)\(\)", ""),
    "F.relu gone": (r"F\.relu\(self\.fc1\(x\)\)", "self.fc1(x)"),
}


def _removed(call: str) -> Operator:
    """Each statement that calls `call`, made into `pass`."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for node in ast.walk(ast.parse(code)):
            made = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(node, ast.Expr) or not isinstance(made, ast.Call) or last_name(made.func) != call:
                continue
            assert node.end_lineno is not None
            rest = [*lines[: node.lineno - 1], " " * node.col_offset + "pass\n", *lines[node.end_lineno :]]
            yield Mutant(node.lineno, lines[node.lineno - 1].strip(), "".join(rest))

    return mutate


def _rewritten(pattern: str, into: str) -> Operator:
    """Each place where the pattern matches, rewritten."""

    def mutate(code: str) -> Iterator[Mutant]:
        for match in re.finditer(pattern, code, re.MULTILINE):
            changed = code[: match.start()] + match.expand(into) + code[match.end() :]
            if changed != code and _names_exist(code, changed):
                yield _mutant(
                    code, code.count("\n", 0, match.start() + len(match[0]) - len(match[0].lstrip())), changed
                )

    return mutate


def _names_exist(code: str, changed: str) -> bool:
    """Whether the change brings no loader that the program does not have."""
    return all(name in code for name in ("val_loader", "train_loader") if name in changed)


def _mutant(code: str, number: int, changed: str) -> Mutant:
    return Mutant(number + 1, code.splitlines()[number].strip(), changed)


def _outdented(call: str) -> Operator:
    """A statement at the end of a loop, moved behind the loop."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for number, line in enumerate(lines):
            below = next((other for other in lines[number + 1 :] if other.strip()), "")
            if re.search(call, line) and _indent(below) < _indent(line) and _indent(line) > 8:
                yield _mutant(code, number, "".join([*lines[:number], line[4:], *lines[number + 1 :]]))

    return mutate


def _lifted(call: str) -> Operator:
    """The first statement of a loop, moved before the loop."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for number in range(1, len(lines)):
            above = lines[number - 1]
            if re.search(call, lines[number]) and re.match(r"\s*(for|while) .*:$", above):
                rest = [*lines[: number - 1], lines[number][4:], above, *lines[number + 1 :]]
                yield _mutant(code, number, "".join(rest))

    return mutate


def _returned_early(code: str) -> Iterator[Mutant]:
    """A return behind a loop, made its last statement."""
    lines = code.splitlines(keepends=True)
    for number in range(1, len(lines)):
        line, above = lines[number], lines[number - 1]
        if line.strip().startswith("return ") and _indent(above) >= _indent(line) + 4:
            yield _mutant(code, number, "".join([*lines[:number], "    " + line, *lines[number + 1 :]]))


def _swapped(one: str, two: str) -> Operator:
    """Two statements, one below the other, in the other order."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for number in range(len(lines) - 1):
            above, below = lines[number], lines[number + 1]
            if re.search(one, above) and re.search(two, below) and _indent(above) == _indent(below):
                yield _mutant(code, number, "".join([*lines[:number], below, above, *lines[number + 2 :]]))

    return mutate


def _dedented_with(head: str) -> Operator:
    """What stands under a context manager, without it."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if re.search(head, line):
                end = _end(lines, number)
                body = [inner[4:] if inner.strip() else inner for inner in lines[number + 1 : end]]
                yield _mutant(code, number, "".join([*lines[:number], *body, *lines[end:]]))

    return mutate


def _swallowed(head: str) -> Operator:
    """What follows a block, moved into it."""

    def mutate(code: str) -> Iterator[Mutant]:
        lines = code.splitlines(keepends=True)
        for number, line in enumerate(lines):
            if not re.search(head, line):
                continue
            end = _end(lines, number)
            after = end
            while after < len(lines) and lines[after].strip() and _indent(lines[after]) >= _indent(line):
                after += 1
            if after > end:
                moved = ["    " + inner for inner in lines[end:after]]
                yield _mutant(code, number, "".join([*lines[:end], *moved, *lines[after:]]))

    return mutate


def _end(lines: list[str], number: int) -> int:
    end = number + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > _indent(lines[number])):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
