"""A traceback in a few lines: what is the user's stays, whatever a library piles upon it."""

from mlcheck.report.traceback import folded

SITE = "/opt/env/lib/python3.11/site-packages"
DEEP = f"""\
Traceback (most recent call last):
  File "/home/ada/train.py", line 31, in train_step
    out = loss(model(x), y)
               ^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1778, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
  File "/home/ada/net.py", line 9, in forward
    return self.out(x)
  File "/usr/lib/python3.11/functools.py", line 4, in inner
    pass
  File "{SITE}/torch/nn/functional.py", line 2898, in batch_norm
    return torch.batch_norm(
RuntimeError: running_mean should contain 4 elements not 5
  a second line of the message"""


def test_frames_of_libraries_are_told_in_a_line_and_those_of_the_user_stand() -> None:
    assert folded(DEEP).split("\n") == [
        "Traceback (most recent call last):",
        '  File "/home/ada/train.py", line 31, in train_step',
        "    out = loss(model(x), y)",
        "  … 2 frames of torch, the last in _call_impl …",
        '  File "/home/ada/net.py", line 9, in forward',
        "    return self.out(x)",
        "  … 2 frames of Python, torch, the last in batch_norm …",
        "RuntimeError: running_mean should contain 4 elements not 5",
        "  a second line of the message",
    ]


def test_a_cause_keeps_its_own_frames_and_what_joins_them() -> None:
    between = "\n\nThe above exception was the direct cause of the following exception:\n\n"
    text = folded(DEEP + between + DEEP.replace("net.py", "head.py"))
    assert text.count("running_mean") == 2
    assert "direct cause" in text
    assert all(name in text for name in ('"/home/ada/net.py"', '"/home/ada/head.py"'))


def test_the_stack_of_a_process_that_was_ended() -> None:
    stack = (
        'Current thread 0x01 (most recent call first):\n  File "/opt/lib/python3.11/socket.py", line 7 in accept\n'
        '  File "/home/ada/data.py", line 3 in read'
    )
    assert folded(stack).split("\n")[1:] == [
        "  … 1 frame of Python, in accept …",
        '  File "/home/ada/data.py", line 3 in read',
    ]


def test_without_a_frame_of_the_users_nothing_is_folded() -> None:
    alone = DEEP.replace("/home/ada", SITE)
    assert folded(alone) == alone


def test_a_long_way_through_the_users_code_keeps_both_ends() -> None:
    frames = "".join(f'  File "/home/ada/tree.py", line {n}, in walk\n    walk()\n' for n in range(1, 101))
    lines = folded(f"Traceback (most recent call last):\n{frames}ValueError: no").split("\n")
    assert lines[1].endswith("line 1, in walk")
    assert "  … 92 more frames …" in lines
    assert lines[-3].endswith("line 100, in walk")
    assert lines[-1] == "ValueError: no"


def test_a_syntax_error_keeps_its_line() -> None:
    text = f"""\
Traceback (most recent call last):
  File "/home/ada/train.py", line 1, in <module>
    import net
  File "<frozen importlib._bootstrap>", line 241, in _call_with_frames_removed
  File "/home/ada/net.py", line 3
    def broken(:
               ^
SyntaxError: invalid syntax in {SITE}"""
    assert folded(text).split("\n")[-4:] == text.split("\n")[-4:]
