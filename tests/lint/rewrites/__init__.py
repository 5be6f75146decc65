"""Rewrites of programs that change how they are put together, and not what they do."""

from rewrites.blocks import as_batches, in_contexts, in_tries, timed
from rewrites.classes import as_object
from rewrites.functions import built_apart, forwarded, in_main, steps_apart
from rewrites.modules import in_package, in_two_files
from rewrites.program import Rewrite

REWRITES: dict[str, Rewrite] = {
    "the body of the loop is a function": steps_apart,
    "what is used is made by a function that returns a tuple": built_apart("tuple"),
    "what is used is made by a function that returns a named tuple": built_apart("namedtuple"),
    "a function is an object whose attributes are its variables": as_object,
    "functions hand on what they are given": forwarded,
    "the script is a function": in_main,
    "classes and functions come from another file": in_two_files,
    "classes and functions come from a package": in_package,
    "the body of the loop is tried": in_tries,
    "the body of the loop runs in a context": in_contexts,
    "functions are timed": timed,
    "batches come from a generator": as_batches,
}
