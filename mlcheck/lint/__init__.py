"""Reads PyTorch programs as programs. Never imports torch, never runs or imports the code it reads.

A run goes `run` -> `files` (which are meant, and which import each other) -> `work` (tasks, processes, the cache) ->
`engine`. The engine interprets a group of files once and then lets every check read what was noted. There are two
layers to read from:

- *call sites* (`sites/`): where `DataLoader` is called and with what, without following the program;
- *facts* (`facts`, `training`): what an abstract interpretation saw, such as "this step uses gradients of two losses".

The interpreter (`interpret/`) is an abstract machine (memory, frames, paths and their joins) with a language on top:
`python/` says what statements, expressions and calls do, `pytorch/` what modules, losses and optimizers do, `shapes/`
what becomes of the sizes of tensors. They call each other through the machine; `interpret/interpreter` joins
them. The words they share:

- *value* (`values`): what a variable holds as far as rules care; a `Symbol` is anything unknown, a `Select` one of
  two values that a condition tells apart;
- *cell* (`store`): one entry of the memory, as `("v", scope, name)` for a variable and `("a", object, name)` for an
  attribute; a *delta* is what a branch wrote, so that branches are tried, taken back and joined;
- *root* (`roots`): where interpretation starts: top levels, `if __name__ == "__main__"`, functions nobody calls;
- *split*: which part of the data something belongs to: train, val or test, by the names given to it;
- *havoc*: what was handed to unknown code may come back in any state, and rules are silent about it from then on;
- *habits*, *relevance*, *effort*: which calls need not be followed, and when a root is given up.
"""
