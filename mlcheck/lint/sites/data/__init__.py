"""Where data are cut, sorted, learned from, changed at random, and given to loaders."""
