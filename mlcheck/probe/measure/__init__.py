"""One measurement per module: a frozen dataclass with `measure(trial)`; checks judge it.

Measurements lie in folders by what they look at. Beside these lies what they share: `measurement` (asking for one, once
a trial), `drive` (turning the crank of the user's loop), `modules` (forward passes seen), `tree` (tensors in batches),
`place` (where in the user's code something happened).
"""
